"""Gradient times weight against factors on the weights of dense matrices, and against finite differences."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn import _attention as attention
from graphattn import _tensorized as tensorized
from graphattn._backends.cpu.tensorized.edges import weights_by_feature
from graphattn._backends.torch import sum_by_weights
from graphattn.exceptions import ConfigError, DataError, NotFittedError
from graphattn.models import BiLSTMOptions, InputOptions, TextClassifier, TrainingOptions, Translator
from graphattn.models._decoders import attention as decoder_attention
from graphattn.models._decoders import duo as duo_decoder
from graphattn.models._encoders import duo
from graphattn.models.inspection._capture import capture_decoding
from graphattn.models.inspection.attributions import by_source, gradient_times_weight

TEXT = "fine and never dull"
TRANSLATION = "Ein hund, klein!"


@pytest.mark.parametrize("label", [None, "bad"])
def test_it_equals_the_gradient_of_factors_on_dense_weights(label, classifier, dense, log_odds):
    table = gradient_times_weight(classifier, TEXT, label=label)
    reference = dense(classifier, TEXT)
    scores = reference.scores()
    chosen = int(scores.argmax()) if label is None else classifier.classes_.tolist().index(label)
    log_odds(scores, chosen).backward()
    assert set(zip(table.layer, table["head"], strict=True)) == set(reference.factors)
    for (layer, head), rows in table.groupby(["layer", "head"]):
        expected = reference.factors[layer, head].grad[rows.target.to_numpy(), rows.source.to_numpy()]
        np.testing.assert_allclose(rows.attribution, expected, rtol=1e-5, atol=1e-7)
        hidden = reference.factors[layer, head].grad.clone()
        hidden[rows.target.to_numpy(), rows.source.to_numpy()] = 0
        assert not hidden.any()
    np.testing.assert_allclose(table.attribution, table.gradient * table.weight)


def test_it_equals_finite_differences(classifiers, dense, log_odds):
    classifier, step = classifiers["ms-trans"], 1e-5
    table = gradient_times_weight(classifier, TEXT, label="good")
    for row in table.sample(12, random_state=0).itertuples():
        sides = []
        for sign in (1, -1):
            reference = dense(classifier, TEXT)
            factor = torch.ones(reference.count, reference.count, dtype=torch.float64)
            factor[row.target, row.source] += sign * step
            reference.factors[row.layer, row.head] = factor
            sides.append(float(log_odds(reference.scores(), classifier.classes_.tolist().index("good")).detach()))
        assert row.attribution == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-3, abs=1e-6)


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


def test_encoders_without_attention():
    model = TextClassifier(
        BiLSTMOptions(hidden=4), inputs=InputOptions(embedding=4), training=TrainingOptions(epochs=1, dev_fraction=0)
    ).fit(["a", "b"] * 4, [0, 1] * 4)
    with pytest.raises(ConfigError, match=r"^encoder 'bilstm' has no attention weights$"):
        gradient_times_weight(model, "a")


@pytest.mark.parametrize("kind", [TextClassifier, Translator])
def test_untrained_estimators(kind):
    with pytest.raises(NotFittedError, match=f"this {kind.__name__} is not trained yet"):
        gradient_times_weight(kind(), "a")


class Nudge:
    """Multiply the weight of one edge in one head by a factor while a translator runs.

    Parameters
    ----------
    translator : the model
    head : counted through the heads of all layers, those of the decoder on the source last
    edge : its number among those along which the head looks
    factor : for its weight
    """

    def __init__(self, monkeypatch, translator, head, edge, factor):
        self.head, self.edge, self.factor, self.seen = head, edge, factor, 0
        sums = duo if translator.encoder_.name == "duo" else attention
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

    def attach_mean_weights(self, out, means, edges, query, key, value, scores, *, rule, bias):
        weights = self.changed(weights_by_feature(edges, query, key, value, scores, rule=rule))
        targets = torch.arange(edges.num_destinations).repeat_interleave(edges.indptr.diff())
        return torch.zeros_like(out).index_add(0, targets, weights * value[edges.indices])

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
    scores = capture_decoding(translator.model_, translator.encode([source], [text])[[0]]).scores.detach()
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


def differences(translator, source, tokens, patching):
    """One edge of each head: (layer, head, relation, source, target) -> effect of the edge's weight."""
    step, random, actual = 1e-5, np.random.default_rng(0), {}
    for head, one, numbers in places(translator.attention(source, TRANSLATION)):
        edge, sides = random.integers(len(numbers)), []
        for sign in (1, -1):
            with patching() as patch:
                Nudge(patch, translator, head, numbers[edge], 1 + sign * step)
                sides.append(log_probability(translator, source, TRANSLATION, tokens))
        key = one.layer, one.first_head, one.relation, one.sources[edge], one.targets[edge]
        actual[key] = (sides[0] - sides[1]) / (2 * step)
    return pd.Series(actual)


def test_edges_of_a_translator_against_finite_differences(translator, source, precise, monkeypatch):
    table = gradient_times_weight(translator, source, target=TRANSLATION)
    actual = table.set_index(["layer", "head", "relation", "source", "target"]).attribution
    expected = differences(translator, source, slice(None), monkeypatch.context)
    np.testing.assert_allclose(actual[expected.index], expected, rtol=1e-4, atol=1e-7)
    assert sum(expected.abs() > 1e-6) >= 4


def test_words_of_a_translation(translators, source, precise, monkeypatch):
    translator = translators("transformer")
    ids = np.array(translator.attention(source, TRANSLATION).sentences["target"].word_ids)
    for word in range(5):
        table = gradient_times_weight(translator, source, target=TRANSLATION, word=word)
        tokens = np.flatnonzero(ids == word).tolist()
        actual = table.set_index(["layer", "head", "relation", "source", "target"]).attribution
        expected = differences(translator, source, tokens, monkeypatch.context)
        np.testing.assert_allclose(actual[expected.index], expected, rtol=1e-4, atol=1e-7)
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
