"""Pictures hold what they must, take any token, and are refused where they would show nothing."""

import re
import warnings

import pytest

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.drawing import draw_arcs, draw_distances, draw_matrices
from graphattn.models import (
    DecoderOptions,
    InputOptions,
    MSTransOptions,
    PairClassifier,
    SubwordOptions,
    TextClassifier,
    TrainingOptions,
    TranslationTraining,
    Translator,
    UMSTOptions,
)
from graphattn.models.inspection import AttentionSummary, summarise
from graphattn.models.inspection.head_sums import HeadSums

BRIEF = TrainingOptions(epochs=1, dev_fraction=0.0)
HOSTILE = "$<b>&\x01_{x}"
SOURCE = Sentence(["the", "dog", "sees"], heads=[2, 3, 0])
OPTIONS = MSTransOptions(hidden=8, head_feats=4, layers=2, heads="window:1=1,window:3=1,all=2")


@pytest.fixture(scope="module")
def classifier():
    texts = [["dogs", "bark", HOSTILE], ["cats", "sleep"]]
    return TextClassifier(OPTIONS, inputs=InputOptions(embedding=6), training=BRIEF).fit(texts * 4, ["x", "y"] * 4)


@pytest.fixture(scope="module")
def toy_translator():
    return Translator(
        UMSTOptions(hidden=8, heads=2, layers=1, ffn=8),
        inputs=SubwordOptions(vocabulary_size=60),
        decoder=DecoderOptions(1, 2, 8, 0.0),
        training=TranslationTraining(epochs=1, dev_fraction=0.0),
    ).fit([SOURCE] * 4, ["der hund!"] * 4)


@pytest.fixture(scope="module")
def attention(classifier):
    return classifier.attention(["dogs", "bark", HOSTILE])


def texts_of(path):
    """What an SVG says; matplotlib notes every text in a comment."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_arcs_name_tokens_and_relations(attention, tmp_path):
    found = texts_of(draw_arcs(attention, tmp_path / "arcs.svg"))
    assert found[0].startswith(f"{attention.prediction} · dogs bark")
    assert {"[CLS]", "dogs", "bark"} <= set(found)
    assert {"window:3", "all"} <= set(found)
    assert "window:1" not in found, "a window of one has no arcs"


def test_one_arc_for_each_strong_edge(attention, tmp_path):
    table = attention.only(layer=1, head=2).table()
    strong = table[(table.source != table.target) & (table.weight >= 0.05)]
    path = draw_arcs(attention.only(layer=1, head=2), tmp_path / "arcs.svg")
    curves = re.findall(r'd="M [-\d. ]+\nC [-\d. ]+\n"', path.read_text())
    assert len(curves) == len(strong)


def test_matrices_have_a_square_for_each_head(attention, tmp_path):
    found = texts_of(draw_matrices(attention, tmp_path / "heads.svg"))
    assert [name for name in found if name[0].isdigit()] == [
        f"{head} · {relation}" for _ in range(2) for head, relation in enumerate(["window:1", "window:3", "all", "all"])
    ]
    found = texts_of(draw_matrices(attention.only(layer=1, head=1), tmp_path / "head.svg"))
    assert "layer 1 · head 1 · window:3" in found


def test_lines_part_words_of_several_tokens(tmp_path):
    inputs = InputOptions(embedding=6, level="bpe", vocabulary_size=20)
    model = TextClassifier(OPTIONS, inputs=inputs, training=BRIEF)
    attention = model.fit(["unknown dogs", "cats"] * 4, ["x", "y"] * 4).attention("unknown dogs")
    assert len(attention.tokens["text"]) > 3
    picture = draw_matrices(attention.only(layer=0, head=3), tmp_path / "words.svg").read_text()
    assert len(re.findall(r"stroke: #ffffff; stroke-width: 1.2", picture)) == 4, "across and down, before both words"


def test_pairs_and_nodes_of_their_own(tmp_path):
    options = MSTransOptions(hidden=8, head_feats=4, layers=1, heads="window:3=1,star=1")
    model = PairClassifier(options, inputs=InputOptions(embedding=6), training=BRIEF)
    attention = model.fit([("dogs bark", "cats"), ("cats", "dogs")] * 4, ["x", "y"] * 4).attention(
        ("dogs bark", "cats")
    )
    found = texts_of(draw_arcs(attention, tmp_path / "arcs.svg"))
    assert found.count("[CLS]") == 2
    assert "[relay 0]" in texts_of(draw_matrices(attention, tmp_path / "heads.svg"))


def test_translators(toy_translator, tmp_path):
    attention = toy_translator.attention(SOURCE, "der hund!")
    found = texts_of(draw_arcs(attention, tmp_path / "arcs.svg"))
    assert found.count("[CLS]") == 2
    assert {"▁dog", "▁hund", "all"} <= set(found)
    assert "cross" not in found, "it is between the texts"
    cross = attention.only(relation="cross")
    with pytest.raises(ConfigError) as caught:
        draw_arcs(cross, tmp_path / "cross.svg")
    assert str(caught.value) == "arcs join the tokens of one text, and no edge here does; draw matrices"
    assert {"0 · cross", "1 · cross"} <= {
        name.partition("layer 1 · head ")[2] for name in texts_of(draw_matrices(cross, tmp_path / "cross.svg"))
    }


def test_distances(classifier, tmp_path):
    summary = summarise(classifier, [["dogs", "bark", "cats", "sleep"]])
    found = texts_of(draw_distances(summary, tmp_path / "distances.svg", layer=1))
    assert {"Heads of layer 1", "head 2 · all", "layer 0", "layer 1", "distance in tokens"} <= set(found)
    with pytest.raises(ConfigError) as caught:
        draw_distances(summary, tmp_path / "distances.svg", layer=2)
    assert str(caught.value) == "layer 2 has no distances to draw; layers that have: 0, 1"


def test_distances_in_words(toy_translator, tmp_path):
    summary = summarise(toy_translator, [SOURCE], targets=["der hund!"])
    found = texts_of(draw_distances(summary, tmp_path / "distances.svg"))
    assert {"head 0 · all", "head 2 · all:word"} <= set(found)
    assert found.count("distance in tokens or words") == 2


def test_no_distances_at_all(tmp_path):
    summary = AttentionSummary()
    summary.heads[0, 0, "cross"] = HeadSums()
    with pytest.raises(ConfigError) as caught:
        draw_distances(summary, tmp_path / "distances.svg")
    assert str(caught.value) == "layer 0 has no distances to draw; layers that have: none"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_bytes_each_time(suffix, attention, tmp_path):
    one, other = (draw_arcs(attention, tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert one == other


@pytest.mark.parametrize("draw", [draw_arcs, draw_matrices])
def test_texts_that_are_too_long(draw, classifier, tmp_path):
    with pytest.raises(ConfigError) as caught:
        draw(classifier.attention(["dogs"] * 100), tmp_path / "a.png")
    assert str(caught.value) == "101 tokens do not fit into a picture; it shows up to 100"
    with pytest.raises(ConfigError) as caught:
        draw(classifier.attention(["dogs"]), tmp_path / "a.gif")
    assert str(caught.value) == "cannot draw to 'a.gif'; the name must end in .png, .svg or .pdf"


def test_places_that_cannot_be_written(attention, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as caught:
        draw_arcs(attention, tmp_path / "file" / "a.png")
    assert str(caught.value).startswith(f"{tmp_path / 'file' / 'a.png'}: cannot write the picture: ")


def test_letters_that_no_font_has_are_no_ones_warning(classifier, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_arcs(classifier.attention(["\U00012000", "bark"]), tmp_path / "arcs.svg")
