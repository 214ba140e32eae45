"""Runs of translators on small corpora laid out like the real ones."""

import json
import lzma
from dataclasses import replace

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers import runs as results
from graphattn.experiments.papers import translation_runs as translation_results
from graphattn.experiments.papers.parallel_sets import PARALLEL_SETS
from graphattn.experiments.papers.result_rows import described, read_rows, results_table
from graphattn.experiments.papers.translation_runs import run_translation, settings
from graphattn.models import SearchOptions, SubwordOptions, TranslationTraining
from graphattn.models.encoders import ENCODERS

SMALL = {
    "encoder": {"hidden": 16, "layers": 1, "ffn": 16},
    "decoder": {"decoder_layers": 1, "decoder_ffn": 16},
    "inputs": {"vocabulary_size": 90},
    "training": {"epochs": 2, "precision": "32", "max_tokens": 200, "warmup_steps": 5},
    "search": {"max_length": 8, "beam": 2},
}


@pytest.fixture
def folder(tmp_path):
    """A data folder with a small Multi30k and a small SciTLDR."""
    words = ["a dog", "a cat", "two birds", "the tree", "one house", "no fish"]
    (tmp_path / "multi30k_en_de").mkdir()
    (tmp_path / "scitldr_a").mkdir()
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de"):
            lines = [f"{one} sees {two} {language}." for one in words for two in words]
            (tmp_path / "multi30k_en_de" / f"{name}.{language}").write_text("\n".join(lines))
    rows = [{"source": [f"We saw {word}.", "It ran."], "target": [f"See {word}.", "Run."]} for word in words * 3]
    text = "\n".join(map(json.dumps, rows))
    for name in ("train.jsonl.xz", "dev.jsonl", "test.jsonl"):
        path = tmp_path / "scitldr_a" / name
        if name.endswith("xz"):
            path.write_bytes(lzma.compress(text.encode()))
        else:
            path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("data_set", PARALLEL_SETS)
def test_a_run(data_set, folder):
    row = run_translation(data_set, "transformer", 1, changes=SMALL, folder=folder)
    assert (row["data_set"], row["encoder"], row["seed"], row["epochs"]) == (data_set, "transformer", 1, 2)
    assert row["all_test"].keys() == {"bleu", "chrf", "rouge_1", "rouge_2", "rouge_l"}
    assert row["test"] == row["all_test"][PARALLEL_SETS[data_set].metric]
    assert described(row).startswith(f"{data_set} transformer seed 1: dev ")


def test_an_encoder_with_an_option_off(folder, monkeypatch):
    fitted = []
    monkeypatch.setattr(translation_results.Translator, "fit", lambda self, *_, **__: fitted.append(self) or 1 / 0)
    for encoder in ("umst", "umst=without-inter-group"):
        with pytest.raises(ZeroDivisionError):
            run_translation("multi30k", encoder, 0, changes=SMALL, folder=folder)
    whole, without = (translator.encoder for translator in fitted)
    assert without == replace(whole, inter_group=False)


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (
            "umst=without-trees",
            "there is no umst 'without-trees'; choose among: without-class-embedding, without-intra-group, "
            "without-inter-group",
        ),
        ("transformer=small", "there is no transformer 'small'; it has nothing to leave out"),
    ],
)
def test_encoders_that_do_not_exist(encoder, said, folder):
    with pytest.raises(ConfigError) as caught:
        run_translation("multi30k", encoder, 0, changes=SMALL, folder=folder)
    assert str(caught.value) == said


def test_the_test_set_is_left_alone_while_choosing(folder):
    (folder / "multi30k_en_de" / "test_2016_flickr.en").unlink()
    row = run_translation("multi30k", "transformer", 0, changes=SMALL, folder=folder, on_test=False)
    assert "test" not in row
    assert "dev" in row


def test_the_first_sentence_as_a_baseline(folder):
    row = run_translation("scitldr", "lead-1", 0, folder=folder)
    assert row["test"] == row["all_test"]["rouge_l"] > 30
    with pytest.raises(ConfigError) as caught:
        run_translation("multi30k", "lead-1", 0, folder=folder)
    assert str(caught.value) == "lead-1 is a baseline of summaries; multi30k has none"


def test_a_series_runs_what_fits(folder, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        results,
        "run_translation",
        lambda *key, folder: seen.append(key) or {"data_set": key[0], "encoder": key[1], "seed": key[2], "test": 1.0},
    )
    sets, encoders = ["multi30k", "scitldr"], ["transformer", "tfidf", "lead-1"]
    results.reproduce(sets, encoders, [0], tmp_path / "out.jsonl", folder=folder)
    assert seen == [("multi30k", "transformer", 0), ("scitldr", "transformer", 0), ("scitldr", "lead-1", 0)]
    assert "| multi30k | transformer | 1 | - | 1.0 |" in results_table(read_rows(tmp_path / "out.jsonl"))


@pytest.mark.parametrize("data_set", PARALLEL_SETS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_settings_are_options_that_exist(data_set, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(translation_results, "default_cache", lambda: tmp_path / "parses.sqlite")
    groups = settings(data_set)
    for options, name in ((SubwordOptions, "inputs"), (TranslationTraining, "training"), (SearchOptions, "search")):
        options(**groups[name]).validate()
    translation_results._translator(data_set, encoder, 0, {}, tmp_path).check()
