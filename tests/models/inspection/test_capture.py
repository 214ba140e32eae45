"""Maps have the weights that encoders return, and requesting them has no effect on scores."""

import copy
import math

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from graphattn import Edges
from graphattn.models import InputOptions, MTSAOptions, TextClassifier, TrainingOptions
from graphattn.models._estimators.state import make_corpus

TEXTS = ["the longest dogs bark loudly today", "dogs sleep"]


def test_maps_have_the_weights_of_the_encoder_for_each_text(fitted_estimator):
    estimator, x = fitted_estimator
    attention, batch, layers = estimator.attention(x), make_corpus(estimator, [x])[[0]], []
    with torch.inference_mode():
        estimator.model_(batch, weights=layers)
    lengths = batch.graph.batch_num_nodes("token").tolist()
    maps = iter(attention.maps)
    for number, layer in enumerate(layers):
        first_head = 0
        for relation, weights in layer.items():
            sources, targets = Edges.of(batch.graph, relation).ends_by_id()
            start = 0
            for part, length in zip(attention.tokens, lengths, strict=True):
                own, one = (start <= targets) & (targets < start + length), next(maps)
                assert (one.layer, one.first_head, one.relation) == (number, first_head, relation)
                assert (one.source_part, one.target_part) == (part, part)
                for actual, expected in ((one.sources, sources - start), (one.targets, targets - start)):
                    np.testing.assert_array_equal(actual, expected[own])
                np.testing.assert_array_equal(one.weights, weights[own])
                start += length
            first_head += weights.shape[1]
    assert next(maps, None) is None


def test_weights_by_feature_equal_a_dense_reference():
    """Of MTSA, and their means."""
    training = TrainingOptions(epochs=1, dev_fraction=0.0)
    options = MTSAOptions(hidden=6, layers=1, heads=2)
    model = TextClassifier(options, inputs=InputOptions(embedding=6), training=training, preset="paper")
    double = copy.copy(model.fit(TEXTS * 4, [3, 4] * 4))
    double.model_ = copy.deepcopy(model.model_).double()
    attention = double.attention(TEXTS[0], features=True)
    ids = make_corpus(double, [TEXTS[0]])[[0]].graph.node_features["token"]["id"]
    target, source = torch.meshgrid(torch.arange(len(ids)), torch.arange(len(ids)), indexing="ij")
    masks = {"forward": source < target, "backward": source > target}
    with torch.no_grad():
        tokens = double.model_.embedding(ids)
        for one in (one for several in attention.maps for one in several.by_head()):
            scores = mtsa_scores(double.model_.encoder.layers[0].attention, tokens, one.first_head)
            weights = scores.masked_fill(~masks[one.relation].unsqueeze(2), -math.inf).softmax(1)
            expected = weights[one.targets, one.sources].numpy()
            np.testing.assert_allclose(one.weights[:, 0], expected.mean(1), atol=1e-10)
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


def test_scores_do_not_depend_on_requested_weights(fitted_estimator):
    estimator, x = fitted_estimator
    batch = make_corpus(estimator, [x])[[0]]
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
