"""A bar for each word, in the order of the text, as long as its attribution."""

import pandas as pd
import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing import draw_words
from graphattn.models.inspection import BranchScores
from graphattn.models.inspection.attributions import WordAttributions


def explain(words, values):
    table = pd.DataFrame({"part": "text", "position": range(len(words)), "word": words, "attribution": values})
    branches = BranchScores("log-odds of good against bad", {"n-grams": (3.0,), "graph encoder": (-0.2,)})
    return WordAttributions(table, "log-odds of good", 0.0, sum(values), branches)


def test_bars_are_the_attributions(tmp_path):
    words = explain(["[CLS]", "the", "film", "the", "$dull$"], [0.1, 0.25, -0.5, 0.0, -2.0])
    figure = draw_words(words, tmp_path / "words.png")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["the", "film", "the", "$dull$"]
    assert [bar.get_width() for bar in axes.patches] == [0.25, -0.5, 0.0, -2.0]
    texts = [text.get_text() for text in figure.texts]
    assert texts[0] == "log-odds of good: -2.15"
    assert any("graph encoder -0.20" in text for text in texts)
    assert draw_words(words, title="Why").texts[0].get_text() == "Why"


def test_too_many_words():
    with pytest.raises(ConfigError, match="words"):
        draw_words(explain(["a"] * 400, [1.0] * 400))
