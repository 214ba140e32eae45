"""The weights of a pass equal dense references, and requesting them has no effect on scores."""

import copy
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

from graphattn.models import DuoOptions, InputOptions, MTSAOptions, TextClassifier, TrainingOptions
from graphattn.models._encoders.base import sinusoids

TEXTS = ["the longest dogs bark loudly today", "dogs sleep"]


def in_float64(estimator):
    double = copy.copy(estimator)
    double.model_ = copy.deepcopy(estimator.model_).double()
    return double


def mask_of(relation, word, heads):
    """(N, N) mask of the sources of each target, by the relation's definition."""
    count = len(word)
    target, source = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    same_word = word[target] == word[source]
    if relation.startswith("window:"):
        name = relation.removeprefix("window:")
        width = max(1, count // int(name[2:])) if name.startswith("N/") else int(name)
        return (target - source).abs() <= width // 2
    if relation == "dependency":
        linked = torch.eye(len(heads) + 1, dtype=torch.bool)  # [CLS] is word 0, the head of the root
        for dependent, head in enumerate(heads, start=1):
            if head:
                linked[dependent, head] = linked[head, dependent] = True
        return linked[word[target], word[source]]
    return {
        "all": torch.ones_like(same_word),
        "group": same_word,
        "forward": source < target,
        "backward": source > target,
    }[relation]


def dense_attention(attention, tokens, word, heads):
    """One layer's output and, for each relation, its weights (target, source, heads), by dense matrices."""
    query, key, value = attention.project(tokens).view(len(tokens), 3, -1, attention.head_feats).unbind(1)
    outputs, weights, first = [], {}, 0
    for relation, count in attention.heads.items():
        own = slice(first, first + count)
        scores = torch.einsum("thd,shd->tsh", query[:, own], key[:, own]) / math.sqrt(attention.head_feats)
        hidden = ~mask_of(relation, word, heads).unsqueeze(2)
        weights[relation] = scores.masked_fill(hidden, -math.inf).softmax(1).nan_to_num(0)
        outputs.append(torch.einsum("tsh,shd->thd", weights[relation], value[:, own]))
        first += count
    return attention.output(torch.cat(outputs, 1).flatten(1)), weights


def dense_reference(model, tokens, word, heads):
    """The weights of every layer for one text."""
    layers = []
    if hasattr(model.encoder.layers[0], "widen"):
        tokens = tokens + sinusoids(torch.arange(len(tokens)), model.encoder.width, tokens.dtype)
    for layer in model.encoder.layers:
        attended, weights = dense_attention(layer.attention, tokens, word, heads)
        layers.append(weights)
        if hasattr(layer, "widen"):
            tokens = layer.attention_norm(tokens + attended)
            tokens = layer.ffn_norm(tokens + layer.narrow(F.relu(layer.widen(tokens))))
        else:
            tokens = layer.norm(tokens + F.relu(attended))
    return layers


def test_weights_equal_a_dense_reference(fitted_estimator):
    estimator, x = fitted_estimator
    double = in_float64(estimator)
    attention = double.attention(x)
    graph = double.encode([x])[[0]].graph
    data = graph.node_features["token"]
    lengths = graph.batch_num_nodes("token").tolist()
    with torch.no_grad():
        embedded = double.model_.embedding(data["id"]).split(lengths)
    words = data["word"].long().split(lengths)
    sources = x if isinstance(x, tuple) else (x,)
    for text, (name, source) in enumerate(zip(attention.tokens, sources, strict=True)):
        with torch.no_grad():
            reference = dense_reference(double.model_, embedded[text], words[text], getattr(source, "heads", None))
        maps = [one for one in attention.maps if one.target_part == name]
        assert [(layer, relation) for layer, row in enumerate(reference) for relation in row] == [
            (one.layer, one.relation) for one in maps
        ]
        for one in maps:
            weights = reference[one.layer][one.relation]
            dense = np.zeros(weights.shape)
            dense[one.targets, one.sources] = one.weights
            np.testing.assert_allclose(dense, weights.numpy(), rtol=0, atol=1e-10)
            assert len(one.sources) == mask_of(one.relation, words[text], getattr(source, "heads", None)).sum()


MTSA = MTSAOptions(hidden=6, layers=1, heads=2)
DUO = DuoOptions(hidden=6)


@pytest.mark.parametrize("options", [MTSA, DUO, DuoOptions(hidden=6, window="3")])
def test_weights_of_other_encoders_equal_dense_references(options):
    """Duo's two sets in their order; MTSA's weights by feature, and their means."""
    training = TrainingOptions(epochs=1, dev_fraction=0.0)
    model = TextClassifier(options, inputs=InputOptions(embedding=6), training=training, preset="paper")
    double = in_float64(model.fit(TEXTS * 4, [3, 4] * 4))
    attention = double.attention(TEXTS[0], features=options is MTSA)
    graph = double.encode([TEXTS[0]])[[0]].graph
    word = torch.arange(len(attention.tokens["text"]))
    with torch.no_grad():
        tokens = double.model_.embedding(graph.node_features["token"]["id"])
        for one in (one for several in attention.maps for one in several.by_head()):
            if options is MTSA:
                scores = mtsa_scores(double.model_.encoder.layers[0].attention, tokens, one.first_head)
            else:
                own = tokens.split(double.model_.encoder.parts, dim=1)[one.first_head]
                scores = double.model_.encoder.scores[one.first_head](own) @ own.T / math.sqrt(own.shape[1])
                scores = scores.unsqueeze(2)
            hidden = ~mask_of(one.relation, word, None).unsqueeze(2)
            weights = scores.masked_fill(hidden, -math.inf).softmax(1)
            expected = weights[one.targets, one.sources].numpy()
            np.testing.assert_allclose(one.weights[:, 0], expected.mean(1), atol=1e-10)
            if options is MTSA:
                np.testing.assert_allclose(attention.features(0, one.first_head), expected, atol=1e-10)
                np.testing.assert_allclose(one.features.mean(2), one.weights, atol=1e-12)


def mtsa_scores(layer, tokens, head):
    """(targets, sources, features) of the gated variant: log-sigmoid of the pairs' plus the sources' scores."""
    rows = slice(head * layer.head_feats, (head + 1) * layer.head_feats)
    value = F.elu(tokens @ layer.value.weight[rows].T + layer.value.bias[rows])
    query, key = value @ layer.query.weight[head], value @ layer.key.weight[head]
    inner = F.elu(value @ layer.source_inner.weight[head] + layer.source_inner.bias[head])
    source = inner @ layer.source_outer.weight[head] + layer.source_outer.bias[head]
    return F.logsigmoid(query @ key.T / math.sqrt(layer.head_feats)).unsqueeze(2) + source


def test_weights_sum_to_one(fitted_estimator):
    estimator, x = fitted_estimator
    table = estimator.attention(x).table()
    part = ["target_part"] if "target_part" in table else []
    sums = table.groupby(["layer", "head", "relation", *part, "target"]).weight.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-6)
    assert (table.weight >= 0).all()


def test_scores_do_not_depend_on_requested_weights(fitted_estimator):
    estimator, x = fitted_estimator
    batch = estimator.encode([x])[[0]]
    with torch.inference_mode():
        torch.testing.assert_close(estimator.model_(batch, weights=[]), estimator.model_(batch), rtol=1e-5, atol=1e-6)


def test_attention_runs_one_pass_and_restores_the_modules(fitted_estimator):
    estimator, x = fitted_estimator

    def state():
        return {
            name: {key: id(value) for key, value in vars(module).items()}
            for name, module in estimator.model_.named_modules()
        }

    passes = []
    hook = estimator.model_.register_forward_hook(lambda *_: passes.append(1))
    before = state()
    try:
        estimator.attention(x)
    finally:
        after = state()
        hook.remove()
    assert passes == [1]
    assert after == before


def test_dropout_is_off_and_the_mode_does_not_change(estimators):
    estimator, x = estimators["classifier"]
    expected = estimator.attention(x).table()
    estimator.model_.train()
    try:
        pd.testing.assert_frame_equal(estimator.attention(x).table(), expected)
        assert estimator.model_.training
    finally:
        estimator.model_.eval()
