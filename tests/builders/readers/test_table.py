import csv
import io
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._text_lines import open_text
from graphattn.builders.readers import detect, read_corpus, read_labelled_lines, read_table
from graphattn.builders.readers._rows import MAX_RECORD_LINES, QuotedRows
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint

texts = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]))
LONG = "word " * 200_000
PAIR = [Example("A dog runs", "An animal moves", "yes")]
NAMES = {"text": "premise", "second": "hypothesis", "label": "gold"}
NESTED = '{"tr": {"en": "A dog.", "de": {"text": "Ein Hund."}}, "labels": {"real-label": 2}, "a.b": "dotted"}'
INNER = {"text": "tr.en", "second": "tr.de.text", "label": "labels.real-label"}
FLAGS = {"text": ("title", "body"), "label": ("toxic", "obscene")}
FLAGGED = [Example("A, b c", label=("obscene",)), Example("d", label=())]


def labelled(**texts):
    """An example for each label, a digit after an underscore or a name, and its text."""
    return [Example(text, label=label.removeprefix("_")) for label, text in texts.items()]


@pytest.mark.parametrize(
    ("name", "lines", "options", "expected"),
    [
        # Columns are selected by name.
        ("a.csv", ["id,text,label", "7,good,1", "8,bad,0"], {}, labelled(_1="good", _0="bad")),
        ("a.tsv", ["id\ttext\tlabel", "7\tgood\t1", "8\tbad\t0"], {}, labelled(_1="good", _0="bad")),
        (
            "a.jsonl",
            ['{"id": 7, "text": "good", "label": 1}', '{"label": "0", "text": "bad"}'],
            {},
            labelled(_1="good", _0="bad"),
        ),
        ("a.ndjson", ['{"text": "good", "label": "1"}'], {}, labelled(_1="good")),
        ("a.csv", ["id,text,label", "7,good,1"], {"label": None}, [Example("good")]),
        ("a.tsv", ["label \t text", "1\tgood"], {}, labelled(_1="good")),
        ("a.csv", ["premise,hypothesis,gold", "A dog runs,An animal moves,yes"], NAMES, PAIR),
        ("a.tsv", ["gold\thypothesis\tpremise", "yes\tAn animal moves\tA dog runs"], NAMES, PAIR),
        ("a.jsonl", ['{"gold": "yes", "hypothesis": "An animal moves", "premise": "A dog runs"}'], NAMES, PAIR),
        ("a.csv", ["Text,TEXT,label", "a,b,1"], {"text": "TEXT"}, labelled(_1="b")),
        ("a.jsonl", [NESTED], INNER, [Example("A dog.", "Ein Hund.", "2")]),
        ("a.jsonl", [NESTED], {"text": "a.b", "label": None}, [Example("dotted")]),
        # Quotes, delimiters, and the ends of lines.
        (
            "a.csv",
            ["text,label\r", '"He said ""no"",\r', 'twice",1\r', "plain,0\r"],
            {},
            labelled(_1='He said "no",\ntwice', _0="plain"),
        ),
        ("a.csv", ["text,label", '"good",1'], {"quoted": False}, labelled(_1='"good"')),
        ("a.csv", ["text;label", "a,b;1"], {"delimiter": ";"}, labelled(_1="a,b")),
        ("a.csv", ["sep=;", "text;label", '"one; two";1', "three;0"], {}, labelled(_1="one; two", _0="three")),
        ("a.tsv", ["text\tlabel", '" unclosed\t1', '"closed"\t0'], {}, labelled(_1='" unclosed', _0='"closed"')),
        ("a.tsv", ["text\tlabel", '"closed\ttab"\t0'], {"quoted": True}, labelled(_0="closed\ttab")),
        # Blank lines at the end, and texts of any length.
        ("a.csv", ["text,label", "a,1", "", ""], {}, labelled(_1="a")),
        ("a.tsv", ["text\tlabel", "a\t1", "", ""], {}, labelled(_1="a")),
        ("a.jsonl", ['{"text": "a", "label": 1}', " "], {}, labelled(_1="a")),
        ("a.csv", ["text", "a", "", "b", ""], {"label": None}, list(map(Example, ["a", "", "b", ""]))),
        ("a.tsv", ["text", "a", "", "b", ""], {"label": None}, list(map(Example, ["a", "", "b", ""]))),
        ("a.csv", ["text,label"], {}, []),
        ("a.csv", ["text,label", f'"{LONG}",1'], {}, labelled(_1=LONG)),
        ("a.tsv", ["text\tlabel", f"{LONG}\t1"], {}, labelled(_1=LONG)),
        ("a.jsonl", [json.dumps({"text": LONG, "label": 1})], {}, labelled(_1=LONG)),
        # Several columns of the text, and one for each label.
        ("a.csv", ["id,title,body,toxic,obscene", '1,"A, b",c,0,1', "2,,d,0,0"], FLAGS, FLAGGED),
        ("a.tsv", ["title\tbody\ttoxic\tobscene", "A, b\tc\t0\t1.0", "\td\t0\t0"], FLAGS, FLAGGED),
        (
            "a.jsonl",
            [
                '{"title": "A, b", "body": "c", "toxic": 0, "obscene": 1}',
                '{"title": "", "body": "d", "toxic": false, "obscene": 0.0}',
            ],
            FLAGS,
            FLAGGED,
        ),
    ],
)
def test_examples_of_tables(corpus, name, lines, options, expected):
    path = corpus(name, *lines)
    assert list(read_table(path, **options)) == expected
    # The same bytes in a file without an extension.
    format = {"csv": "csv", "tsv": "tsv"}.get(name[2:], "jsonl")
    assert list(read_table(corpus("other", *lines), format=format, **options)) == expected


@pytest.mark.parametrize(
    ("name", "lines", "options", "labels"),
    [
        (
            "a.csv",
            ["text,label", "a,joy|love", "b,", "c, joy |joy||", "d,a| |b|"],
            {"label_separator": "|"},
            [("joy", "love"), (), ("joy",), ("a", "b")],
        ),
        (
            "a.jsonl",
            ['{"text": "a", "label": ["x", 1]}', '{"text": "b", "label": []}', '{"text":"","label":"x;y"}'],
            {"label_separator": ";"},
            [("x", "1"), (), ("x", "y")],
        ),
        (
            "a.jsonl",
            [f'{{"text": "a", "label": {value}}}' for value in ("1", "2.5", "true", '" x "')],
            {},
            ["1", "2.5", "true", "x"],
        ),
    ],
)
def test_labels(corpus, name, lines, options, labels):
    assert [example.label for example in read_table(corpus(name, *lines), **options)] == labels


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@given(rows=st.lists(st.tuples(texts, texts, st.sampled_from("ab")), min_size=1))
def test_what_python_writes_is_read_again(tmp_path_factory, name, rows):
    path, columns = tmp_path_factory.mktemp("table") / name, ("text", "second", "label")
    table = io.StringIO(newline="")
    if name == "a.csv":
        csv.writer(table).writerows([columns, *rows])
    else:
        table.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    path.write_text(table.getvalue(), encoding="utf-8", newline="")
    assert list(read_table(path, second="second")) == [Example(*row) for row in rows]


def test_one_warning_about_quoted_fields_of_a_tsv_file(corpus):
    rows = ["text\tlabel", 'plain "and" simple\t0', '"he said ""hi"" to me"\t1', '"again ""hi"""\t1']
    path = corpus("a.tsv", "\n".join(rows) + "\n")
    with pytest.warns(GraphAttnWarning) as caught:
        examples = list(read_table(path))
    assert [example.text for example in examples][1:] == ['"he said ""hi"" to me"', '"again ""hi"""']
    assert [str(warning.message) for warning in caught if warning.category is GraphAttnWarning] == [
        f"{path}, line 3: a field is in double quotes, which are read as part of it; "
        "quoted=True removes them, quoted=False silences this warning"
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


@pytest.mark.parametrize(
    ("name", "lines", "arguments", "options"),
    [
        ("a.csv", ["sentence,class"], {}, {"text", "columns"}),
        ("a.csv", ["Text,TEXT,label"], {}, {"text", "columns"}),
        ("a.tsv", ["text\tclass"], {}, {"label", "columns"}),
        ("a.jsonl", ['{"text": "a", "label": "b"}'], {"second": "other"}, {"second"}),
        ("a.csv", ["text;label"], {}, {"delimiter"}),
        ("a.csv", ["text,label,text"], {}, set()),
        *(("a.csv", ["text,x,y", f"a,1,{cell}"], {"label": ("x", "y")}, {"label"}) for cell in ("-1", "2", "", "x")),
    ],
)
def test_missing_and_doubled_columns_and_wrong_values(corpus, broken, name, lines, arguments, options):
    path = corpus(name, *lines)
    assert options <= {*broken(read_table(path, **arguments), path, len(lines))}


def test_a_missing_column_has_a_hint(corpus):
    with pytest.raises(DataError) as caught:
        list(read_table(corpus("a.tsv", f"text\tclass\t{'x' * 50}")))
    assert caught.value.message == f"there is no column 'label'; the columns are 'text', 'class', '{'x' * 37}...'"
    assert caught.value.hint == "Set {label} to one of them; if the first line is no header, set {columns}."
    assert caught.value.alternative == "For texts without labels, set {label} to None."
    with pytest.raises(DataError, match=r"the columns are 'tr.en', 'tr.de.text', 'labels.real-label', 'a.b'"):
        list(read_table(corpus("a.jsonl", NESTED), text="tr.fr"))


def test_an_unclosed_quote_does_not_swallow_a_large_file(corpus):
    path = corpus("a.csv", "text,label", '"open,1', *["next,0"] * (MAX_RECORD_LINES + 1_000))
    with open_text(path) as lines:
        rows = QuotedRows(lines, ",")
        assert next(rows) == (1, ["text", "label"])
        with pytest.raises(DataError, match="line 2: the row that begins here"):
            next(rows)
        assert lines.line == 2 + MAX_RECORD_LINES


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


# Lines without a header.


@pytest.mark.parametrize(
    ("name", "lines", "options", "expected"),
    [
        ("a.tsv", ["1\tgood film ", '0\t"bad'], {}, labelled(_1="good film ", _0='"bad')),
        ("a.tsv", ["0\t"], {}, labelled(_0="")),
        ("a", ["one\ttwo\tyes"], {"columns": ("text", "second", "label")}, [Example("one", "two", "yes")]),
        (
            "a",
            ["yes\t9\t17\tone\t\ttwo"],
            {"columns": ["label", None, None, "text", None, "second"]},
            [Example("one", "two", "yes")],
        ),
        ("a", ["one", "", "two", ""], {"columns": "text"}, list(map(Example, ["one", "", "two", ""]))),
        (
            "a",
            ["joy,love\tone", "\ttwo"],
            {"label_separator": ","},
            [Example("one", label=("joy", "love")), Example("two", label=())],
        ),
        # Separators; CSV has commas and quotes, unless a separator is given.
        ("a.txt", ['pos ||| "fine"'], {"separator": " ||| "}, labelled(pos='"fine"')),
        ("a.csv", ['1;"a, b"'], {"separator": ";"}, labelled(_1='"a, b"')),
        (
            "a.csv",
            ['"3","Wall St.","Bears, again', 'and again"'],
            {"columns": ("label", None, "text")},
            labelled(_3="Bears, again\nand again"),
        ),
        (
            "a.csv",
            ["sep=;", '"one; two";1', "three;0"],
            {"columns": ("text", "label")},
            labelled(_1="one; two", _0="three"),
        ),
        (
            "a.csv",
            ["sep=;", "text;label", '"one; two";1'],
            {"columns": ("text", "label"), "header": True},
            labelled(_1="one; two"),
        ),
        (
            "a.txt",
            ["so very good 1", "bad 0"],
            {"columns": ("text", "label"), "separator": " "},
            labelled(_1="so very good", _0="bad"),
        ),
        ("a.label", ["x How far ?", "y When ?"], {"separator": " "}, labelled(x="How far ?", y="When ?")),
        # Fields that only some lines have, and a text in several columns, of which some are empty.
        ("a.tsv", ["1\tone", "0\ttwo\tx\ty"], {"columns": ("label", "text", "...")}, labelled(_1="one", _0="two")),
        ("a.csv", ['1,"one, 1"', "0,two,x"], {"columns": ("label", "text", "...")}, labelled(_1="one, 1", _0="two")),
        (
            "a.csv",
            ['1,Wall St.,"Bears, again"', "0,,Bulls"],
            {"columns": ("label", "text", "text")},
            labelled(_1="Wall St. Bears, again", _0="Bulls"),
        ),
    ],
)
def test_examples_of_lines(corpus, name, lines, options, expected):
    assert list(read_labelled_lines(corpus(name, *lines), **options)) == expected


@pytest.mark.parametrize(("line", "sign"), [('{}\tHe said, "no\t{}', "tabs"), ('{};"a; b, c";{}', "';'")])
def test_a_csv_file_without_commas_between_its_fields(corpus, line, sign):
    path = corpus("a.csv", *(line.format(number % 3, number) for number in range(9)))
    with pytest.warns(Hint, match=f"read {sign} between the fields, not commas"):
        examples = list(read_labelled_lines(path, columns=("label", "text", None)))
    assert examples[1] == Example('He said, "no' if sign == "tabs" else "a; b, c", label="1")
    with pytest.raises(DataError) as caught:
        list(read_table(path))
    assert caught.value.options == (("delimiter",) if sign == "tabs" else ("text", "label", "columns"))


@pytest.mark.filterwarnings("error")
def test_signs_within_quotes_separate_no_fields(corpus):
    path = corpus("a.csv", *(f'{number % 3},"good, really; so {number}"' for number in range(9)))
    assert next(read_labelled_lines(path, columns=("label", "text"))) == Example("good, really; so 0", label="0")


def test_a_comma_in_each_text_separates_no_fields(corpus):
    path = corpus("a.csv", *(f"{number % 3};so good, {number}" for number in range(9)))
    with pytest.warns(Hint, match="read ';' between the fields"):
        assert next(read_labelled_lines(path, columns=("label", "text"))) == Example("so good, 0", label="0")


@pytest.mark.filterwarnings("error")
def test_a_semicolon_after_a_comma_separates_no_fields(corpus):
    path = corpus("a.csv", "pos, a;b", "neg, c;d")
    assert next(read_labelled_lines(path, columns=("label", "text"))).label == "pos"


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


@pytest.mark.parametrize("sign", [";", "|", "\t"])
@pytest.mark.parametrize("quote", ['"', ""])
def test_another_delimiter_in_the_header_is_named(corpus, broken, sign, quote):
    path = corpus("a.csv", f"{quote}text{quote}{sign}{quote}label{quote}", f'"So good, really"{sign}"pos"')
    assert broken(read_table(path), path, 1) == ("delimiter",)
    assert list(read_table(path, delimiter=sign)) == [Example("So good, really", label="pos")]


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


# What an annotator of Prodigy did not accept is no example.

ANSWERS = ("accept", "reject", "ignore", "accept", None)


@pytest.mark.parametrize("task", ["classify", "pair"])
@pytest.mark.parametrize(("labels", "kind"), [("XYYYY", Hint), ("XXXXX", GraphAttnWarning)])
def test_only_accepted_examples_are_read(corpus, task, labels, kind):
    """If these have one label, the others are probably those without it."""
    rows = [
        {
            "text": f"text {number}",
            "second": "b",
            "label": labels[number],
            **({} if answer is None else {"answer": answer}),
        }
        for number, answer in enumerate(ANSWERS)
    ]
    path = corpus("a.jsonl", *map(json.dumps, rows))
    with pytest.warns(kind, match="2 of 5 texts are left out, since their answer is reject or ignore") as caught:
        examples = list(read_corpus(path, task=task))
    assert [warning.category for warning in caught] == [kind]
    assert [example.text for example in examples] == ["text 0", "text 3", "text 4"]


@pytest.mark.parametrize("options", [{"label": None}, {"text": "answer"}, {"label": "answer"}])
def test_an_answer_that_is_no_decision(corpus, options):
    """Without labels each text counts, and a column to read is no decision of an annotator."""
    path = corpus(
        "a.jsonl", '{"text": "a", "label": "x", "answer": "reject"}', '{"text": "b", "label": "y", "answer": "no"}'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(read_corpus(path, **options))) == 2


DISTINCT = [f"{number % 2}\tso good, {number}" for number in range(12)]


@pytest.mark.filterwarnings("ignore:.*as a header")
@pytest.mark.parametrize(
    ("name", "lines", "options", "line", "count"),
    [
        ("a.csv", ["text,label", "so,1", "text,label", "no,0"], {}, 3, 2),
        ("a.tsv", ["text\tlabel", "so\t1", "text\tlabel"], {}, 3, 1),
        ("a.csv", ["text, label", "so,1", "text, label", "no,0"], {}, 3, 2),
        ("a.tsv", ["so\tgood", "yes\t1", "so\tgood"], {"columns": ("text", "label"), "header": True}, 3, 1),
        # in another order, in the middle of examples
        ("a.csv", ["id,text,label", "1,so,1", "label,text,id", "2,no,0"], {}, 3, 2),
        ("a.tsv", [*DISTINCT, "label\tsentence1", *DISTINCT], {}, 13, 24),
        ("a.tsv", [*DISTINCT, '"category"\t"Text"', *DISTINCT], {}, 13, 24),
        ("a.tsv", ["label\tsentence1", *DISTINCT, "label\tsentence1", *DISTINCT], {}, 14, 24),
    ],
)
def test_the_header_of_a_joined_file_is_no_example(corpus, broken, name, lines, options, line, count):
    path = corpus(name, *lines)
    options = {"task": "classify", **options}
    broken(read_corpus(path, **options), path, line)
    bad = []
    read = list(read_corpus(path, skip=bad.append, **options))
    assert (len(bad), len(read)) == (1, count)


def test_names_of_columns_may_be_an_example(corpus):
    """Words and their translations, and in a file that has no header."""
    path = corpus("a.tsv", "dog\tHund", "text\tText", "title\tTitel")
    assert len(list(read_labelled_lines(path, columns=("text", "second")))) == 3
    path = corpus("a.tsv", "1\tso", "0\tno", "label\tsentence")
    assert len(list(read_labelled_lines(path, header=False))) == 3
    path = corpus("a.csv", "text,label", "so,1", "sentence,category")
    assert len(list(read_table(path))) == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", ["Hello\tHallo", "Great movie\tyes"])
def test_a_repeated_example_is_no_header(corpus, first):
    path = corpus("a.tsv", first, *(f"so good, {number}\tsehr gut, {number}" for number in range(30)), first)
    assert len(list(read_labelled_lines(path, columns=("text", "second")))) == 32


def test_a_table_of_one_column_may_repeat_its_header(corpus):
    assert [example.text for example in read_table(corpus("a.csv", "text", "so", "text"), label=None)] == ["so", "text"]


@pytest.mark.parametrize("line", ['pos, "a film"', '"pos", "a film"'])
def test_quotes_after_a_blank(corpus, line):
    with pytest.warns(Hint, match="read quotes after blanks"):
        (example,) = read_table(corpus("a.csv", "label,text", line))
    assert example.text == "a film"
    # After the first lines, the dialect is known.
    with pytest.warns(GraphAttnWarning, match=r"line 302: a field is in double quotes.*delete the blank"):
        list(read_table(corpus("a.csv", "label,text", *["pos,so good"] * 300, line)))


QUOTED = ['"pos"\t"so ""good"""', '"neg"\t"dull\tfilm"', '"pos"\t"fine"', '"neg"\t"bad"']


def test_quoted_fields_between_tabs(corpus):
    """As pandas writes them with QUOTE_ALL; fields with quotes alone need the option."""
    texts = ['so "good"', "dull\tfilm", "fine", "bad"]
    for rows in (QUOTED, ['"class"\t"tweet"', *QUOTED]):
        examples = list(read_labelled_lines(corpus("a.tsv", *rows), header=len(rows) > 4))
        assert [(example.label, example.text) for example in examples] == [*zip(("pos", "neg") * 2, texts, strict=True)]
    minimal = corpus("a.tsv", 'pos\t"so ""good"""', "neg\tdull")
    with pytest.warns(GraphAttnWarning, match="quoted=True"):
        assert next(read_labelled_lines(minimal)).text == '"so ""good"""'
    assert [example.text for example in read_labelled_lines(minimal, quoted=True)] == [texts[0], "dull"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert next(read_labelled_lines(minimal, quoted=False)).text == '"so ""good"""'


@pytest.mark.filterwarnings("ignore:.*inside a field as")
@pytest.mark.parametrize("inner", ['""fine""', r"\"fine\""])
@pytest.mark.parametrize("header", [["sentiment\ttext"], []])
def test_a_column_between_tabs_whose_values_are_all_quoted(corpus, inner, header):
    """As in Kaggle's reviews of films: the header and the labels have no quotes."""
    path = corpus("a.tsv", *header, f'1\t"A {inner} film."', '0\t"Dull,\tso dull."', '1\t"Good."')
    examples = list(read_corpus(path, task="classify", **({"label": "sentiment"} if header else {})))
    assert [example.text for example in examples] == ['A "fine" film.', "Dull,\tso dull.", "Good."]


def test_quotes_within_quotes_after_a_blank(corpus):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (example,) = read_table(corpus("a.csv", "label,text", 'pos," ""Hi"""'))
    assert example.text == ' "Hi"'


@pytest.mark.parametrize("first", ['"Hello."\t"Hallo."', '"Hello," he said, "go."\t"Hallo", sagte er, "geh."'])
def test_a_pair_of_quotations_is_no_quoted_table(corpus, first):
    lines = [first, "Go.\tGeh.", '"Hi," she said.\tHi.']
    examples = read_labelled_lines(corpus("a.tsv", *lines), columns=("text", "second"))
    assert [f"{example.text}\t{example.second}" for example in examples] == lines


def test_no_advice_on_quotes_that_a_separator_does_not_have(corpus):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (example,) = read_labelled_lines(corpus("a.txt", 'pos ||| "so ""good"""'), separator=" ||| ")
    assert example.text == '"so ""good"""'


def test_no_quotes_in_csv_without_names(corpus):
    path = corpus("a.csv", 'so \\"good\\",pos', 'dull",neg')
    texts = [example.text for example in read_labelled_lines(path, columns=("text", "label"), quoted=False)]
    assert texts == ['so \\"good\\"', 'dull"']


@pytest.mark.parametrize(("name", "options"), [("a.tsv", {}), ("a.txt", {"columns": ("label", "text")})])
@pytest.mark.parametrize("field", ['"a film\nso good"', '"a film\n\nso ""good"""'])
def test_line_breaks_in_quoted_cells_of_tsv(tmp_path, name, options, field):
    path = tmp_path / name
    path.write_text(f"{'' if options else 'label<text'}\npos<{field}\nneg<dull\n".lstrip().replace("<", "\t"))
    with pytest.raises(DataError) as caught:
        list(read_corpus(path, task="classify", **options))
    assert "quoted" in caught.value.options
    examples = list(read_corpus(path, task="classify", quoted=True, **options))
    assert [(example.label, example.text.split()[0]) for example in examples] == [("pos", "a"), ("neg", "dull")]


def test_a_comma_in_a_text_without_quotes(corpus):
    path = corpus("a.csv", "pos,so good", "neg,dull", "neg,so dull, really")
    with pytest.raises(DataError, match="must be in double quotes"):
        list(read_corpus(path, columns=("label", "text")))


# Dialects of CSV.

TEXTS = ["So good, really", "It's 'bad'", 'He said "no", twice', "C:\\temp", "two\nlines", "so plain", ""]
DIALECTS = {
    "single": (["'So good, really',pos", "'It''s bad',neg", "fine,pos"], ["So good, really", "It's bad", "fine"]),
    "not doubled": (["'So good, really',pos", "it's bad,neg"], ["So good, really", "it's bad"]),
    "single, escaped": (["'It\\'s so good',pos", "'bad, really',neg"], ["It's so good", "bad, really"]),
    "all": (["'good','pos'", "'bad','neg'"], ["good", "bad"]),
    "escaped": (
        ['"He said \\"no\\", twice",pos', '"C:\\temp, so",neg', '"so ""fine""",neg', '"at the end \\"",pos'],
        ['He said "no", twice', "C:\\temp, so", 'so "fine"', 'at the end "'],
    ),
    "blanks": (
        ['"so good, really", pos', ' "bad, really",neg', "it's, neg"],
        ["so good, really", "bad, really", "it's"],
    ),
    "blanks, escaped": ([' "so \\"good\\", really", "pos"', "bad, neg"], ['so "good", really', "bad"]),
}


@pytest.mark.parametrize("kind", DIALECTS)
def test_dialects_of_csv(corpus, kind):
    lines, expected = DIALECTS[kind]
    header = "'text','label'" if kind == "all" else "text,label"
    with pytest.warns(Hint) as caught:
        examples = list(read_corpus(corpus("a.csv", header, *lines), task="classify"))
    assert len(caught) == 1
    assert [example.text for example in examples] == expected
    assert {example.label for example in examples} == {"pos", "neg"}
    # Without names, and between semicolons.
    path = corpus("a.csv", *(line.replace(",", ";") for line in lines * 3))
    with pytest.warns(Hint, match="';' between"), pytest.warns(Hint, match="inside|fields in|quotes after"):
        examples = list(read_corpus(path, columns=("text", "label"), task="classify"))
    assert [example.text for example in examples] == [text.replace(",", ";") for text in expected] * 3


@pytest.mark.parametrize("more", [(), ("...",)])
def test_texts_in_single_quotes_are_not_cut(corpus, more):
    """Neither where most texts have the separator, nor where further fields are skipped."""
    path = corpus("a.csv", "pos,'so good, really'", "neg,'dull, so dull'", "neg,bad")
    with pytest.warns(Hint, match="read fields in single quotes"):
        examples = list(read_corpus(path, columns=("label", "text", *more)))
    assert [example.text for example in examples] == ["so good, really", "dull, so dull", "bad"]


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("escape", [None, "\\"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
def test_other_dialects_that_python_writes(tmp_path, quote, escape, quoting):
    path = tmp_path / "a.csv"
    with open(path, "w", newline="") as file:
        style = {"quotechar": quote, "escapechar": escape, "doublequote": escape is None}
        writer = csv.writer(file, quoting=quoting, lineterminator="\n", **style)
        writer.writerows([("text", "label"), *((text, number) for number, text in enumerate(TEXTS))])
    assert list(read_table(path)) == [Example(text, label=str(number)) for number, text in enumerate(TEXTS)]


STANDARD_FILES = [
    ["'Tis so good,pos", "'Twas bad,neg", "it's so,pos"],
    ["'good',pos", "'bad',neg"],
    ["'good',pos", "so 'bad',neg", "rock 'n' roll,pos"],
    ["\"'So good, really,' he said\",pos", "'tis bad,neg", '"so ""good"", \'tis\'",pos'],
    ["\"'tis, 'tis\",pos", '"two\nlines, it\'s",neg'],
    ['"C:\\",pos', '"C:\\temp, so",neg', 'so \\"good\\",pos'],
    ["',pos", "',neg", "'',pos"],
    ['so "good" , pos', '"a ""b""", neg'],
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lines", STANDARD_FILES)
def test_apostrophes_and_backslashes_of_standard_files(corpus, lines):
    path = corpus("a.csv", "text,label", *lines)
    with open(path, newline="") as file:
        expected = [Example(text, label=label.strip()) for text, label in csv.reader(file)][1:]
    assert list(read_table(path)) == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["'Tis good, really,pos", "bad,neg"], 2),
        (["good,pos", "'Good', he said, 'really',pos"], 3),
        (['"one, two",pos', "'three, four',neg"], 3),
        (["good,pos", "'one, two' or so,neg"], 3),
        (['"C:\\",pos', "so, good,neg"], 3),
        (['"one, two",pos', '"three" \\", four",neg'], 3),
    ],
)
def test_no_dialect_without_evidence(corpus, broken, lines, line):
    path = corpus("a.csv", "text,label", *lines)
    broken(read_table(path), path, line)


def test_words_that_are_quotes_choose_no_dialect(corpus):
    words = ["'", "'", "so", "'s", "''", "'", "it"]
    path = corpus("a.csv", "sentence_id,word,tag", *(f"{at // 3},{word},O" for at, word in enumerate(words)))
    columns = {"sentence_column": "sentence_id", "token_column": "word", "tag_column": "tag"}
    assert [word for sentence in read_corpus(path, task="tag", **columns) for word in sentence.tokens] == words


MANY = ["so good,pos", '"bad, really",neg'] * 150


@pytest.mark.parametrize(
    ("line", "repaired"),
    [
        ("'So good, really',pos", '"So good, really",pos'),
        ('"He said \\"no\\"",pos', '"He said ""no""",pos'),
        ('"He said \\"no\\", twice",pos', '"He said ""no"", twice",pos'),
        (' "So good, really",pos', '"So good, really",pos'),
        ('"So good" ,pos', '"So good",pos'),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_advice_for_a_dialect_after_the_first_lines_helps(corpus, line, repaired, named):
    lines = ["text,label"] * named + MANY
    options = {} if named else {"columns": ("text", "label")}
    with pytest.raises(DataError) as caught:
        list(read_corpus(corpus("a.csv", *lines, line, "fine,pos"), task="classify", **options))
    assert caught.value.line == len(lines) + 1
    assert "double quotes" in caught.value.hint or "double each quote" in caught.value.hint
    assert "{" not in caught.value.hint  # neither quoted=False nor more columns, which cut the text
    examples = list(read_corpus(corpus("a.csv", *lines, repaired, "fine,pos"), task="classify", **options))
    assert len(examples) == 302


def test_without_quoted_separators_a_table_can_be_read_without_quotes(corpus):
    path = corpus("a.csv", "text,label", *["so good,pos"] * 300, '"no" so,neg')
    with pytest.raises(DataError) as caught:
        list(read_table(path))
    assert caught.value.options == ("quoted",)
    assert list(read_table(path, quoted=False))[-1] == Example('"no" so', label="neg")


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_quotes_of_a_file_with_a_given_separator(corpus, quote, separator):
    path = corpus("a.csv", f"pos{separator}{quote}so good{separator}really{quote}", f"neg{separator}dull")
    options = {"columns": ("label", "text"), "separator": separator}
    with pytest.raises(DataError) as caught:
        list(read_corpus(path, **options))
    assert "quoted" in caught.value.options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Hint)
        examples = list(read_corpus(path, quoted=True, **options))
    assert [example.text for example in examples] == [f"so good{separator}really", "dull"]


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")
@pytest.mark.parametrize(
    ("line", "repaired"), [("'Tis good,pos", "'''Tis good',pos"), ("so good, really,pos", "'so good, really',pos")]
)
def test_errors_of_a_dialect_name_its_quotes(corpus, line, repaired):
    lines = ["text,label", "'So good, really',pos", "'It''s bad, really',neg", *["fine,pos"] * 300]
    with pytest.raises(DataError) as caught:
        list(read_table(corpus("a.csv", *lines, line)))
    assert caught.value.line == len(lines) + 1
    assert "single quote" in f"{caught.value.message} {caught.value.hint}"
    assert len(list(read_table(corpus("a.csv", *lines, repaired)))) == len(lines)
