"""Rectified self-attention: attention among tokens, fused with attention among words."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphattn._attention import attend_layer
from graphattn._backends.call import Rows
from graphattn._edges import Edges, Graph
from graphattn._precision import at_least_float32
from graphattn._transforms import OpaqueModule
from graphattn._validation import require_choice, require_multiple, require_range
from graphattn.layers._checkpointing import Derived
from graphattn.layers._graph_convolution import edges_among
from graphattn.layers._linear import Linear, is_plain
from graphattn.layers._multi_scale import distance_scores
from graphattn.layers._upsampling import Upsampling

FUSIONS = ("mean", "sum", "gate")
"""How the maps of tokens and words are fused."""


class RectifiedAttention(OpaqueModule):
    r"""Multi-head attention whose map is fused with that of the words (UMST, section 3.4, Eq. 4).

    .. math:: (\tfrac12 A_1 + \tfrac12 G A_2 G^T) V W_O

    :math:`A_1` comes from the tokens' queries and keys, :math:`A_2` from the words', V from the tokens. The second term
    is computed as :math:`G (A_2 (G^T V))`: sum the values over each word, let words attend, copy each word's result to
    its tokens. No tokens-by-tokens matrix is materialized.

    The mean is the paper's choice among three; the sum is :math:`A_1 + G A_2 G^T`. The paper does not say what its gate
    is computed from. Ours is one number per token and head,

    .. math:: g A_1 + (1 - g) G A_2 G^T, \quad g = \sigma(X W_g + b_g)

    with X the tokens that queries come from. It starts near the mean.

    Parameters
    ----------
    feats : width of input and output
    heads : number of heads, each of feats / heads features
    words : whether there is a second term; without it this is ordinary attention, :math:`A_1 V W_O`
    shared_scores : tokens and words share the projection to queries and keys
    relative_positions : k, for learned vectors of the 2k + 1 clipped distances between tokens, added to the keys (Shaw
        et al. 2018, Eq. 4)
    word_positions : the same for distances between words, with vectors of their own
    fusion : of the two maps, one of :data:`FUSIONS`
    attn_drop : dropout on the attention weights
    backend : passed on to :func:`graphattn.attend`

    Raises
    ------
    ConfigError
        when a width, a number or the dropout is out of range
    """

    def __init__(
        self,
        feats: int,
        heads: int,
        *,
        words: bool = True,
        shared_scores: bool = False,
        relative_positions: int | None = None,
        word_positions: int | None = None,
        fusion: str = "mean",
        attn_drop: float = 0.0,
        backend: str = "auto",
    ):
        super().__init__()
        require_range("feats", feats, min=1)
        require_range("heads", heads, min=1)
        require_multiple("feats", feats, heads, "heads")
        require_range("attn_drop", attn_drop, min=0, below=1)
        require_choice("fusion", fusion, FUSIONS)
        self.fusion = fusion
        self.heads, self.head_feats, self.attn_drop, self.backend = heads, feats // heads, attn_drop, backend
        self.scale = 1 / math.sqrt(self.head_feats)
        self.project = Linear(feats, 3 * feats)
        self.project_words = Linear(feats, 2 * feats) if words and not shared_scores else None
        self.output = Linear(feats, feats)
        self.gate = Linear(feats, heads) if words and fusion == "gate" else None
        self.distance_vectors = self._make_distances("relative_positions", relative_positions)
        self.word_distance_vectors = self._make_distances("word_positions", word_positions if words else None)
        self.reset_parameters()

    def _make_distances(self, name: str, clip: int | None) -> nn.Parameter | None:
        """(2 clip + 1, D) vectors of distances, not initialized."""
        if clip is None:
            return None
        require_range(name, clip, min=1)
        return nn.Parameter(torch.empty(2 * clip + 1, self.head_feats))

    def reset_parameters(self) -> None:
        """Initialize: Xavier uniform for each projection and the distances; biases zero."""
        linears = [self.project, self.output, *([] if self.project_words is None else [self.project_words])]
        for linear in linears:
            for weight in linear.weight.split(self.output.out_features):
                nn.init.xavier_uniform_(weight)
            nn.init.zeros_(linear.bias)
        if self.gate is not None:
            nn.init.xavier_uniform_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)
        for vectors in (self.distance_vectors, self.word_distance_vectors):
            if vectors is not None:
                nn.init.xavier_uniform_(vectors)

    def forward(
        self,
        edges: Graph,
        tokens: Tensor | Derived,
        word_edges: Graph | None = None,
        words: Tensor | Derived | None = None,
        upsampling: Upsampling | None = None,
        *,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend.

        Parameters
        ----------
        edges : between tokens; or any graph with one relation, as :func:`graphattn.attend` takes
        tokens : (N, feats); the backward pass does not keep derived ones
        word_edges : between words, as edges
        words : (W, feats), as tokens
        upsampling : the words of the tokens
        weights : when given, the weights of tokens (E, heads) and of words (E_words, heads) are appended, by edge id

        Returns
        -------
        (N, feats)
        """
        edges, tokens = edges_among(edges, tokens), Derived.of(tokens)
        projected = self._split(tokens.project(self.project), 3)
        of_tokens = self._attend_tokens(edges, projected, weights)
        if word_edges is not None and words is not None and upsampling is not None:
            word_edges = edges_among(word_edges, words)
            value = upsampling.sum_to_words(projected[:, 2].flatten(1)).view(-1, self.heads, self.head_feats)
            query, key = self._split(self._project_words(Derived.of(words)), 2).unbind(1)
            word_edges.check_nodes(query)
            bias = self._distance_scores(word_edges, query, self.word_distance_vectors)
            of_words = self._attend(word_edges, (query, key, value), bias, weights)
            return self._fuse(tokens, of_tokens, of_words, upsampling)
        return self.output(of_tokens)

    def _fuse(self, tokens: Derived, of_tokens: Tensor, of_words: Tensor, upsampling: Upsampling) -> Tensor:
        """(N, feats), the output for (N, feats) attention among tokens and (W, feats) among words."""
        dtype = self.output.dtype
        if self.gate is not None:
            gates = tokens.project(self.gate).sigmoid().to(of_tokens.dtype).unsqueeze(2)
            expanded = upsampling.expand_to_tokens(of_words).unflatten(1, (self.heads, -1))
            fused = gates * of_tokens.unflatten(1, (self.heads, -1)) + (1 - gates) * expanded
            return self.output(fused.flatten(1))
        summed = Derived(
            lambda tokens, words: upsampling.expand_to_tokens(words).add_(tokens).to(dtype), of_tokens, of_words
        )
        factor = 0.5 if self.fusion == "mean" else 1.0
        if is_plain(self.output):
            return summed.linear(factor * self.output.weight, self.output.bias)
        return self.output(factor * summed.value())

    def _split(self, projected: Tensor, count: int) -> Tensor:
        """(N, count, H, D) in at least float32, also under autocast."""
        return at_least_float32(projected).view(-1, count, self.heads, self.head_feats)

    def _project_words(self, words: Derived) -> Tensor:
        """(W, 2 feats) queries and keys."""
        if self.project_words is not None:
            return words.project(self.project_words)
        width = 2 * self.output.out_features
        if not is_plain(self.project):
            return self.project(words.value())[:, :width]
        return words.linear(self.project.weight[:width], self.project.bias[:width])

    def _attend_tokens(self, edges: Edges, projected: Tensor, weights: list[Tensor] | None) -> Tensor:
        """(N, feats), the attention among tokens."""
        edges.check_nodes(projected)
        if weights is None and self.distance_vectors is None:
            return self._attend(edges, projected.flatten(1, 2), None, None)
        query, key, value = projected.unbind(1)
        bias = self._distance_scores(edges, query, self.distance_vectors)
        return self._attend(edges, (query, key, value), bias, weights)

    def _distance_scores(self, edges: Edges, query: Tensor, vectors: Tensor | None) -> Tensor | None:
        """(E, H) added to the scores, by edge id; None without vectors."""
        return None if vectors is None else distance_scores(edges, query, vectors.to(query.dtype), self.scale)

    def _attend(self, edges: Edges, rows: Rows, bias: Tensor | None, weights: list[Tensor] | None) -> Tensor:
        """(N, feats) along one relation."""
        attended, edge_weights = attend_layer(
            [edges],
            [self.heads],
            rows,
            scale=self.scale,
            biases=None if bias is None else [bias],
            dropout=self.attn_drop if self.training else 0.0,
            backend=self.backend,
            return_weights=weights is not None,
        )
        if weights is not None and edge_weights is not None:
            weights += edge_weights
        return attended.flatten(1)
