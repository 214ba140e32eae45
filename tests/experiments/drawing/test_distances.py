"""Attention against distance, in tokens and in words."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing import draw_distances
from graphattn.models.inspection import AttentionSummary, summarise
from graphattn.models.inspection._head_sums import HeadSums


def test_distances(classifier, read_texts):
    summary = summarise(classifier, [["dogs", "bark", "cats", "sleep"]])
    texts = read_texts(draw_distances(summary, layer=1))
    assert {"Heads of layer 1", "head 2 · all", "layer 0", "layer 1", "distance in tokens"} <= set(texts)
    with pytest.raises(ConfigError) as caught:
        draw_distances(summary, layer=2)
    assert str(caught.value) == "layer 2 has no distances to draw; layers that have: 0, 1"


def test_distances_in_words(toy_translator, read_texts, source):
    summary = summarise(toy_translator, [source], targets=["der hund!"])
    texts = read_texts(draw_distances(summary))
    assert {"head 0 · all", "head 2 · all:word"} <= set(texts)
    assert texts.count("distance in tokens or words") == 2


def test_a_model_without_distances():
    summary = AttentionSummary()
    summary.heads[0, 0, "cross"] = HeadSums()
    with pytest.raises(ConfigError) as caught:
        draw_distances(summary)
    assert str(caught.value) == "layer 0 has no distances to draw; layers that have: none"
