import io
import sys
import tracemalloc
from itertools import islice

import pytest

from graphattn.builders.readers import FORMATS, read_corpus
from graphattn.builders.readers.corpus import corpus_format
from graphattn.builders.sentence import Example, Sentence
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
    "conllu": ([], [CONLLU, ""], {}),
    "sentences": ([], ['{"tokens": ["Dogs", "bark"], "heads": [2, 0]}'], {}),
}
formats = pytest.mark.parametrize("name", LINES)


class Endless(io.RawIOBase):
    """A stream that repeats its lines forever and counts the bytes it was asked for."""

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
    assert LINES.keys() == FORMATS.keys()


@formats
def test_reading_is_lazy_and_takes_constant_memory(monkeypatch, name):
    head, lines, options = LINES[name]
    endless = Endless(head, lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    items = read_corpus("-", format=name, **options)
    assert endless.served == 0
    first = next(items)
    assert isinstance(first, Sentence if "tag" in FORMATS[name].tasks else Example)
    assert endless.served <= 1 << 17
    tracemalloc.start()
    for item in islice(items, 20_000):
        assert item == first
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@formats
def test_named_and_detected_formats_read_the_same(corpus, name):
    head, lines, options = LINES[name]
    path = corpus(f"a.{name}" if name in ("csv", "conllu") else "a.txt", *head, *lines * 3)
    assert list(read_corpus(path)) == list(read_corpus(path, format=name, **options))
    assert len(list(read_corpus(path))) == 3


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


def test_options_and_task_narrow_the_formats(corpus):
    path = corpus("a.tsv", "pos\t9\tid\ta film", "neg\t1\tid\tdull")
    assert next(read_corpus(path, columns=("label", None, None, "text"))) == Example("a film", label="pos")
    path = corpus("b.tsv", "Dogs NNS O", "bark VBP O")
    assert next(read_corpus(path, tag_column=1)) == Sentence(("Dogs", "bark"), tags=("NNS", "VBP"))
    path = corpus("c.tsv", "Dogs\tNNS", "bark\tVBP")
    assert next(read_corpus(path, task="tag")) == Sentence(("Dogs", "bark"), tags=("NNS", "VBP"))
    assert next(read_corpus(path, task="classify")) == Example("NNS", label="Dogs")


def test_standard_input_needs_a_format(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"1\ttext\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(ConfigError) as caught:
        read_corpus("-", task="tag")
    assert str(caught.value) == (
        "standard input can be read only once, so its format cannot be told by looking."
        " Set format to one of 'conll', 'conllu', 'sentences', 'word/tag'."
    )
    with pytest.raises(ConfigError, match="standard input can be read only once, so its columns cannot be told"):
        read_corpus("-", format="labelled", task="pair")
    # Nothing of it was used up by the refusals.
    assert list(read_corpus("-", format="labelled", task="classify")) == [Example("text", label="1")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"format": "xml"},
            "there is no format 'xml'. Set format to one of 'conll', 'conllu', 'csv', 'fasttext', 'jsonl', 'labelled',"
            " 'sentences', 'tsv', 'word/tag', or 'auto'.",
        ),
        (
            {"text_column": "a"},
            "no format has an option 'text_column'. Did you mean 'text'? There are: 'columns', 'comment', 'delimiter', "
            "'label', 'label_separator', 'multilabel', 'prefix', 'quoted', 'require_label', 'second', 'separator', "
            "'tag_column', 'tags', 'text', 'token_column'.",
        ),
        (
            {"comment": "#", "prefix": "_"},
            "no format has all of the options 'comment', 'prefix'. Set format and only its options.",
        ),
        ({"task": "translate"}, "there is no task 'translate'. Set task to one of 'classify', 'pair', 'tag', or None."),
        (
            {"format": "fasttext", "task": "pair"},
            "format 'fasttext' does not serve task 'pair'. Set format to one of 'csv', 'jsonl', 'labelled', 'tsv'.",
        ),
        (
            {"format": "conllu", "text": "a", "label": "b"},
            "format 'conllu' has no option 'label', 'text'. Its options are 'tags'.",
        ),
        (
            {"task": "tag", "text": "a"},
            "no format for task 'tag' has all of the options 'text'. Set format and only its options.",
        ),
    ],
)
def test_what_does_not_go_together(arguments, message):
    with pytest.raises(ConfigError) as caught:
        read_corpus("missing", **arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(("name", "line"), [("a.csv", "text,label"), ("a.conllu", "# newdoc"), ("a.conll", "")])
def test_a_corpus_without_examples(corpus, name, line):
    path = corpus(name, line)
    with pytest.raises(DataError) as caught:
        list(read_corpus(path))
    assert str(caught.value) == f"{path}: holds no example. Give a file with at least one."


@pytest.mark.parametrize("content", [b"", b"\0\1\2", b"caf\xe9\n"])
@formats
def test_what_is_no_text_is_refused_in_every_format(tmp_path, name, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    for format in ("auto", name):
        with pytest.raises(DataError, match=r"is empty|holds a NUL byte|is not UTF-8"):
            list(read_corpus(path, format=format))
    with pytest.raises(DataError, match="there is no such file"):
        list(read_corpus(tmp_path / "missing", format=name))


def test_a_classifier_has_no_use_for_a_second_text(tmp_path):
    (tmp_path / "a.tsv").write_text("one\ttwo\t1\n")
    with pytest.raises(ConfigError) as caught:
        read_corpus(tmp_path / "a.tsv", task="classify", columns=("text", "second", "label"))
    assert str(caught.value) == (
        "columns name 'second', but a classifier takes one text. Set columns to None for that field."
    )


def test_options_that_do_not_fit_the_format_that_is_seen(corpus):
    path = corpus("a.txt", "__label__x one", "__label__y two", "__label__x three")
    with pytest.raises(ConfigError) as caught:
        corpus_format(path, task="classify", label_separator="|")
    assert str(caught.value).startswith("format 'fasttext' has no option 'label_separator'. Its options are ")
