"""The layers of a pretrained model, and the edges of their heads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._devices import to_device
from graphattn._edges import Edges
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn._transforms import opaque
from graphattn.builders.relations._names import split_heads
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import Dropout
from graphattn.layers._frozen import FrozenLinear, Step
from graphattn.layers._linear import Linear, has_hooks
from graphattn.layers._multi_scale import MultiScaleAttention
from graphattn.layers._norm import LayerNorm
from graphattn.layers._packed import PackedLinear, list_parts
from graphattn.models._encoders.base import LayerWeights
from graphattn.models._encoders.relation_heads import head_relation, parse_heads
from graphattn.models.pretrained._architecture import Architecture

if TYPE_CHECKING:
    from graphattn._backends.cpu.products import Attention, Link

Rotation = tuple[Tensor, Tensor]
"""(N, 1, D / 2) cosines and sines of the tokens' positions."""
HeadRange = tuple[str, int, int]
"""Relation, number of its first head in a layer, and number of heads."""
_LAYERS = re.compile(r"(\d+)(?:-(\d+))?:(?=\D)")


class PretrainedAttention(MultiScaleAttention):
    """Attention with the model's rotary positions (Su et al. 2021) or bias by distance (Raffel et al. 2020), if any."""

    @opaque
    def attend(
        self,
        edges: Mapping[str, Edges],
        inputs: Tensor,
        rotation: Rotation | None,
        biases: Mapping[HeadRange, Tensor] | None,
        weights: LayerWeights | None,
    ) -> Tensor:
        """(N, hidden) -> (N, hidden), the input of ``output``; ``biases`` are (E, heads) by relation and heads."""
        relations = [edges[name] for name in self.heads]
        if rotation is None and biases is None:
            if weights is None and isinstance(self.project, PackedLinear) and self.reads_one_text(relations):
                return attend_text(self.project(inputs), relations[0].num_destinations, self.num_heads, self.scale)
            return self.attend_rows(relations, self._project_needed(relations, inputs), None, weights)
        rows = self._by_head(self.project(inputs))
        if rotation is not None:
            rows = rotate(rows, rotation)
        ranges = head_ranges(self.heads)
        return self.attend_rows(relations, rows, None if biases is None else [biases[key] for key in ranges], weights)

    def reads_one_text(self, relations: Sequence[Edges]) -> bool:
        """Whether all heads are along all edges of one text, and nothing needs gradients."""
        is_alone = len(relations) == 1 and has_all_edges(relations[0])
        return is_alone and not (self.training or torch.is_grad_enabled())


def has_all_edges(edges: Edges) -> bool:
    """Whether they are all edges of one text, stored as ranges."""
    return edges.ranges is not None and edges.num_edges == edges.num_sources * edges.num_destinations


def list_texts(edges: Edges) -> npt.NDArray[np.int64] | None:
    """(S + 1,) where the texts begin, and N, if each of the N tokens sees all of its text; else None."""
    return edges.compute_once("texts", _find_texts)


def _find_texts(edges: Edges) -> npt.NDArray[np.int64] | None:
    if edges.ranges is None or not edges.num_sources == edges.num_destinations > 0:
        return None
    low, high = (each.numpy() for each in edges.ranges)
    starts = np.flatnonzero(np.diff(low, prepend=-1))
    texts = np.append(starts, len(low))
    sizes = np.diff(texts)
    is_whole = np.array_equal(np.repeat(starts, sizes), low) and np.array_equal(np.repeat(texts[1:], sizes), high)
    return texts if is_whole else None


def attend_text(projected: Tensor, count: int, heads: int, scale: float) -> Tensor:
    """(N, 3 H D) -> (N, H D): attention among the first ``count`` rows; the others are padding."""
    rows = at_least_float32(projected[:count]).view(1, count, 3, heads, -1)
    query, key, value = rows.permute(2, 0, 3, 1, 4).unbind()
    attended = F.scaled_dot_product_attention(query, key, value, scale=scale).transpose(1, 2).reshape(count, -1)
    return F.pad(attended, (0, 0, 0, len(projected) - count)) if count < len(projected) else attended


def rotate(rows: Tensor, rotation: Rotation) -> Tensor:
    """(N, 3 H, D) -> the same, with queries and keys rotated by the positions."""
    cos, sin = rotation
    scored, values = rows.split([2 * rows.shape[1] // 3, rows.shape[1] // 3], dim=1)
    first, second = scored.chunk(2, dim=2)
    return torch.cat([torch.cat([first * cos - second * sin, second * cos + first * sin], dim=2), values], dim=1)


class PretrainedFeedForward(nn.Module):
    """Two linear layers with an activation; in ModernBERT, half of the first one's output gates the other half."""

    def __init__(self, architecture: Architecture):
        super().__init__()
        width, bias = architecture.ffn, architecture.ffn_bias
        self.gated, self.activation = architecture.is_modern, architecture.activation
        self.widen = Linear(architecture.hidden, 2 * width if self.gated else width, bias=bias)
        self.narrow = Linear(width, architecture.hidden, bias=bias)
        self.dropout = Dropout(architecture.dropout if self.gated else 0.0)

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        wide = self.widen(tokens)
        if self.gated:
            wide, gate = wide.chunk(2, dim=1)
            return self.narrow(self.dropout(self._activate(wide) * gate))
        return self.narrow(self._activate(wide))

    def _activate(self, wide: Tensor) -> Tensor:
        if self.activation == "relu":
            return F.relu(wide)
        if self.activation == "silu":
            return F.silu(wide)
        return F.gelu(wide, approximate="tanh" if self.activation == "gelu_tanh" else "none")


class PretrainedLayer(nn.Module):
    """Attention and a feed-forward layer: post-norm as in BERT, or pre-norm as in ModernBERT."""

    def __init__(self, architecture: Architecture, heads: Mapping[str, int], number: int):
        super().__init__()
        hidden, modern = architecture.hidden, architecture.is_modern
        head_feats = hidden // architecture.heads
        self.attention = PretrainedAttention(
            hidden, head_feats, heads, attn_drop=architecture.attn_drop, bias=architecture.attention_bias
        )
        self.ffn = PretrainedFeedForward(architecture)
        has_norm = not modern or number > 0  # ModernBERT's embeddings are normalized already
        self.attention_norm = make_norm(architecture, hidden) if has_norm else nn.Identity()
        self.ffn_norm = make_norm(architecture, hidden)
        self.norm_first = modern
        self.dropout = Dropout(architecture.dropout)
        self.attention_dropout = Dropout(architecture.attention_output_dropout)

    def forward(
        self,
        edges: Mapping[str, Edges],
        tokens: Tensor,
        rotation: Rotation | None,
        biases: Mapping[HeadRange, Tensor] | None,
        weights: LayerWeights | None,
    ) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        output, ffn = self.attention.output, self.ffn
        if self.norm_first:
            attended = self.attention.attend(edges, self.attention_norm(tokens), rotation, biases, weights)
            tokens = tokens + self.attention_dropout(output(attended))
            widened: Tensor = tokens + ffn(self.ffn_norm(tokens))
            return widened
        attended = self.attention.attend(edges, tokens, rotation, biases, weights)
        if not self.training and (steps := self._frozen_steps()):
            return cast(FrozenLinear, output).run_chain(attended, steps, tokens)
        tokens = self.attention_norm(tokens + self.attention_dropout(output(attended)))
        normed: Tensor = self.ffn_norm(tokens + self.dropout(self.ffn(tokens)))
        return normed

    def list_links(self) -> list[Link | Attention]:
        """The layer as links of a chain of frozen layers; none where something else is needed."""
        attention = self.attention
        project, steps = attention.project, self._frozen_steps()
        if self.norm_first or len(attention.heads) > 1 or not steps or has_hooks(self) or has_hooks(project):
            return []
        kind = type(cast(FrozenLinear, steps[0].layer))
        first, others = (kind.list_links(each) for each in ([Step(project)], steps))
        if type(project) is not kind or not (first and others):
            return []
        from graphattn._backends.cpu.products import Attention  # loads the compiler of kernels

        return [*first, Attention(attention.num_heads, attention.scale), *others]

    def _frozen_steps(self) -> list[Step]:
        """What follows attention, as a chain of frozen layers of one class; none if it is not, or a part has hooks."""
        output, ffn, first, last = self.attention.output, self.ffn, self.attention_norm, self.ffn_norm
        widen, narrow, kind = ffn.widen, ffn.narrow, type(output)
        if not (issubclass(kind, FrozenLinear) and type(widen) is type(narrow) is kind and ffn.activation == "gelu"):
            return []
        if any(map(has_hooks, (output, widen, narrow, first, last, ffn, self.dropout, self.attention_dropout))):
            return []
        return [Step(output, norm=cast(LayerNorm, first)), Step(widen, gelu=True), Step(narrow, norm=last)]


class LayerChain:
    """The links of frozen layers, which are listed anew after a change of the layers. A copy starts empty."""

    def __init__(self) -> None:
        self._listed: tuple[list[object], list[Link | Attention]] = [], []

    def list_links(self, layers: nn.ModuleList) -> list[Link | Attention]:
        """All layers as one chain; none where a layer needs something else."""
        parts, (listed, links) = list_parts(layers), self._listed
        if parts != listed:
            of_layers = [cast(PretrainedLayer, layer).list_links() for layer in layers]
            links = list(chain(*of_layers)) if all(of_layers) else []
            self._listed = parts, links
        return links

    def __reduce__(self) -> tuple[type[LayerChain], tuple[()]]:
        return LayerChain, ()


def make_norm(architecture: Architecture, width: int) -> LayerNorm:
    """The model's layer norm."""
    return LayerNorm(width, architecture.norm_eps, bias=architecture.norm_bias)


def parse_layer_heads(heads: str | Mapping[str, int], num_heads: int, relations: Sequence[str]) -> list[dict[str, int]]:
    """Read relation -> number of heads, for each layer; ``relations`` are those of the layers in pretraining.

    ``"window:257|global=12"`` is for all layers; with ``"4-5:all=10,dependency=2; 0:window:3"`` other layers keep their
    edges. A relation without a number has all heads. The first heads of a layer get the first relation.
    """
    layers = [{relation: num_heads} for relation in relations]
    if isinstance(heads, Mapping):
        return [_parse_heads_of_layer(heads, num_heads) for _ in layers]
    for part in filter(None, map(str.strip, heads.split(";"))):
        match = _LAYERS.match(part)
        first, last = (0, len(layers) - 1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not first <= last < len(layers):
            raise ConfigError(
                f"{{heads}}: {part!r} names layers {first} to {last}; the model has 0 to {len(layers) - 1}",
                options=("heads",),
            )
        counts = _parse_heads_of_layer(part if match is None else part[match.end() :], num_heads)
        layers[first : last + 1] = [counts] * (last + 1 - first)
    return layers


def _parse_heads_of_layer(heads: str | Mapping[str, int], count: int) -> dict[str, int]:
    pairs = split_heads(heads)
    if len(pairs) == 1 and pairs[0][1] is None:
        heads = {pairs[0][0]: count}
    counts = parse_heads(heads)
    for name in counts:
        nodes = {node for part in head_relation(name).parts() for node in (part.source, part.target)} - {TOKEN}
        if nodes:
            raise ConfigError(
                f"{{heads}}: {name} has edges to {' and '.join(sorted(nodes))} nodes, and a pretrained model has "
                "tokens only; give it to an encoder on top",
                options=("heads",),
            )
    if sum(counts.values()) != count:
        raise ConfigError(
            f"{{heads}} {heads!r} has {sum(counts.values())} heads; each layer of the model has {count}",
            options=("heads",),
        )
    return counts


def head_ranges(heads: Mapping[str, int]) -> list[HeadRange]:
    """Each relation of a layer with the number of its first head, and of its heads."""
    ends = accumulate(heads.values())
    return [(name, end - count, count) for (name, count), end in zip(heads.items(), ends, strict=True)]


def position_rows(positions: Tensor, ids: Tensor | None, offset: int) -> Tensor:
    """(N,) rows of the position vectors, from the (N,) positions of tokens in their texts.

    In RoBERTa, as in fairseq, rows begin after that of the padding id, which is ``offset - 1``. A padding token that a
    text spells has this row and does not count.

    Examples
    --------
    >>> position_rows(torch.tensor([0, 1, 2, 0, 1]), torch.tensor([7, 1, 8, 1, 9]), 2).tolist()
    [2, 1, 3, 1, 2]
    """
    if not offset or ids is None:
        return positions + offset
    is_padding = to_device(ids, positions.device) == offset - 1
    count = is_padding.cumsum(0)
    starts = torch.arange(positions.shape[0], device=positions.device) - positions  # len() is constant in exports
    count -= (count - is_padding.long())[starts]  # within the text
    return torch.where(is_padding, offset - 1, positions + offset - count)
