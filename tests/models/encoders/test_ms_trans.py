"""MS-Trans against a dense reference in double precision, with the head counts of the paper's equations."""

import math
from itertools import pairwise
from random import Random

import pytest
import torch

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.models._encoders import MSTransOptions, make_encoder
from graphattn.models._encoders.base import sinusoids

from .dense import MSTrans, count_parameters


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
    extra = {name: int(count) for name, count in (spec.split(":") for spec in options.relations)}
    kind = "radius" if options.literal_radius else "window"
    divisor = 20 if options.score_scale == "hidden" else options.head_feats or 4
    rows = [
        {f"{kind}:{name}": count for name, count in zip(options.scales, row, strict=True)} | extra
        for row in rows_of_heads(5, options.layers, len(options.scales), options.alpha)
    ]
    for sentence, tokens, output in zip(sentences, *encode(encoder, 20)[1:], strict=True):
        if options.positions:
            tokens = tokens + sinusoids(torch.arange(len(tokens)), 20, tokens.dtype)
        expected = MSTrans(encoder, sentence)(tokens, rows, divisor)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


def test_weights_equal_the_dense_ones(double_encoder, check_maps):
    options = MSTransOptions(hidden=8, heads=2, layers=2, scales=("3",), relations=("dependency:1",))
    encoder = double_encoder(options)

    def run(sentence, tokens):
        dense = MSTrans(encoder, sentence)
        dense(tokens, options.layer_heads())
        return dense.seen

    check_maps(encoder, 8, run)


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


def test_heads_of_the_paper():
    rows = MSTransOptions().layer_heads()
    assert [list(row.values()) for row in rows] == [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    assert list(rows[0]) == [f"window:{scale}" for scale in ("1", "3", "N/16", "N/8", "N/4")]


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
    assert options.layers == layers
    assert count_parameters(options) == parameters


def test_only_relations_with_heads_are_built():
    narrow = make_encoder(MSTransOptions(layers=1, heads=1, hidden=4))
    assert [relation.name for relation in narrow.relations()] == ["window:1"]
    assert narrow.heads_along() == {"window:1": 1}
    single = MSTransOptions(hidden=4, heads=2, layers=3, scales=("N/4",), relations=("group:1",))
    assert [relation.name for relation in make_encoder(single).relations()] == ["window:N/4", "group"]


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


@pytest.mark.parametrize("star", [False, True])
@pytest.mark.parametrize("labels", ["bias", "vectors"])
def test_heads_learn_from_labels(labels, star):
    """A word's tag is its label, which neither the word nor the words around it tell."""
    random, sentences = Random(0), []
    for size in [3, 4, 5, 6] * 10:
        deprels = ["root", *(random.choice(["nsubj", "obj"]) for _ in range(size - 1))]
        heads = [0, *(random.randint(1, number) for number in range(1, size))]
        sentences.append(Sentence([random.choice("ab") for _ in range(size)], heads=heads, deprels=deprels))
    targets = torch.tensor([["root", "nsubj", "obj"].index(name) for each in sentences for name in each.deprels])
    is_a = torch.tensor([token == "a" for each in sentences for token in each.tokens])
    tokens = torch.nn.functional.one_hot(is_a.long(), 24).float()

    def train(relation_labels):
        torch.manual_seed(0)
        options = {"hidden": 24, "heads": 2, "head_feats": 8, "layers": 1, "scales": ("1",), "dropout": 0.0}
        relations = "dependency=2,star=1" if star else "dependency=2"
        encoder = make_encoder(MSTransOptions(**options, relations=relations, relation_labels=relation_labels))
        head = torch.nn.Linear(24, 3)
        batch = TextGraphBuilder(encoder.relations(), cls=False).text_batch(sentences)
        optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.02)
        for _ in range(60):
            loss = torch.nn.functional.cross_entropy(head(encoder(batch, tokens)), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    assert train(labels) < train("none") - (0.3 if labels == "vectors" else 0.02)


def test_labels_are_read_from_every_kind_of_graph():
    options = {"hidden": 8, "heads": 2, "layers": 1, "scales": ("3",), "relations": "dependency=1"}
    encoder = make_encoder(MSTransOptions(**options, relation_labels="vectors")).eval()
    sentence = Sentence(["dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    batch = TextGraphBuilder(encoder.relations(), cls=False).text_batch([sentence])
    tokens = torch.randn(2, 8)
    torch.testing.assert_close(encoder(batch.to_dgl(), tokens), encoder(batch, tokens))
    torch.testing.assert_close(encoder(batch.to_pyg(), tokens), encoder(batch, tokens))
