"""Gradient times weight against finite differences."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn import _attention as attention
from graphattn import _tensorized as tensorized
from graphattn._backends.cpu.tensorized.edges import weights_by_feature
from graphattn._backends.torch import sum_by_weights
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._decoders import attention as decoder_attention
from graphattn.models._decoders import duo as duo_decoder
from graphattn.models._encoders import duo
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection._capture import capture_decoding, capture_scores
from graphattn.models.inspection.attributions import by_source, gradient_times_weight

TEXT = "fine and never dull"
TRANSLATION = "Ein hund, klein!"


def test_the_table_extends_that_of_attention(classifier):
    table = gradient_times_weight(classifier, TEXT)
    plain = classifier.attention(TEXT).table()
    assert list(table) == [*plain, "gradient", "attribution"]
    np.testing.assert_allclose(table.weight, plain.weight, atol=1e-12)
    pd.testing.assert_frame_equal(table.drop(columns=["gradient", "attribution"]), plain)


def test_a_word_of_a_tagger(tagger, log_odds):
    words = TEXT.split()
    each = [gradient_times_weight(tagger, words, word=word).attribution for word in range(4)]
    np.testing.assert_allclose(gradient_times_weight(tagger, words).attribution, sum(each), atol=1e-9)
    last = gradient_times_weight(tagger, words, word=3)
    narrow = last[(last.layer == 1) & (last.scale == "3")]
    far = narrow[narrow.target != 4]
    assert np.allclose(far.attribution, 0), "in the last layer only edges into the word have an effect"


def test_both_texts_of_a_pair(pair_classifier):
    table = gradient_times_weight(pair_classifier, ("a fine film", "dull"))
    assert set(table.source_part) == {"first", "second"}
    sums = by_source(table)
    assert sums.index.names == ["source_part", "source", "source_token"]
    assert sums["second", 1, "dull"] == pytest.approx(
        table[(table.source_part == "second") & (table.source == 1)].attribution.sum()
    )


def test_gradients_of_parameters_do_not_change(classifiers):
    model = classifiers["ms-trans"].model_
    before = [parameter.grad for parameter in model.parameters()]
    gradient_times_weight(classifiers["ms-trans"], TEXT)
    assert all(parameter.grad is one for parameter, one in zip(model.parameters(), before, strict=True))
    with torch.inference_mode():
        gradient_times_weight(classifiers["ms-trans"], TEXT)


@pytest.mark.parametrize(
    "arguments", [{"label": "great"}, {"word": 1}, {"target": "ein hund"}], ids=["label", "word", "target"]
)
def test_invalid_arguments(arguments, classifiers):
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(classifiers["ms-trans"], TEXT, **arguments)
    assert caught.value.options == tuple(arguments)


def test_missing_words(tagger):
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(tagger, ["fine"], word=1)
    assert caught.value.options == ("word",)
    with pytest.raises(ConfigError, match="no words"):
        gradient_times_weight(tagger, [])


class Nudge:
    """Multiply the weight of one edge in one head by a factor while a model runs.

    Heads are counted through all layers, those of a decoder on the source last; the edge among those of its head.
    """

    def __init__(self, monkeypatch, estimator, head, edge, factor):
        self.head, self.edge, self.factor, self.seen = head, edge, factor, 0
        sums = duo if estimator.encoder_.name == "duo" else attention
        monkeypatch.setattr(sums, "sum_by_weights", self.sum_by_weights)
        monkeypatch.setattr(tensorized, "attach_mean_weights", self.attach_mean_weights)
        for module in (decoder_attention, duo_decoder):
            monkeypatch.setattr(module, "attend_rows", self.attend_rows)

    def changed(self, weights):
        """(E, heads) or (E, heads, F), with one changed weight."""
        own, self.seen = self.head - self.seen, self.seen + weights.shape[1]
        weights = weights.detach().clone()
        if 0 <= own < weights.shape[1]:
            weights[self.edge, own] *= self.factor
        return weights

    def sum_by_weights(self, edges, weights, value):
        return sum_by_weights(edges, self.changed(weights), value)

    def attach_mean_weights(self, out, means, edges, rows, rule, bias):
        weights = self.changed(weights_by_feature(edges, rows, rule))
        targets = torch.arange(edges.num_destinations).repeat_interleave(edges.indptr.diff())
        return torch.zeros_like(out).index_add(0, targets, weights * rows.value[edges.indices])

    def attend_rows(self, query, key, value, *, mask=None, causal=False, dropout=0.0, weights=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if causal:
            scores = scores + torch.full(scores.shape[2:], -math.inf).triu(1)
        shares = scores.exp() / scores.exp().sum(3, keepdim=True)
        if weights is not None:
            weights.append(shares)
            shares = self.changed(shares[0].flatten(1).T).T.reshape(shares.shape)
        return (shares @ value).transpose(1, 2).flatten(2)


def log_probability(translator, source, text, tokens=slice(None)):
    """Log-probability of some tokens of a text, including the end of the text."""
    (ids,) = translator.subwords_.ids([text])
    scores = capture_decoding(translator.model_, make_corpus(translator, [source], [text])[[0]]).scores.detach()
    chances = scores.exp() / scores.exp().sum(1, keepdim=True)
    return float(chances[torch.arange(len(ids) + 1), [*ids, 2]].log()[tokens].sum())


def places(attention):
    """Each head of the maps: (its number in a nudge, the map, the number of each edge in a nudge)."""
    first = 0
    for one in attention.maps:
        numbers = np.arange(len(one.sources))
        if one.relation == "cross":
            length, count = (len(attention.tokens[part]) for part in ("target", "source"))
            numbers = (one.targets - 1) % length * count + one.sources  # the end is written last
        for own in one.by_head():
            yield first, own, numbers
            first += 1


def check(table, estimator, attention, compute, monkeypatch, edges=1):
    """Compare the attributions of some edges of each head with finite differences of a value; returns these."""
    step, random, expected = 1e-5, np.random.default_rng(0), {}
    for head, one, numbers in places(attention):
        for edge in random.choice(len(numbers), min(edges, len(numbers)), replace=False):
            sides = []
            for sign in (1, -1):
                with monkeypatch.context() as patch:
                    Nudge(patch, estimator, head, numbers[edge], 1 + sign * step)
                    sides.append(compute())
            key = one.layer, one.first_head, one.relation, one.sources[edge], one.targets[edge]
            expected[key] = (sides[0] - sides[1]) / (2 * step)
    expected = pd.Series(expected)
    actual = table.set_index(["layer", "head", "relation", "source", "target"]).attribution
    np.testing.assert_allclose(actual[expected.index], expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(table.attribution, table.gradient * table.weight)
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "bad"])
def test_edges_of_a_classifier(label, classifier, log_odds, precise, monkeypatch):
    batch = make_corpus(classifier, [TEXT])[[0]]
    scores = capture_scores(classifier.model_, batch).scores[0]
    number = int(scores.argmax()) if label is None else classifier.classes_.tolist().index(label)

    def compute():
        return float(log_odds(capture_scores(classifier.model_, batch).scores[0], number).detach())

    table = gradient_times_weight(classifier, TEXT, label=label)
    expected = check(table, classifier, classifier.attention(TEXT), compute, monkeypatch, edges=6)
    assert sum(expected.abs() > 1e-6) >= 6


@pytest.mark.slow
def test_edges_of_a_translator(translator, source, precise, monkeypatch):
    table = gradient_times_weight(translator, source, target=TRANSLATION)
    attention = translator.attention(source, TRANSLATION)
    expected = check(
        table, translator, attention, lambda: log_probability(translator, source, TRANSLATION), monkeypatch
    )
    assert sum(expected.abs() > 1e-6) >= 4


@pytest.mark.slow
def test_words_of_a_translation(translators, source, precise, monkeypatch):
    translator = translators("transformer")
    attention = translator.attention(source, TRANSLATION)
    for word in range(5):
        table = gradient_times_weight(translator, source, target=TRANSLATION, word=word)
        tokens = np.flatnonzero(np.array(attention.sentences["target"].word_ids) == word).tolist()
        check(
            table,
            translator,
            attention,
            lambda tokens=tokens: log_probability(translator, source, TRANSLATION, tokens),
            monkeypatch,
        )
        later = table[(table.relation == "cross") & ((table.target > tokens[-1] + 1) | (table.target == 0))]
        assert not later.attribution.any(), "later tokens do not affect a word"
        assert table.attribution.any()


def test_the_output_of_a_translator_is_explained_by_default(translators, source):
    translator = translators("transformer")
    table, attention = gradient_times_weight(translator, source), translator.attention(source)
    pd.testing.assert_frame_equal(table.drop(columns=["gradient", "attribution"]), attention.table())
    pd.testing.assert_frame_equal(table, gradient_times_weight(translator, source, target=attention.prediction))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"label": "ein"}, ("label", "target")),
        ({"word": 5, "target": TRANSLATION}, ("word",)),
        ({"word": -1, "target": "Ein"}, ("word",)),
    ],
)
def test_invalid_arguments_of_a_translator(arguments, options, translators, source):
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(translators("transformer"), source, **arguments)
    assert caught.value.options == options


def test_a_source_without_words(translators):
    with pytest.raises(DataError, match="no words"):
        gradient_times_weight(translators("transformer"), "  ")
