"""``bench inspect``: three passes of each encoder, and their ratios."""

import numpy as np
import pytest

from graphattn.experiments.benchmarks import _inspect as inspect
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._umst import split_layout
from graphattn.models import MTSAOptions, UMSTOptions
from graphattn.models._encoders import ENCODERS

UMST = UMSTOptions(hidden=8, heads=2, layers=1, ffn=8)


@pytest.mark.slow
def test_rows_and_ratios():
    report = inspect.measure(Settings(("1x5",), repeats=2), encoders=(MTSAOptions(hidden=8), UMST))
    assert [(row["encoder"], row["contender"]) for row in report.rows] == [
        (name, what) for name in ("mtsa", "umst") for what in ("plain", "plain after weights", "weights")
    ]
    plain, *others = report.rows[:3]
    assert "ratio" not in plain
    assert all(row["ratio"] == row["median_ms"] / plain["median_ms"] for row in others)
    assert [len(row["times_ms"]) for row in report.rows] == [2] * 6
    assert "| mtsa | 1x5 | plain after weights |" in report.to_markdown()


def test_every_encoder_with_attention_is_measured():
    assert set(inspect.ENCODERS) == set(ENCODERS) - {"bilstm"}


def test_texts_have_the_tokens_and_words_that_a_workload_names():
    model = inspect.train_model(UMST)
    for length in (1, 7, 22, 109):
        text = inspect.make_text(length, np.random.default_rng(0))
        layout = split_layout((length,))
        sentence = model.vocabulary_.sentence(text)
        assert list(sentence.word_ids) == layout.word_ids.tolist()
        assert [head - 1 for head in sentence.heads] == layout.heads.tolist()
        assert 1 not in model.vocabulary_.ids(sentence.tokens), "all tokens are known"
