import csv
import io
import json
import warnings
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.files import open_text
from graphattn.builders.readers import read_table
from graphattn.builders.readers.formats import detect_format
from graphattn.builders.readers.rows import LONGEST_RECORD, QuotedRows
from graphattn.builders.sentence import Example
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning

texts = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]))


def problem(path, **options):
    with pytest.raises(DataError) as caught:
        list(read_table(path, **options))
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["id,text,label", "7,good,1", "8,bad,0"]),
        ("a.tsv", ["id\ttext\tlabel", "7\tgood\t1", "8\tbad\t0"]),
        ("a.jsonl", ['{"id": 7, "text": "good", "label": 1}', '{"label": "0", "text": "bad"}']),
        ("a.ndjson", ['{"text": "good", "label": "1"}', '{"label": 0, "text": "bad"}']),
    ],
)
def test_columns_are_found_by_name(corpus, name, lines):
    path = corpus(name, *lines)
    assert list(read_table(path)) == [Example("good", label="1"), Example("bad", label="0")]
    assert list(read_table(path, label=None)) == [Example("good"), Example("bad")]
    # The same bytes under a name that says nothing.
    other = corpus("other", *lines)
    kind = "jsonl" if "json" in name else name[2:]
    assert list(read_table(other, format=kind)) == list(read_table(path))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["premise,hypothesis,gold", "A dog runs,An animal moves,yes"]),
        ("a.tsv", ["gold\thypothesis\tpremise", "yes\tAn animal moves\tA dog runs"]),
        ("a.jsonl", ['{"gold": "yes", "hypothesis": "An animal moves", "premise": "A dog runs"}']),
    ],
)
def test_pairs(corpus, name, lines):
    examples = list(read_table(corpus(name, *lines), text="premise", second="hypothesis", label="gold"))
    assert examples == [Example("A dog runs", "An animal moves", "yes")]


@given(rows=st.lists(st.tuples(texts, texts, st.sampled_from("ab")), min_size=1))
def test_csv_gives_back_what_pythons_writer_wrote(tmp_path_factory, rows):
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerows([("text", "second", "label"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(table.getvalue(), encoding="utf-8", newline="")
    assert list(read_table(path, second="second")) == [Example(*row) for row in rows]


@given(rows=st.lists(st.tuples(texts, texts, st.sampled_from("ab")), min_size=1))
def test_json_lines_give_back_what_pythons_writer_wrote(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    records = [dict(zip(("text", "second", "label"), row, strict=True)) for row in rows]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert list(read_table(path, second="second")) == [Example(*row) for row in rows]


def test_csv_fields_may_hold_quotes_delimiters_and_newlines(corpus):
    path = corpus("a.csv", "text,label\r", '"He said ""no"",\r', 'twice",1\r', "plain,0\r")
    assert list(read_table(path)) == [Example('He said "no",\ntwice', label="1"), Example("plain", label="0")]


def test_tsv_quotes_are_ordinary_characters_unless_asked(corpus):
    path = corpus("a.tsv", "text\tlabel", '" unclosed\t1', '"closed"\t0')
    assert [example.text for example in read_table(path)] == ['" unclosed', '"closed"']
    path = corpus("b.tsv", "text\tlabel", '"closed\ttab"\t0')
    assert list(read_table(path, quoted=True)) == [Example("closed\ttab", label="0")]


def test_quotes_that_a_writer_of_tables_put_are_told_once(corpus):
    rows = ["text\tlabel", 'plain "and" simple\t0', '"he said ""hi"" to me"\t1', '"again ""hi"""\t1']
    path = corpus("a.tsv", "\n".join(rows) + "\n")
    with pytest.warns(GraphAttnWarning) as told:
        examples = list(read_table(path))
    assert [example.text for example in examples][1:] == ['"he said ""hi"" to me"', '"again ""hi"""']
    assert [str(warning.message) for warning in told] == [
        f"{path}, line 3: the text stands in double quotes, which are read as a part of it; "
        "quoted=True (--quoted) takes them off, quoted=False (--no-quoted) keeps them without a word"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_table(path, quoted=False)) == examples
        assert list(read_table(path, quoted=True))[1].text == 'he said "hi" to me'


def test_a_tsv_whose_whole_header_is_quoted_has_quotes(corpus):
    path = corpus("a.tsv", '"text"\t"label"', '"so ""fine"""\t"pos"', '"a\tb"\tneg')
    assert detect_format(path, among=("tsv", "labelled")) == "tsv"
    assert list(read_table(path)) == [Example('so "fine"', label="pos"), Example("a\tb", label="neg")]
    with pytest.raises(DataError, match="no column 'text'"):
        list(read_table(path, quoted=False))


def test_delimiter(corpus):
    assert list(read_table(corpus("a.csv", "text;label", "a,b;1"), delimiter=";")) == [Example("a,b", label="1")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_a_text_of_any_length(corpus, name):
    long = "word " * 200_000
    lines = {
        "a.csv": ["text,label", f'"{long}",1'],
        "a.tsv": ["text\tlabel", f"{long}\t1"],
        "a.jsonl": [json.dumps({"text": long, "label": 1})],
    }
    assert list(read_table(corpus(name, *lines[name]))) == [Example(long, label="1")]


def test_several_labels(corpus):
    path = corpus("a.csv", "text,label", "a,joy|love", "b,", "c, joy |joy||")
    labels = [example.label for example in read_table(path, label_separator="|")]
    assert labels == [("joy", "love"), (), ("joy",)]
    path = corpus(
        "a.jsonl", '{"text": "a", "label": ["x", 1]}', '{"text": "b", "label": []}', '{"text":"","label":"x;y"}'
    )
    labels = [example.label for example in read_table(path, label_separator=";")]
    assert labels == [("x", "1"), (), ("x", "y")]


def test_json_labels_become_their_text(corpus):
    path = corpus("a.jsonl", *(f'{{"text": "a", "label": {value}}}' for value in ("1", "2.5", "true", '" x "')))
    assert [example.label for example in read_table(path)] == ["1", "2.5", "true", "x"]


@pytest.mark.parametrize(
    ("name", "header", "options", "message"),
    [
        (
            "a.csv",
            "sentence,class",
            {},
            "there is no column 'text'; the columns are 'sentence', 'class'. Set text to one of them;"
            " if the first line is no header, set columns to what each field holds.",
        ),
        (
            "a.tsv",
            "text\tclass\t" + "x" * 50,
            {},
            f"there is no column 'label'; the columns are 'text', 'class', '{'x' * 37}...'. Set label to one of them,"
            " or to None to read texts alone; if the first line is no header, set columns to what each field holds.",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "b"}',
            {"second": "other"},
            "there is no column 'other'; the columns are 'text', 'label'. Set second to one of them.",
        ),
        (
            "a.csv",
            "text;label",
            {},
            "there is no column 'text', only one that is called 'text;label'. Set delimiter to ';' if that stands"
            " between two fields.",
        ),
        ("a.csv", "text,label,text", {}, "2 columns are named 'text'. Rename one."),
    ],
)
def test_missing_and_doubled_columns(corpus, name, header, options, message):
    assert problem(corpus(name, header), **options) == f"FILE, line 1: {message}"


BROKEN = [
    ("a.csv", "text,label", "fine,1", "one, too many,1", "3 fields, the header names 2. A text that holds ',' must"
     " stand in double quotes."),
    ("a.csv", "text,label", "fine,1", "alone", "1 field, the header names 2. A text that holds ',' must stand in"
     " double quotes."),
    ("a.tsv", "text\tlabel", "fine\t1", "a\tb\t1", "3 fields, the header names 2. A text that holds a tab must not"
     " stand in this table."),
    ("a.csv", "text,label", "fine,1", "", "the line is blank. Delete it, or complete it."),
    ("a.tsv", "text\tlabel", "fine\t1", "", "the line is blank. Delete it, or complete it."),
    ("a.csv", "text,label", "fine,1", 'a,"1"2', "the double quotes of the row that begins here do not pair up. Close"
     " each quoted field, double each quote inside it, or set quoted to False."),
    ("a.csv", "text,label", "fine,1", "a\rb,1", "a carriage return stands alone. Delete it, or put the field in double"
     " quotes."),
    ("a.csv", "text,label", "fine,1", "a, ", "the label is empty. Fill it in, or read the file without its label"
     " column; where texts may have none or several, set label_separator to what stands between labels."),
    ("a.jsonl", None, '{"text": "fine", "label": 1}', '{"text": "bad", "label": }', "broken JSON: Expecting value at"
     " column 26. JSON Lines hold one object in braces on each line."),
    ("a.jsonl", None, '{"text": "fine", "label": 1}', '["bad", 1]', "a list where an object was expected. JSON Lines"
     " hold one object in braces on each line."),
    ("a.jsonl", None, '{"text": "fine", "label": 1}', "", "the line is blank. Delete it, or complete it."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "header", "fine", "broken", "message"), BROKEN)
def test_a_broken_line_in_the_middle_of_ten_thousand(corpus, name, header, fine, broken, message):
    head = [] if header is None else [header]
    lines = [*head, *[fine] * 10_000]
    lines[5_000] = broken
    examples = read_table(corpus(name, *lines))
    before = 5_000 - len(head)
    assert list(islice(examples, before)) == [Example("fine", label="1")] * before
    with pytest.raises(DataError) as caught:
        next(examples)
    assert str(caught.value).partition("a." + name[2:])[2] == f", line 5001: {message}"


def test_an_unclosed_quote_is_reported_where_its_row_begins(corpus):
    path = corpus("a.csv", "text,label", '"two', 'lines",1', '"open,1', *["next,0"] * 10)
    expected = (
        "FILE, line 4: the double quotes of the row that begins here do not pair up. Close each quoted field, double"
        " each quote inside it, or set quoted to False."
    )
    assert problem(path) == expected


def test_an_unclosed_quote_does_not_swallow_a_large_file(corpus):
    path = corpus("a.csv", "text,label", '"open,1', *["next,0"] * (LONGEST_RECORD + 1_000))
    with open_text(path) as lines:
        rows = QuotedRows(lines, ",")
        assert next(rows) == (1, ["text", "label"])
        with pytest.raises(DataError, match="line 2: the double quotes"):
            next(rows)
        assert lines.line == 2 + LONGEST_RECORD


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"text": null, "label": 1}', "field 'text': null where a string was expected. Quote the text."),
        ('{"text": 5, "label": 1}', "field 'text': a number where a string was expected. Quote the text."),
        ('{"text": ["a"], "label": 1}', "field 'text': a list where a string was expected. Quote the text."),
        (
            '{"text": "a\\ud83d", "label": 1}',
            "field 'text': half a surrogate pair at character 2. Write both halves, or the character itself.",
        ),
        (
            '{"text": "a", "label": null}',
            "field 'label': null where a label was expected. A label is a string, a number, or a list of them;"
            " set label to None to read texts alone.",
        ),
        (
            '{"text": "a", "label": NaN}',
            "field 'label': NaN where a label was expected. A label is a string, a number, or a list of them;"
            " set label to None to read texts alone.",
        ),
        (
            '{"text": "a", "label": [{}]}',
            "field 'label': an object where a label was expected. A label is a string, a number, or a list of them;"
            " set label to None to read texts alone.",
        ),
    ],
)
def test_json_values_of_the_wrong_kind(corpus, record, message):
    assert problem(corpus("a.jsonl", record)) == f"FILE, line 1, {message}"


@pytest.mark.parametrize("content", ["[" * 100_000, '{"text": "a", "label": ' + "9" * 5_000 + "}"])
def test_json_that_python_refuses_to_parse(corpus, content):
    assert problem(corpus("a.jsonl", content)).startswith("FILE, line 1: unreadable JSON: ")


def test_blank_lines_at_the_end_are_forgotten(corpus):
    for name, lines in (("a.csv", ["text,label", "a,1"]), ("a.tsv", ["text\tlabel", "a\t1"])):
        assert list(read_table(corpus(name, *lines, "", ""))) == [Example("a", label="1")]
    assert list(read_table(corpus("a.jsonl", '{"text": "a", "label": 1}', " "))) == [Example("a", label="1")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_in_a_table_of_one_column_a_blank_line_is_an_empty_text(corpus, name):
    path = corpus(name, "text", "a", "", "b", "")
    assert [example.text for example in read_table(path, label=None)] == ["a", "", "b", ""]


def test_a_header_alone_holds_no_example(corpus):
    assert list(read_table(corpus("a.csv", "text,label"))) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a.txt",
            {},
            "format is None and the extension of a.txt names none. Set format to 'csv', 'tsv' or 'jsonl'.",
        ),
        (
            "a.csv",
            {"format": "xml"},
            "format is 'xml' and the extension of a.csv names none. Set format to 'csv', 'tsv' or 'jsonl'.",
        ),
        (
            "a.csv",
            {"delimiter": "||"},
            "delimiter is '||'. Set it to one character, neither a quote nor a line end.",
        ),
        (
            "a.jsonl",
            {"delimiter": ","},
            "JSON Lines have no delimiter and no quoting. Leave delimiter and quoted out.",
        ),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(name, options, message):
    with pytest.raises(ConfigError) as caught:
        read_table(name, **options)
    assert str(caught.value) == message


def test_quotes_of_a_csv_file_can_be_kept(corpus):
    path = corpus("a.csv", "text,label", '"good",1')
    assert next(read_table(path, quoted=False)) == Example('"good"', label="1")


def test_blanks_around_the_names_of_columns(corpus):
    assert next(read_table(corpus("a.tsv", "label \t text", "1\tgood"))) == Example("good", label="1")


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_long_names_of_columns_are_cut(corpus, length, shown):
    path = corpus("a.csv", f"{'x' * length},label", "a,1")
    assert f"the columns are '{shown}', 'label'." in problem(path)


def test_half_a_character_in_a_label(corpus):
    path = corpus("a.jsonl", '{"text": "good", "label": "\\ud83d"}')
    assert problem(path) == (
        "FILE, line 1, field 'label': half a surrogate pair at character 1. Write both halves, or the character itself."
    )


def test_blank_labels_between_separators_are_none(corpus):
    path = corpus("a.csv", "text,label", "good,a| |b|")
    assert next(read_table(path, label_separator="|")).label == ("a", "b")
