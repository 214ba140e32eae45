"""Arcs between tokens, and what all pictures of attention share."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from graphattn import Sentence
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.experiments.drawing import draw_arcs, draw_matrices
from graphattn.models import InputOptions, MSTransOptions, PairClassifier, TrainingOptions
from graphattn.models.inspection import Attention

TRAINING = TrainingOptions(epochs=1, dev_fraction=0.0)


def test_arcs_name_tokens_and_relations(attention, read_texts):
    texts = read_texts(draw_arcs(attention))
    assert any(text.startswith(f"{attention.prediction} · dogs bark") for text in texts)
    assert {"[CLS]", "dogs", "bark"} <= set(texts)
    assert {"window:3", "all"} <= set(texts)
    assert "window:1" not in texts, "a window of one has no arcs"


def test_one_arc_for_each_strong_edge(attention, to_svg):
    table = attention.only(layer=1, head=2).table()
    strong = table[(table.source != table.target) & (table.weight >= 0.05)]
    svg = to_svg(draw_arcs(attention.only(layer=1, head=2)))
    curves = re.findall(r'd="M [-\d. ]+\nC [-\d. ]+\n"', svg)
    assert len(curves) == len(strong)


def test_dependencies_are_labelled(classifier, read_texts):
    tree = Sentence(["dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    labels = {"nsubj", "root"} & {*read_texts(draw_arcs(classifier.attention(tree)))}
    assert labels == {"nsubj"}


@pytest.mark.slow
def test_translators(toy_translator, read_texts, source):
    attention = toy_translator.attention(source, "der hund!")
    texts = read_texts(draw_arcs(attention))
    assert texts.count("[CLS]") == 2
    assert {"▁dog", "▁hund", "all"} <= set(texts)
    assert "cross" not in texts, "it is between the texts"
    cross = attention.only(relation="cross")
    with pytest.raises(ConfigError) as caught:
        draw_arcs(cross)
    assert str(caught.value) == "arcs join the tokens of one text, and no edge here does; draw matrices"
    assert {"0 · cross", "1 · cross"} <= {
        name.partition("layer 1 · head ")[2] for name in read_texts(draw_matrices(cross))
    }


def test_a_script_without_a_font_is_named_once(classifier):
    attention = classifier.attention(["\U00012000", "bark"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for draw in (draw_arcs, draw_matrices):
            draw(attention)
    assert [str(warning.message) for warning in caught if issubclass(warning.category, GraphAttnWarning)] == [
        "no installed font has characters of Cuneiform, so pictures show boxes; install a font, such as Noto Sans"
    ]


def test_pairs_and_other_nodes(read_texts):
    options = MSTransOptions(hidden=8, head_feats=4, layers=1, heads="window:3=1,star=1")
    model = PairClassifier(options, inputs=InputOptions(embedding=6), training=TRAINING)
    attention = model.fit([("dogs bark", "cats"), ("cats", "dogs")] * 4, ["x", "y"] * 4).attention(
        ("dogs bark", "cats")
    )
    texts = read_texts(draw_arcs(attention))
    assert texts.count("[CLS]") == 2
    assert "[relay 0]" in read_texts(draw_matrices(attention))


def test_a_text_from_right_to_left(hebrew, read_places):
    places = read_places(draw_arcs(hebrew))
    title = next(text for text, _, _ in places if " · " in text)
    others = [place for place in places if place[0] != title]
    label, _, text = title.partition(" · ")
    assert (label[1:-1], text[1:-1]) == (hebrew.prediction, hebrew.title)
    assert (label[0] + label[-1], text[0] + text[-1]) == ("\u2068\u2069",) * 2
    left = {content: x for content, x, _ in others}
    tokens = [left[token] for token in hebrew.tokens["text"]]
    assert tokens == sorted(tokens, reverse=True)


def test_a_picture_says_which_arcs_it_shows(attention, read_texts):
    def describe(one):
        return next(text for text in read_texts(draw_arcs(one)) if text.startswith("Arcs: "))

    assert describe(attention) == "Arcs: mean of layers and heads, all from 0.05 on."
    assert describe(attention.only(layer=1, head=2)) == "Arcs: one head of each relation, all from 0.05 on."
    alone = [each for each in attention.only(layer=1).maps if each.weights.shape[1] == 1 or each.relation == "window:1"]
    assert describe(replace(attention, maps=tuple(alone))).startswith("Arcs: one head of each relation, "), "no arc"
    ring = np.zeros((1, 2, 40, 40))
    for step in (1, 2):
        ring[..., np.arange(40), (np.arange(40) + step) % 40] = 0.5
    dense = Attention.from_dense(ring, [f"w{number}" for number in range(40)])
    assert describe(dense) == "Arcs: mean of heads, 60 strongest from 0.05 on."


def test_a_long_title_is_whole(read_texts):
    weights = np.full((1, 1, 3, 3), 1 / 3)
    title = " ".join(f"word{number}" for number in range(40))
    lines = read_texts(draw_arcs(Attention.from_dense(weights, "a b c".split(), title=title)))
    shown = [line for line in lines if line.startswith("word")]
    assert len(shown) > 2
    assert " ".join(shown) == title
