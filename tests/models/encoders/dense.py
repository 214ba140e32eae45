"""References for one text in double precision: matrices and masks instead of edges."""

import math

import torch
from torch.nn import functional as F

from graphattn.builders import TextGraphBuilder
from graphattn.models._encoders import make_encoder

NODES = ("token", "relay", "span", "sentence", "document")


def count_parameters(options):
    """The number of an encoder's parameters, whose values are not made."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make_encoder(options).parameters())


def linear(layer, x):
    return F.linear(x, layer.weight, layer.bias)


def norm(layer, x):
    return F.layer_norm(x, x.shape[1:], layer.weight, layer.bias, layer.eps)


def feed_forward(layer, x):
    return linear(layer.narrow, F.relu(linear(layer.widen, x)))


def attention(query, key, value, heads, mask=None):
    """Vaswani et al. 2017, Eq. 1, for each head: values of all heads, and maps (heads, targets, sources)."""
    query, key, value = (part.unflatten(1, (heads, -1)).transpose(0, 1) for part in (query, key, value))
    scores = query @ key.mT / math.sqrt(query.shape[2])
    maps = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(2)
    return (maps @ value).transpose(0, 1).flatten(1), maps


def run_block(block, x, seen, mask=None):
    """A pre-norm Transformer block (UMST, section 2), on the pairs of nodes of a mask; ``seen`` gets its maps."""
    parts = linear(block.attention.project, norm(block.attention_norm, x)).chunk(3, 1)
    attended, maps = attention(*parts, block.attention.num_heads, mask)
    seen.extend(maps)
    x = x + linear(block.attention.output, attended)
    return x + feed_forward(block, norm(block.ffn_norm, x))


def connect(sentence):
    """(words, words) matrix of self-loops and dependency arcs in both directions; word 0 is [CLS]."""
    arcs = torch.eye(sentence.num_words + 1, dtype=torch.float64)
    for dependent, head in enumerate(sentence.heads, start=1):
        if head:
            arcs[dependent, head] = arcs[head, dependent] = 1
    return arcs


def convolve(layer, arcs, x):
    """UMST, Eq. 2 and 3: a graph convolution along normalised arcs."""
    roots = torch.diag(arcs.sum(1) ** -0.5)
    normalized = roots @ arcs @ roots
    return normalized @ F.relu(normalized @ x @ layer.linear.weight.T)


class MSTrans:
    """MS-Trans, Eq. 9-10: all nodes of a text, tokens first, with the masks of the encoder's relations.

    ``seen`` gets the maps of all layers and heads.
    """

    def __init__(self, encoder, sentence):
        self.layers, self.seen = encoder.layers, []
        graph = TextGraphBuilder(encoder.relations()).text_batch([sentence])
        self.first, self.count = {}, 0
        for kind in NODES:
            if kind in graph.node_counts:
                self.first[kind] = self.count
                self.count += graph.num_nodes(kind)
        self.num_tokens = graph.num_nodes("token")
        self.masks, self.averaged = {}, {}
        for (source, name, target), edges in graph.edges.items():
            mask = self.masks.setdefault(name, torch.zeros(self.count, self.count, dtype=torch.bool))
            sources, targets = edges.ends_by_id()
            mask[self.first[target] + targets, self.first[source] + sources] = True
            if source == "token" != target:
                own = torch.zeros(graph.num_nodes(target), self.num_tokens, dtype=torch.float64)
                own[targets, sources] = 1
                self.averaged[target] = own / own.sum(1, keepdim=True).clamp(min=1)

    def __call__(self, tokens, layer_heads, divisor=None):
        """The tokens' states after layers with these heads by relation; scores are divided by a root."""
        states = torch.zeros(self.count, tokens.shape[1], dtype=torch.float64)
        states[: self.num_tokens] = tokens
        for kind, weights in self.averaged.items():
            states[self.first[kind] : self.first[kind] + len(weights)] = weights @ tokens
        for layer, heads in zip(self.layers, layer_heads, strict=True):
            states = norm(layer.norm, states + F.relu(self.attend(layer.attention, heads, states, divisor)))
        return states[: self.num_tokens]

    def attend(self, layer, heads, states, divisor):
        size, outputs = layer.head_feats, []
        query, key, value = linear(layer.project, states).chunk(3, 1)
        for name in (name for name, count in heads.items() for _ in range(count)):
            own = slice(len(outputs) * size, (len(outputs) + 1) * size)
            scores = query[:, own] @ key[:, own].T
            if name in layer.distances:  # Shaw et al., Eq. 4
                clip, place = layer.distances[name], torch.arange(self.num_tokens)
                vectors = layer.distance_vectors[list(layer.distances).index(name)]
                vectors = vectors[(place - place.unsqueeze(1)).clamp(-clip, clip) + clip]
                added = torch.einsum("id,ijd->ij", query[: self.num_tokens, own], vectors)
                scores = scores + F.pad(added, (0, self.count - self.num_tokens) * 2)
            mask = self.masks[name]
            weights = (scores / math.sqrt(divisor or size)).masked_fill(~mask, -math.inf).softmax(1)
            self.seen.append(torch.where(mask.any(1, keepdim=True), weights, 0.0))
            outputs.append(self.seen[-1] @ value[:, own])
        return linear(layer.output, torch.cat(outputs, dim=1))
