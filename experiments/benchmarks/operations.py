"""Floating-point operations by arithmetic: what no implementation can go below.

A multiply-add counts as two. Matrix products, scores and weighted sums are counted; norms, softmax, activations and
biases are not. A window of width 1 is the identity on values and costs nothing.

Letters: n tokens of a sentence, r reach of a window to each side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphattn.models import MSTransOptions
from graphattn.scales import Scale
from graphattn.schema import WINDOW


def window_edges(length: int, width: int) -> int:
    """Edges of a window of odd width, clipped at the ends of a sentence.

    Examples
    --------
    >>> window_edges(4, 3), window_edges(2, 9)
    (10, 4)
    """
    reach = min((width - 1) // 2, length - 1)
    return length * (2 * reach + 1) - reach * (reach + 1)


def scored_pairs(lengths: Iterable[int], layer_heads: Sequence[Mapping[str, int]]) -> int:
    """Query-key pairs over all sentences, layers and heads; windows of width 1 have none to score.

    Parameters
    ----------
    lengths : tokens of each sentence
    layer_heads : for each layer, window relation -> number of heads
    """
    scales = _scales(layer_heads)
    return sum(count * window_edges(length, width) for length in lengths for width, count in _scored(scales, length))


def ms_trans_operations(lengths: Sequence[int], options: MSTransOptions) -> int:
    """Operations of a forward pass through the MS-Trans encoder: the projections that are needed, and the pairs.

    All heads of all layers have values and an output; those that score have queries and keys too.
    """
    layers = options.layer_heads()
    heads = sum(layers[0].values())
    head_feats = options.head_feats or options.hidden // heads
    scales = _scales(layers)
    scoring = sum(length * count for length in lengths for _, count in _scored(scales, length))
    projections = 2 * options.layers * heads * sum(lengths) + 2 * scoring
    return 2 * options.hidden * head_feats * projections + 4 * head_feats * scored_pairs(lengths, layers)


def _scales(layer_heads: Sequence[Mapping[str, int]]) -> dict[Scale, int]:
    """Scale -> heads in all layers."""
    heads: dict[str, int] = {}
    for layer in layer_heads:
        for relation, count in layer.items():
            heads[relation] = heads.get(relation, 0) + count
    return {Scale(relation.removeprefix(f"{WINDOW}:")): count for relation, count in heads.items()}


def _scored(scales: Mapping[Scale, int], length: int) -> list[tuple[int, int]]:
    """Width and number of heads of each scale that is more than a token itself."""
    widths = [(scale.width(length), count) for scale, count in scales.items()]
    return [(width, count) for width, count in widths if width > 1]


def transformer_operations(lengths: Sequence[int], *, hidden: int, layers: int, ffn: int) -> int:
    """Operations of a forward pass through a Transformer encoder, padding not counted."""
    per_token = 4 * 2 * hidden * hidden + 2 * 2 * hidden * ffn
    per_pair = 4 * hidden
    return layers * (per_token * sum(lengths) + per_pair * sum(length * length for length in lengths))


def umst_operations(lengths: Sequence[int], word_counts: Sequence[int], *, hidden: int, layers: int, ffn: int) -> int:
    """Operations of a forward pass through the UMST encoder: those of a Transformer, and those on words.

    Both graph convolutions multiply words, as the tokens of a word share their mean; arcs are not counted.

    Parameters
    ----------
    lengths, word_counts : tokens and words of each sentence
    hidden, layers, ffn : of the encoder
    """
    per_word = 4 * 2 * hidden * hidden  # two convolutions, queries and keys
    pairs = sum(count * count for count in word_counts)
    on_words = layers * (per_word * sum(word_counts) + 4 * hidden * pairs)
    return transformer_operations(lengths, hidden=hidden, layers=layers, ffn=ffn) + on_words
