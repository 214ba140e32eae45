"""Options that may change after training: the parser, and a translator's search."""

import json
from typing import ClassVar

import pytest

from graphattn.builders.parsers import Parse
from graphattn.builders.parsers import _cache as parse_cache
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.loaded_models import apply_search_changes
from graphattn.models import SearchOptions


def test_changes_of_a_search():
    search = SearchOptions(beam=2)
    assert apply_search_changes(search, "") == search
    changed = apply_search_changes(search, "length-penalty = 1, max_length=none,sample=true,top_k=5")
    assert changed == SearchOptions(beam=2, length_penalty=1.0, sample=True, top_k=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam", "--search: 'beam' is not valid; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("width=3", "--search: there is no option 'width'; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("beam=many", "--search: beam is 'many'; it must be a whole number"),
        ("beam=0", "--search: beam is 0; it must be at least 1"),
    ],
)
def test_invalid_changes(text, message):
    with pytest.raises(ConfigError) as caught:
        apply_search_changes(SearchOptions(), text)
    assert str(caught.value).startswith(message)


class Chain:
    """A parser by which each word depends on the previous one; records its inputs."""

    name = "chain"
    inputs: ClassVar[list] = []

    def __init__(self, language, folder, package, device):
        assert (language, package, device) == ("en", "default", None)
        if folder == "nowhere":
            raise ConfigError("there is no model")

    def parse(self, sentences):
        self.inputs += map(tuple, sentences)
        return [Parse(tuple(range(len(words))), ("dep",) * len(words)) for words in sentences]


@pytest.mark.slow
def test_a_model_parses_raw_texts_with_the_settings_of_its_training(graphattn, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(parse_cache, "StanzaParser", Chain)
    monkeypatch.setattr(Chain, "inputs", [])
    for name, count in (("train", 8), ("test", 3)):
        lines = [f"{'xy'[number % 2]}\t{name} {'xy'[number % 2]} no{number}\n" for number in range(count)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    train, test, model = tmp_path / "train.tsv", tmp_path / "test.tsv", tmp_path / "m"
    arcs, cache = [*tiny, "--heads", "window:3=1,dependency=1", "--dev-fraction", "0"], tmp_path / "parses.sqlite"

    answer = graphattn("train", "classify", train, "--out", model, *arcs)
    assert answer.code == 1
    assert "or leave the relation out. Or parse the texts with --parser stanza." in answer.err
    answer = graphattn("train", "classify", train, "--out", model, *arcs, "--parser", "stanza", "--parse-cache", cache)
    assert (answer.code, answer.err) == (0, "")
    assert len(Chain.inputs) == 8

    for words in (
        ["evaluate", model, test],
        ["predict", model, test],
        ["encode", model, test, "--out", tmp_path / "v.npy"],
        ["inspect", model, test],
        ["inspect", model, test, "--summary"],
        ["predict", model, train],
    ):
        answer = graphattn(*words)
        table = answer.err if words[0] == "evaluate" else ""
        assert (answer.code, answer.err) == (0, table), words
        assert len(Chain.inputs) == 8 + 3, "each text is parsed once"
    edges = graphattn("inspect", model, test, "--top=99").out
    summary = graphattn("inspect", model, test, "--summary", "--top=2").out
    assert any("deprel" in line.split() for line in edges.splitlines())
    assert {"dep>", "dep<"} <= set(edges.split())
    lines = summary.splitlines()
    start = lines.index("dependencies, strongest 2")
    first, second = lines[start + 2 : start + 4]
    assert {first.split()[3], second.split()[3]} <= {"dep>", "dep<"}
    assert float(first.split()[4]) >= float(second.split()[4])
    before = graphattn("predict", model, test, "--probabilities")
    for flags in (["--parser", "none"], ["--parser-model", "nowhere"]):
        for words in (["evaluate"], ["predict"], ["encode", "--out", tmp_path / "v.npy"], ["inspect"]):
            answer = graphattn(words[0], model, test, *words[1:], *flags)
            assert answer.code == 1, words
            reason = "there is no model" if flags[1] == "nowhere" else "has no heads"
            if flags[1] == "none" and words[0] == "encode":  # a vector of NaN for each text
                reason = "3 texts could not be processed"
            assert reason in answer.out + answer.err
    again = graphattn("predict", model, test, "--probabilities", "--parse-cache", "none")
    assert again == before
    assert len(Chain.inputs) == 11 + 3
    assert json.loads((model / "config.json").read_text())["parsing"]["parse_cache"] == str(cache)


def test_a_model_without_arcs_needs_no_parser(graphattn, classifier, monkeypatch):
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: pytest.fail("a parser is made"))
    answer = graphattn("predict", classifier, "--parser", "stanza", stdin="a film\n")
    assert (answer.code, answer.err) == (0, "")


def test_stanza_in_commands(graphattn, corpora, tmp_path):
    pytest.importorskip("stanza")
    (tmp_path / "train.conll").write_text("Dogs N\nbark V\n. P\n\nCats N\nsee V\nthem N\n\n" * 4)
    flags = ["--parser", "stanza", "--parser-model", corpora / "stanza_en_ewt_small", "--parse-cache", tmp_path / "p"]
    arcs = ["--encoder", "umst", "--hidden", "16", "--heads", "2", "--layers", "1", "--epochs", "1", "--no-logs"]
    answer = graphattn("train", "tag", tmp_path / "train.conll", "--out", tmp_path / "m", *arcs, *flags)
    assert answer.code == 0, answer.err
    answer = graphattn("predict", tmp_path / "m", stdin="Birds sing.\n")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["words"] == ["Birds", "sing", "."]
