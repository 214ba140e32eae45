import gc
import gzip
import io
import lzma
import tracemalloc
import warnings
from itertools import islice

import pytest

from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._text_lines import read_numbered_lines
from graphattn.builders.readers import read_corpus, read_parallel, register_reader
from graphattn.builders.readers._formats import FORMATS
from graphattn.exceptions import ConfigError, DataError

CONLLU = "\t".join(["1", "Dogs", "dog", "NOUN", "NNS", "_", "0", "root", "_", "_"])
# For each format its lines, without those before the first example, and the options it needs.
LINES = {
    "csv": (["text,label"], ["a b,1"], {}),
    "tsv": (["text\tlabel"], ["a b\t1"], {}),
    "jsonl": ([], ['{"text": "a b", "label": 1}'], {}),
    "labelled": ([], ["1\ta b"], {}),
    "fasttext": ([], ["__label__1 a b"], {}),
    "conll": ([], ["a O", "b O", ""], {}),
    "word/tag": ([], ["a/O b/O"], {}),
    "word-table": (["word,tag"], ["a,O", "b,O", ""], {}),
    "conllu": ([], [CONLLU, ""], {}),
    "conllup": (["# global.columns = ID FORM UPOS"], ["1\ta\tX", "2\tb\tX", ""], {}),
    "sentences": ([], ['{"tokens": ["Dogs", "bark"], "heads": [2, 0]}'], {}),
    "spans": ([], ['{"text": "a b", "spans": [{"start": 0, "end": 1, "type": "X"}]}'], {}),
    "webanno": (["#FORMAT=WebAnno TSV 3.3", "#T_SP=custom.Place|", ""], ["1-1\t0-1\ta\t*\t", ""], {}),
}
formats = pytest.mark.parametrize("name", LINES)


class Endless(io.RawIOBase):
    """A stream that repeats its lines forever and counts the bytes read from it."""

    def __init__(self, head, lines):
        self.pending = "".join(line + "\n" for line in head).encode()
        self.block = "".join(line + "\n" for line in lines).encode() * 100
        self.served = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        while len(self.pending) < len(buffer):
            self.pending += self.block
        count = len(buffer)
        buffer[:], self.pending = self.pending[:count], self.pending[count:]
        self.served += count
        return count


def test_every_format_is_tested():
    assert LINES.keys() == FORMATS.keys() - {"folder"}  # which has no lines


@formats
def test_reading_is_lazy_and_needs_constant_memory(set_stdin, name):
    head, lines, options = LINES[name]
    endless = Endless(head, lines)
    set_stdin(endless)
    items = read_corpus("-", format=name, **options)
    assert endless.served == 0 or name == "labelled"  # its columns are detected
    first = next(items)
    assert isinstance(first, Sentence if "tag" in FORMATS[name].tasks else Example)
    assert endless.served <= 1 << 17
    tracemalloc.start()
    for item in islice(items, 2_000):
        assert item == first
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300_000


@pytest.mark.parametrize("name", sorted(LINES.keys() - {"word-table"}))  # whose numbers differ, see test_word_table.py
def test_formats_are_detected(corpus, set_stdin, name):
    head, lines, options = LINES[name]
    path = corpus(f"a.{name}" if name in ("csv", "conllu") else "a.txt", *head, *lines * 3)
    items = list(read_corpus(path))
    assert items == list(read_corpus(path, format=name, **options))
    assert len(items) == 3
    for data in (path.read_bytes(), gzip.compress(path.read_bytes())):
        set_stdin(data)
        assert list(read_corpus("-")) == items


@pytest.mark.parametrize(
    ("name", "lines", "options"),
    [
        ("a.csv", ["text,second,label", "one,two,1"], {}),
        ("a.tsv", ["s1\ts2\tlabel", "one\ttwo\t1"], {"text": "s1", "second": "s2"}),
        ("a.jsonl", ['{"text": "one", "second": "two", "label": 1}'], {}),
        ("a.tsv", ["one\ttwo\t1"], {"columns": ("text", "second", "label")}),
        ("a.tsv", ["1\tone\ttwo", "1\tone one\ttwo two"], {}),
    ],
)
def test_pairs(corpus, name, lines, options):
    assert next(read_corpus(corpus(name, *lines), task="pair", **options)) == Example("one", "two", "1")


def test_options_and_task_restrict_the_formats(corpus):
    path = corpus("a.tsv", "pos\t9\tid\ta film", "neg\t1\tid\tdull")
    assert next(read_corpus(path, columns=("label", None, None, "text"))) == Example("a film", label="pos")
    path = corpus("b.tsv", "Dogs NNS O", "bark VBP O")
    assert next(read_corpus(path, tag_column=1)) == Sentence(("Dogs", "bark"), tags=("NNS", "VBP"))
    path = corpus("c.tsv", "Dogs\tN", "bark\tV", "howl\tV")
    assert next(read_corpus(path, task="tag")) == Sentence(("Dogs", "bark", "howl"), tags=("N", "V", "V"))
    assert next(read_corpus(path, task="classify")) == Example("Dogs", label="N")


def test_columns_of_standard_input(set_stdin):
    for task, line, expected in (
        ("classify", "text 1\t1", Example("text 1", label="1")),
        ("pair", "1\ta b\tc d", Example("a b", "c d", label="1")),
    ):
        set_stdin(line)
        assert list(read_corpus("-", format="labelled", task=task)) == [expected]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            {"format": "xml"},
            ("format",),
            "'conll', 'conllu', 'conllup', 'csv', 'fasttext', 'folder', 'jsonl', 'labelled', ",
        ),
        ({"text_column": "a"}, (), "Did you mean 'text'?"),
        ({"comment": "#", "prefix": "_"}, ("format", "comment", "prefix"), "no format has all of the options"),
        ({"task": "translate"}, (), "there is no task 'translate'"),
        ({"format": "fasttext", "task": "pair"}, ("format",), "'csv', 'jsonl', 'labelled', 'tsv'"),
        ({"format": "conllu", "text": "a", "label": "b"}, ("format", "label", "text"), "has no option label and text"),
        ({"task": "tag", "text": "a"}, ("format", "text"), "for task 'tag'"),
        ({"task": "classify", "columns": ("text", "second", "label")}, ("columns",), "a classifier takes one text"),
    ],
)
def test_contradictions(arguments, options, message):
    with pytest.raises(ConfigError) as caught:
        read_corpus("missing", **arguments)
    assert caught.value.options == options
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "line"), [("a.csv", "text,label"), ("a.conllu", "# newdoc"), ("a.conll", "")])
def test_a_corpus_without_examples(corpus, name, line):
    path = corpus(name, line)
    with pytest.raises(DataError) as caught:
        list(read_corpus(path))
    assert str(caught.value) == f"{path}: has no example. Give a file with at least one."


@pytest.mark.parametrize("content", [b"", b"\0\1\2", b"caf\xe9\n"])
@formats
def test_files_without_text_are_rejected_in_every_format(tmp_path, name, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    for format in ("auto", name):
        with pytest.raises(DataError, match=r"is empty|holds a NUL byte|is not UTF-8"):
            list(read_corpus(path, format=format))
    with pytest.raises(DataError, match="there is no such file"):
        list(read_corpus(tmp_path / "missing", format=name))


def test_options_must_match_the_detected_format(corpus):
    path = corpus("a.txt", "__label__x one", "__label__y two", "__label__x three")
    with pytest.raises(ConfigError) as caught:
        read_corpus(path, task="classify", label_separator="|")
    assert caught.value.options == ("format", "label_separator")


def test_only_some_formats_support_several_labels(corpus):
    fasttext, table = corpus("a.txt", *["__label__x __label__y one"] * 3), corpus("a.csv", "text,label", "one,x")
    assert next(read_corpus(fasttext, multilabel=True)).label == ("x", "y")
    assert next(read_corpus(table, multilabel=True)).label == "x"


@pytest.fixture
def stars():
    """A reader of texts with their rating in stars, registered while the test runs."""

    def read_stars(path, *, star="*", skip=None):
        for number, line in read_numbered_lines(path):
            if star not in line:
                raise DataError("no star", path=path, line=number)
            yield Example(line.rstrip(star), label=str(line.count(star)))

    register_reader("stars", read_stars, tasks=["classify"], extensions=[".stars"])
    yield "stars"
    del FORMATS["stars"]


def test_readers_can_be_registered(corpus, stars):
    path = corpus("a.stars", "good**", "bad*")
    expected = [Example("good", label="2"), Example("bad", label="1")]
    assert list(read_corpus(path)) == list(read_corpus(path, format=stars, task="classify")) == expected
    assert list(read_corpus(corpus("a.txt", "good!!"), format=stars, star="!")) == expected[:1]
    with pytest.raises(ConfigError, match="'stars'"):
        read_corpus(path, format="star")
    with pytest.raises(ConfigError, match="does not serve task 'tag'"):
        read_corpus(path, format=stars, task="tag")
    with pytest.raises(DataError, match="line 2: no star"):
        list(read_corpus(corpus("a", "good*", "bad"), format=stars))


# Sources and targets.

TREE = "1\tDogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def write(tmp_path):
    def make(name, content):
        path = tmp_path / name
        opener = gzip.open if name.endswith(".gz") else lzma.open if name.endswith(".xz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            file.write(content)
        return path

    return make


@pytest.mark.parametrize(
    ("names", "content", "sources"),
    [
        (("a.en", "a.de"), "A dog.\nA cat.\n", ["A dog.", "A cat."]),
        (("a.en.gz", "a.de.xz"), "A dog.\nA cat.\n", ["A dog.", "A cat."]),
        (("a.txt", "a.de"), "A dog.\nA cat.\n", ["A dog.", "A cat."]),
        (("a.conllu", "a.de"), TREE * 2, [Sentence(("Dogs", "bark"), heads=(2, 0), deprels=("nsubj", "root"))] * 2),
        (("a.conllu.xz", "a.de"), TREE * 2, [Sentence(("Dogs", "bark"), heads=(2, 0), deprels=("nsubj", "root"))] * 2),
        (("a.jsonl", "a.de"), f"{LINES['sentences'][1][0]}\n" * 2, [Sentence(("Dogs", "bark"), heads=(2, 0))] * 2),
    ],
)
def test_pairs_in_order(names, content, sources, write):
    source, target = write(names[0], content), write(names[1], "Ein Hund.\nEine Katze.")
    assert list(read_parallel(source, target)) == list(zip(sources, ("Ein Hund.", "Eine Katze."), strict=True))


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (TREE * 2, "x\n", "{source}: text 2 has no target, since {target} ends before it. {hint}"),
        ("a\nb\nc\n", "x\n", "{source}, line 2: text 2 has no target, since {target} ends before it. {hint}"),
        ("a\n", "x\ny\nz\n", "{target}, line 2: text 2 has no source, since {source} ends before it. {hint}"),
        ("a\n\nc\n", "x\ny\nz\n", "{source}, line 2: the line is empty. Delete it in both files, or complete it."),
        ("a\nb\n", "x\n \n", "{target}, line 2: the line is empty. Delete it in both files, or complete it."),
        (
            "a\n\nc\n\n\n",
            "x\ny\n\nz\n\n",
            "{source}, line 2: the line is empty, and 3 more pairs have such a line. "
            "Delete it in both files, or complete it.",
        ),
        (
            "source\na\n",
            "target\nx\n",
            "{source}, line 1: this is a header, not a text. Delete it in both files.",
        ),
        (
            "a\n",
            '<refset trglang="de">\n<seg id="1">x</seg>\n',
            "{target}: is XML or SGML. Write a table of its texts and labels, "
            "for example pandas.read_xml(OLD).to_csv(NEW, index=False).",
        ),
        (
            "<url>http://example.org</url>\n<talkid>1</talkid>\na\n",
            "<url>http://example.org</url>\n<talkid>1</talkid>\nx\n",
            "{source}: is a text between lines of tags, as in IWSLT's training data. "
            "Leave out these lines of both files: grep -v '^<' OLD > NEW.",
        ),
    ],
)
def test_different_numbers_of_sources_and_targets(source, target, message, write):
    name = "a.conllu" if source.startswith(TREE) else "a.en"
    paths = {"source": write(name, source), "target": write("a.de", target)}
    with pytest.raises(DataError) as caught:
        list(read_parallel(paths["source"], paths["target"]))
    assert str(caught.value) == message.format(**paths, hint="Give as many sources as targets.")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.json", "a.jsonl"])
def test_a_table_is_no_side_of_a_pair(write, name):
    with pytest.raises(DataError, match="is a table, not a text"):
        list(read_parallel(write("a.en", "a\n"), write(name, '{"text": "x"}\n')))


def test_pairs_with_an_empty_or_unreadable_line_are_skipped_in_both_files(write, tmp_path):
    source, target = write("a.en", "a\n\nc\nd\n"), tmp_path / "a.de"
    target.write_bytes(b"x\ny\n\xff\nz\n\n")
    errors = []
    assert list(read_parallel(source, target, skip=errors.append)) == [("a", "x"), ("d", "z")]
    assert [(error.path, error.line) for error in errors] == [(str(source), 2), (str(target), 3), (str(target), 5)]
    write("a.de", "x\n")
    with pytest.raises(DataError, match="Give as many sources as targets"):  # pairs may not fit together
        list(read_parallel(write("a.en", "a\nb\n"), target, skip=errors.append))


def test_features_need_a_format_with_columns(corpus):
    path = corpus("a.pos", "a/DT dog/NN", "it/PRP barks/VBZ")
    with pytest.raises(
        DataError, match="read as 'word/tag', which has no columns for the features of words pos"
    ) as caught:
        read_corpus(path, task="tag", feature_columns=["pos"])
    assert (caught.value.path, caught.value.options) == (str(path), ("feature_columns",))
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        del caught
        gc.collect()
    assert [str(warning.message) for warning in unclosed if "a.pos" in str(warning.message)] == []
