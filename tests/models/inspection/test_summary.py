"""Summaries of a corpus against the tables of single predictions."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from graphattn._scales import Scale
from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, DataError, TruncationWarning
from graphattn.models import (
    InputOptions,
    MultiStageOptions,
    TextClassifier,
    TrainingOptions,
    UMSTOptions,
)
from graphattn.models._prediction import warn_of_truncation
from graphattn.models.inspection import _summary as summary
from graphattn.models.inspection import compare_summaries, summarise
from graphattn.models.inspection._head_sums import HeadSums, shares_of_strongest
from graphattn.models.inspection._typed_edges import TypedEdges, add_relation

HEAD = ["layer", "head", "relation"]


def rows_of(classifier, inputs):
    """The tables of all inputs, with the number of the input."""
    return pd.concat([classifier.attention(x).table().assign(number=number) for number, x in enumerate(inputs)])


def merged(table, expected, keys):
    return table.merge(expected.rename("expected").reset_index(), on=keys, how="outer")


def test_distances(classifier, sentences):
    rows = rows_of(classifier, sentences)
    rows["distance"] = (rows.source - rows.target).abs()
    actual = summarise(classifier, sentences).distances()
    mass = rows.groupby([*HEAD, "distance"]).weight.sum() / rows.groupby(HEAD).weight.sum()
    both = merged(actual, mass, [*HEAD, "distance"]).fillna(0)
    np.testing.assert_allclose(both.mass, both.expected, atol=1e-6)
    best = rows[rows.weight == rows.groupby([*HEAD, "number", "target"]).weight.transform("max")]
    share = 1 / best.groupby([*HEAD, "number", "target"]).weight.transform("size")
    strongest = best.assign(share=share).groupby([*HEAD, "distance"]).share.sum()
    strongest /= best.assign(share=share).groupby(HEAD).share.sum()
    both = merged(actual, strongest, [*HEAD, "distance"]).fillna(0)
    np.testing.assert_allclose(both.strongest, both.expected, atol=1e-6)


def test_offsets_keep_both_sides_apart(classifier, sentences):
    rows = rows_of(classifier, sentences)
    rows["offset"] = rows.source - rows.target
    actual = summarise(classifier, sentences).offsets()
    mass = rows.groupby([*HEAD, "offset"]).weight.sum() / rows.groupby(HEAD).weight.sum()
    both = merged(actual, mass, [*HEAD, "offset"]).fillna(0)
    np.testing.assert_allclose(both.mass, both.expected, atol=1e-6)
    assert actual.groupby(HEAD).strongest.sum().to_numpy() == pytest.approx(1)
    by_distance = actual.assign(distance=actual.offset.abs()).groupby([*HEAD, "distance"])[["mass", "strongest"]].sum()
    expected = summarise(classifier, sentences).distances().set_index([*HEAD, "distance"])
    pd.testing.assert_frame_equal(by_distance, expected.loc[by_distance.index])


def test_layers_are_means_over_heads(classifier, sentences):
    actual = summarise(classifier, sentences)
    layers, heads = actual.layers(), actual.distances()
    expected = heads[(heads.layer == 1) & (heads.distance == 1)].mass.sum() / 5
    assert layers[(layers.layer == 1) & (layers.distance == 1)].mass.item() == pytest.approx(expected)
    assert layers.groupby("layer").mass.sum().tolist() == pytest.approx([1, 1])


def test_texts_that_inputs_truncate_are_not_counted(classifier, sentences):
    warning = TruncationWarning(1, 2, 3)

    def generate():
        warn_of_truncation(warning)
        yield from sentences

    with pytest.warns(TruncationWarning) as caught:
        summarise(classifier, generate())
    assert [each.message for each in caught] == [warning]


def test_entropy(classifier, sentences):
    rows = rows_of(classifier, sentences)
    targets = rows.groupby([*HEAD, "number", "target"]).weight
    entropy = targets.agg(lambda own: -(own * np.log(own)).sum())
    actual = summarise(classifier, sentences).entropy()
    both = merged(actual, entropy.groupby(HEAD).mean(), HEAD)
    np.testing.assert_allclose(both.entropy, both.expected, atol=1e-6)
    evenness = entropy.groupby(HEAD).sum() / np.log(targets.size()).groupby(HEAD).sum().replace(0, np.nan)
    both = merged(actual, evenness, HEAD)
    np.testing.assert_allclose(both.evenness, both.expected, atol=1e-6)


def test_allocated_and_effective_scales(classifier, sentences):
    rows = rows_of(classifier, sentences)
    actual = summarise(classifier, sentences).scales().set_index(HEAD)
    lengths = np.array([len(sentence) + 1 for sentence in sentences])
    for head, relation in ((0, "window:1"), (1, "window:3"), (2, "window:N/2")):
        allotted = Scale(relation.removeprefix("window:")).widths(lengths).mean()
        assert actual.loc[(0, head, relation), "allotted"] == pytest.approx(allotted)
    assert np.isnan(actual.loc[(0, 3, "dependency"), "allotted"])
    rows["distance"] = (rows.source - rows.target).abs()
    for key, own in rows.groupby(HEAD):
        total = own.weight.sum()
        held = next(reach for reach in range(99) if own[own.distance <= reach].weight.sum() >= 0.9 * total - 1e-6)
        assert actual.loc[key, "effective"] == 2 * held + 1
        assert actual.loc[key, "mean_distance"] == pytest.approx((own.distance * own.weight).sum() / total)


def test_relations_and_dependencies(classifier, sentences):
    actual = summarise(classifier, sentences)
    relations = actual.relations().set_index(["layer", "relation"])
    assert relations.loc[(0, "window:1"), "elsewhere"] == pytest.approx(0)
    assert relations.heads.unique().tolist() == [1]
    assert relations.share.groupby("layer").sum().tolist() == pytest.approx([1, 1])
    kinds = actual.dependencies()
    assert kinds.groupby(HEAD).mass.sum().to_numpy() == pytest.approx(1)
    along = kinds[kinds.relation == "dependency"]
    assert set(along.kind) == {
        "itself", *(f"{name}{way}" for name in ("det", "amod", "nsubj", "advmod", "cc", "conj") for way in "<>")
    }  # fmt: skip
    rows = rows_of(classifier, sentences[1:2])
    one = summarise(classifier, sentences[1:2]).dependencies()
    head = rows[(rows.layer == 1) & (rows.relation == "all")]
    to_the_verb = head[(head.source_token == "dogs") & (head.target_token == "sleep")].weight.item() / 3
    mass = one[(one.layer == 1) & (one.relation == "all") & (one.kind == "nsubj>")].mass.item()
    assert mass == pytest.approx(to_the_verb, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 3])
def test_summaries_do_not_depend_on_the_chunk_size(chunk, classifier, sentences, monkeypatch):
    whole = summarise(classifier, sentences).tables()
    monkeypatch.setattr(summary, "CHUNK", chunk)
    monkeypatch.setattr(summary, "MAX_TOKENS", 8)
    for name, table in summarise(classifier, sentences).tables().items():
        keys = [key for key in (*HEAD, "distance", "offset", "kind") if key in table]
        one, other = (own.sort_values(keys, ignore_index=True) for own in (whole[name], table))
        pd.testing.assert_frame_equal(one, other, atol=1e-6)


def test_texts_are_read_lazily(classifier, sentences, monkeypatch):
    monkeypatch.setattr(summary, "CHUNK", 2)
    taken, seen = [], []

    def texts():
        for number in range(6):
            taken.append(number)
            yield sentences[0]

    def encode(*arguments, **options):
        seen.append(len(taken))
        return encode_inputs(*arguments, **options)

    encode_inputs = classifier.encode_inputs
    monkeypatch.setattr(classifier, "encode_inputs", encode)
    summarise(classifier, texts())
    assert seen == [2, 4, 6]


def test_both_texts_of_pairs_count(pair_classifier):
    pair = ("dogs bark", "cats sleep and dogs bark")
    actual = summarise(pair_classifier, [pair, pair])
    rows = pair_classifier.attention(pair).table()
    assert (
        actual.heads[(0, 0, "window:3")].targets
        == 2 * rows[(rows.layer == 0) & (rows["head"] == 0)].weight.sum().round()
    )


def test_extra_nodes(make_classifier, sentences):
    classifier = make_classifier("star=1,window:3=1")
    rows = rows_of(classifier, sentences)
    targets = rows.groupby([*HEAD, "number", "target_part", "target"]).weight
    expected = targets.agg(lambda own: -(own * np.log(own)).sum()).groupby(HEAD).mean()
    both = merged(summarise(classifier, sentences).entropy(), expected, HEAD)
    np.testing.assert_allclose(both.entropy, both.expected, atol=1e-6)


def kind_of_words(sentence, one, other):
    """The kind of two words, by its definition; word 0 is [CLS]."""
    if one == other:
        return "itself"
    if 0 in (one, other):
        return "[CLS]"
    if sentence.heads[one - 1] == other:
        return f"{sentence.deprels[one - 1]}>"
    return f"{sentence.deprels[other - 1]}<" if sentence.heads[other - 1] == one else "other"


WORD_HEADS = {
    "umst": (UMSTOptions(hidden=8, heads=2, layers=2, ffn=8, graph_layer="gat"), {"all:word", "dependency"}),
    "multi-stage": (MultiStageOptions(hidden=8, heads=2, ffn=8), {"all:word"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("encoder", WORD_HEADS)
def test_heads_between_words(encoder, sentences):
    options, between_words = WORD_HEADS[encoder]
    inputs = InputOptions(level="bpe", vocabulary_size=30, embedding=6)
    model = TextClassifier(options, inputs=inputs, training=TrainingOptions(epochs=1, dev_fraction=0))
    model.fit(sentences * 2, ["a", "b", "c", "a"] * 2)
    assert len(model.attention(sentences[0]).tokens["text"]) > 1 + sentences[0].num_words, "words are split"
    rows = rows_of(model, sentences)
    rows = rows[rows.source_part == "text word"]
    assert set(rows.relation) == between_words
    rows["distance"] = (rows.source - rows.target).abs()
    rows["kind"] = [kind_of_words(sentences[row.number], row.source, row.target) for row in rows.itertuples()]
    actual = summarise(model, sentences)
    assert {name for name, unit in actual.units.items() if unit == "word"} >= between_words
    totals = rows.groupby(HEAD).weight.sum()
    for table, column in ((actual.distances(), "distance"), (actual.dependencies(), "kind")):
        own = table[table.relation.isin(between_words)]
        both = merged(own, rows.groupby([*HEAD, column]).weight.sum() / totals, [*HEAD, column]).fillna(0)
        np.testing.assert_allclose(both.mass, both.expected, atol=1e-6)
    scales = actual.scales().set_index(HEAD)
    for key, own in rows.groupby(HEAD):
        held = next(reach for reach in range(99) if own[own.distance <= reach].weight.sum() >= 0.9 * totals[key] - 1e-6)
        assert scales.loc[key, "effective"] == 2 * held + 1
        assert scales.loc[key, "mean_distance"] == pytest.approx((own.distance * own.weight).sum() / totals[key])
    elsewhere = rows[rows.kind != "itself"].groupby(["layer", "relation"]).weight.sum()
    expected = elsewhere / rows.groupby(["layer", "relation"]).weight.sum()
    relations = actual.relations().set_index(["layer", "relation"]).elsewhere
    for key, share in expected.items():
        assert relations[key] == pytest.approx(share)


def test_words_of_the_sources_of_a_translator(translators, source):
    translator, sources = translators("umst"), [source, Sentence(["the", "dog"], heads=[2, 0])]
    given = ["ein hund sieht", "ein hund"]
    rows = pd.concat(translator.attention(x, y).table() for x, y in zip(sources, given, strict=True))
    rows = rows[rows.relation == "all:word"]
    keys = ["layer", "head"]
    mass = rows[rows.source == rows.target].groupby(keys).weight.sum() / rows.groupby(keys).weight.sum()
    kinds = summarise(translator, sources, targets=given).dependencies()
    actual = kinds[(kinds.relation == "all:word") & (kinds.kind == "itself")].set_index(keys).mass
    pd.testing.assert_series_equal(actual, mass, check_names=False, check_dtype=False, atol=1e-6)


def test_tables_of_two_models(classifier, make_classifier, sentences):
    other = make_classifier("window:1=1,window:3=1")
    tables = compare_summaries(summarise(classifier, sentences), summarise(other, sentences), ("wide", "narrow"))
    entropy = tables["entropy"]
    assert list(entropy) == [*HEAD, "entropy_wide", "evenness_wide", "entropy_narrow", "evenness_narrow"]
    assert entropy[entropy.relation == "all"].entropy_narrow.isna().all()
    assert entropy[entropy.relation == "window:3"].notna().all(None)


def test_files(classifier, sentences, tmp_path):
    actual = summarise(classifier, sentences)
    actual.save(str(tmp_path / "tables.json"))
    assert list(json.loads((tmp_path / "tables.json").read_text())) == list(actual.tables())
    actual.save(tmp_path / "tables")
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == sorted(f"{name}.csv" for name in actual.tables())
    read = pd.read_csv(tmp_path / "tables" / "entropy.csv")
    pd.testing.assert_frame_equal(read, actual.entropy())
    with pytest.raises(ConfigError) as caught:
        actual.save(tmp_path / "tables.xml")
    assert str(caught.value) == "cannot save to 'tables.xml'; the name must end in .json"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a fine film", "a str is given where many inputs are expected. Put it into a list."),
        (Sentence(["a"]), "a Sentence is given where many inputs are expected. Put it into a list."),
    ],
)
def test_a_single_text_is_no_corpus(inputs, message, classifier):
    with pytest.raises(DataError) as caught:
        summarise(classifier, inputs)
    assert str(caught.value).startswith(message)


def test_no_inputs(classifier):
    with pytest.raises(DataError) as caught:
        summarise(classifier, [])
    assert str(caught.value) == "there are no texts to summarise"


def test_edges_of_all_kinds_into_a_target_are_summed():
    kinds = [
        TypedEdges(np.array(targets), np.array(targets), 2, "token", None, (), None) for targets in ([0, 0, 1], [0, 1])
    ]
    sums = HeadSums()
    add_relation([sums], np.array([[1 / 3], [1 / 3], [1 / 2], [1 / 3], [1 / 2]]), kinds)
    assert sums.targets == 2
    assert math.isclose(sums.largest_entropy, math.log(3) + math.log(2))
    assert math.isclose(sums.entropy, sums.largest_entropy)


def test_targets_without_edges_have_no_entropy():
    kind = TypedEdges(np.array([1, 1]), np.array([1, 1]), 3, "token", None, (), None)
    sums = HeadSums()
    add_relation([sums], np.array([[0.5], [0.5]]), [kind])
    assert sums.targets == 1
    assert math.isclose(sums.largest_entropy, math.log(2))


def test_ties_share_the_strongest_edge():
    shares = shares_of_strongest(np.array([0, 0, 0, 2]), np.array([[0.4], [0.2], [0.4], [1.0]]), 3)
    assert shares.ravel().tolist() == [0.5, 0.0, 0.5, 1.0]
