import csv
import io
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._files import open_text
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders.readers import detect, read_labelled_lines, read_table
from graphattn.builders.readers._rows import MAX_RECORD_LINES, QuotedRows
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint

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
def test_columns_are_selected_by_name(corpus, name, lines):
    path = corpus(name, *lines)
    assert list(read_table(path)) == [Example("good", label="1"), Example("bad", label="0")]
    assert list(read_table(path, label=None)) == [Example("good"), Example("bad")]
    # The same bytes in a file without an extension.
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
def test_csv_round_trip_with_pythons_writer(tmp_path_factory, rows):
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerows([("text", "second", "label"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(table.getvalue(), encoding="utf-8", newline="")
    assert list(read_table(path, second="second")) == [Example(*row) for row in rows]


@given(rows=st.lists(st.tuples(texts, texts, st.sampled_from("ab")), min_size=1))
def test_json_lines_round_trip_with_pythons_writer(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    records = [dict(zip(("text", "second", "label"), row, strict=True)) for row in rows]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert list(read_table(path, second="second")) == [Example(*row) for row in rows]


def test_csv_fields_can_contain_quotes_delimiters_and_newlines(corpus):
    path = corpus("a.csv", "text,label\r", '"He said ""no"",\r', 'twice",1\r', "plain,0\r")
    assert list(read_table(path)) == [Example('He said "no",\ntwice', label="1"), Example("plain", label="0")]


def test_tsv_quotes_are_ordinary_characters_by_default(corpus):
    path = corpus("a.tsv", "text\tlabel", '" unclosed\t1', '"closed"\t0')
    assert [example.text for example in read_table(path)] == ['" unclosed', '"closed"']
    path = corpus("b.tsv", "text\tlabel", '"closed\ttab"\t0')
    assert list(read_table(path, quoted=True)) == [Example("closed\ttab", label="0")]


def test_one_warning_about_quoted_fields_of_a_tsv_file(corpus):
    rows = ["text\tlabel", 'plain "and" simple\t0', '"he said ""hi"" to me"\t1', '"again ""hi"""\t1']
    path = corpus("a.tsv", "\n".join(rows) + "\n")
    with pytest.warns(GraphAttnWarning) as caught:
        examples = list(read_table(path))
    assert [example.text for example in examples][1:] == ['"he said ""hi"" to me"', '"again ""hi"""']
    assert [str(warning.message) for warning in caught] == [
        f"{path}, line 3: the text is in double quotes, which are read as part of it; "
        "quoted=True (--quoted) removes them, quoted=False (--no-quoted) silences this warning"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_table(path, quoted=False)) == examples
        assert list(read_table(path, quoted=True))[1].text == 'he said "hi" to me'


def test_a_tsv_whose_whole_header_is_quoted_has_quotes(corpus):
    path = corpus("a.tsv", '"text"\t"label"', '"so ""fine"""\t"pos"', '"a\tb"\tneg')
    assert detect(path, "classify").name == "tsv"
    assert list(read_table(path)) == [Example('so "fine"', label="pos"), Example("a\tb", label="neg")]
    with pytest.raises(DataError, match="no column 'text'"):
        list(read_table(path, quoted=False))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["LABEL,Text,SECOND", "pos,a film,a play"]),
        ("a.tsv", ["Text\tLABEL\tSecond", "a film\tpos\ta play"]),
        ("a.jsonl", ['{"TEXT": "a film", "Label": "pos", "second": "a play"}']),
    ],
)
def test_names_may_differ_in_case(corpus, name, lines):
    path = corpus(name, *lines)
    assert detect(path, "pair").name == name[2:]
    assert list(read_table(path, second="second")) == [Example("a film", "a play", "pos")]
    assert list(read_table(path, text="sEcond", label=None)) == [Example("a play")]


def test_the_case_of_a_name_decides_between_several(corpus):
    path = corpus("a.csv", "Text,TEXT,label", "a,b,1")
    assert list(read_table(path, text="TEXT")) == [Example("b", label="1")]
    with pytest.raises(DataError, match="no column 'text'; the columns are 'Text', 'TEXT', 'label'"):
        list(read_table(path))


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
    ("name", "header", "arguments", "options"),
    [
        ("a.csv", "sentence,class", {}, {"text", "columns"}),
        ("a.tsv", "text\tclass", {}, {"label", "columns"}),
        ("a.jsonl", '{"text": "a", "label": "b"}', {"second": "other"}, {"second"}),
        ("a.csv", "text;label", {}, {"delimiter"}),
        ("a.csv", "text,label,text", {}, set()),
    ],
)
def test_missing_and_doubled_columns(corpus, broken, name, header, arguments, options):
    path = corpus(name, header)
    assert options <= {*broken(read_table(path, **arguments), path, 1)}


def test_a_missing_column_has_a_hint(corpus):
    with pytest.raises(DataError) as caught:
        list(read_table(corpus("a.tsv", f"text\tclass\t{'x' * 50}")))
    assert caught.value.message == f"there is no column 'label'; the columns are 'text', 'class', '{'x' * 37}...'"
    assert caught.value.hint == "Set {label} to one of them; if the first line is no header, set {columns}."
    assert caught.value.alternative == "For texts without labels, set {label} to None."


def test_an_unclosed_quote_is_reported_where_its_row_begins(corpus, broken):
    path = corpus("a.csv", "text,label", '"two', 'lines",1', '"open,1', *["next,0"] * 10)
    assert broken(read_table(path), path, 4) == ("quoted",)


def test_an_unclosed_quote_does_not_swallow_a_large_file(corpus):
    path = corpus("a.csv", "text,label", '"open,1', *["next,0"] * (MAX_RECORD_LINES + 1_000))
    with open_text(path) as lines:
        rows = QuotedRows(lines, ",")
        assert next(rows) == (1, ["text", "label"])
        with pytest.raises(DataError, match="line 2: the row that begins here"):
            next(rows)
        assert lines.line == 2 + MAX_RECORD_LINES


def test_blank_lines_at_the_end_are_skipped(corpus):
    for name, lines in (("a.csv", ["text,label", "a,1"]), ("a.tsv", ["text\tlabel", "a\t1"])):
        assert list(read_table(corpus(name, *lines, "", ""))) == [Example("a", label="1")]
    assert list(read_table(corpus("a.jsonl", '{"text": "a", "label": 1}', " "))) == [Example("a", label="1")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_blank_line_in_a_table_of_one_column_is_an_empty_text(corpus, name):
    path = corpus(name, "text", "a", "", "b", "")
    assert [example.text for example in read_table(path, label=None)] == ["a", "", "b", ""]


def test_a_header_alone_has_no_examples(corpus):
    assert list(read_table(corpus("a.csv", "text,label"))) == []


@pytest.mark.parametrize(
    ("read", "arguments", "option"),
    [
        (read_table, {}, "format"),
        (read_table, {"format": "xml"}, "format"),
        (read_table, {"format": "csv", "delimiter": "||"}, "delimiter"),
        (read_table, {"format": "csv", "label_separator": ""}, "label_separator"),
        (read_labelled_lines, {"label_separator": ""}, "label_separator"),
        (read_labelled_lines, {"separator": ""}, "separator"),
        (read_labelled_lines, {"columns": ("label",)}, "columns"),
        (read_labelled_lines, {"columns": ("text", "label", "label")}, "columns"),
        (read_labelled_lines, {"columns": ("text", "tag")}, "columns"),
    ],
)
def test_invalid_options_are_errors_before_reading(read, arguments, option):
    with pytest.raises(ConfigError) as caught:
        read("missing.txt", **arguments)
    assert caught.value.options == (option,)


def test_quotes_of_a_csv_file_can_be_kept(corpus):
    path = corpus("a.csv", "text,label", '"good",1')
    assert next(read_table(path, quoted=False)) == Example('"good"', label="1")


def test_blanks_around_column_names(corpus):
    assert next(read_table(corpus("a.tsv", "label \t text", "1\tgood"))) == Example("good", label="1")


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_long_column_names_are_truncated(corpus, length, shown):
    path = corpus("a.csv", f"{'x' * length},label", "a,1")
    assert f"the columns are '{shown}', 'label'." in problem(path)


def test_blank_labels_between_separators_are_ignored(corpus):
    path = corpus("a.csv", "text,label", "good,a| |b|")
    assert next(read_table(path, label_separator="|")).label == ("a", "b")


# Lines without a header.


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


def test_lines_with_one_column_are_texts(corpus):
    texts = [example.text for example in read_labelled_lines(corpus("a", "one", "", "two", ""), columns="text")]
    assert texts == ["one", "", "two", ""]


def test_separator_without_a_header(corpus):
    path = corpus("a.txt", 'pos ||| "fine"')
    assert list(read_labelled_lines(path, separator=" ||| ")) == [Example('"fine"', label="pos")]


def test_a_csv_file_without_a_header_has_commas_and_quotes(corpus):
    path = corpus("a.csv", '"3","Wall St.","Bears, again', 'and again"')
    examples = list(read_labelled_lines(path, columns=("label", None, "text")))
    assert examples == [Example("Bears, again\nand again", label="3")]


def test_several_labels_without_a_header(corpus):
    path = corpus("a", "joy,love\tone", "\ttwo")
    assert [example.label for example in read_labelled_lines(path, label_separator=",")] == [("joy", "love"), ()]


@pytest.mark.parametrize(
    ("name", "lines", "columns", "options", "expected"),
    [
        # Fields that only some lines have.
        ("a.tsv", ["1\tone", "0\ttwo\tx\ty"], ("label", "text", "..."), {}, [("one", "1"), ("two", "0")]),
        ("a.csv", ['1,"one, 1"', "0,two,x"], ("label", "text", "..."), {}, [("one, 1", "1"), ("two", "0")]),
        # A text in several columns, of which some are empty.
        ("a.csv", ['1,Wall St.,"Bears, again"', "0,,Bulls"], ("label", "text", "text"), {}, None),
        # The first word is the label, or the last one.
        ("a.label", ["DESC:manner How did it go ?", "NUM:date When ?"], ("label", "text"), {"separator": " "}, None),
        ("a.txt", ["so very good 1", "bad 0"], ("text", "label"), {"separator": " "}, None),
    ],
)
def test_tables_of_other_people(corpus, name, lines, columns, options, expected):
    expected = (
        expected
        or {
            "a.csv": [("Wall St. Bears, again", "1"), ("Bulls", "0")],
            "a.label": [("How did it go ?", "DESC:manner"), ("When ?", "NUM:date")],
            "a.txt": [("so very good", "1"), ("bad", "0")],
        }[name]
    )
    examples = list(read_labelled_lines(corpus(name, *lines), columns=columns, **options))
    assert [(example.text, example.label) for example in examples] == expected


@pytest.mark.parametrize(("line", "sign"), [('{}\tHe said, "no\t{}', "tabs"), ('{};"a; b, c";{}', "';'")])
def test_a_csv_file_without_commas_between_its_fields(corpus, line, sign):
    path = corpus("a.csv", *(line.format(number % 3, number) for number in range(9)))
    with pytest.warns(Hint, match=f"read {sign} between the fields, not commas"):
        examples = list(read_labelled_lines(path, columns=("label", "text", None)))
    assert examples[1] == Example('He said, "no' if sign == "tabs" else "a; b, c", label="1")
    with pytest.raises(DataError) as caught:
        list(read_table(path))
    assert caught.value.options == (("delimiter",) if sign == "tabs" else ("text", "label", "columns"))


def test_the_first_line_of_excel_names_the_delimiter(corpus):
    lines = ["sep=;", "text;label", '"one; two";1', "three;0"]
    expected = [Example("one; two", label="1"), Example("three", label="0")]
    assert list(read_table(corpus("a.csv", *lines))) == expected
    options = {"columns": ("text", "label")}
    assert list(read_labelled_lines(corpus("a.csv", *lines), **options, header=True)) == expected
    assert list(read_labelled_lines(corpus("a.csv", lines[0], *lines[2:]), **options)) == expected


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["id,title,body,toxic,obscene", '1,"A, b",c,0,1', "2,,d,0,0"]),
        ("a.tsv", ["title\tbody\ttoxic\tobscene", "A, b\tc\t0\t1.0", "\td\t0\t0"]),
        (
            "a.jsonl",
            [
                '{"title": "A, b", "body": "c", "toxic": 0, "obscene": 1}',
                '{"title": "", "body": "d", "toxic": false, "obscene": 0.0}',
            ],
        ),
    ],
)
def test_several_columns_of_the_text_and_one_for_each_label(corpus, name, lines):
    examples = list(read_table(corpus(name, *lines), text=("title", "body"), label=("toxic", "obscene")))
    assert examples == [Example("A, b c", label=("obscene",)), Example("d", label=())]


@pytest.mark.parametrize("value", ["-1", "2", "", "x"])
def test_a_column_of_a_label_that_holds_neither_0_nor_1(corpus, broken, value):
    path = corpus("a.csv", "text,x,y", f"one,1,{value}")
    assert broken(read_table(path, label=("x", "y")), path, 2) == ("label",)


def test_nested_fields_of_json_lines(corpus):
    record = {
        "translation": {"en": "A dog.", "de": {"text": "Ein Hund."}},
        "labels": {"real-label": 2},
        "a.b": "dotted",
    }
    path = corpus("a.jsonl", json.dumps(record))
    options = {"text": "translation.en", "second": "translation.de.text", "label": "labels.real-label"}
    assert list(read_table(path, **options)) == [Example("A dog.", "Ein Hund.", "2")]
    assert next(read_table(path, text="a.b", label=None)) == Example("dotted")
    with pytest.raises(
        DataError, match=r"the columns are 'translation.en', 'translation.de.text', 'labels.real-label'"
    ):
        list(read_table(path, text="translation.fr"))


def test_lists_of_words_or_sentences_are_texts(corpus):
    lines = ['{"text": ["Do", "n\'t", "10 000"], "label": 1}', '{"text": ["I saw it.", "It is so good."], "label": 0}']
    words, text = read_table(corpus("a.jsonl", *lines))
    assert words == Sentence(("Do", "n't", "10 000"), label="1")
    assert text == Example("I saw it. It is so good.", label="0")


def test_two_texts_in_one_field(corpus, broken):
    expected = [Example("A dog runs.", "It moves.", "yes")]
    path = corpus("a.csv", "text,label", "A dog runs. <sep> It moves.,yes", "A dog runs.,no")
    rows = read_table(path, second="second", text_separator="<sep>")
    assert [next(rows)] == expected
    assert broken(rows, path, 3) == ("text_separator",)
    path = corpus("a.jsonl", '{"text": "A dog runs.[SEP]It moves.", "label": "yes"}')
    assert list(read_table(path, text_separator="[SEP]")) == expected
    path = corpus("a.tsv", "A dog runs.###It moves.\tyes")
    assert list(read_labelled_lines(path, columns=("text", "label"), text_separator="###")) == expected


def test_an_unpaired_quote_in_the_header_names_the_fields(corpus):
    with pytest.raises(DataError) as caught:
        list(read_table(corpus("a.csv", '"sentence,label', "so good,1")))
    assert caught.value.line == 1
    assert "the fields '\"sentence', 'label'" in caught.value.hint


def test_with_a_separator_a_csv_file_keeps_its_quotes(corpus):
    assert list(read_labelled_lines(corpus("a.csv", '1;"a, b"'), separator=";")) == [Example('"a, b"', label="1")]


@pytest.mark.parametrize("asked", ["opinión", "opinio\u0301n"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["id,opini\N{LATIN SMALL LETTER O WITH ACUTE}n,señal", "7,good,1"]),
        ("a.csv", ["id,opinio\u0301n,sen\u0303al", "7,good,1"]),
        ("a", ["id\topinio\u0301n\tsen\u0303al", "7\tgood\t1"]),
        ("a.jsonl", ['{"opinio\u0301n": "good", "señal": 1}']),
        ("a.jsonl", ['{"opinio\\u0301n": "good", "sen\\u0303al": 1}']),
    ],
)
def test_names_of_columns_are_compared_in_any_unicode_form(corpus, asked, name, lines):
    path = corpus(name, *lines)
    detected = detect(path, task="classify", text=asked, label="señal").name
    assert list(read_table(path, text=asked, label="señal", format=detected)) == [Example("good", label="1")]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ("text,{0}", "a,x", "b,y")),
        ("a.tsv", ("{0}\ttext", "x\ta", "y\tb")),
        ("a.jsonl", ('{{"text": "a", "{0}": "x"}}', '{{"text": "b", "{0}": "y"}}')),
    ],
)
def test_none_is_no_label_unless_a_column_has_this_name(corpus, name, lines):
    for label in ("none", "None"):
        path = corpus(name, *(line.format(label) for line in lines))
        assert [example.label for example in read_table(path, label=label)] == ["x", "y"]
        path = corpus(name, *(line.format("kind") for line in lines))
        assert [example.label for example in read_table(path, label=label)] == [None, None]
