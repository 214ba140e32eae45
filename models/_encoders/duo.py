"""Duo: the attention of one set of word vectors on the values of another (Li et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._attention import attend
from graphattn._backends.torch import sum_by_weights
from graphattn._devices import to_device
from graphattn._edges import Edges, edges_of, lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn._transforms import opaque
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Complete, Relation, Window
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import dropout
from graphattn.layers._linear import Linear
from graphattn.layers._tensorized import ACTIVATIONS
from graphattn.models._encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models._padding import pad, unpad
from graphattn.models.heads._pooling import pool
from graphattn.options import option


@dataclass
class DuoOptions(EncoderOptions):
    """Options of Duo; its input concatenates several sets of word vectors."""

    name = "duo"
    pooling = "mean"
    linear_head = True
    takes_parts = True
    trains_special = False
    begins_with_cls = False

    hidden: int = option(300, "width of the encoder", min=1)
    layers: int = option(1, "depth of the encoder", min=1, max=1)
    window: str | None = option(None, "attend within a window, 15 or window:15, N/16 (default: the whole text)")
    softmax: bool = option(True, "normalize scores with a softmax; otherwise divide them by the number of keys")
    fusion: int | None = option(None, "features of the fusion layer (default: the sum of all sets)", min=1)
    fusion_activation: str = option("linear", "activation behind the fusion layer", choices=("linear", *ACTIVATIONS))
    parts: tuple[str, ...] = option(
        (),
        "widths of the sets in a token vector (default: those of the word vectors, or two halves)",
        of_inputs=True,
    )

    @override
    def check(self) -> None:
        if self.window is not None:
            self.relation()
            if not self.softmax:
                raise ConfigError(
                    "{softmax=False} needs the whole text; leave out {window}", options=("softmax", "window")
                )
        validate_parts(self.parts)

    def relation(self) -> Relation:
        """The relation of all heads."""
        return Complete() if self.window is None else Window(str(self.window).removeprefix("window:"))

    @override
    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        return super().for_translation({**sizes, "layers": 1})

    @override
    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> DuoOptions:
        if not self.parts:
            if of_files and len(widths) < 2:
                raise ConfigError(
                    "Duo needs at least two sets of word vectors; give two {vectors}, or one twice, without {combine}",
                    options=("vectors", "combine"),
                )
            widths = split_single_part(widths)
            if min(widths) < 1:
                raise ConfigError(
                    f"token vectors are {sum(widths)} wide; Duo needs at least two sets of {{vectors}}",
                    options=("vectors",),
                )
        return replace(self, parts=resolve_parts(self.parts, widths))


def validate_parts(parts: Sequence[str], *, count: int | None = None) -> None:
    """Raise a ConfigError unless ``parts`` is empty or has ``count`` widths, at least two when None."""
    widths = [str(width) for width in parts]
    if not widths:
        return
    wrong_count = len(widths) < 2 if count is None else len(widths) != count
    if wrong_count or not all(width.isdecimal() and int(width) for width in widths):
        sets = "at least two" if count is None else str(count)
        raise ConfigError(
            f"{{parts}} are {','.join(widths)}; give the widths of {sets} sets, 50,300 for example", options=("parts",)
        )


def resolve_parts(parts: Sequence[str], widths: Sequence[int]) -> tuple[str, ...]:
    """``parts``, or ``widths`` if it is empty; both must have the same sum."""
    if parts and sum(map(int, parts)) != sum(widths):
        raise ConfigError(
            f"{{parts}} {','.join(map(str, parts))} do not sum to {sum(widths)}, the width of token vectors",
            options=("parts",),
        )
    return tuple(parts) or tuple(str(width) for width in widths)


def split_single_part(widths: Sequence[int]) -> Sequence[int]:
    """The widths of the parts; a single part is split into two halves."""
    return widths if len(widths) > 1 else (widths[0] // 2, widths[0] - widths[0] // 2)


class DuoEncoder(Encoder):
    r"""The Duo classifier's attention and fusion (section 3.1), for two sets of word vectors or more.

    The paper's text lacks its formulas. It states: two parameters, one per set, of :math:`d_S^2` and :math:`d_P^2`
    numbers according to its parameter count; an optional softmax; attention learnt from one set with values from the
    other; a fusion parameter over the concatenation; one layer, one head; fewer than 0.4 M parameters at 50 and 300
    dimensions and 20 labels. Our reconstruction is the smallest that fits:

    .. math:: A_a = softmax(E_a W_a E_a^T / \sqrt{d_a}), \quad
              H_b = \frac{1}{m - 1} \sum_{a \ne b} A_a E_b, \quad [H_1; \ldots; H_m] W_F + b_F

    with m = 2 in the paper: each set's values under the other's attention. Ours are the mean for m > 2 and, without a
    softmax, the division by the number of keys (sums would grow with the text). The mean over tokens and the linear
    layer that follow belong to the head. The paper does not say whether the fusion is linear;
    ``fusion_activation`` adds a function after it.
    """

    def __init__(self, options: DuoOptions):
        super().__init__()
        self.options = options
        filled = options if options.parts else options.for_parts([options.hidden])
        self.parts = [int(width) for width in filled.parts]
        self.scores = nn.ModuleList(Linear(width, width, bias=False) for width in self.parts)
        self.width = options.fusion or sum(self.parts)
        self.fusion = Linear(sum(self.parts), self.width)
        for weight in self.scores.parameters():
            nn.init.xavier_uniform_(weight)

    @property
    def _fuses_linearly(self) -> bool:
        return self.options.fusion_activation == "linear"

    @override
    def relations(self) -> list[Relation]:
        return [self.options.relation()]

    @override
    def heads_along(self) -> dict[str, int]:
        (relation,) = self.relations()
        return {relation.name: len(self.parts)} if self.options.softmax else {}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        fused = self.fusion(self._mix(graph, tokens, weights))
        return fused if self._fuses_linearly else ACTIVATIONS[self.options.fusion_activation](fused)

    @override
    @opaque
    def means(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        if not self._fuses_linearly:
            return super().means(graph, tokens, weights=weights)
        # a linear fusion commutes with the mean
        mixed = self._mix(graph, tokens, weights)
        lengths = to_device(lengths_of(graph, TOKEN), mixed.device)
        fused: Tensor = self.fusion(pool(mixed, lengths, "mean"))
        return fused * (lengths > 0).unsqueeze(1)  # the mean over no tokens is zero

    def _mix(self, graph: TextBatch, tokens: Tensor, weights: list[LayerWeights] | None) -> Tensor:
        """(N, all parts): the input of the fusion layer."""
        (relation,) = self.relations()
        edges = edges_of(graph, [relation.name], tokens.device)[relation.name]
        sets = at_least_float32(tokens).split(self.parts, dim=1)  # sums in float32 also under autocast
        queries = [score(part).to(part.dtype) for part, score in zip(sets, self.scores, strict=True)]
        values = [
            _concatenate([sets[other] for other in _other_sets(len(sets), number)]) for number in range(len(sets))
        ]
        if weights is None or not self.options.softmax:
            lengths = lengths_of(graph, TOKEN)
            attended = [self._attend(edges, lengths, *parts) for parts in zip(queries, sets, values, strict=True)]
        else:
            attended, set_weights = _attend_with_weights(edges, queries, sets, values)
            weights.append({relation.name: set_weights})
        return dropout(_average_sets(attended, self.parts), self.options.dropout, self.training)

    def _attend(self, edges: Edges, lengths: Tensor, query: Tensor, key: Tensor, values: Tensor) -> Tensor:
        """(N, D_v) values under the attention of one set."""
        scale = 1 / math.sqrt(key.shape[1])
        if not self.options.softmax:
            # keys times values do not depend on the query: one product per text
            pairs = torch.bmm(pad(key, lengths).transpose(1, 2), pad(values, lengths)) * scale
            counts = to_device(lengths, query.device).clamp(min=1).view(-1, 1, 1)
            return unpad(torch.bmm(pad(query, lengths), pairs) / counts, lengths)
        one_head = (tensor.unsqueeze(1) for tensor in (query, key, values))
        return attend(edges, *one_head, scale=scale).squeeze(1)


def _other_sets(count: int, number: int) -> list[int]:
    return [other for other in range(count) if other != number]


def _average_sets(attended: Sequence[Tensor], widths: Sequence[int]) -> Tensor:
    """For each set the mean of its values under the others' attention, concatenated.

    ``attended`` has for each set the concatenated values of the others under its attention; ``widths`` are those of the
    sets.
    """
    by_set: list[list[Tensor]] = [[] for _ in widths]
    for number, columns in enumerate(attended):
        others = _other_sets(len(widths), number)
        for other, part in zip(others, columns.split([widths[other] for other in others], dim=1), strict=True):
            by_set[other].append(part)
    return torch.cat([parts[0] if len(parts) == 1 else torch.stack(parts).mean(0) for parts in by_set], dim=1)


def _concatenate(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _attend_with_weights(
    edges: Edges, queries: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """Values under the attention of each set, and the weights (E, sets).

    With gradients, the values are summed by the returned weights, so that gradients with respect to them exist.
    """
    if not torch.is_grad_enabled():
        pairs = [_attend_set(edges, *parts) for parts in zip(queries, keys, values, strict=True)]
        return [attended for attended, _ in pairs], torch.cat([weights for _, weights in pairs], dim=1)
    probes = [key[:, :1] for key in keys]  # only the weights are needed
    weights = torch.cat([_attend_set(edges, *parts)[1] for parts in zip(queries, keys, probes, strict=True)], dim=1)
    slots = weights if edges.edge_ids is None else weights[edges.edge_ids]
    attended = [
        sum_by_weights(edges, slots[:, number : number + 1], value.unsqueeze(1)).squeeze(1)
        for number, value in enumerate(values)
    ]
    return attended, weights


def _attend_set(edges: Edges, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    heads = (tensor.unsqueeze(1) for tensor in (query, key, value))
    attended, weights = attend(edges, *heads, scale=1 / math.sqrt(key.shape[1]), return_weights=True)
    return attended.squeeze(1), weights
