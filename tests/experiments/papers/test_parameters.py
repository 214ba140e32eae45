"""Numbers of parameters next to the papers'."""

import pytest

from graphattn.experiments.papers._parameters import MODELS, count_translator, parameters_table
from graphattn.models import TranslationTraining, Translator


@pytest.mark.slow
def test_the_count_is_that_of_a_translator():
    translator = Translator("umst", training=TranslationTraining(epochs=1))
    translator.fit(["a b", "b c"] * 4, ["c b", "b a"] * 4)
    words = len(translator.subwords_.vocabulary) * 256
    whole = sum(weights.numel() for weights in translator.model_.parameters())
    assert count_translator("umst", "small") - 37_000 * 256 == whole - words


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.paper} {model.label}")
def test_sizes_of_the_papers(model):
    """UMST's within 5 %, the share that an unknown vocabulary can explain, except for MS-Trans without feed-forward."""
    ratio = model.count() / 1e6 / model.figure
    assert ratio == pytest.approx(1, rel=0.05) if model.paper == "umst" and "MSMSA" not in model.label else ratio > 0


def test_the_table_has_a_line_for_each_model():
    lines = parameters_table(["mtsa", "duo"]).splitlines()
    assert lines[2].startswith("| mtsa | table 1, Bi-LSTM | 2.9 | ")
    assert len(lines) == 4 + sum(model.paper in ("mtsa", "duo") for model in MODELS)
