"""Summaries of translators, compared with the attention of single pairs."""

import numpy as np
import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.models.inspection import _summary as summary
from graphattn.models.inspection import summarise

SOURCES = ["the dog sees a cat.", "a cat sees the dog!", "the dog!"]
TARGETS = ["ein hund sieht.", "die katze sieht!", "ein hund!"]


@pytest.fixture(scope="module")
def translator(translators):
    return translators("ms-trans")


def test_sums_equal_those_of_the_pairs(translator, monkeypatch):
    monkeypatch.setattr(summary, "MAX_TOKENS", 30)  # several batches
    sums = summarise(translator, iter(SOURCES), targets=iter(TARGETS))
    attentions = [translator.attention(*pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    assert sums.texts == 3
    entropy = sums.entropy().set_index(["layer", "head"])
    kinds = sums.dependencies().set_index(["layer", "head", "kind"]).mass
    for layer, head in entropy.index:
        tables = [attention.only(layer=layer, head=head).table() for attention in attentions]
        rows = [own.weight.to_numpy() for table in tables for _, own in table.groupby(["target_part", "target"])]
        expected = np.mean([-(own * np.log(own)).sum() for own in rows])
        assert entropy.entropy[layer, head] == pytest.approx(expected, abs=1e-5)
        if entropy.relation[layer, head] == "cross":
            on_cls = sum(table.weight[table.source == 0].sum() for table in tables)
            assert kinds[layer, head, "[CLS]"] == pytest.approx(on_cls / len(rows), abs=1e-5)
    assert set(entropy.index.get_level_values("layer")) == {0, 1, 2, 3}


def test_the_decoders_heads_have_no_distances(translator):
    sums = summarise(translator, SOURCES, targets=TARGETS)
    tables = sums.tables()
    assert "cross" not in set(tables["distances"].relation)
    scales = tables["scales"].set_index("relation")
    assert scales.loc["cross"][["allotted", "effective", "mean_distance"]].isna().all(axis=None)
    assert scales.effective["window:1"].eq(1).all()
    assert tables["relations"].set_index(["layer", "relation"]).share[2, "cross"] == 1


def test_without_targets_the_outputs_are_summarised(translator):
    own = summarise(translator, SOURCES).entropy()
    given = summarise(translator, SOURCES, targets=translator.predict(SOURCES)).entropy()
    assert own.equals(given)


def test_invalid_targets(translator, make_classifier):
    with pytest.raises(DataError, match="3 sources but 2 targets"):
        summarise(translator, SOURCES, targets=TARGETS[:2])
    with pytest.raises(ConfigError) as caught:
        summarise(make_classifier("window:3=1"), ["dogs"], targets=["a"])
    assert caught.value.options == ("target",)
