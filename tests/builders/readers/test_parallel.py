"""Sources and targets line by line, plain, parsed and compressed; what does not match is named."""

import gzip
import lzma

import pytest

from graphattn.builders.readers import read_parallel
from graphattn.exceptions import DataError

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


@pytest.mark.parametrize("names", [("a.en", "a.de"), ("a.en.gz", "a.de.xz"), ("a.txt", "a.de")])
def test_pairs_in_order(names, write):
    one, other = write(names[0], "A dog.\nA cat.\n"), write(names[1], "Ein Hund.\nEine Katze.")
    assert list(read_parallel(one, other)) == [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.xz", "a.jsonl"])
def test_parsed_sources_keep_their_trees(name, write):
    text = '{"tokens": ["Dogs", "bark"], "heads": [2, 0]}\n' * 2 if name.endswith("jsonl") else TREE * 2
    pairs = list(read_parallel(write(name, text), write("a.de", "Hunde bellen\nwau\n")))
    assert [(source.tokens, source.heads, target) for source, target in pairs] == [
        (("Dogs", "bark"), (2, 0), "Hunde bellen"),
        (("Dogs", "bark"), (2, 0), "wau"),
    ]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "x\n", "{source}, line 2: text 2 has no target, since {target} ends before it. {hint}"),
        ("a\n", "x\ny\nz\n", "{target}, line 2: text 2 has no source, since {source} ends before it. {hint}"),
        ("a\n\nc\n", "x\ny\nz\n", "{source}, line 2: the line is empty. Delete it in both files, or complete it."),
        ("a\nb\n", "x\n \n", "{target}, line 2: the line is empty. Delete it in both files, or complete it."),
    ],
)
def test_what_does_not_match(source, target, message, write):
    paths = {"source": write("a.en", source), "target": write("a.de", target)}
    with pytest.raises(DataError) as caught:
        list(read_parallel(paths["source"], paths["target"]))
    assert str(caught.value) == message.format(**paths, hint="Sources and targets must be as many.")


def test_a_parsed_source_without_a_target(write):
    source, target = write("a.conllu", TREE * 2), write("a.de", "x\n")
    with pytest.raises(DataError) as caught:
        list(read_parallel(source, target))
    assert str(caught.value) == (
        f"{source}: text 2 has no target, since {target} ends before it. Sources and targets must be as many."
    )
