"""Encoded corpora, and the batches that models take."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset
from typing_extensions import override

from graphattn._devices import ASYNCHRONOUS, forget_copies, remember_copies, to_device
from graphattn._ragged import Ints, Ragged
from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.builders._graph_builder import CLS_ID, TokenFeature
from graphattn.builders._layout import Layout
from graphattn.builders._memory_maps import memmap_layouts
from graphattn.builders._stored import is_stored
from graphattn.builders._word_boundaries import Source
from graphattn.models._features.characters import CharacterVocabulary, TokenTypeBatch, TokenTypeIndex, TokenTypes
from graphattn.models._features.hashing import hash_tokens
from graphattn.models._features.lexicon import Lexicon

if TYPE_CHECKING:
    from graphattn.builders.store import Store

EOS = CLS_ID
"""The token before the first and after the last token of a target."""
_CHUNK = 1 << 14
"""Sentences whose edges are counted at once."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The input of a model."""

    graph: TextBatch  # B texts; for pairs 2 B, all first texts before all second ones
    size: int  # number of texts or pairs (B)
    token_types: TokenTypeBatch | None = None  # characters of the tokens, or None
    # (B,) class ids, (B, C) zeros and ones, or (W,) ids of tags or target tokens; None when unknown
    targets: Tensor | None = None
    loss_normalizer: float = 1.0  # number by which losses are divided: the targets of the whole batch per process
    target_counts: Tensor | None = None  # (B,) number of tags or tokens per target if targets are flat, else None
    weights: Tensor | None = None  # (B,) factors of the texts' losses; None for equal weights
    cells: Tensor | None = None  # (B, K) encoded columns beside the texts, or None

    def prefetch(self, device: torch.device) -> Self:
        """Copy all tensors to a GPU in one piece; ``to_device`` and ``Edges.to`` then return these copies.

        If they do not fit into its memory, the model copies what it needs, and the error is raised there.
        """
        if device.type not in ASYNCHRONOUS:
            return self
        others = self._list_others()
        with suppress(torch.OutOfMemoryError):
            copy_of = self.graph.copy_arrays(device, others)
            remember_copies([*self.graph.list_features(), *others], copy_of)
        return self

    def free_copies(self) -> None:
        """Free all copies on a GPU, which are one piece: none may be left."""
        for edges in self.graph.edges.values():
            edges.plans.clear()
        forget_copies([*self.graph.list_features(), *self._list_others()])

    def _list_others(self) -> list[Tensor]:
        """Tensors that a model reads besides edges and features."""
        types = () if self.token_types is None else self.token_types.model_inputs
        optional = [tensor for tensor in (self.targets, self.weights, self.cells) if tensor is not None]
        return [*self.graph.node_counts.values(), *types, *optional]

    def item_weights(self, device: torch.device) -> Tensor | None:
        """(items,) factors of the items' losses: of each text, or of each tag or token."""
        if self.weights is None:
            return None
        counts = self.target_counts
        weights = self.weights if counts is None else self.weights.repeat_interleave(counts)
        return to_device(weights, device)


class Corpus(Dataset[Batch]):
    """An encoded corpus; indexing it with sentence numbers returns a batch.

    There is one layout, or two for pairs. ``token_types`` are characters of distinct tokens, or None. ``targets`` have
    one row per sentence; or they are flat tags or tokens (of any integer type), and their number per sentence.
    ``weights`` (S,) are factors of the sentences' losses, with the mean 1 over all targets; None for equal weights.
    ``copies`` (S,) are the same as the user gave them: for what weighs a sum of losses against a penalty. ``cells``
    (S, K) are encoded columns beside the texts, None if the model reads none. If
    ``reads_targets``, the model also reads the targets, which then count in :attr:`lengths`. For inspection there are
    the ``sentences`` of each part of the input, ``text``, ``first`` and ``second``, or ``source`` and ``target``, and a
    translator's ``outputs``.
    """

    sentences: Mapping[str, Sequence[Sentence]] = {}
    outputs: Sequence[str] = ()
    reads_targets = False
    weights: npt.NDArray[np.float32] | None = None
    copies: npt.NDArray[np.float64] | None = None
    cells: npt.NDArray[np.float32] | None = None

    def __init__(
        self,
        builder: TextGraphBuilder,
        layouts: Sequence[Layout],
        *,
        token_types: TokenTypes | None = None,
        targets: npt.NDArray[Any] | tuple[npt.NDArray[Any], Ints] | None = None,
    ):
        self.builder, self.layouts, self.token_types, self.targets = builder, tuple(layouts), token_types, targets

    @classmethod
    def encode(
        cls,
        builder: TextGraphBuilder,
        texts: Sequence[Sequence[Source]],
        *,
        characters: CharacterVocabulary | None = None,
        spelling: bool = False,
        lexicon: Lexicon | None = None,
        predicates: bool = False,
        targets: npt.NDArray[Any] | tuple[npt.NDArray[Any], Ints] | None = None,
    ) -> Corpus:
        """Encode texts.

        ``texts`` is one list of sources, or two of the same length for pairs; columns out of a store are encoded into
        memory-mapped files. ``characters`` are those of a model with character features, and ``lexicon`` adds its
        features to the tokens. ``spelling`` keeps the features of each token's spelling, for a linear branch;
        ``predicates`` keeps the marks of predicates, which all sentences have. ``targets`` are as for :class:`Corpus`.
        """
        assert builder.vocabulary is not None
        if characters is None and not spelling:
            layouts = [_build_layout(builder, column, None, lexicon, predicates=predicates) for column in texts]
            return cls(builder, layouts, targets=targets)
        types = TokenTypeIndex()
        layouts = [_build_layout(builder, column, types, lexicon, predicates=predicates) for column in texts]
        token_types = (characters or CharacterVocabulary(())).encode(types)
        if spelling:
            token_types = replace(token_types, features=hash_tokens(list(types.ids)))
        return cls(builder, layouts, token_types=token_types, targets=targets)

    @classmethod
    def from_store(
        cls,
        store: Store,
        builder: TextGraphBuilder | None = None,
        *,
        target: Literal["label", "tags"] | None = "label",
    ) -> Corpus:
        """Encode the texts of a store; their columns are memory-mapped files, so a batch reads only its own texts.

        Of a pair the first text counts. ``builder`` is the store's own by default. Targets are indices in
        ``store.manifest.labels`` (-1 without a label) or ``store.manifest.tags``; texts with several labels have a row
        of zeros and ones.
        """
        texts = store.texts()
        targets: npt.NDArray[Any] | tuple[npt.NDArray[Any], Ints] | None = None
        if target == "label":
            targets = _label_targets(texts.column("label"), store.label_index)
        elif target == "tags":
            index = store.tag_index
            rows = [[index[tag] for tag in tags or ()] for tags in texts.column("tags")]
            counts = np.array([len(row) for row in rows], np.int64)
            targets = np.array([tag for row in rows for tag in row], np.int64), counts
        return cls.encode(builder or store.builder(), [texts], targets=targets)

    @classmethod
    def of_pairs(
        cls,
        builder: TextGraphBuilder,
        sources: Sequence[Source],
        targets: Sequence[npt.NDArray[np.integer]] | None = None,
    ) -> Corpus:
        """Encode sources and the texts to write for them.

        ``sources`` are texts with marked words, or any texts for a pretrained model; ``targets`` are ids of each
        target's tokens, without :data:`EOS`, None for texts to translate.
        """
        corpus = cls(builder, [builder.layout(sources)])
        corpus.reads_targets = True
        if targets is not None:
            counts = np.fromiter((len(ids) + 1 for ids in targets), np.int64, len(targets))
            flat = np.concatenate([part for ids in targets for part in (ids, [EOS])]).astype(np.int64)
            corpus.targets = flat, counts
        return corpus

    def with_weights(self, weights: npt.NDArray[np.floating] | None) -> Self:
        """This corpus with weights in the loss; a weight of k has the effect of k copies of the sentence.

        For training in batches they are scaled so that the mean loss of the whole corpus is a weighted mean.

        ``weights`` are (S,), not negative; None for equal ones.
        """
        if weights is None:
            return self
        targets = self.targets[1] if isinstance(self.targets, tuple) else np.ones(len(self))
        total = float(weights @ targets)
        weighted = copy(self)
        weighted.weights = (weights * (targets.sum() / total if total else 1.0)).astype(np.float32)
        weighted.copies = weights.astype(np.float64)
        return weighted

    def with_sentences(self, sentences: Mapping[str, Sequence[Sentence]], outputs: Sequence[str] = ()) -> Self:
        """This corpus with its tokens as text, for inspection."""
        shown = copy(self)
        shown.sentences, shown.outputs = sentences, outputs
        return shown

    @cached_property
    def first_batch(self) -> Batch:
        """The first input as a batch."""
        return self.batch([0])

    @property
    def first_sentences(self) -> dict[str, Sentence]:
        """The sentences of the first input."""
        return {name: sentences[0] for name, sentences in self.sentences.items()}

    @property
    def title(self) -> str:
        """The words of the first input."""
        return " / ".join(" ".join(sentence.words) for sentence in self.first_sentences.values())

    @property
    def graph_texts(self) -> list[str]:
        """The parts whose tokens are nodes of the graph; a translator's target is not."""
        return list(self.sentences)[: len(self.layouts)]

    @property
    def mean_weight(self) -> float:
        """What a loss with ``weights`` is multiplied by to become that with ``copies``."""
        if self.copies is None:
            return 1.0
        targets = self.targets[1] if isinstance(self.targets, tuple) else np.ones(len(self))
        return float(self.copies @ targets / targets.sum()) if targets.any() else 1.0

    def select(self, numbers: Ints) -> Corpus:
        """The sentences with these numbers, without targets and weights."""
        chosen = Corpus(self.builder, [layout.take(numbers) for layout in self.layouts], token_types=self.token_types)
        chosen.cells = None if self.cells is None else self.cells[numbers]
        return chosen

    def without_edges(self) -> Self:
        """The same corpus, whose batches have no relations."""
        plain = copy(self)
        plain.builder = TextGraphBuilder([], vocabulary=self.builder.vocabulary)
        return plain

    def truncate(self, limit: int | None, total: int | None = None) -> tuple[Corpus, int, int]:
        """The corpus with fewer tokens of long texts, the number of these texts or pairs, and that of tokens left out.

        Targets must be of whole texts. Arguments are those of :func:`truncate_lengths`, besides ``[CLS]``.
        """
        lengths = [layout.lengths - self.builder.cls for layout in self.layouts]
        kept = truncate_lengths(lengths, limit, total)
        lost = np.stack([before - after for before, after in zip(lengths, kept, strict=True)])
        if not lost.any():
            return self, 0, 0
        cut = int(np.count_nonzero(lost if total is None else lost.sum(0)))
        layouts = [layout.truncate(count + self.builder.cls) for layout, count in zip(self.layouts, kept, strict=True)]
        return Corpus(self.builder, layouts, token_types=self.token_types, targets=self.targets), cut, int(lost.sum())

    def __len__(self) -> int:
        return len(self.layouts[0])

    @property
    def lengths(self) -> Ints:
        """(S,) tokens of each sentence or pair, and of its target if the model reads it."""
        special = self.builder.count_special_tokens(len(self.layouts))
        lengths = np.sum([layout.lengths for layout in self.layouts], axis=0) + special
        return lengths + self.targets[1] if self.reads_targets and isinstance(self.targets, tuple) else lengths

    def num_edges(self) -> Ints:
        """(S,) edges of each sentence or pair."""
        return np.concatenate([np.empty(0, np.int64), *map(self._count_edges, range(0, len(self), _CHUNK))])

    @override
    def __getitem__(self, numbers: Sequence[int]) -> Batch:
        return self.batch(numbers)

    def batch(self, numbers: Sequence[int], *, whole: Sequence[int] | None = None, processes: int = 1) -> Batch:
        """The sentences or pairs with these numbers.

        They may be one process's share of the ``whole`` batch, whose targets then divide losses.
        """
        numbers = list(numbers)
        whole = numbers if whole is None else list(whole)
        count = self.targets[1][whole].sum() if isinstance(self.targets, tuple) else len(whole)
        normalizer = max(float(count) / processes, 1e-9)
        if not numbers:
            # fewer sentences than processes: this process contributes zero gradients
            numbers, normalizer = whole[:1], math.inf
        is_all = len(numbers) == len(self) and numbers == list(range(len(self)))
        layout = self.builder.join(self.layouts if is_all else [layout.take(numbers) for layout in self.layouts])
        types = None if self.token_types is None else self.token_types.take(layout.features["token_type"])
        weights = None if self.weights is None else torch.from_numpy(self.weights[numbers])
        targets, counts = self._take_targets(numbers)
        cells = None if self.cells is None else torch.from_numpy(self.cells[numbers])
        return Batch(self.builder.text_batch(layout), len(numbers), types, targets, normalizer, counts, weights, cells)

    def fingerprint(self) -> str:
        """A digest of this corpus."""
        arrays: list[npt.NDArray[Any] | None] = []
        for layout in self.layouts:
            arrays += [layout.lengths, layout.word_ids, layout.heads, layout.deprels, *layout.features.values()]
            arrays += [] if layout.sentence_ids is None else [layout.sentence_ids]
            arrays += [] if layout.links is None else [layout.links.offsets, layout.links.values]
        arrays += [] if self.token_types is None else [self.token_types.characters, self.token_types.capitals]
        arrays += self.targets if isinstance(self.targets, tuple) else (self.targets,)
        arrays += [array for array in (self.weights, self.cells) if array is not None]
        words = "" if self.builder.vocabulary is None else self.builder.vocabulary.to_json()
        return f"{len(self)} examples, {digest_of(*arrays, words)}"

    def _count_edges(self, start: int) -> Ints:
        """The edges of a chunk of sentences or pairs."""
        rows = np.arange(start, min(start + _CHUNK, len(self)))
        counts = self.builder.num_edges(self.builder.join([layout.take(rows) for layout in self.layouts]))
        return counts.reshape(-1, len(rows)).sum(0)

    def _take_targets(self, numbers: Sequence[int]) -> tuple[Tensor | None, Tensor | None]:
        """The targets of some sentences, and if they are flat the number of targets of each."""
        if self.targets is None:
            return None, None
        if not isinstance(self.targets, tuple):
            return torch.from_numpy(self.targets[numbers]), None
        rows = Ragged.from_counts(*self.targets).take(np.asarray(numbers, np.int64))
        return torch.from_numpy(rows.values.astype(np.int64)), torch.from_numpy(self.targets[1][numbers])


def truncate_lengths(lengths: Sequence[Ints], limit: int | None, total: int | None) -> Sequence[Ints]:
    """Numbers of tokens that are kept of texts.

    ``lengths`` are (B,) tokens of each text, or of the first and of the second texts; a text keeps at most ``limit``
    tokens and a pair at most ``total``: the longer text loses tokens first, as in ``transformers``.

    Examples
    --------
    >>> first, second = np.array([2, 90, 50, 30]), np.array([80, 3, 50, 10])
    >>> [counts.tolist() for counts in truncate_lengths([first, second], None, 41)]
    [[2, 38, 21, 30], [39, 3, 20, 10]]
    """
    kept = lengths if limit is None else [np.minimum(counts, limit) for counts in lengths]
    if total is None:
        return kept
    first, second = kept
    first = np.minimum(first, np.maximum(total - second, total - total // 2))
    return first, np.minimum(second, total - first)


def _label_targets(labels: Sequence[Any], index: Mapping[str, int]) -> npt.NDArray[Any]:
    if not any(isinstance(label, tuple) for label in labels):
        return np.array([-1 if label is None else index[label] for label in labels], np.int64)
    matrix = np.zeros((len(labels), len(index)), np.float32)
    for row, label in enumerate(labels):
        matrix[row, [index[name] for name in ((label,) if isinstance(label, str) else label or ())]] = 1
    return matrix


def digest_of(*parts: npt.NDArray[Any] | str | None) -> str:
    """A digest of arrays and texts; parts that differ in length, shape or type differ."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:16]


def _build_layout(
    builder: TextGraphBuilder,
    column: Sequence[Source],
    types: TokenTypeIndex | None,
    lexicon: Lexicon | None,
    *,
    predicates: bool = False,
) -> Layout:
    """The layout of a column of texts; those of a store are processed in chunks."""
    if is_stored(column):
        if types is None and lexicon is None:
            return memmap_layouts(column.layouts(builder))
        return memmap_layouts(_build_layout(builder, part, types, lexicon) for part in column.parts())

    if types is None and lexicon is None and not predicates:
        return builder.layout(column)

    def features(split: Sequence[Sentence]) -> dict[str, TokenFeature]:
        of_tokens: dict[str, TokenFeature] = {}
        if types is not None:
            of_tokens["token_type"] = types.encode(s.tokens for s in split), 0
        if predicates:
            of_tokens["predicate"] = list(map(_mark_tokens, split)), 0
        return {**of_tokens, **({} if lexicon is None else lexicon.features(split))}

    return builder.layout(column, features=features)


def _mark_tokens(sentence: Sentence) -> npt.NDArray[np.int32]:
    """(tokens,) the mark of each token's word."""
    marks = np.array(sentence.predicates, np.int32)
    return marks if sentence.word_ids is None else marks[list(sentence.word_ids)]
