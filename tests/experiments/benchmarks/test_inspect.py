"""``bench inspect``: three passes of each encoder, and their ratios."""

import numpy as np
import pytest

from graphattn.experiments.benchmarks import _inspect as inspect
from graphattn.experiments.benchmarks._harness import Settings
from graphattn.experiments.benchmarks._umst import split_layout
from graphattn.models import DuoOptions, MTSAOptions, UMSTOptions

UMST = UMSTOptions(hidden=8, heads=2, layers=1, ffn=8)


@pytest.fixture(scope="module")
def model():
    return inspect.train_model(UMST)


def test_rows_and_ratios():
    encoders = (MTSAOptions(hidden=8), DuoOptions(hidden=8))
    report = inspect.measure(Settings(("2x5",), repeats=2), encoders=encoders)
    assert [(row["encoder"], row["contender"]) for row in report.rows] == [
        (name, what) for name in ("mtsa", "duo") for what in ("plain", "plain after weights", "weights")
    ]
    plain, *others = report.rows[:3]
    assert "ratio" not in plain
    assert all(row["ratio"] == row["median_ms"] / plain["median_ms"] for row in others)
    assert [len(row["times_ms"]) for row in report.rows] == [2] * 6
    assert "| mtsa | 2x5 | plain after weights |" in report.to_markdown()


def test_every_encoder_with_attention_is_measured():
    from graphattn.models._encoders import ENCODERS

    assert set(inspect.ENCODERS) == set(ENCODERS) - {"bilstm"}


@pytest.mark.parametrize("length", [1, 7, 22, 109])
def test_texts_have_the_tokens_and_words_that_a_workload_names(length, model):
    text = inspect.make_text(length, np.random.default_rng(0))
    layout = split_layout((length,))
    sentence = model.vocabulary_.sentence(text)
    assert list(sentence.word_ids) == layout.word_ids.tolist()
    assert [head - 1 for head in sentence.heads] == layout.heads.tolist()
    assert 1 not in model.vocabulary_.ids(sentence.tokens), "all tokens are known"


def test_encoders_of_words_and_arcs():
    report = inspect.measure(Settings(("1x22",), repeats=1), encoders=(UMST,))
    assert [row["contender"] for row in report.rows] == ["plain", "plain after weights", "weights"]
