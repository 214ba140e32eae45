"""A file of texts and a file of labels, read line by line."""

import gzip

import pytest

from graphattn.builders.readers._two_files import read_two_files, split_two_files
from graphattn.exceptions import DataError


@pytest.fixture
def write(tmp_path):
    def write_both(texts, labels):
        paths = tmp_path / "texts.txt.gz", tmp_path / "labels.txt"
        paths[0].write_bytes(gzip.compress(texts.encode()))
        paths[1].write_text(labels)
        return paths

    return write_both


def test_a_path_names_two_files_if_one_of_them_exists(write, tmp_path):
    texts, labels = map(str, write("a\n", "b\n"))
    assert split_two_files(f"{texts},{labels}") == (texts, labels)
    assert split_two_files(f"{texts},none") == (texts, "none")
    assert split_two_files("none,nothing") is None
    assert split_two_files(texts) is None
    (tmp_path / "a,b").write_text("")
    assert split_two_files(tmp_path / "a,b") is None


def test_labels_are_those_of_the_lines(write):
    paths = write("a film\n\nb\n", " yes\nno\nyes\n")
    assert [(each.text, each.label) for each in read_two_files(*paths)] == [("a film", "yes"), ("", "no"), ("b", "yes")]
    rows = []
    list(read_two_files(*paths, keep_row=rows.append))
    assert rows[1].cells == ("", "no")


@pytest.mark.parametrize(
    ("options", "expected"), [({"label_separator": ","}, ("x", "y")), ({"multilabel": True}, ("x,y",))]
)
def test_several_labels(write, options, expected):
    paths = write("a\nb\n", "x,y\n\n")
    assert [each.label for each in read_two_files(*paths, **options)] == [expected, ()]


@pytest.mark.parametrize(
    ("texts", "labels", "line", "found"),
    [
        ("a\nb\n", "x\n", 2, "there is no label"),
        ("a\n", "x\ny\n", 2, "there is no text"),
        ("a\nb\n", "x\n \n", 2, "the label is empty"),
    ],
)
def test_errors_name_the_line(write, texts, labels, line, found):
    paths = write(texts, labels)
    with pytest.raises(DataError, match=found) as raised:
        list(read_two_files(*paths))
    assert raised.value.line == line
    errors = []
    assert len(list(read_two_files(*paths, skip=errors.append))) == 1
    assert len(errors) == 1
