"""The corpora of texts and targets, read as they lie."""

import json

import pytest

from graphattn.experiments.papers.parallel_sets import PARALLEL_SETS, TextPair


@pytest.mark.parametrize(("name", "sizes"), [("multi30k", (29_000, 1014, 1000)), ("scitldr", (1992, 619, 618))])
def test_every_corpus_is_there(name, sizes, corpora):
    corpus = PARALLEL_SETS[name]
    parts = [corpus.load(part, corpora) for part in ("train", "dev", "test")]
    assert tuple(map(len, parts)) == sizes
    for own in parts:
        assert all(pair.source.strip() and pair.targets and all(pair.targets) for pair in own)


def test_a_source_is_its_sentences(tmp_path):
    row = {"source": ["One thing.", "Another."], "target": ["Things.", "Two things."]}
    (tmp_path / "scitldr_a").mkdir()
    (tmp_path / "scitldr_a" / "dev.jsonl").write_text(json.dumps(row) + "\n")
    (pair,) = PARALLEL_SETS["scitldr"].load("dev", tmp_path)
    assert pair == TextPair(("One thing.", "Another."), ("Things.", "Two things."))
    assert pair.source == "One thing. Another."
