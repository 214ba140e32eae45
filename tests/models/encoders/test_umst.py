"""UMST against the paper's equations with dense matrices in double precision, sentence by sentence."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from graphattn._edges import Edges
from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.models import TransformerOptions, UMSTOptions
from graphattn.models._encoders import make_encoder
from graphattn.models._encoders.base import sinusoids
from graphattn.models._encoders.umst import SIZES, word_classes

from .dense import connect, convolve, count_parameters, feed_forward, linear, norm

SMALL = UMSTOptions(hidden=12, layers=2, heads=3, ffn=16)
ABLATIONS = {
    "umst": {},
    "without class embedding": {"class_embedding": False},
    "without intra-group": {"intra_group": False},
    "without inter-group": {"inter_group": False},
    "mean": {"graph_layer": "mean"},
    "gat": {"graph_layer": "gat"},
    "shared in a block": {"share_projections": "block"},
    "shared across blocks": {"share_projections": "blocks"},
    "shared queries and keys": {"share_scores": True},
    "nearest": {"upsampling": "nearest"},
    "linear": {"upsampling": "linear"},
    "normalised": {"normalize": True},
    "relative positions": {"relative_positions": 3},
    "relative positions of tokens alone": {"relative_positions": 3, "word_positions": False},
    "unscaled classes": {"scale_classes": False},
    "sum": {"map_fusion": "sum"},
    "gate": {"map_fusion": "gate"},
    "random groups": {"groups": "random", "inter_group": False},
    "shuffled groups": {"groups": "shuffled", "inter_group": False},
    "random arcs": {"arcs": "random"},
    "transformer": {"class_embedding": False, "intra_group": False, "inter_group": False},
}


class Dense:
    """The encoder on one sentence, with a matrix for each relation and explicit sums."""

    def __init__(self, encoder, sentence, groups, arcs):
        self.encoder, self.options = encoder, encoder.options
        self.word_of = [0, *(word + 1 for word in sentence.word_ids)]
        self.words = sentence.num_words + 1
        self.groups, self.arcs = groups, arcs
        self.seen = []  # (targets, sources) of each layer and head, of tokens and then of words
        self.membership = torch.zeros(len(self.word_of), self.words, dtype=torch.float64)
        self.membership[range(len(self.word_of)), self.word_of] = 1

    def __call__(self, tokens):
        x = tokens + sinusoids(torch.arange(len(tokens)), tokens.shape[1], tokens.dtype)
        if self.options.class_embedding:
            split = [int(self.word_of.count(word) > 1) for word in self.word_of]
            factor = math.sqrt(tokens.shape[1]) if self.options.scale_classes else 1
            x = x + factor * self.encoder.classes.weight[split]
        for number, layer in enumerate(self.encoder.layers):
            x = self.block(number, layer, x)
        return norm(self.encoder.norm, x)

    def block(self, number, layer, x):
        norms, words = iter(layer.mix_norms.values()), None
        if self.options.intra_group:
            x = x + self.mixed(number, "group", self.groups, norm(next(norms), x))
        if self.options.inter_group:
            words = self.membership.T @ x / self.membership.sum(0).unsqueeze(1)
            words = words + self.mixed(number, "arc", self.arcs, norm(next(norms), words))
            words = norm(layer.word_norm, words)
        x = x + self.attended(layer.attention, norm(layer.attention_norm, x), words)
        return x + feed_forward(layer, norm(layer.ffn_norm, x))

    def mixed(self, number, part, adjacency, x):
        """Eq. 2 and 3, and their alternatives in Table 5."""
        parts = [
            name for name, there in (("group", self.options.intra_group), ("arc", self.options.inter_group)) if there
        ]
        which = {
            "none": number * len(parts) + parts.index(part),
            "block": number,
            "blocks": parts.index(part),
        }[self.options.share_projections]
        if self.options.graph_layer == "mean":
            return adjacency @ x / adjacency.sum(1, keepdim=True)
        mixer = self.encoder.mixers[which]
        if self.options.graph_layer == "gat":
            return graph_attention(mixer, adjacency, x)
        return convolve(mixer, adjacency, x)

    def attended(self, layer, x, words):
        """Section 3.4 and Eq. 4, with the map of all pairs of tokens."""
        width, outputs = self.options.hidden // self.options.heads, []
        query, key, value = linear(layer.project, x).split(self.options.hidden, 1)
        if words is not None:
            of_words = linear(layer.project_words or layer.project, words).split(self.options.hidden, 1)
        for head in range(self.options.heads):
            own = slice(head * width, (head + 1) * width)
            attention = self.softmax(query[:, own], key[:, own], layer.distance_vectors)
            self.seen.append(attention)
            if words is not None:
                between = self.softmax(of_words[0][:, own], of_words[1][:, own], layer.word_distance_vectors)
                self.seen.append(between)
                attention = self.fused(layer, x, head, attention, self.enlarged(between))
            outputs.append(attention @ value[:, own])
        return linear(layer.output, torch.cat(outputs, 1))

    def softmax(self, query, key, vectors):
        """Eq. 1, with relative positions if there are vectors of distances (Shaw et al. 2018, Eq. 4)."""
        scores = query @ key.T
        if vectors is not None:
            clip = self.options.relative_positions
            distance = torch.arange(len(query)) - torch.arange(len(query)).unsqueeze(1)  # j - i
            scores = scores + torch.einsum("id,ijd->ij", query, vectors[distance.clamp(-clip, clip) + clip])
        return (scores / math.sqrt(query.shape[1])).softmax(1)

    def fused(self, layer, x, head, tokens, words):
        """The three ways of section 3.4."""
        if self.options.map_fusion == "gate":
            gate = torch.sigmoid(x @ layer.gate.weight[head] + layer.gate.bias[head]).unsqueeze(1)
            return gate * tokens + (1 - gate) * words
        return tokens + words if self.options.map_fusion == "sum" else 0.5 * tokens + 0.5 * words

    def enlarged(self, attention):
        size = len(self.word_of)
        if self.options.upsampling != "membership":
            mode = {"nearest": {"mode": "nearest"}, "linear": {"mode": "bilinear", "align_corners": False}}
            return F.interpolate(attention[None, None], (size, size), **mode[self.options.upsampling])[0, 0]
        right = self.membership.T
        if self.options.normalize:
            right = right / right.sum(1, keepdim=True)
        return self.membership @ attention @ right


def graph_attention(layer, adjacency, x):
    """Velickovic et al. 2018, Eq. 1-5."""
    heads = []
    for target, source, weight in zip(layer.target, layer.source, layer.linear.weight.chunk(layer.heads), strict=True):
        values = x @ weight.T
        scores = F.leaky_relu((values @ target).unsqueeze(1) + (values @ source).unsqueeze(0), 0.2)
        heads.append(F.elu(scores.masked_fill(adjacency == 0, float("-inf")).softmax(1) @ values))
    return torch.cat(heads, 1)


def adjacency_of(graph, name, nodes):
    """The matrix of a relation of one sentence's graph."""
    matrix = torch.zeros(graph.num_nodes(nodes), graph.num_nodes(nodes), dtype=torch.float64)
    sources, targets = (ends.long() for ends in Edges.of(graph, name).ends_by_id())
    matrix[targets, sources] = 1
    return matrix


def matrices(encoder, sentence):
    """A_w and A_p by the paper's definitions; random graphs come from the builder, which has separate tests."""
    options = encoder.options
    graph = TextGraphBuilder(encoder.relations()).text_batch([sentence])
    word_of = torch.tensor([0, *(word + 1 for word in sentence.word_ids)])
    groups = (word_of.unsqueeze(1) == word_of).double()
    if options.intra_group and options.groups != "words":
        groups = adjacency_of(graph, options.group_relation().name, "token")
    arcs = connect(sentence)
    if options.inter_group and options.arcs == "random":
        arcs = adjacency_of(graph, options.arc_relation().name, "word")
    return groups, arcs


@pytest.mark.slow
@pytest.mark.parametrize("options", ABLATIONS.values(), ids=ABLATIONS)
def test_every_row_of_the_papers_tables_equals_the_dense_reference(double_encoder, encode, sentences, options):
    encoder = double_encoder(replace(SMALL, **options))
    _, inputs, outputs = encode(encoder, 12)
    for sentence, tokens, actual in zip(sentences, inputs, outputs, strict=True):
        expected = Dense(encoder, sentence, *matrices(encoder, sentence))(tokens)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9 if options.get("upsampling") is None else 1e-5)


def test_without_its_parts_it_equals_the_pre_norm_transformer(double_encoder, encode):
    bare = {"class_embedding": False, "intra_group": False, "inter_group": False}
    umst = double_encoder(replace(SMALL, **bare))
    plain = double_encoder(TransformerOptions(hidden=12, layers=2, heads=3, ffn=16, norm="pre"))
    plain.load_state_dict(umst.state_dict())
    for one, other in zip(encode(umst, 12)[2], encode(plain, 12)[2], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_weights_equal_the_dense_ones(double_encoder, check_maps):
    encoder = double_encoder(SMALL)

    def run(sentence, tokens):
        dense = Dense(encoder, sentence, *matrices(encoder, sentence))
        dense(tokens)
        heads = [dense.seen[start : start + 6] for start in range(0, len(dense.seen), 6)]  # tokens and words in turn
        return [one for of_layer in heads for one in (*of_layer[::2], *of_layer[1::2])]

    check_maps(encoder, 12, run)


def test_classes_of_tokens():
    sentences = [
        Sentence(["un", "known", "word"], word_ids=[0, 0, 1]),
        Sentence([]),
        Sentence(["a", "b", "c"], word_ids=[0, 1, 1]),
    ]
    relations = make_encoder(SMALL).relations()
    graph = TextGraphBuilder(relations).text_batch([replace(s, heads=[0] * s.num_words) for s in sentences])
    assert word_classes(graph, torch.device("cpu")).tolist() == [0, 1, 1, 0, 0, 0, 0, 1, 1]
    bare = TextGraphBuilder(relations, cls=False).text_batch([Sentence([word], heads=[0]) for word in "ab"])
    assert word_classes(bare, torch.device("cpu")).tolist() == [0, 0]


def test_class_vectors_have_the_papers_initialization():
    torch.manual_seed(0)
    drawn = torch.cat([make_encoder(SMALL).classes.weight.detach().flatten() for _ in range(60)])
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) * math.sqrt(12) - 1) < 0.06


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.GraphAttnWarning")
def test_without_a_parse_words_have_no_arcs(double_encoder):
    encoder = double_encoder(SMALL)
    builder = TextGraphBuilder(encoder.relations())
    word_ids, tokens = [0, 0, 1, 2], torch.randn(5, 12, dtype=torch.float64)
    unparsed = Sentence(["x"] * 4, word_ids=word_ids)
    rootless = replace(unparsed, heads=[0, 0, 0])
    actual = encoder(builder.text_batch([unparsed]), tokens)
    groups, arcs = matrices(encoder, rootless)
    assert torch.equal(arcs, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(actual, Dense(encoder, rootless, groups, arcs)(tokens), rtol=0, atol=1e-9)
    parsed = replace(unparsed, heads=[0, 1, 1])
    together = encoder(builder.text_batch([unparsed, parsed]), torch.cat([tokens, tokens]))
    torch.testing.assert_close(together[:5], actual, rtol=0, atol=1e-12)
    assert not torch.allclose(together[5:], actual)


def test_parameters_of_the_base_model():
    """Parameters that each row of Tables 5 and 6 adds to or removes from a Transformer, by the paper's shapes."""

    def count(**options):
        return count_parameters(UMSTOptions.of_size("base", **options))

    square, width, layers = 512**2, 512, 6
    plain = count(class_embedding=False, intra_group=False, inter_group=False)
    block = 4 * (square + width) + 2 * 2048 * 512 + 2048 + 512 + 2 * 2 * width
    assert plain == layers * block + 2 * width
    scores = 2 * (square + width)
    assert count() == plain + layers * (2 * square + scores + 3 * 2 * width) + 2 * width
    assert count() - count(share_projections="block") == layers * square
    assert count() - count(share_projections="blocks") == (layers - 1) * 2 * square
    assert count() - count(share_scores=True) == layers * scores
    assert count() - count(graph_layer="mean") == layers * 2 * square
    assert count(upsampling="linear") == count(arcs="random") == count()


def test_sizes():
    assert UMSTOptions() == UMSTOptions.of_size("small")
    columns = ("hidden", "layers", "heads", "ffn", "dropout")
    assert {name: tuple(map(own.get, columns)) for name, own in SIZES.items()} == {
        "small": (256, 3, 4, 1024, 0.1),
        "base": (512, 6, 8, 2048, 0.1),
        "deep": (512, 12, 8, 2048, 0.1),
        "big": (1024, 6, 16, 4096, 0.3),
    }
    for size in SIZES:
        UMSTOptions.of_size(size).validate()
    assert UMSTOptions.of_size("big", layers=2).layers == 2
    with pytest.raises(ConfigError) as caught:
        UMSTOptions.of_size("huge")
    assert str(caught.value) == "size is 'huge'; choose one of: small, base, deep, big"


@pytest.mark.parametrize(("options", "places"), [({}, 4), ({"intra_group": False}, 3), ({"inter_group": False}, 3)])
def test_dropout_is_applied_to_every_residual_branch(options, places):
    encoder = make_encoder(UMSTOptions(hidden=12, layers=2, heads=3, ffn=16, **options)).train()
    calls = Counter()
    for layer, part in enumerate(encoder.layers):
        part.dropout.register_forward_hook(lambda *_, layer=layer: calls.update([layer]))
        part.ffn_dropout.register_forward_hook(lambda *_, layer=layer: calls.update([(layer, "inside")]))
    encoder(TextGraphBuilder(encoder.relations()).text_batch([Sentence(["x"], heads=[0])]), torch.randn(2, 12))
    assert calls == {0: places, 1: places, (0, "inside"): 1, (1, "inside"): 1}


def test_dropout_inside_the_feed_forward_layer_is_the_residual_one_by_default():
    layers = (make_encoder(replace(SMALL, dropout=0.3, ffn_dropout=inner)).layers[0] for inner in (None, 0.1))
    assert [layer.ffn_dropout.probability for layer in layers] == [0.3, 0.1]


@pytest.mark.parametrize("options", [{"groups": "shuffled"}, {"groups": "random"}, {"arcs": "random"}])
def test_names_of_random_graphs_contain_the_seed(options):
    """Each seed gives other edges, which tests of relations check."""
    made = [UMSTOptions(graph_seed=seed, **options) for seed in (5, 6)]
    names = {(own.group_relation() if "groups" in options else own.arc_relation()).name for own in made}
    assert len(names) == 2
