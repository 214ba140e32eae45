"""Models of ``transformers`` as encoders: families that GraphAttn has no code of its own for."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import Edges, edges_of, features_of
from graphattn._ragged import Ints
from graphattn._schema import CAUSAL, TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders.relations import Causal
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models._encoders.base import LayerWeights, is_too_long_to_keep
from graphattn.models._encoders.relation_heads import head_relation
from graphattn.models.pretrained._contexts import LayerWatcher, watching_alone
from graphattn.models.pretrained._directory_settings import CONFIG, WEIGHTS
from graphattn.models.pretrained._encoder import resize_positions
from graphattn.models.pretrained._export import NativeHead, write_files
from graphattn.models.pretrained._interface import Heads, MaskEdges, packed
from graphattn.models.pretrained._layers import parse_layer_heads
from graphattn.models.pretrained._model import PretrainedEmbedding, PretrainedModel
from graphattn.models.pretrained._packing import PackedModel, last_states
from graphattn.models.pretrained._transformers_architecture import (
    TransformersArchitecture,
    make_headed_model,
    without_bars,
)

_CONTEXT = "GraphAttn"
_MOST_TOKENS = 2048
"""Tokens that a model reads together, unless a text is longer: some families have a bias for each pair of them."""

_VECTORS: ContextVar[Tensor | None] = ContextVar("_VECTORS", default=None)


class GivenVectors(nn.Module):
    """Stands in for a model's table of word vectors: the vectors of all tokens are given from outside.

    ``table`` is the layer without its weight, since some families scale what they look up.
    """

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.table = table
        del table.weight
        table.padding_idx = table.max_norm = None

    @property
    def weight(self) -> Tensor:
        """The given vectors, of which models read the type."""
        vectors = _VECTORS.get()
        if vectors is None:
            raise ConfigError("it looks words up itself")
        return vectors

    def forward(self, ids: Tensor) -> Tensor:
        """(1, N) ids -> (1, N, D)."""
        lookup = copy.copy(self.table)
        lookup.__dict__["weight"] = self.weight
        vectors: Tensor = lookup(torch.arange(ids.shape[1], device=ids.device)[None])
        return vectors


def detach_embedding(model: nn.Module) -> PretrainedEmbedding:
    """Take the word vectors out of a model, which reads given ones from then on."""
    whole: Any = model
    table = whole.get_input_embeddings()
    if not isinstance(table, nn.Embedding):
        raise ModelDirectoryError("its word vectors are no table of vectors")
    embedding, weight = PretrainedEmbedding(0, table.embedding_dim), cast(nn.Parameter, table.weight)
    embedding.trained = weight
    given: dict[nn.Module, GivenVectors] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Embedding) and (child in given or child.weight is weight):
                given.setdefault(child, given.get(child) or GivenVectors(child))
                setattr(parent, name, given[child])
    return embedding


class _LayerEdges(LayerWatcher):
    """Gives each layer the edges of a graph, and keeps their weights on request."""

    def __init__(self, model: nn.Module, layers: Sequence[Heads], weights: list[LayerWeights] | None):
        super().__init__(model, _CONTEXT)
        self._layers, self._weights = layers, weights

    @override
    def choose(self, module: nn.Module, mask: MaskEdges) -> Heads | None:
        return self._layers[self.number(module)]

    @property
    @override
    def records(self) -> bool:
        return self._weights is not None and self._calls is not None

    @override
    def record(self, head: Heads, weights: Sequence[Tensor], mask: MaskEdges) -> None:
        assert self._weights is not None
        self._weights.append(dict(zip(head.names, weights, strict=True)))


class TransformersEncoder(PretrainedModel):
    """A model that ``transformers`` computes, with attention along the edges of a graph.

    Any family will do whose layers take their attention from ``transformers``' interface, and that keeps texts apart
    which are read one after another. With the edges of pretraining, the states equal those of ``transformers``.

    Parameters
    ----------
    architecture : what :meth:`from_directory` finds out about a directory
    heads : edges of the heads, as for :class:`PretrainedEncoder`; in a decoder, those that begin at earlier tokens
    max_length : tokens of the longest text; that of pretraining when None
    """

    architecture: TransformersArchitecture

    def __init__(
        self,
        architecture: TransformersArchitecture,
        *,
        heads: str | Mapping[str, int] | None = None,
        max_length: int | None = None,
        model: nn.Module | None = None,
    ):
        super().__init__(architecture, max_length)
        self.layer_heads = _parse_heads(heads, architecture)
        self.frozen_layers: int | None = None
        model = architecture.make_model(self.max_length) if model is None else model
        self.embedding = detach_embedding(model)
        self.model = model

    @classmethod
    def from_model(
        cls,
        architecture: TransformersArchitecture,
        model: nn.Module,
        *,
        heads: str | Mapping[str, int] | None,
        max_length: int | None,
        extend_positions: str,
    ) -> Self:
        """Take a model of ``transformers`` that was read; arguments as for :meth:`from_directory`."""
        if architecture.has_positions and max_length not in (None, architecture.max_length):
            model = _with_positions(model, architecture, max_length, extend_positions)
        return cls(architecture, heads=heads, max_length=max_length, model=model).eval()

    @property
    @override
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @override
    def forward(
        self, graph: TextBatch, tokens: Tensor | None = None, *, weights: list[LayerWeights] | None = None
    ) -> Tensor:
        features, device = features_of(graph, TOKEN), self.device
        ids = to_device(features["id"], device).long()
        if not len(ids):  # texts without words, and no special tokens
            return torch.zeros(0, self.width, device=device)
        if tokens is None:
            assert self.embedding is not None
            tokens = self.embedding(ids)
        segments = features.get("segment")
        segments = None if segments is None else to_device(segments, device).long()
        edges = edges_of(graph, self.heads_along(), device)
        lengths = graph.batch_num_nodes(TOKEN).numpy()
        if weights is not None or lengths.sum() <= _MOST_TOKENS:
            return self._read(edges, lengths, ids, tokens, segments, weights)
        states = []
        for first, stop, group in _group_texts(lengths):
            rows = slice(first, stop)
            taken = {name: _take_rows(each, first, stop) for name, each in edges.items()}
            states.append(
                self._read(taken, group, ids[rows], tokens[rows], None if segments is None else segments[rows], None)
            )
        return torch.cat(states)

    def _read(
        self,
        edges: Mapping[str, Edges],
        lengths: Ints,
        ids: Tensor,
        tokens: Tensor,
        segments: Tensor | None,
        weights: list[LayerWeights] | None,
    ) -> Tensor:
        """(N, width) states of some texts."""
        layers = [
            Heads([edges[name] for name in heads], list(heads.values()), names=list(heads))
            for heads in self.layer_heads
        ]
        watcher = _LayerEdges(self.model, layers, weights)
        self._set_checkpointing(watcher, lengths, tokens, is_recording=weights is not None)
        inputs = PackedModel(self.model, self.architecture.first_position).make_inputs(
            lengths, ids[None], segments[None] if segments is not None and self.architecture.types else None
        )
        given = _VECTORS.set(at_least_parameters(tokens, self.model))
        try:
            with self._reading(watcher, lengths):
                states: Tensor = last_states(self.model(**inputs))[0]
        finally:
            _VECTORS.reset(given)
        return states

    @contextmanager
    def _reading(self, watcher: _LayerEdges, lengths: Ints) -> Iterator[None]:
        with packed(lengths, reads_masks=False), watching_alone(self.model, watcher):
            yield

    def _set_checkpointing(self, watcher: _LayerEdges, lengths: Ints, tokens: Tensor, *, is_recording: bool) -> None:
        """Let layers be computed again in the backward pass, along the same edges, or not."""
        wanted = self.training and (self.gradient_checkpointing or (not is_recording and is_too_long_to_keep(tokens)))
        again = partial(
            checkpoint, use_reentrant=False, context_fn=lambda: (nullcontext(), self._reading(watcher, lengths))
        )
        modules: Iterator[Any] = self.model.modules()
        for module in modules:
            if hasattr(module, "gradient_checkpointing"):
                module.gradient_checkpointing = wanted
                module._gradient_checkpointing_func = again if wanted else None

    @override
    def check_gradient_checkpointing(self) -> None:
        if not any(hasattr(module, "gradient_checkpointing") for module in self.model.modules()):
            raise ConfigError(
                f"transformers has no {{gradient_checkpointing}} for models of type {self.architecture.family!r}; "
                "leave it out, and save memory with a smaller {batch_size} or few {tuned_layers}",
                options=("gradient_checkpointing", "batch_size", "tuned_layers"),
            )

    # -- training ------------------------------------------------------------------------------------------------------

    @cached_property
    def _layers(self) -> tuple[str, nn.ModuleList]:
        """Name and modules of the stack of layers; layers that share weights are one."""
        stacks = [(name, module) for name, module in self.model.named_modules() if isinstance(module, nn.ModuleList)]
        depth = self.architecture.layers
        return next(
            (stack for stack in stacks if len(stack[1]) == depth),
            max(stacks, key=lambda stack: sum(1 for _ in stack[1].parameters()), default=("", nn.ModuleList())),
        )

    def _list_layers(self) -> dict[str, int]:
        """Parameter -> number of its layer; -1 below the first one, the number of layers above the last."""
        prefix, layers = self._layers
        numbers, is_above = {}, False
        for name, _ in self.named_parameters():
            is_inside = name.startswith(f"model.{prefix}.") and len(layers) > 0
            is_above |= is_inside
            inside = int(name.removeprefix(f"model.{prefix}.").partition(".")[0]) if is_inside else -1
            numbers[name] = inside if is_inside else len(layers) if is_above else -1
        return numbers

    @override
    def freeze(self, tuned_layers: int) -> None:
        depth = len(self._layers[1])
        self.frozen_layers = max(depth - tuned_layers, 0)
        numbers = self._list_layers()
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(tuned_layers > 0 and numbers[name] >= self.frozen_layers)
        self.train(self.training)

    @override
    def list_frozen_modules(self) -> Sequence[nn.Module]:
        if self.frozen_layers is None:
            return []
        tuned = {module for layer in self._layers[1][self.frozen_layers :] for module in layer.modules()}
        return [module for module in self.model.modules() if tuned.isdisjoint(module.modules())]

    @override
    def learning_rates(self, maximum: float, decay: float) -> dict[str, float]:
        depth = max(len(self._layers[1]), 1)
        return {name: maximum * decay ** max(depth - 1 - layer, 0) for name, layer in self._list_layers().items()}

    # -- export --------------------------------------------------------------------------------------------------------

    def make_plain_model(self, vectors: Tensor | None = None) -> nn.Module:
        """An ordinary model of ``transformers`` with these weights, on the CPU.

        ``vectors`` are the (V, D) word vectors of an encoder that has none of its own; without any, the model's are
        random.
        """
        model: Any = self.architecture.make_model(self.max_length)
        weights = {name.replace(".table.", "."): tensor.cpu() for name, tensor in self.model.state_dict().items()}
        vectors = self.embedding.trained if vectors is None and self.embedding is not None else vectors
        if vectors is not None:
            tables = [name for name, table in _list_modules(self.model) if isinstance(table, GivenVectors)]
            weights |= {f"{name}.weight": vectors.detach().cpu() for name in tables}
        model.load_state_dict({**model.state_dict(), **weights})
        model.set_attn_implementation("eager")
        return cast(nn.Module, model.eval())

    @override
    def to_huggingface(
        self,
        directory: str | Path,
        *,
        embedding: Tensor | None = None,
        vocabulary: PretrainedVocabulary | None = None,
        head: NativeHead | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        self.check_native()
        vocabulary = self.vocabulary if vocabulary is None else vocabulary
        assert vocabulary is not None
        plain: Any = self.make_plain_model(embedding)

        if head is not None:
            plain = self._add_head(plain, head)

        def write_model(folder: Path, _: Mapping[str, int | None]) -> dict[str, Any]:
            with without_bars():
                plain.save_pretrained(folder)
            (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # it lets only the owner read weights
            config: dict[str, Any] = json.loads((folder / CONFIG).read_text())
            return config

        write_files(
            directory,
            self.architecture,
            vocabulary.to_json(),
            write_model,
            max_length=self.max_length,
            has_pooler=any("pooler" in name for name, _ in plain.named_parameters()),
            head=head,
            missing=missing,
        )

    def _add_head(self, plain: nn.Module, head: NativeHead) -> Any:
        """A model of ``transformers`` with a head, around one without; it may lack the pooler."""
        model = make_headed_model(self.architecture, head.task, head.config, self.max_length)
        names = model.state_dict().keys()
        weights = {f"{head.prefix}.{name}": tensor for name, tensor in plain.state_dict().items()}
        weights = {name: tensor for name, tensor in weights.items() if name in names} | dict(head.tensors)
        model.load_state_dict({**model.state_dict(), **weights})
        return model


def _list_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """All names of all modules."""
    return model.named_modules(remove_duplicate=False)


def _parse_heads(heads: str | Mapping[str, int] | None, architecture: TransformersArchitecture) -> list[dict[str, int]]:
    """Relation -> number of heads of each layer; layers of a decoder keep the edges that begin at earlier tokens."""
    parsed = parse_layer_heads(heads or "", architecture.heads, architecture.relations)
    own = [{relation: architecture.heads} for relation in architecture.relations]
    return [
        {(head_relation(name) & Causal()).name: count for name, count in counts.items()}
        if relation.startswith(CAUSAL) and counts != kept
        else counts
        for counts, kept, relation in zip(parsed, own, architecture.relations, strict=True)
    ]


def at_least_parameters(tokens: Tensor, model: nn.Module) -> Tensor:
    """Vectors in the type of the model's parameters, which layers without autocast expect."""
    return tokens.to(next(model.parameters()).dtype)


def _group_texts(lengths: Ints) -> Iterator[tuple[int, int, Ints]]:
    """First and last row of consecutive texts that are read together, and their lengths.

    Examples
    --------
    >>> from numpy import array
    >>> [(first, stop, group.tolist()) for first, stop, group in _group_texts(array([1500, 500, 3000]))]
    [(0, 2000, [1500, 500]), (2000, 5000, [3000])]
    """
    begin = first = stop = 0
    for number, length in enumerate(lengths.tolist()):
        if number > begin and stop + length - first > _MOST_TOKENS:
            yield first, stop, lengths[begin:number]
            begin, first = number, stop
        stop += length
    yield first, stop, lengths[begin:]


def _take_rows(edges: Edges, first: int, stop: int) -> Edges:
    """The edges between some texts, whose rows these are."""
    if edges.ranges is not None:
        low, high = (each[first:stop] - first for each in edges.ranges)
        return Edges.of_ranges(low, high, stop - first)
    indptr = edges.indptr[first : stop + 1]
    indices = edges.indices[int(indptr[0]) : int(indptr[-1])] - first
    return Edges(indptr - indptr[0], indices, stop - first, checked=True)


def _with_positions(
    model: nn.Module, architecture: TransformersArchitecture, max_length: int | None, how: str
) -> nn.Module:
    """The model with position vectors for longer, or only for shorter, texts."""
    assert max_length is not None
    longer, weights = architecture.make_model(max_length), model.state_dict()
    for name, tensor in longer.state_dict().items():
        if tensor.shape != weights[name].shape:
            rows = len(weights[name])
            if len(tensor) - rows != max_length - architecture.max_length:
                raise ConfigError(
                    f"a model of type {architecture.family!r} with these settings has a table of distances besides its "
                    f"position vectors, so it reads {architecture.max_length} tokens; leave {{max_length}} out",
                    options=("max_length",),
                )
            weights[name] = resize_positions(weights[name], rows - architecture.max_length, len(tensor), how)
    longer.load_state_dict(weights, assign=True)
    return longer.eval()
