"""A matrix for each head, with lines between words."""

import re
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing import draw_arcs, draw_matrices
from graphattn.experiments.drawing._canvas import text_width
from graphattn.models import InputOptions, MSTransOptions, TextClassifier, TrainingOptions
from graphattn.models.inspection import BranchScores

TRAINING = TrainingOptions(epochs=1, dev_fraction=0.0)
OPTIONS = MSTransOptions(hidden=8, head_feats=4, layers=2, heads="window:1=1,window:3=1,all=2")


def test_a_matrix_for_each_head(attention, read_texts):
    texts = read_texts(draw_matrices(attention))
    assert [name for name in texts if name[0].isdigit()] == [
        f"{head} · {relation}" for _ in range(2) for head, relation in enumerate(["window:1", "window:3", "all", "all"])
    ]
    texts = read_texts(draw_matrices(attention.only(layer=1, head=1)))
    assert "layer 1 · head 1 · window:3" in texts


def test_lines_separate_words_of_several_tokens(to_svg):
    inputs = InputOptions(embedding=6, level="bpe", vocabulary_size=20)
    model = TextClassifier(OPTIONS, inputs=inputs, training=TRAINING)
    attention = model.fit(["unknown dogs", "cats"] * 4, ["x", "y"] * 4).attention("unknown dogs")
    assert len(attention.tokens["text"]) > 3
    svg = to_svg(draw_matrices(attention.only(layer=0, head=3)))
    assert len(re.findall(r"stroke: #ffffff; stroke-width: 1.2", svg)) == 4, "across and down, before both words"


@pytest.mark.parametrize("draw", [draw_arcs, draw_matrices])
def test_what_the_branches_give_is_below(draw, attention, read_texts, read_places):
    branches = BranchScores("log-odds of x against y", {"n-grams": (2.1,), "graph encoder": (0.01,)})
    figure = draw(replace(attention, branches=branches))
    places = sorted(read_places(figure), key=itemgetter(2))
    (first,) = (number for number, (content, *_) in enumerate(places) if content == str(branches))
    note = places[first + 1 :]
    assert " ".join(content for content, *_ in note).replace("- -", "--") == branches.note, "SVG has no -- in comments"
    width = float(figure.get_size_inches()[0])
    assert all(x + text_width(content, 8.0) < width for content, x, _ in note)
    without = draw(replace(attention, branches=None))
    assert not any("graph encoder" in text for text in read_texts(without))
    assert without.get_size_inches()[1] < figure.get_size_inches()[1]


@pytest.mark.parametrize("draw", [draw_arcs, draw_matrices])
def test_too_long_texts(draw, classifier):
    with pytest.raises(ConfigError) as caught:
        draw(classifier.attention(["dogs"] * 100))
    assert str(caught.value) == "101 tokens do not fit into a picture; it shows up to 100"


@pytest.mark.slow
@pytest.mark.parametrize(
    "heads",
    ["window:N/16=1,window:N/8=1", "window:1 | window:N/16=1,window:1 | window:N/8=1,window:1 | window:N/4=1"],
)
@pytest.mark.parametrize("text", ["dogs", "猫" * 14])
def test_captions_and_labels_do_not_overlap(read_places, heads, text):
    options = MSTransOptions(hidden=6 if heads.count("=") == 3 else 8, head_feats=2, layers=2, heads=heads)
    model = TextClassifier(options, inputs=InputOptions(embedding=6, split="words"), training=TRAINING)
    attention = model.fit([[text], ["cats"]] * 4, ["x", "y"] * 4).attention([text])
    places = read_places(draw_matrices(attention))
    lines = {}
    for content, x, y in places:
        if " · " in content and y > 0.5:  # not the title
            lines.setdefault(round(y, 1), []).append((x, x + text_width(content, 8.5)))
    assert len(lines) == 2
    for line in lines.values():
        assert len(line) == heads.count("=")
        assert all(end < start for (_, end), (start, _) in pairwise(line))
    assert min(x for _, x, _ in places) >= 0
