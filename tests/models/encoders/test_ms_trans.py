"""MS-Trans against a dense reference in double precision, written from the paper's equations."""

import math
from functools import cache
from itertools import pairwise

import pytest
import torch

from graphattn._edges import Edges
from graphattn.builders import TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.models._encoders import MSTransOptions, make_encoder
from graphattn.models._encoders.base import sinusoids


def width_of(scale, length):
    """Eq. 6-7 with the widths forced odd; ``length`` counts [CLS]."""
    width = int(scale) if scale.isdigit() else max(1, length // int(scale.removeprefix("N/")))
    return width + 1 if width % 2 == 0 else width


def rows_of_heads(num_heads, num_layers, num_scales, alpha):
    """Eq. 11-12: z_k = (K - k) alpha / l below the last layer, softmax times N', rounded-up running sums."""
    rows = []
    for layer in range(1, num_layers + 1):
        z = [(num_scales - k) * alpha / layer if layer < num_layers else 0.0 for k in range(num_scales)]
        total = sum(math.exp(value) for value in z)
        running = [sum(math.exp(value) for value in z[: k + 1]) / total * num_heads for k in range(num_scales)]
        reached = [0, *(math.ceil(round(value, 9)) for value in running)]
        rows.append([after - before for before, after in pairwise(reached)])
    return rows


def is_edge(relation, source, target, sentence):
    """Whether the relation of that name has an edge between two tokens of a sentence; token 0 is [CLS]."""
    kind, _, scale = relation.partition(":")
    length = len(sentence) + 1
    words = [0, *(word + 1 for word in sentence.word_ids)]
    if kind == "window":
        return abs(source - target) <= (width_of(scale, length) - 1) // 2
    if kind == "radius":
        return abs(source - target) <= width_of(scale, length)
    if kind == "group":
        return words[source] == words[target]
    if kind == "dependency":
        heads = [0, *sentence.heads]
        one, other = words[source], words[target]
        return one == other or heads[one] == other > 0 or heads[other] == one > 0
    return {"forward": source < target, "backward": source > target, "all": True}[kind]


@cache
def mask_of(relation, sentence):
    length = len(sentence) + 1
    return torch.tensor([[is_edge(relation, j, i, sentence) for j in range(length)] for i in range(length)])


def dense_layer(layer, heads, tokens, sentence, head_feats, scale):
    """Eq. 9-10 on one sentence: softmax over the scope, all heads through W_O, ReLU, residual, norm."""
    attention = layer.attention
    width = sum(heads.values()) * head_feats
    queries, keys, values = (tokens @ attention.project.weight.T + attention.project.bias).split(width, dim=1)
    outputs, first = [], 0
    for relation, count in heads.items():
        mask = mask_of(relation, sentence)
        for _ in range(count):
            own = slice(first, first + head_feats)
            first += head_feats
            scores = (queries[:, own] @ keys[:, own].T * scale).masked_fill(~mask, -math.inf)
            weights = torch.where(mask.any(1, keepdim=True), scores.softmax(1), 0.0)
            outputs.append(weights @ values[:, own])
    mixed = torch.cat(outputs, dim=1) @ attention.output.weight.T + attention.output.bias
    summed = tokens + torch.clamp(mixed, min=0)
    centred = summed - summed.mean(1, keepdim=True)
    normed = centred / torch.sqrt((centred**2).mean(1, keepdim=True) + 1e-5)
    return normed * layer.norm.weight + layer.norm.bias


CASES = {
    "paper": {},
    "alpha 1": {"alpha": 1.0},
    "negative alpha": {"alpha": -0.5, "layers": 2},
    "tagging": {"scales": ("1", "3", "5", "7", "9"), "alpha": 1.0},
    "radius": {"literal_radius": True, "scales": ("1", "3", "N/8"), "alpha": 0.0},
    "score scale of Eq. 6": {"score_scale": "hidden"},
    "wide heads": {"head_feats": 7, "layers": 2},
    "dependency and group": {"relations": ("dependency:2", "group:1"), "layers": 2},
    "positions": {"positions": True, "layers": 2},
    "order and all": {"relations": ("forward:1", "backward:2", "all:1"), "layers": 2},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_encoder_equals_the_dense_reference(changes, sentences, double_encoder, encode):
    options = MSTransOptions(**{"hidden": 20, "heads": 5, "layers": 3, "dropout": 0.3, **changes})
    encoder = double_encoder(options)
    _, inputs, outputs = encode(encoder, 20)
    extra = dict(spec.split(":") for spec in options.relations)
    kind = "radius" if options.literal_radius else "window"
    head_feats = options.head_feats or 4
    scale = 1 / math.sqrt(20 if options.score_scale == "hidden" else head_feats)
    rows = rows_of_heads(5, options.layers, len(options.scales), options.alpha)
    for sentence, tokens, output in zip(sentences, inputs, outputs, strict=True):
        if options.positions:
            tokens = tokens + sinusoids(torch.arange(len(tokens)), 20, tokens.dtype)
        for layer, row in zip(encoder.layers, rows, strict=True):
            heads = {f"{kind}:{name}": count for name, count in zip(options.scales, row, strict=True)}
            heads.update({name: int(count) for name, count in extra.items()})
            tokens = dense_layer(layer, heads, tokens, sentence, head_feats, scale)
        torch.testing.assert_close(output, tokens, rtol=0, atol=1e-10)


def test_half_precision_does_not_depend_on_gradients(sentences):
    options = MSTransOptions(hidden=20, heads=5, layers=3)
    encoder = make_encoder(options).eval()
    graph = TextGraphBuilder(encoder.relations()).text_batch(sentences)
    tokens = torch.randn(graph.num_nodes("token"), 20)
    with torch.autocast("cpu", torch.bfloat16):
        trained = encoder(graph, tokens)
        with torch.no_grad():
            used = encoder(graph, tokens)
    assert used.dtype == trained.dtype == torch.float32
    torch.testing.assert_close(used, trained, rtol=0, atol=1e-2)


def test_gradients_equal_those_of_the_dense_reference(sentences, double_encoder, encode):
    options = MSTransOptions(hidden=12, heads=3, layers=2, scales=("1", "3", "N/4"), relations=("dependency:1",))
    encoder = double_encoder(options)
    _, inputs, outputs = encode(encoder, 12)
    sum((output**3).sum() for output in outputs).backward()
    ours = {name: parameter.grad.clone() for name, parameter in encoder.named_parameters()}
    encoder.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for sentence, tokens in zip(sentences, inputs, strict=True):
        for layer, row in zip(encoder.layers, rows_of_heads(3, 2, 3, 0.5), strict=True):
            heads = dict(zip(("window:1", "window:3", "window:N/4"), row, strict=True)) | {"dependency": 1}
            tokens = dense_layer(layer, heads, tokens, sentence, 4, 0.5)
        total = total + (tokens**3).sum()
    total.backward()
    for name, parameter in encoder.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-10, atol=1e-10, msg=name)


def test_weights_equal_the_reference_in_edge_order(double_encoder, encode):
    encoder = double_encoder(MSTransOptions(hidden=8, heads=2, layers=1, scales=("3",), relations=("dependency:1",)))
    layers = []
    graph, inputs, _ = encode(encoder, 8, weights=layers)
    assert [set(layer) for layer in layers] == [{"window:3", "dependency"}]
    queries, keys, _ = (torch.cat(inputs) @ encoder.layers[0].attention.project.weight.T).split(12, dim=1)
    queries = queries + encoder.layers[0].attention.project.bias[:12]
    keys = keys + encoder.layers[0].attention.project.bias[12:24]
    for relation, heads in (("window:3", (0, 1)), ("dependency", (2,))):
        sources, targets = (ends.long() for ends in Edges.of(graph, relation).ends_by_id())
        for column, head in enumerate(heads):
            own = slice(4 * head, 4 * head + 4)
            scores = torch.full((graph.num_nodes("token"),) * 2, -math.inf, dtype=torch.float64)
            scores[targets, sources] = (queries[targets, own] * keys[sources, own]).sum(1) / 2
            expected = scores.softmax(1)[targets, sources]
            torch.testing.assert_close(layers[0][relation][:, column], expected, rtol=0, atol=1e-10)


def test_heads_of_the_paper():
    assert [list(row.values()) for row in MSTransOptions().layer_heads()] == [
        [5, 2, 2, 1, 0],
        [4, 2, 2, 1, 1],
        [2, 2, 2, 2, 2],
    ]
    assert list(MSTransOptions().layer_heads()[0]) == [
        "window:1",
        "window:3",
        "window:N/16",
        "window:N/8",
        "window:N/4",
    ]


def test_other_relations_have_heads_in_every_layer():
    rows = MSTransOptions(relations=("dependency:2", "group:1")).layer_heads()
    assert [(row["dependency"], row["group"], sum(row.values())) for row in rows] == [(2, 1, 13)] * 3


@pytest.mark.parametrize(
    ("options", "layers", "parameters"),
    [
        # Table 1: H DIM 300, head DIM 30: Q, K, V and O with biases, and the norm; no FFN, no positions
        (MSTransOptions(), 3, 3 * (4 * (300 * 300 + 300) + 2 * 300)),
        (MSTransOptions(scales=("1", "3", "5", "7", "9"), alpha=1.0), 3, 3 * (4 * (300 * 300 + 300) + 2 * 300)),
        # SNLI: H DIM 600, head DIM 64
        (MSTransOptions(hidden=600, head_feats=64), 3, 3 * (3 * (600 * 640 + 640) + (640 * 600 + 600) + 2 * 600)),
    ],
    ids=["classification", "tagging", "SNLI"],
)
def test_parameters_of_table_1(options, layers, parameters):
    encoder = make_encoder(options)
    assert len(encoder.layers) == layers
    assert sum(parameter.numel() for parameter in encoder.parameters()) == parameters


def test_only_relations_with_heads_are_built():
    assert [relation.name for relation in make_encoder(MSTransOptions(layers=1, heads=1, hidden=4)).relations()] == [
        "window:1"
    ]
    single = MSTransOptions(hidden=4, heads=2, layers=3, scales=("N/4",), relations=("group:1",))
    assert [relation.name for relation in make_encoder(single).relations()] == ["window:N/4", "group"]


def test_only_windows_depend_on_the_order_of_tokens(double_encoder, encode, sentences):
    """No positions: with windows of width 1 alone, permuted tokens give permuted outputs."""
    encoder = double_encoder(MSTransOptions(hidden=8, heads=2, layers=2, scales=("1",)))
    _, inputs, outputs = encode(encoder, 8)
    tokens = torch.cat(inputs)
    order = torch.randperm(len(tokens))
    graph = TextGraphBuilder(encoder.relations()).text_batch(sentences)
    torch.testing.assert_close(encoder(graph, tokens[order]), torch.cat(outputs)[order], rtol=0, atol=1e-12)


def test_relations_without_heads_are_not_listed():
    assert make_encoder(MSTransOptions(layers=1, heads=1, hidden=4)).heads_along() == {"window:1": 1}


def test_hidden_need_not_be_a_multiple_of_heads_with_head_feats():
    MSTransOptions(hidden=301, head_feats=30).validate()


def test_distances_of_a_relation_that_is_not_the_first():
    encoder = make_encoder(MSTransOptions(hidden=8, heads="window:3=1,relative:2(all)=1", layers=1))
    assert encoder.layers[0].attention.distances == {"relative:2(all)": 2}


def test_the_papers_settings():
    """Table 1 for SNLI, and Table 6; head counts of Eq. 11-12 by hand."""
    snli, table_6 = MSTransOptions.of_setting("snli"), MSTransOptions.of_setting("table-6", alpha=1.0)
    assert (snli.hidden, snli.head_feats, snli.alpha) == (600, 64, 0.5)
    assert (table_6.hidden, table_6.head_feats, table_6.heads, table_6.layers, table_6.alpha) == (600, 64, 5, 3, 1.0)
    table_6.validate()
    assert list(table_6.layer_heads()[2].values()) == [1] * 5
    assert MSTransOptions.of_setting("tagging") == MSTransOptions.for_tagging()
    with pytest.raises(ConfigError) as caught:
        MSTransOptions.of_setting("sst")
    assert str(caught.value) == "setting is 'sst'; choose one of: classification, tagging, snli, table-6"
