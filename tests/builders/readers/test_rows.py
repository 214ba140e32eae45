"""Every malformed line is reported, and no other line is lost."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence
from graphattn.builders.readers import read_corpus
from graphattn.exceptions import DataError, UnreadableError


@pytest.fixture
def read(tmp_path):
    """The items of a text, and (line, error) of each skipped line."""

    def reading(name, text, **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        errors = []
        items = list(read_corpus(path, skip=errors.append, **options))
        return items, [(error.line, error.message) for error in errors]

    return reading


def test_tables(read):
    for name, blank in (("a.csv", ","), ("a.tsv", "\t")):
        rows = ["text,label", "a,x", "b", "c,", "", "d,y,z", "e,y"]
        items, errors = read(name, "\n".join(rows).replace(",", blank) + "\n\n", format=name[2:])
        assert items == [Example("a", label="x"), Example("e", label="y")]
        assert errors == [
            (3, "1 field, the header names 2"),
            (4, "the label is empty"),
            (5, "the line is blank"),
            (6, "3 fields, the header names 2"),
        ]


def test_json_lines(read):
    rows = [b'{"text": "a", "label": "x"}', b"{", b'{"text": 3, "label": "x"}', b'{"text": "\xe9"}', b'{"text": "b"}']
    items, errors = read("a.jsonl", b"\n".join(rows))
    assert items == [Example("a", label="x")]
    assert errors == [
        (2, "broken JSON: Expecting property name enclosed in double quotes at column 2"),
        (3, "a number where a string was expected"),
        (4, "byte 0xe9 at column 11 is not UTF-8"),
        (5, "there is no column 'label'; the columns are 'text'"),
    ]


def test_lines_with_labels(read):
    items, errors = read("a.txt", b"x\ta\n\ta\nx\ta\tb\ny\t\xff\ny\tc\n", format="labelled", columns=("label", "text"))
    assert items == [Example("a", label="x"), Example("c", label="y")]
    assert errors == [
        (2, "the label is empty"),
        (3, "3 fields, 2 expected (label, text)"),
        (4, "byte 0xff at column 3 is not UTF-8"),
    ]


def test_fasttext(read):
    text = "__label__x a\nb\n__label__ c\n__label__x __label__y d\n__label__y e\n"
    items, errors = read("a.txt", text, format="fasttext")
    assert items == [Example("a", label="x"), Example("e", label="y")]
    assert errors == [
        (2, "no word begins with '__label__'"),
        (3, "'__label__' has no name after it"),
        (4, "2 labels where one is expected"),
    ]


def test_words_with_tags(read):
    items, errors = read("a.pos", "a/X b/Y\nc\n\n/X\nd/X\n", format="word/tag")
    assert items == [Sentence(["a", "b"], tags=["X", "Y"]), Sentence(["d"], tags=["X"])]
    assert errors == [(2, "'c' has no tag"), (4, "'/X' has no word")]


def test_a_malformed_line_of_columns_drops_its_sentence(read):
    text = b"a X\nb Y\n\nc X\nd\nd Z Z\n\n\n\xe9 X\ne X\n\nf X\n"
    items, errors = read("a.conll", text)
    assert items == [Sentence(["a", "b"], tags=["X", "Y"]), Sentence(["f"], tags=["X"])]
    assert errors == [(5, "1 column, but 2 on the lines before"), (9, "byte 0xe9 at column 1 is not UTF-8")]


def test_an_unclosed_quote_drops_one_line(read):
    text = 'text,label\na,x\n"b,x\n"c, d",x\ne,x\n"f\ng",x\n"h,x\n'
    items, errors = read("a.csv", text)
    assert items == [Example(word, label="x") for word in ("a", "c, d", "e", "f\ng")]
    assert errors == [(line, "the row that begins here has an unpaired double quote") for line in (3, 8)]


def test_a_broken_line_ends_a_quoted_row(read):
    text = b'text,label\n"a\n\xe9\nb",x\nc,x\n"d\n",x\n'
    items, errors = read("a.csv", text)
    assert items == [Example('b"', label="x"), Example("c", label="x"), Example("d\n", label="x")]
    assert errors == [
        (3, "byte 0xe9 at column 1 is not UTF-8"),
        (2, "the row that begins here has an unpaired double quote"),
    ]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", '"', ",x", '"b",x', '"c\nd",x', '"e', "\xe9"]), max_size=12))
def test_every_line_of_a_quoted_table_is_read_or_reported(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = "".join(f"{row}\n" for row in ("text,label", *rows, "z,x")).encode("latin-1")
    path.write_bytes(text)
    errors = []
    items = list(read_corpus(path, skip=errors.append))
    inside = sum(item.text.count("\n") for item in items)
    assert 1 + len(items) + inside + len({error.line for error in errors}) == text.count(b"\n")


def test_errors_in_a_header_are_raised(read):
    with pytest.raises(DataError, match="there is no column 'label'"):
        read("a.csv", "text\na\n")


def test_a_damaged_archive_is_always_an_error(tmp_path):
    rows = "".join(f"x\ttext {number} {hash(str(number))}\n" for number in range(9000))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(rows.encode())[:-2000])
    for name in ("labelled", "fasttext", "word/tag", "conll"):
        with pytest.raises(UnreadableError, match="the archive ends too early"):
            list(read_corpus(tmp_path / "a.txt.gz", format=name, skip=lambda error: None))


def test_a_table_without_valid_lines_has_no_items(read):
    assert read("a.csv", "text,label\na\n") == ([], [(2, "1 field, the header names 2")])
