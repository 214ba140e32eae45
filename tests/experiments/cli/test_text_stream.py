"""Texts to predict: detection of formats, and optional labels."""

import gzip
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphattn.builders import Example, Sentence, TextGraphBuilder, Window
from graphattn.builders._text_lines import open_text
from graphattn.builders.readers._read_corpus import describe_corpus
from graphattn.builders.store import CorpusFile, StoreSettings, build_store
from graphattn.exceptions import ConfigError, DataError, Hint
from graphattn.experiments._cli.corpus_options import CorpusOptions
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.text_stream import read_numbered_texts, read_texts


def read(path, task="classify", **options):
    return list(read_texts(str(path), task, CorpusOptions(**options)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\n\ntwo", ["one", "", "two"]),
        ("a", "one\ttwo\n", ["one\ttwo"]),
        ("a.csv", 'text\n"one, two"\n', [Example("one, two")]),
        ("a.tsv", "label\ttext\nx\tone\n", [Example("one")]),
        ("a.ndjson", '{"text": "one"}\n', [Example("one")]),
        ("a.conll", "one X\ntwo X\n\n", [Sentence(["one", "two"])]),
    ],
)
def test_the_extension_determines_the_format(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name) == expected
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(packed) == expected


@pytest.mark.parametrize("task", ["classify", "tag", "translate"])
def test_the_files_of_a_folder_are_texts(tmp_path, task):
    for name, content in {"b/1": b"two", "a/2": b"\xff", "a/1": b"one\n\nmore\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    texts = list(read_numbered_texts(str(tmp_path), task, CorpusOptions()))
    assert [text.line for text in texts] == [1, 2, 3]
    assert [text.content for text in texts] == [Example("one\n\nmore", label="a"), None, Example("two", label="b")]
    assert texts[1].error.path == str(tmp_path / "a" / "2")


def test_the_text_files_of_a_folder_need_no_classes(tmp_path):
    (tmp_path / "2.txt").write_text("two")
    (tmp_path / "1.txt").write_text("one")
    assert read(tmp_path) == [Example("one"), Example("two")]
    with pytest.raises(DataError):
        read(tmp_path, "pair")


def test_rows_of_parquet_need_no_labels(tmp_path):
    pq.write_table(pa.table({"text": ["one", "two"], "id": [1, 2]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [Example("one"), Example("two")]


@pytest.mark.parametrize(
    ("name", "content", "task", "expected"),
    [
        ("a.json", '{"text": "one", "label": "x"}\n', "classify", [Example("one")]),
        ("a.txt", "well, one\nand two, label\n", "classify", ["well, one", "and two, label"]),
        ("a.txt", "one X\ntwo X\n\na Y\n", "classify", ["one X", "two X", "", "a Y"]),
        ("a.tsv", "Ada\tN\nwent\tV\nRome\tN\n", "tag", [Sentence(["Ada", "went", "Rome"])]),
        ("a.tsv", "Ada/N went/V\nand/or/C\n", "tag", [Sentence(["Ada", "went"], tags=["N", "V"]),
                                                      Sentence(["and/or"], tags=["C"])]),
        ("a.txt", "good film\nbad film\n", "tag", ["good film", "bad film"]),
        ("a.txt", "dogs bark\n\ncats sleep\n", "tag", ["dogs bark", "", "cats sleep"]),
        ("a.txt", "dogs bark .\n\ncats sleep .\n", "tag", ["dogs bark .", "", "cats sleep ."]),
        ("a.tsv", "dogs bark\tHunde bellen\na\tb\n", "translate", [Example("dogs bark", "Hunde bellen"),
                                                                       Example("a", "b")]),
        ("a.tsv", "second\ttext\na\tb\n", "translate", [Example("b")]),
        ("a.txt", "dogs bark\tHunde bellen\na\tb\n", "translate", [Example("dogs bark", "Hunde bellen"),
                                                                      Example("a", "b")]),
        ("en-de", "dogs bark ||| Hunde bellen\na ||| b\n", "translate", [Example("dogs bark", "Hunde bellen"),
                                                                         Example("a", "b")]),
        ("a.tsv", "a|||b\n", "translate", [Example("a", "b")]),
        ("a.txt", "a || b\n", "translate", ["a || b"]),
        ("en-de", "a ||| b\n", "classify", ["a ||| b"]),
        ("a.txt", "and/or yes/no\n", "tag", ["and/or yes/no"]),
        ("a.txt", "01/02/2020\n03/04/2020\n", "tag", ["01/02/2020", "03/04/2020"]),
        ("a.txt", "NASA/JPL\n", "tag", ["NASA/JPL"]),
        ("a.txt", "https://example.org/a https://example.org/b\n", "tag",
         ["https://example.org/a https://example.org/b"]),
        ("a.tsv", "le/det chat/nc dort/v ./pct\nun/det chat/nc et/cc un/det chien/nc dorment/v\n", "tag",
         [Sentence("le chat dort .".split(), tags=["det", "nc", "v", "pct"]),
          Sentence("un chat et un chien dorment".split(), tags=["det", "nc", "cc", "det", "nc", "v"])]),
        ("a.tsv", "Ada B-PER\nRome B-LOC\n", "tag", [Sentence(["Ada", "Rome"])]),
        ("a.tsv", "The O\ndog O\nruns O\n", "tag", [Sentence(["The", "dog", "runs"])]),
        ("a.txt", "Type O\nBlood O\n", "tag", ["Type O", "Blood O"]),
        ("a.txt", "take B-12\nneed B-6\n", "tag", ["take B-12", "need B-6"]),
        ("a.txt", "die U-Bahn\ndas E-Auto\n", "tag", ["die U-Bahn", "das E-Auto"]),
        ("a.tsv", "Source\tQuelle\nA dog\tEin Hund\n", "translate", [Example("A dog", "Ein Hund")]),
        ("a.txt", "1\tyes\n2\tno\n3\tno\n", "tag", ["1\tyes", "2\tno", "3\tno"]),
        ("a.jsonl", '{"tokens": ["one"], "tags": ["X"]}\n', "tag", [Sentence(["one"])]),
        ("a.txt", "__label__x one\n__label__x __label__y two\n", "classify", [Example("one", label="x"),
                                                                              Example("two", label=("x", "y"))]),
    ],
)  # fmt: skip
def test_markup_is_not_split_into_words(tmp_path, name, content, task, expected):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name, task) == expected


@pytest.mark.parametrize(
    ("content", "task", "format", "expected"),
    [
        ('{"name": "one"}\n', "classify", "jsonl", None),
        ("text,label\none,x\n", "classify", "csv", [Example("one")]),
        ("label\ttext\nx\tone\n", "classify", "tsv", [Example("one")]),
        ("0\tno movement\n1\ta film\n", "classify", "labelled", [Example("no movement", label="0"),
                                                                Example("a film", label="1")]),
        ("one X\ntwo X\n\na Y\n", "tag", "conll", [Sentence(["one", "two"]), Sentence(["a"])]),
        ("Ada B-PER\nwent O\nhome O\n", "tag", "conll", [Sentence(["Ada", "went", "home"])]),
        ("Ada/N went/V\nto/P\n", "tag", "word/tag", [Sentence(["Ada", "went"], tags=["N", "V"]),
                                                   Sentence(["to"], tags=["P"])]),
    ],
)  # fmt: skip
def test_an_ambiguous_file_needs_a_format(tmp_path, set_stdin, content, task, format, expected):
    path = tmp_path / "a.txt"
    path.write_text(content)
    for source, name in ((path, str(path)), ("-", "standard input")):
        set_stdin(content)
        with pytest.raises(DataError) as caught:
            read(source, task)
        assert caught.value.render(as_flag) == (
            f"{name}: could be {format!r} or plain text. Set --format to {format}, or to text if each line is a text."
        )
    assert read(path, task, format="text") == content.splitlines()
    if expected is not None:
        assert read(path, task, format=format) == expected


REVIEWS = [Example("good film", label="x"), Example("bad film", label="y")]


@pytest.mark.parametrize(
    ("name", "content", "task", "options", "expected"),
    [
        ("a", "don't stop .\n\n", "classify", {"format": "words"}, [["don't", "stop", "."], []]),
        ("a.txt", "x\tgood film\ny\tbad film\n", "classify", {"format": "labelled"}, REVIEWS),
        ("a.txt", "one two\tthree\n", "classify", {"columns": ("text", "label")}, [Example("one two", label="three")]),
        ("a.csv", '"3","a","One, two"\n', "classify", {"columns": ("label", "none", "text")},
         [Example("One, two", label="3")]),
        ("a.txt", "one\ttwo\n", "pair", {}, [Example("one", "two")]),
        ("a.jsonl", '{"text": "one", "second": "two"}\n', "pair", {}, [Example("one", "two")]),
        # tabs in texts
        ("a.txt", "one two\tthree four\none\ttwo\n", "classify", {}, ["one two\tthree four", "one\ttwo"]),
        ("a.txt", "1\tone text\n2\tone text\n" * 10, "classify", {}, ["1\tone text", "2\tone text"] * 10),
        ("a.txt", "x\tone two\nx\ta\n", "tag", {}, ["x\tone two", "x\ta"]),
        ("a.txt", "call, text, or email\nhello, you, there\n", "classify", {},
         ["call, text, or email", "hello, you, there"]),
        # a header is no labelled text, and names both columns of a table to translate; or options say so
        ("a.tsv", "stars!\ttext\n5\tone\n5\ttwo\n", "classify", {}, [Example("one"), Example("two")]),
        ("a.tsv", "stars!\twhat was said?\n5\tone\n5\ttwo\n", "classify", {"text_column": "what was said?"},
         [Example("one"), Example("two")]),
        ("a.tsv", '"Text"\t"x"\n"dogs bark"\t"y"\n', "translate", {"text_column": "Text"}, [Example("dogs bark")]),
        ("b.tsv", 'text\t"x"\n"dogs"\t"y"\n', "translate", {"quoted": True}, [Example("dogs")]),
        ("d.txt", "1\tThe\tDT\n2\tdog\tNN\n", "tag", {"token_column": 1}, [Sentence(["The", "dog"])]),
    ],
)  # fmt: skip
def test_options_and_headers_say_what_is_a_text(tmp_path, name, content, task, options, expected):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name, task, **options) == expected


def test_a_named_pipe_is_read_like_a_file(tmp_path):
    os.mkfifo(tmp_path / "c.tsv")
    writer = threading.Thread(target=(tmp_path / "c.tsv").write_text, args=["text\tx\ndogs\ty\n"])
    writer.start()
    assert read(tmp_path / "c.tsv", "translate") == [Example("dogs", "y")]
    writer.join(timeout=120)


@pytest.mark.parametrize(
    ("task", "content", "expected"),
    [
        ("classify", "{see below}\n", ["{see below}"]),
        ("tag", "AC/DC TCP/IP\nHello world\n", ["AC/DC TCP/IP", "Hello world"]),
        ("classify", '{"text": "one"}\n', [Example("one")]),
        ("classify", "# sent_id = 1\n" + "\t".join(["1", "one", *"____0___"]) + "\n", [Sentence(["one"], heads=[0])]),
    ],
)
def test_standard_input_is_read_like_a_file(task, content, expected, set_stdin):
    set_stdin(content)
    assert read("-", task) == expected


def test_a_stream_is_read_lazily():
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        stream.write("one\n")
        stream.flush()
        texts = read_texts("-", "classify", CorpusOptions(), sample_lines=1)
        assert next(texts) == "one"
        stream.write("two\n")
        stream.flush()
        assert next(texts) == "two"


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u0085", "\u2028", "\x1c", "\u200b"])
def test_words_have_blanks_that_are_not_of_ascii(tmp_path, blank):
    (tmp_path / "a").write_text(f"10{blank}000 km\t{blank}\n{blank}\n", encoding="utf-8")
    assert read(tmp_path / "a", format="words") == [[f"10{blank}000", "km", blank], [blank]]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.task.test", "a.tsv.gz"])
@pytest.mark.parametrize(
    ("task", "content", "expected"),
    [
        ("classify", "x\tgood film\ny\tbad film\nx\tfilm\n", [Example("good film", label="x"),
         Example("bad film", label="y"), Example("film", label="x")]),
        ("classify", "good film\tx\nbad film\tx\n", [Example("good film", label="x"), Example("bad film", label="x")]),
        ("classify", "__label__x good film\n__label__y film\n", [Example("good film", label="x"),
         Example("film", label="y")]),
        ("pair", "a b\tc d\tx\na\tc d\tx\n", [Example("a b", "c d", "x"), Example("a", "c d", "x")]),
    ],
)  # fmt: skip
def test_labels_are_not_part_of_the_texts(tmp_path, name, task, content, expected):
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read(tmp_path / name, task) == expected


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.txt", "x\tgood film\n\tbad film\nx\tfilm\nx\tmore\n", {}),
        ("a.tsv", "good film\tx\nbad film\t\nfilm\tx\nmore\tx\n", {}),
        ("a.csv", 'x,good film\n"",bad film\nx,film\nx,more\n', {"columns": ("label", "text")}),
        ("a.txt", "__label__x good film\n__label__ bad film\n__label__x film\n__label__x more\n", {}),
        ("b.txt", "__label__x good film\nbad film\n__label__x film\n__label__x more\n", {}),
    ],
)
def test_a_label_may_be_empty(tmp_path, name, content, options):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name, **options) == [
        Example("good film", label="x"), Example("bad film"), Example("film", label="x"), Example("more", label="x"),
    ]  # fmt: skip


@pytest.mark.parametrize("label", ['""', "null", '" "'])
def test_a_label_in_json_may_be_empty(tmp_path, label):
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "kind": "x"}}\n{{"text": "b", "kind": {label}}}\n')
    texts = read_texts(str(tmp_path / "a.jsonl"), "classify", CorpusOptions(), label_column="kind")
    assert list(texts) == [Example("a", label="x"), Example("b")]


def test_a_store_with_another_split_rule(tmp_path):
    (tmp_path / "a.tsv").write_text("x\tdon't go\ny\tno\n")
    settings = StoreSettings(TextGraphBuilder([Window(3)]), learn={"split": "whitespace"})
    build_store([CorpusFile(tmp_path / "a.tsv")], tmp_path / "s", settings)
    with pytest.raises(ConfigError) as caught:
        list(read_texts(str(tmp_path / "s"), "classify", CorpusOptions(), split="words"))
    assert str(caught.value).startswith("the store's texts were tokenized by the rule 'whitespace', not 'words'; ")
    assert len(list(read_texts(str(tmp_path / "s"), "classify", CorpusOptions(), split="whitespace"))) == 2


@pytest.mark.parametrize(
    ("name", "line", "hint"),
    [
        ("a.tsv", "Ada ran, home", "Set --format to text if each line is a text, or --text-column to the header"),
        ("a.tsv", "id\tsentence", "Set --text-column to one of them; if the first line is no header, set --columns."),
    ],
)
def test_an_error_names_options_that_help(tmp_path, name, line, hint):
    (tmp_path / name).write_text(f"{line}\nx, y\n")
    with pytest.raises(DataError) as caught:
        read(tmp_path / name, "tag")
    assert hint in caught.value.render(as_flag)


@pytest.mark.parametrize(
    ("text", "task", "options", "expected"),
    [
        ("a lovely film.", "classify", {}, "a lovely film."),
        ("good", "classify", {}, "good"),
        ("", "classify", {}, ""),
        ("either/or, said 2.5 of them", "classify", {}, "either/or, said 2.5 of them"),
        ("a b.", "tag", {"format": "words"}, ["a", "b."]),
        ("a film\ta play", "pair", {}, ("a film", "a play")),
        ("x" * 5000, "classify", {}, "x" * 5000),
    ],
)
def test_a_text_instead_of_a_file(text, task, options, expected):
    assert list(read_texts(text, task, CorpusOptions(**options))) == [expected]


@pytest.mark.parametrize(
    "path", ["revews.tsv", "data/reviews", "my revews.csv", "./no such", "/no such", "../x", "r.parquet", "text.v2"]
)
def test_a_mistyped_path_is_no_text(path):
    with pytest.raises(DataError, match="there is no such file"):
        next(read_texts(path, "classify", CorpusOptions()))


def test_a_text_that_is_no_pair():
    with pytest.raises(DataError, match="not a pair of texts, and no file"):
        read_texts("a film", "pair", CorpusOptions())


@pytest.mark.parametrize("names", ["sentence,text,label", "doc,text,label", "sentence,word,tag"])
@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".txt", "\t")])
def test_a_table_of_words_is_read_as_the_training_corpus(tmp_path, names, by_number, suffix, separator):
    """Also names that say nothing by themselves, without tags and in another order."""
    names = names.split(",")
    rows = [(at // 2, word, tag) for at, (word, tag) in enumerate([("Ada", "PER"), ("left", "O"), ("Rome", "LOC")])]
    train, new = tmp_path / f"train{suffix}", tmp_path / f"new{suffix}"
    train.write_text("".join(separator.join(map(str, row)) + "\n" for row in [names, *rows]))
    new.write_text("".join(separator.join(map(str, row[1::-1])) + "\n" for row in [names, *rows]))
    columns = {"sentence_column": 0 if by_number else names[0], "token_column": 1 if by_number else names[1]}
    with open_text(train) as lines:
        training = describe_corpus(lines, format="word-table", task="tag", **columns)
    for path in (train, new):
        texts = read_texts(str(path), "tag", CorpusOptions(), training=training, labels=("PER", "O", "LOC"))
        assert [text.tokens for text in texts] == [("Ada", "left"), ("Rome",)]


def test_a_csv_file_in_single_quotes_like_the_training_corpus(tmp_path):
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    train.write_text("'Text','label'\n'so good, really','pos'\n'it''s bad','neg'\n")
    new.write_text("id,text\n1,'so good, really'\n2,'it''s bad'\n")
    with open_text(train) as lines:
        training = describe_corpus(lines, format="auto", task="classify")
    for path in (train, new):
        with pytest.warns(Hint, match="single quotes"):
            texts = list(read_texts(str(path), "classify", CorpusOptions(), training=training, labels=("pos", "neg")))
        assert [text.text for text in texts] == ["so good, really", "it's bad"]
