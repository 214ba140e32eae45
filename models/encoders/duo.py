"""Duo: the attention of one set of word vectors on the values of another (Li et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.attention import attend
from graphattn.backends.weighted_sums import sum_by_weights
from graphattn.builders.relations import Complete, Relation, Window
from graphattn.edges import Edges, lengths_of
from graphattn.exceptions import ConfigError
from graphattn.layers.dropout import dropout
from graphattn.layers.linear import Linear
from graphattn.layers.multi_scale import edges_of
from graphattn.layers.tensorized import ACTIVATIONS
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.heads.pooling import pool
from graphattn.models.options import option
from graphattn.models.padding import pad, unpad
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


@dataclass
class DuoOptions(EncoderOptions):
    """Options of Duo; token vectors come to it as they are, several sets side by side."""

    name = "duo"
    pooling = "mean"
    linear_head = True
    takes_parts = True
    trains_special = False

    hidden: int = option(300, "width of the encoder", min=1)
    layers: int = option(1, "depth of the encoder", min=1, max=1)
    window: str | None = option(None, "look through a window of this scale, 15 or N/16 (default: the whole text)")
    softmax: bool = option(True, "turn scores into weights by a softmax; without it they are divided by their number")
    fusion: int | None = option(None, "features of the fusion layer (default: all sets' together)", min=1)
    fusion_activation: str = option("linear", "activation behind the fusion layer", choices=("linear", *ACTIVATIONS))
    parts: tuple[str, ...] = option(
        (), "widths of the sets in a token vector (default: those of the word vectors, or two halves)"
    )

    @override
    def check(self) -> None:
        if self.window is not None:
            Window(self.window)
            if not self.softmax:
                raise ConfigError(
                    "{softmax=False} needs the whole text; leave out {window}", options=("softmax", "window")
                )
        widths = [str(width) for width in self.parts]
        if widths and (len(widths) < 2 or not all(width.isdecimal() and int(width) for width in widths)):
            raise ConfigError(
                f"{{parts}} are {','.join(widths)}; give the widths of at least two sets, 50,300 for example",
                options=("parts",),
            )

    @classmethod
    def for_translation(cls, sizes: Mapping[str, Any]) -> EncoderOptions:
        """One layer, whatever the others have."""
        return super().for_translation({**sizes, "layers": 1})

    def for_parts(self, widths: Sequence[int], *, of_files: bool = False) -> DuoOptions:
        """The options with the widths of the sets that token vectors are made of.

        Raises
        ------
        ConfigError
            when the given parts do not make up the token vectors, or files of word vectors make only one set
        """
        if not self.parts:
            if of_files and len(widths) < 2:
                raise ConfigError(
                    "Duo needs at least two sets of word vectors; give two {vectors}, or one twice, without {combine}",
                    options=("vectors", "combine"),
                )
            halves = (widths[0] // 2, widths[0] - widths[0] // 2)
            widths = widths if len(widths) > 1 else halves
            if min(widths) < 1:
                raise ConfigError(
                    f"token vectors are {sum(widths)} wide; Duo needs at least two sets of {{vectors}}",
                    options=("vectors",),
                )
            return replace(self, parts=tuple(str(width) for width in widths))
        if sum(map(int, self.parts)) != sum(widths):
            raise ConfigError(
                f"{{parts}} {','.join(map(str, self.parts))} do not sum to {sum(widths)}, the width of token vectors",
                options=("parts",),
            )
        return self


class DuoEncoder(Encoder):
    r"""The Duo classifier's attention and fusion (section 3.1), for two sets of word vectors or more.

    The paper's formulas are missing from its text. It states: two parameters, one for each set, of :math:`d_S^2` and
    :math:`d_P^2` numbers as far as its count of parameters tells; a softmax that may be dropped; that attention is
    learnt from one set and its values are the other; a fusion parameter over the concatenation; one layer, one head;
    fewer than 0.4 M parameters at 50 and 300 dimensions and 20 labels. Our reconstruction is the smallest that fits:

    .. math:: A_a = softmax(E_a W_a E_a^T / \sqrt{d_a}), \quad
              H_b = \frac{1}{m - 1} \sum_{a \ne b} A_a E_b, \quad [H_1; \ldots; H_m] W_F + b_F

    with m = 2 in the paper: each set's values under the other's attention. The mean for m > 2 is ours. So is the
    division by the number of keys where the softmax is dropped: sums would grow with the length of the text. The mean
    over tokens and the linear layer that follow are the head's. Whether the fusion is linear, as here, the paper's text
    does not tell either; ``fusion_activation`` puts a function between it and the mean.

    Parameters
    ----------
    options : with the widths of the sets
    """

    def __init__(self, options: DuoOptions):
        super().__init__()
        self.options = options
        given = options if options.parts else options.for_parts([options.hidden])
        self.parts = [int(width) for width in given.parts]
        self.scores = nn.ModuleList(Linear(width, width, bias=False) for width in self.parts)
        self.width = options.fusion or sum(self.parts)
        self.fusion = Linear(sum(self.parts), self.width)
        for weight in self.scores.parameters():
            nn.init.xavier_uniform_(weight)

    @property
    def _fuses_linearly(self) -> bool:
        return self.options.fusion_activation == "linear"

    def relations(self) -> list[Relation]:
        """The complete graph, or one window."""
        return [Complete() if self.options.window is None else Window(self.options.window)]

    def heads_along(self) -> dict[str, int]:
        """One for each set of word vectors; none without a softmax."""
        (relation,) = self.relations()
        return {relation.name: len(self.parts)} if self.options.softmax else {}

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, all parts) -> (N, width)."""
        fused = self.fusion(self._mixed(graph, tokens, weights))
        return fused if self._fuses_linearly else ACTIVATIONS[self.options.fusion_activation](fused)

    def means(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(B, width); the mean is taken first where the fusion is linear, since then the order does not matter."""
        if not self._fuses_linearly:
            return super().means(graph, tokens, weights=weights)
        mixed = self._mixed(graph, tokens, weights)
        return self.fusion(pool(mixed, lengths_of(graph, TOKEN), "mean"))

    def _mixed(self, graph: TextBatch, tokens: Tensor, weights: list[LayerWeights] | None) -> Tensor:
        """(N, all parts): what goes into the fusion layer."""
        (relation,) = self.relations()
        edges = edges_of(graph, [relation.name], tokens.device)[relation.name]
        lengths = lengths_of(graph, TOKEN).to(tokens.device)
        tokens = tokens.float() if tokens.element_size() < 4 else tokens  # sums in float32 also under autocast
        sets = tokens.split(self.parts, dim=1)
        queries = [score(own).to(own.dtype) for own, score in zip(sets, self.scores, strict=True)]
        wanted = weights is not None and self.options.softmax
        through = None  # weights of all sets side by side, from which the result is made where gradients are recorded
        if wanted and torch.is_grad_enabled():
            through = torch.cat(
                [_attend(edges, query, own)[1] for query, own in zip(queries, sets, strict=True)], dim=1
            )
        seen: list[Tensor] = []
        sums: list[list[Tensor]] = [[] for _ in sets]
        for number, (query, own) in enumerate(zip(queries, sets, strict=True)):
            others = [other for other in range(len(sets)) if other != number]
            values = sets[others[0]] if len(others) == 1 else torch.cat([sets[other] for other in others], dim=1)
            if through is not None:
                column = through[:, number : number + 1]
                slots = column if edges.edge_ids is None else column[edges.edge_ids]
                attended = sum_by_weights(edges, slots, values.unsqueeze(1)).squeeze(1)
            elif wanted:
                attended, own_weights = _attend(edges, query, own, values)
                seen.append(own_weights)
            else:
                attended = self._attended(edges, lengths, query, own, values)
            for other, part in zip(others, attended.split([self.parts[o] for o in others], dim=1), strict=True):
                sums[other].append(part)
        if weights is not None and wanted:
            weights.append({relation.name: torch.cat(seen, dim=1) if through is None else through})
        mixed = torch.cat([own[0] if len(own) == 1 else torch.stack(own).mean(0) for own in sums], dim=1)
        return dropout(mixed, self.options.dropout, self.training)

    def _attended(self, edges: Edges, lengths: Tensor, query: Tensor, key: Tensor, values: Tensor) -> Tensor:
        """(N, D_v) values under the attention of one set."""
        scale = 1 / math.sqrt(key.shape[1])
        if not self.options.softmax:
            # without a softmax the products of keys and values are summed once for each text
            pairs = torch.bmm(pad(key, lengths).transpose(1, 2), pad(values, lengths)) * scale
            return unpad(torch.bmm(pad(query, lengths), pairs) / lengths.clamp(min=1).view(-1, 1, 1), lengths)
        one_head = (tensor.unsqueeze(1) for tensor in (query, key, values))
        return attend(edges, *one_head, scale=scale).squeeze(1)


def _attend(edges: Edges, query: Tensor, key: Tensor, values: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(N, D_v) values under the attention of one set, and its weights (E, 1); first features for no values."""
    own = [tensor.unsqueeze(1) for tensor in (query, key, key[:, :1] if values is None else values)]
    attended, weights = attend(edges, *own, scale=1 / math.sqrt(key.shape[1]), return_weights=True)
    return attended.squeeze(1), weights
