import pytest

from graphattn.builders.readers import read_labelled_lines, read_table
from graphattn.builders.sentence import Example
from graphattn.exceptions import ConfigError, DataError


def test_label_and_text(corpus):
    path = corpus("a.tsv", "1\tgood film ", '0\t"bad', "0\t")
    assert list(read_labelled_lines(path)) == [
        Example("good film ", label="1"),
        Example('"bad', label="0"),
        Example("", label="0"),
    ]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (("text", "second", "label"), "one\ttwo\tyes"),
        (("label", "text", "second"), "yes\tone\ttwo"),
        (["label", None, None, "text", None, "second"], "yes\t9\t17\tone\t\ttwo"),
    ],
)
def test_columns_in_any_order(corpus, columns, line):
    assert list(read_labelled_lines(corpus("a", line), columns=columns)) == [Example("one", "two", "yes")]


def test_each_line_is_a_text_when_there_is_one_column(corpus):
    texts = [example.text for example in read_labelled_lines(corpus("a", "one", "", "two", ""), columns="text")]
    assert texts == ["one", "", "two", ""]


def test_separator(corpus):
    path = corpus("a.txt", 'pos ||| "fine"')
    assert list(read_labelled_lines(path, separator=" ||| ")) == [Example('"fine"', label="pos")]


def test_a_csv_file_without_a_header_has_commas_and_quotes(corpus):
    path = corpus("a.csv", '"3","Wall St.","Bears, again', 'and again"')
    examples = list(read_labelled_lines(path, columns=("label", None, "text")))
    assert examples == [Example("Bears, again\nand again", label="3")]


def test_several_labels(corpus):
    path = corpus("a", "joy,love\tone", "\ttwo")
    assert [example.label for example in read_labelled_lines(path, label_separator=",")] == [("joy", "love"), ()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "alone",
            "1 field, 2 expected (label, text). "
            "Complete the line, or set columns to what each field holds, None to skip one.",
        ),
        (
            "1\ta\tb",
            "3 fields, 2 expected (label, text). "
            "Complete the line, or set columns to what each field holds, None to skip one.",
        ),
        ("", "the line is blank. Delete it, or complete it."),
        (
            " \ttext",
            "the label is empty. Fill it in, or read the file without its label column; "
            "where texts may have none or several, set label_separator to what stands between labels.",
        ),
    ],
)
def test_a_broken_line_in_the_middle_of_ten_thousand(corpus, line, message):
    path = corpus("a.tsv", *["1\tfine"] * 5_000, line, *["1\tfine"] * 5_000)
    read = []
    with pytest.raises(DataError) as caught:
        read.extend(read_labelled_lines(path))
    assert str(caught.value) == f"{path}, line 5001: {message}"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("label",), "columns ('label',) name no 'text'. Say which column holds the text."),
        (
            ("text", "text"),
            "columns ('text', 'text') name 'text' twice. Use 'text', 'second' and 'label' once each, None to skip one.",
        ),
        (
            ("text", "tag"),
            "columns ('text', 'tag') name 'tag' which no column can hold."
            " Use 'text', 'second' and 'label' once each, None to skip one.",
        ),
    ],
)
def test_impossible_columns_are_refused_before_anything_is_read(columns, message):
    with pytest.raises(ConfigError) as caught:
        read_labelled_lines("missing", columns=columns)
    assert str(caught.value) == message


def test_empty_separator():
    with pytest.raises(ConfigError) as caught:
        read_labelled_lines("missing", separator="")
    assert str(caught.value) == "separator is empty. Set it to what stands between two fields, a tab say."


@pytest.mark.parametrize("read", [read_labelled_lines, read_table])
def test_empty_label_separator(read):
    with pytest.raises(ConfigError) as caught:
        read("a.tsv", label_separator="")
    assert str(caught.value) == (
        "label_separator is empty. Set it to what stands between two labels of a text, '|' say."
    )


def test_a_separator_that_is_given_leaves_a_csv_file_its_quotes(corpus):
    assert list(read_labelled_lines(corpus("a.csv", '1;"a, b"'), separator=";")) == [Example('"a, b"', label="1")]
