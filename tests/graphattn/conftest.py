"""Reference implementations of the papers' formulas, dense and edge by edge, and the names of backends.

Letters: N nodes, E edges, H heads, D features of a head.
"""

import numpy as np
import pytest
import torch

from graphattn import Edges, Scale


@pytest.fixture(params=["dgl", "fused", "torch"])
def backend(request):
    """The name of each backend for a CPU; test_registry.py tests which of them `auto` is."""
    return request.param


@pytest.fixture(scope="session")
def windows():
    """Make the windows of a scale in consecutive sentences, as ranges."""

    def make(lengths, scale):
        lengths = np.array(lengths, dtype=np.int64)
        reach = np.repeat(Scale(scale).widths(lengths) // 2, lengths)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        here = np.arange(lengths.sum())
        low, high = np.maximum(here - reach, starts), np.minimum(here + reach + 1, starts + np.repeat(lengths, lengths))
        return Edges.of_ranges(torch.from_numpy(low), torch.from_numpy(high), len(here))

    return make


@pytest.fixture(scope="session")
def mask_of():
    """The (N_dst, N_src) mask of edges."""

    def make(edges):
        mask = torch.zeros(edges.num_destinations, edges.num_sources, dtype=torch.bool)
        mask[edges.destinations, edges.sources] = True
        return mask

    return make


@pytest.fixture(scope="session")
def mask_of_sentences(edge_table):
    """The mask of a relation in a batch of sentences with ``[CLS]``, by its definition."""

    def make(relation, *sentences):
        blocks = []
        for sentence in sentences:
            sizes = {"token": len(sentence) + 1, "word": sentence.num_words + 1}
            blocks.append(torch.zeros(sizes[relation[2]], sizes[relation[0]]))
            for here, there, *_ in edge_table(relation, sentence, True):
                blocks[-1][here, there] = 1
        return torch.block_diag(*blocks).bool()

    return make


@pytest.fixture(scope="session")
def dense_attention():
    """Softmax of masked scores as a matrix, times the values (MS-Trans, Eq. 2 and 6); differentiable."""

    def compute(mask, query, key, value, scale=None, bias=0.0):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = torch.einsum("ihd,jhd->hij", query, key) * scale + bias
        seen = mask.any(1)
        scores = scores[:, seen].masked_fill(~mask[seen], float("-inf"))
        out = torch.zeros(query.shape[0], *value.shape[1:], dtype=value.dtype)
        return out.index_copy(0, seen.nonzero()[:, 0], torch.einsum("hij,jhd->ihd", scores.softmax(-1), value))

    return compute


@pytest.fixture(scope="session")
def edgewise_attention():
    """The definition, destination by destination: outputs, and weights in the order of the edges."""

    def compute(sources, targets, query, key, value, scale=None, bias=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        out = torch.zeros(query.shape[0], *value.shape[1:], dtype=value.dtype)
        weights = torch.zeros(len(sources), query.shape[1], dtype=value.dtype)
        for node in range(query.shape[0]):
            incoming = [edge for edge, target in enumerate(targets) if target == node]
            keys, values = key[[sources[edge] for edge in incoming]], value[[sources[edge] for edge in incoming]]
            scores = (query[node] * keys).sum(-1) * scale + (0.0 if bias is None else bias[incoming])
            for head in range(query.shape[1]):
                if incoming and scores[:, head].max() > float("-inf"):
                    weights[incoming, head] = scores[:, head].softmax(0)
                    out[node, head] = weights[incoming, head] @ values[:, head]
        return out, weights

    return compute


@pytest.fixture(scope="session")
def random_tensors():
    """Random queries, keys and values."""

    def draw(num_destinations, num_sources, *, heads=2, width=5, value_width=3, seed=0, dtype=torch.float64):
        random = torch.Generator().manual_seed(seed)
        shapes = (num_destinations, heads, width), (num_sources, heads, width), (num_sources, heads, value_width)
        return tuple(torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for shape in shapes)

    return draw


@pytest.fixture(scope="session")
def dense_tensorized_attention():
    """MTSA's definition (Eq. 10-12): an (n, n, H, F) tensor of alignment scores and a softmax for each feature.

    Returns the outputs, and the (n, n, H) weights averaged over the features.
    """

    def compute(mask, query, key, value, source_scores, scale=None, function=lambda x: x, bias=0.0):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        pairs = function(torch.einsum("ihd,jhd->ijh", query, key) * scale) + bias  # bias: (n, n, H) or a number
        scores = pairs.unsqueeze(-1) + source_scores
        seen = mask.any(1)
        weights = scores[seen].masked_fill(~mask[seen][..., None, None], float("-inf")).softmax(1)
        every = torch.zeros(scores.shape, dtype=value.dtype).index_copy(0, seen.nonzero()[:, 0], weights)
        return (every * value).sum(1), every.mean(-1)

    return compute
