"""Choose, and look at, the edges of a model of ``transformers`` while a context is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._edges import Edges
from graphattn._ragged import Ints, count_up
from graphattn._schema import ALL
from graphattn.builders._batch import TextBatch
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._layout import Layout
from graphattn.exceptions import ConfigError
from graphattn.models._encoders.relation_heads import head_relation
from graphattn.models.inspection._attention import Attention
from graphattn.models.inspection._attention_map import AttentionMap
from graphattn.models.inspection._dense_attention import make_sentence, name_tokens, number_words
from graphattn.models.inspection.limits import MOST_WEIGHTS
from graphattn.models.pretrained._interface import NAME, WATCHERS, Heads, MaskEdges, Watcher
from graphattn.models.pretrained._layers import parse_layer_heads
from graphattn.models.pretrained._patches import find_patches

Choice = str | Mapping[str, int] | Edges | TextBatch
"""The edges of a layer's heads."""
_TEXT = "text"
_MODELS_OWN = ""
"""The name of the relation of layers that keep their edges."""


class LayerWatcher(Watcher):
    """Numbers the layers of a model in each forward pass, and counts the calls of their attention.

    ``layers`` and ``heads`` are the model's numbers of attention layers, and of heads in each.
    """

    def __init__(self, model: nn.Module, context: str):
        config = read_config(model, context)
        try:
            self.layers, self.heads = int(config.num_hidden_layers), int(config.num_attention_heads)
        except (AttributeError, TypeError) as error:
            raise ConfigError(f"{config.model_type} has no attention in all layers for {context} ({error})") from error
        self._context, self._family = context, config.model_type
        self._numbers: dict[nn.Module, list[int]] = {}
        self._calls: int | None = None

    def begin_pass(self, model: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        """Take the inputs of a forward pass."""
        self._numbers, self._calls = {}, 0

    def end_pass(self, model: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any], output: Any) -> None:
        """Check the calls of a forward pass."""
        calls, self._calls = self._calls, None
        if calls != self.layers:
            raise ConfigError(
                f"{self._family} called attention along edges {calls} times, and has {self.layers} layers: some of "
                f"its layers compute attention in another way, so {self._context} cannot be used with it"
            )

    def check_has_no_cache(self, mask: MaskEdges) -> None:
        """Reject attention to tokens of earlier passes."""
        if mask.edges.num_sources != mask.edges.num_destinations:
            raise ConfigError(f"{self._context} is for attention of tokens to each other; set use_cache=False")

    @override
    def begin_layer(self, module: nn.Module) -> None:
        if self._calls is None:  # computed again, for gradients
            return
        self._numbers.setdefault(module, []).append(self._calls)
        self._calls += 1

    def number(self, module: nn.Module) -> int:
        """The layer that a module computes now."""
        if module not in self._numbers:
            raise ConfigError(f"{self._context}: call the model that was given, not a part of it")
        numbers = self._numbers[module]
        if self._calls is None and len(numbers) > 1:
            raise ConfigError(f"{self._context}: layers share weights; turn off gradient checkpointing")
        return numbers[-1]


class EdgeChooser(LayerWatcher):
    """Gives layers other edges than those of their masks."""

    def __init__(self, model: nn.Module, heads: Choice | Sequence[Choice], graph: TextBatch | None):
        super().__init__(model, "edges(...)")
        if heads is None or heads == "":
            raise ConfigError("{heads} is empty; give relations, window:33|global for example", options=("heads",))
        choices = [heads] * self.layers if isinstance(heads, (str, Mapping, Edges, TextBatch)) else list(heads)
        if len(choices) != self.layers:
            raise ConfigError(
                f"{{heads}} has {len(choices)} choices of edges; the model has {self.layers} layers", options=("heads",)
            )
        self._by_layer = [self._read(choice, number) for number, choice in enumerate(choices)]
        self._graph, self._made = graph, dict[tuple[int, str], Edges]()
        self._checkpoints: dict[Any, Callable[..., Any]] = {}

    def _read(self, choice: Choice, layer: int) -> list[tuple[str | Edges, int]]:
        """Relation, or edges, with the number of its heads."""
        if isinstance(choice, TextBatch):
            choice = Edges.of(choice)
        if isinstance(choice, Edges):
            return [(choice, self.heads)]
        return list(parse_layer_heads(choice, self.heads, [_MODELS_OWN] * self.layers)[layer].items())

    @override
    def begin_pass(self, model: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        super().begin_pass(model, args, inputs)
        self._made.clear()
        modules: Iterator[Any] = model.modules()
        for module in modules:
            if getattr(module, "gradient_checkpointing", False) and module not in self._checkpoints:
                self._checkpoints[module] = module._gradient_checkpointing_func
                module._gradient_checkpointing_func = partial(self._checkpoint, model, self._checkpoints[module])

    def _checkpoint(
        self, model: nn.Module, checkpoint: Callable[..., Any], layer: Any, *args: Any, **options: Any
    ) -> Any:
        """Gradient checkpointing of a layer that is computed again along the same edges, also after the context."""

        def run(*args: Any, **inputs: Any) -> Any:
            is_open = self in WATCHERS.get(model, [])
            with nullcontext() if is_open else watching(model, self):
                return layer(*args, **inputs)

        return checkpoint(run, *args, **options)

    def restore_checkpoints(self) -> None:
        """Give layers their own gradient checkpointing back."""
        for module, checkpoint in self._checkpoints.items():
            module._gradient_checkpointing_func = checkpoint

    @override
    def choose(self, module: nn.Module, mask: MaskEdges) -> Heads | None:
        pairs = self._by_layer[self.number(module)]
        if pairs == [(_MODELS_OWN, self.heads)]:
            return None
        self.check_has_no_cache(mask)
        real = mask.real
        rows = None if bool(real.all()) else real.nonzero().squeeze(1)
        count = int(real.sum())
        made = [self._make(which, mask, count) for which, _ in pairs]
        names = ["edges" if isinstance(which, Edges) else which for which, _ in pairs]
        return Heads(made, [heads for _, heads in pairs], rows, names)

    def _make(self, which: str | Edges, mask: MaskEdges, count: int) -> Edges:
        """The edges of a relation between the real tokens; in decoders, those that begin at earlier tokens."""
        key = id(mask.edges), str(id(which)) if isinstance(which, Edges) else which
        if key in self._made:
            return self._made[key]
        edges = which if isinstance(which, Edges) else self._build(which, mask)
        edges = edges.to(mask.edges.indptr.device)
        if (edges.num_sources, edges.num_destinations) != (count, count):
            raise ConfigError(
                f"{{heads}} has edges from {edges.num_sources} to {edges.num_destinations} tokens; the batch has "
                f"{count} without padding",
                options=("heads",),
            )
        if isinstance(which, Edges):
            _require_one_text(edges, mask.lengths)
        self._made[key] = keep_past(edges) if mask.is_causal and count > len(mask.lengths) else edges
        return self._made[key]

    def _build(self, relation: str, mask: MaskEdges) -> Edges:
        if self._graph is not None:
            return Edges.of(self._graph, relation)
        rule = head_relation(relation)
        if rule.needs_heads or rule.needs_sentences or rule.needs_links or rule.needs_vectors:
            raise ConfigError(
                f"{{heads}}: relation {relation!r} needs more than the number of tokens; make a batch of the texts "
                "with TextGraphBuilder, and give it as graph=",
                options=("heads",),
            )
        layout = Layout(mask.lengths, mask.lengths, count_up(mask.lengths))
        return Edges.of(TextGraphBuilder([rule], cls=False).text_batch(layout), relation)


def _require_one_text(edges: Edges, lengths: Ints) -> None:
    """Reject edges from one text of a batch to another."""
    texts = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)).to(edges.indptr.device)
    crosses = texts[edges.sources.long()] != texts[edges.destinations.long()]
    if bool(crosses.any()):
        first = int(crosses.nonzero()[0])
        raise ConfigError(
            f"{{heads}} has an edge from token {int(edges.sources[first])} to {int(edges.destinations[first])}, which "
            "is in another text; number the tokens of all texts one after another",
            options=("heads",),
        )


def keep_past(edges: Edges) -> Edges:
    """The edges from a token to itself and to later ones.

    Examples
    --------
    >>> keep_past(Edges(torch.tensor([0, 2, 4]), torch.tensor([0, 1, 0, 1]), 2)).indices.tolist()
    [0, 0, 1]
    """
    if edges.ranges is not None:
        low, high = edges.ranges
        stop = torch.arange(1, len(low) + 1, dtype=low.dtype, device=low.device)
        high = torch.minimum(high, stop)
        return Edges.of_ranges(torch.minimum(low, high), high, edges.num_sources)
    keep = edges.sources <= edges.destinations
    kept = Edges.of_pairs(edges.sources[keep], edges.destinations[keep], edges.num_sources, edges.num_destinations)
    return Edges(kept.indptr.int(), kept.indices.int(), kept.num_sources, checked=True)


class Captured(Sequence[Attention]):
    """The attention of each text of the last forward pass."""

    def __init__(self) -> None:
        self.results: list[Attention] = []

    def __getitem__(self, number: Any) -> Any:
        if not self.results:
            raise ConfigError("there are no weights: call the model inside `with capture(model) as weights`")
        return self.results[number]

    def __len__(self) -> int:
        return len(self.results)


class WeightRecorder(LayerWatcher):
    """Keeps the weights of a forward pass."""

    def __init__(self, model: nn.Module, tokenizer: Any):
        super().__init__(model, "capture(...)")
        self.captured, self._tokenizer = Captured(), tokenizer
        self._layers: list[tuple[Heads, list[Tensor], MaskEdges]] = []
        self._ids: Tensor | None = None

    @override
    def begin_pass(self, model: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        super().begin_pass(model, args, inputs)
        self._layers = []
        self._ids = inputs.get("input_ids", args[0] if args else None)

    @property
    @override
    def records(self) -> bool:
        return self._calls is not None

    @override
    def record(self, head: Heads, weights: Sequence[Tensor], mask: MaskEdges) -> None:
        self.check_has_no_cache(mask)
        count = sum(each.numel() for _, kept, _ in self._layers for each in kept) + sum(
            each.numel() for each in weights
        )
        if count > MOST_WEIGHTS:
            raise ConfigError(
                f"the batch has more than {MOST_WEIGHTS:,} attention weights; give fewer or shorter texts"
            )
        self._layers.append((head, [each.detach() for each in weights], mask))

    @override
    def end_pass(self, model: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any], output: Any) -> None:
        super().end_pass(model, args, inputs, output)
        mask = self._layers[0][2]
        maps = [list[AttentionMap]() for _ in mask.lengths]
        for number, (head, weights, layer_mask) in enumerate(self._layers):
            for text, found in _maps_of_layer(number, head, weights, layer_mask):
                maps[text].append(found)
        ids = self._read_ids(mask)
        self.captured.results = [self._make_attention(*pair) for pair in zip(ids, maps, strict=True)]

    def _read_ids(self, mask: MaskEdges) -> list[list[int]]:
        """The ids of each text, without padding; numbers of the tokens if there are none."""
        if self._ids is None:
            return [list(range(length)) for length in mask.lengths.tolist()]
        ids = self._ids.flatten()[mask.real.to(self._ids.device)].cpu().numpy()
        return [part.tolist() for part in np.split(ids, np.cumsum(mask.lengths)[:-1])]

    def _make_attention(self, ids: Sequence[int], maps: Sequence[AttentionMap]) -> Attention:
        tokens, words = list(map(str, ids)), None
        if self._tokenizer is not None and self._ids is not None:
            tokens, words = name_tokens(self._tokenizer, ids), number_words(self._tokenizer, ids)
        sentence = make_sentence(tokens, words, None)
        return Attention(" ".join(sentence.words), None, {}, {_TEXT: tuple(tokens)}, {_TEXT: sentence}, tuple(maps))


def _maps_of_layer(
    layer: int, head: Heads, weights: Sequence[Tensor], mask: MaskEdges
) -> Iterator[tuple[int, AttentionMap]]:
    """Number of a text, and its weights on one relation of a layer."""
    first_head = 0
    real = mask.real.cpu()
    place = real.long().cumsum(0).numpy() - 1  # of a row among the real tokens
    ends = np.cumsum(mask.lengths)
    for number, (edges, count, values) in enumerate(zip(head.edges, head.counts, weights, strict=True)):
        sources, targets = edges.sources.cpu().numpy(), edges.destinations.cpu().numpy()
        slots = edges.by_slot(values).float().cpu().numpy()
        if head.rows is None:
            keep = real.numpy()[targets] & real.numpy()[sources]
            sources, targets, slots = place[sources[keep]], place[targets[keep]], slots[keep]
        texts = np.searchsorted(ends, targets, side="right")
        relation = head.names[number] if head.names else _name_edges(len(sources), mask.lengths)
        for text, length in enumerate(mask.lengths.tolist()):
            inside = texts == text
            begin = ends[text] - length
            found = sources[inside] - begin, targets[inside] - begin
            yield text, AttentionMap(layer, first_head, relation, _TEXT, _TEXT, *found, slots[inside])
        first_head += count


def _name_edges(count: int, lengths: Ints) -> str:
    if count == int((lengths.astype(np.int64) ** 2).sum()):
        return ALL
    return "causal" if count == int((lengths.astype(np.int64) * (lengths + 1) // 2).sum()) else "edges"


def read_config(model: nn.Module, context: str) -> Any:
    """The configuration of a model's layers."""
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "get_text_config"):
        raise ConfigError(f"{context} takes a model of transformers; it got a {type(model).__name__}")
    if config.is_encoder_decoder and hasattr(model, "decoder"):
        raise ConfigError(f"{context} takes an encoder or a decoder; give model.get_encoder()")
    config = config.get_text_config()
    if config._attn_implementation != NAME:
        raise ConfigError(
            f"the model computes attention with {config._attn_implementation!r}; read it with attn_implementation="
            f"{NAME!r}, or call model.set_attn_implementation({NAME!r}), before {context}"
        )
    return config


_LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_LOCK_OF_LOCKS = Lock()


@contextmanager
def watching_alone(model: nn.Module, watcher: LayerWatcher) -> Iterator[None]:
    """:func:`watching` for one forward pass, after those of other threads: all passes share the model's modules."""
    with _LOCK_OF_LOCKS:
        lock = _LOCKS.setdefault(model, RLock())
    with lock, watching(model, watcher):
        yield


@contextmanager
def watching(model: nn.Module, watcher: LayerWatcher) -> Iterator[None]:
    """Let a watcher see the layers of a model."""
    modules = list(model.modules())
    patched = [
        (module, name, patch)
        for module in modules
        for name, patch in find_patches(module).items()
        if name not in vars(module)
    ]
    for module, name, patch in patched:
        setattr(module, name, partial(patch, module))
    for module in modules:
        WATCHERS.setdefault(module, []).append(watcher)
    hooks = [
        model.register_forward_pre_hook(watcher.begin_pass, with_kwargs=True),
        model.register_forward_hook(watcher.end_pass, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in modules:
            WATCHERS[module].remove(watcher)
        for module, name, _ in patched:
            delattr(module, name)


@contextmanager
def edges(model: nn.Module, heads: Choice | Sequence[Choice], *, graph: TextBatch | None = None) -> Iterator[None]:
    """Let the heads of a model attend along other edges, in evaluation and in training.

    Edges connect real tokens only, whatever the padding. In a decoder they begin at earlier tokens and at the token
    itself.

    Parameters
    ----------
    model : of ``transformers``, with ``attn_implementation="graphattn"``, or wrapped by PEFT
    heads : relations with heads as for ``--pretrained-heads``, such as ``"window:33|global"``, ``"window:5=6,all=6"``
        or ``"0-3:window:9"``; or :class:`~graphattn.Edges` between the real tokens of the batch, one text after
        another; or a batch with one relation; or a list with one of them for each layer
    graph : the batch of the texts with the relations that ``heads`` names; without it each token is a word

    Raises
    ------
    ConfigError
        for heads that do not fit the model or the batch; in the forward pass, when a layer does not attend along edges

    Examples
    --------
    >>> import transformers, graphattn.transformers
    >>> sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    >>> config = transformers.BertConfig(**sizes, attn_implementation="graphattn")
    >>> model = transformers.BertModel(config).eval()
    >>> with graphattn.transformers.edges(model, "window:3|global"):
    ...     model(torch.tensor([[1, 2, 3, 4, 5]])).last_hidden_state.shape
    torch.Size([1, 5, 16])
    """
    chooser = EdgeChooser(model, heads, graph)
    with watching(model, chooser):
        try:
            yield
        finally:
            chooser.restore_checkpoints()


@contextmanager
def capture(model: nn.Module, tokenizer: Any = None) -> Iterator[Captured]:
    """Keep the attention weights of the last forward pass.

    Parameters
    ----------
    model : as for :func:`edges`
    tokenizer : of ``transformers``; names the tokens and their words; ids without it

    Yields
    ------
    A sequence, filled by each forward pass: the :class:`~graphattn.models.inspection.Attention` of each text, without
    padding

    Raises
    ------
    ConfigError
        in the forward pass, when a layer does not attend along edges, or there are too many weights

    Examples
    --------
    >>> import transformers, graphattn.transformers
    >>> sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    >>> config = transformers.BertConfig(**sizes, attn_implementation="graphattn")
    >>> model = transformers.BertModel(config).eval()
    >>> with graphattn.transformers.capture(model) as weights:
    ...     _ = model(torch.tensor([[7, 8, 9]]))
    >>> weights[0].matrix(layer=0, head=1).shape
    (3, 3)
    """
    recorder = WeightRecorder(model, tokenizer)
    with watching(model, recorder):
        yield recorder.captured
