"""A batch of sentences as flat columns, from which relations compute edges without a loop over sentences.

Letters: B sentences, N tokens, W words; ``[CLS]`` counts as a token and as a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from graphattn._ragged import Ints, Ragged, concatenate_ranges, count_up
from graphattn.builders._sentence import Sentence, assign_sentence_ids
from graphattn.exceptions import DataError, GraphAttnWarning, warn_caller


@dataclass(frozen=True, eq=False)
class Layout:
    """The tokens and words of a batch, and what relations need to know of them."""

    lengths: Ints  # (B,) tokens of each sentence
    word_counts: Ints  # (B,) words of each sentence
    word_ids: Ints  # (N,) word of each token, counted within its sentence
    # (W,) 0-based head of each word within its sentence, -1 for roots and ``[CLS]``; None when not needed
    heads: Ints | None = None
    deprels: Ints | None = None  # (W,) id of each word's dependency relation; None when not needed
    # columns that become features of token nodes, name -> (N, ...)
    features: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    # (W,) sentence of each word within its text, ``[CLS]`` in the first; None when not needed
    sentence_ids: Ints | None = None
    # (source, target) words that the user linked, counted within their text, by target and source; None when not needed
    links: Ragged | None = None
    # (V, D) vector of each token id, shared by all layouts of a builder; None when not needed
    vectors: npt.NDArray[Any] | None = None
    # makes this layout in another process, if its columns are memory-mapped files; otherwise it is copied
    reopen: Callable[[], Layout] | None = field(default=None, repr=False)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return super().__reduce_ex__(protocol) if self.reopen is None else (self.reopen, ())

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sentence],
        *,
        with_cls: bool,
        deprel_id: Callable[[str], int] | None = None,
        needs_heads: bool = True,
        with_sentences: bool = False,
        with_links: bool = False,
        vectors: npt.NDArray[Any] | None = None,
        features: Mapping[str, tuple[Sequence[npt.NDArray[Any]], Any]] | None = None,
    ) -> Layout:
        """Flatten sentences into columns.

        ``with_cls`` puts a ``[CLS]`` token, a word of its own, before each sentence. ``deprel_id`` is None when
        dependencies are not used. Words of a sentence without heads are roots, with a warning, unless ``needs_heads``.
        If ``with_sentences`` and a text does not know its sentences, punctuation determines them. ``vectors`` are (V,
        D), one for each token id; ``features`` are name -> (one array per sentence, value for ``[CLS]``).
        """
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        words = np.fromiter((sentence.num_words for sentence in sentences), np.int64, len(sentences))
        heads = deprels = None
        if deprel_id is not None:
            heads, deprels = _dependencies(sentences, words, deprel_id, needs_heads=needs_heads)
        layout = cls(
            lengths,
            words,
            _word_ids(sentences, lengths),
            heads,
            deprels,
            {name: _concatenate_feature(name, arrays, lengths) for name, (arrays, _) in (features or {}).items()},
            _sentence_ids(sentences, words) if with_sentences else None,
            _links(sentences) if with_links else None,
            vectors,
        )
        return layout.with_cls({name: value for name, (_, value) in (features or {}).items()}) if with_cls else layout

    def with_cls(self, features: Mapping[str, Any]) -> Layout:
        """The layout with a ``[CLS]`` token, a word of its own, before each sentence; ``features`` are its values."""
        tokens, words = self.token_starts, self.word_starts
        heads = None if self.heads is None else np.where(self.heads < 0, self.heads, self.heads + 1)
        return Layout(
            self.lengths + 1,
            self.word_counts + 1,
            np.insert(np.add(self.word_ids, 1, dtype=np.int64), tokens, 0),
            None if heads is None else np.insert(heads, words, -1),
            None if self.deprels is None else np.insert(self.deprels, words, 0),
            {name: np.insert(values, tokens, features[name], axis=0) for name, values in self.features.items()},
            None if self.sentence_ids is None else np.insert(self.sentence_ids, words, 0),
            None if self.links is None else Ragged(self.links.values + 1, self.links.offsets),
            self.vectors,
        )

    def __len__(self) -> int:
        return int(self.lengths.shape[0])

    @property
    def num_tokens(self) -> int:
        """N."""
        return int(self.word_ids.shape[0])

    @cached_property
    def token_starts(self) -> Ints:
        """(B,) first token of each sentence."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def word_starts(self) -> Ints:
        """(B,) first word of each sentence."""
        return np.cumsum(self.word_counts) - self.word_counts

    @property
    def bounds_of_token(self) -> tuple[Ints, Ints]:
        """(N,) first token of each token's sentence and (N,) the token after its last."""
        return np.repeat(self.token_starts, self.lengths), np.repeat(self.token_starts + self.lengths, self.lengths)

    @cached_property
    def sentence_of_token(self) -> Ints:
        """(N,) sentence of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def sentence_of_word(self) -> Ints:
        """(W,) sentence of each word."""
        return np.repeat(np.arange(len(self)), self.word_counts)

    @cached_property
    def positions(self) -> Ints:
        """(N,) position of each token in its sentence."""
        return count_up(self.lengths)

    @cached_property
    def word_of_token(self) -> Ints:
        """(N,) word of each token, counted over the batch."""
        return self.word_ids + np.repeat(self.word_starts, self.lengths)

    @cached_property
    def word_bounds(self) -> tuple[Ints, Ints]:
        """(W,) first token of each word and (W,) the token after its last."""
        counts = np.bincount(self.word_of_token, minlength=int(self.word_counts.sum()))
        ends = np.cumsum(counts)
        return ends - counts, ends

    @cached_property
    def sentence_counts(self) -> Ints:
        """(B,) sentences of each text; a text without words has none."""
        assert self.sentence_ids is not None
        counts, filled = np.zeros_like(self.word_counts), self.word_counts > 0
        counts[filled] = self.sentence_ids[(self.word_starts + self.word_counts)[filled] - 1] + 1
        return counts

    @cached_property
    def sentence_starts(self) -> Ints:
        """(B,) first sentence of each text."""
        return np.cumsum(self.sentence_counts) - self.sentence_counts

    @cached_property
    def inner_sentence_of_token(self) -> Ints:
        """(N,) sentence of each token within its text, counted over the batch."""
        assert self.sentence_ids is not None
        return self.sentence_ids[self.word_of_token] + np.repeat(self.sentence_starts, self.lengths)

    def truncate(self, limit: int | Ints) -> Layout:
        """The layout with at most ``limit`` tokens of each sentence; words whose head is cut off become roots.

        ``limit`` is one positive number, or one for each sentence.
        """
        lengths = np.minimum(self.lengths, limit)
        tokens = concatenate_ranges(self.token_starts, lengths)
        last = self.word_ids[np.maximum(self.token_starts + lengths - 1, 0)] if len(tokens) else 0
        counts = np.where(lengths == self.lengths, self.word_counts, last + 1)
        words = concatenate_ranges(self.word_starts, counts)
        links = self.links
        if links is not None:
            links = links.keep(links.values.max(1, initial=0) < counts[links.row_of_value])
        cut = self._select(lengths, counts, tokens, words, links)
        if cut.heads is None:
            return cut
        return replace(cut, heads=np.where(cut.heads < np.repeat(counts, counts), cut.heads, -1))

    def with_feature(self, name: str, values: npt.NDArray[Any]) -> Layout:
        """A copy with another column, (N, ...)."""
        return replace(self, features={**self.features, name: values}, reopen=None)

    def take(self, sentences: Sequence[int] | Ints) -> Layout:
        """The layout of some sentences, in the given order."""
        numbers = np.asarray(sentences, dtype=np.int64)
        tokens = concatenate_ranges(self.token_starts[numbers], self.lengths[numbers])
        by_word = self.heads is not None or self.sentence_ids is not None
        counts = self.word_counts[numbers]
        words = concatenate_ranges(self.word_starts[numbers], counts) if by_word else slice(0)
        links = None if self.links is None else self.links.take(numbers)
        return self._select(self.lengths[numbers], counts, tokens, words, links)

    def _select(
        self, lengths: Ints, word_counts: Ints, tokens: Ints, words: Ints | slice, links: Ragged | None
    ) -> Layout:
        return Layout(
            lengths,
            word_counts,
            self.word_ids[tokens],
            None if self.heads is None else self.heads[words],
            None if self.deprels is None else self.deprels[words],
            {name: values[tokens] for name, values in self.features.items()},
            None if self.sentence_ids is None else self.sentence_ids[words],
            links,
            self.vectors,
        )


def concatenate(layouts: Sequence[Layout]) -> Layout:
    """Several layouts as one, one after the other."""
    if len(layouts) == 1:
        return layouts[0]

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(layout, name) for layout in layouts])

    def optional_column(name: str) -> npt.NDArray[Any] | None:
        return column(name) if all(getattr(layout, name) is not None for layout in layouts) else None

    links = [layout.links for layout in layouts if layout.links is not None]
    return Layout(
        column("lengths"),
        column("word_counts"),
        column("word_ids"),
        optional_column("heads"),
        optional_column("deprels"),
        {name: np.concatenate([layout.features[name] for layout in layouts]) for name in layouts[0].features},
        optional_column("sentence_ids"),
        Ragged.concatenate(links) if links else None,
        layouts[0].vectors,
    )


def surround(layouts: Sequence[Layout], sizes: Sequence[int], features: Mapping[str, Sequence[Any] | int]) -> Layout:
    """One sequence for each text, or for each pair of texts, with special tokens, each of which is a word.

    ``sizes`` are the numbers of special tokens before, between and after the texts; ``features`` are the
    values of special tokens: one for all, or one entry for each group, which broadcasts to its tokens.
    """
    tokens = _Slots(sizes, [layout.lengths for layout in layouts])
    words = _Slots(sizes, [layout.word_counts for layout in layouts])
    shifted = list(zip(layouts, words.first, strict=True))
    heads = [
        np.where(layout.heads < 0, layout.heads, layout.heads + np.repeat(first, layout.word_counts))
        for layout, first in shifted
        if layout.heads is not None
    ]
    deprels = [layout.deprels for layout in layouts if layout.deprels is not None]
    links = [
        (layout.links.values + first[layout.links.row_of_value, None], layout.links.row_of_value)
        for layout, first in shifted
        if layout.links is not None
    ]
    return Layout(
        tokens.lengths,
        words.lengths,
        tokens.fill(
            [layout.word_ids + np.repeat(first, layout.lengths) for layout, first in shifted], words.special_items()
        ),
        words.fill(heads, -1) if heads else None,
        words.fill(deprels, 0) if deprels else None,
        {
            name: tokens.fill([layout.features[name] for layout in layouts], features[name])
            for name in layouts[0].features
        },
        _surround_sentence_ids(layouts, words),
        _group_links(links, len(layouts[0])) if links else None,
        layouts[0].vectors,
    )


class _Slots:
    """Start of each segment of a sequence: special items, text, special items, second text, special items.

    ``sizes`` are the numbers of special items before, between and after the texts; ``counts`` has (B,) items of each
    text, one array for the first texts and one for the second.
    """

    def __init__(self, sizes: Sequence[int], counts: Sequence[Ints]):
        self.sizes, self.counts = sizes, counts
        widths = np.empty((len(sizes) + len(counts), len(counts[0])), np.int64)
        widths[::2], widths[1::2] = np.array(sizes)[:, None], counts
        ends = np.cumsum(widths, axis=0)
        self.lengths: Ints = ends[-1]
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.special, self.first = (ends - widths)[::2], (ends - widths)[1::2]
        """(B,) first special item of each group within its sequence, and first item of each text."""

    def special_items(self) -> list[Ints]:
        """(B, size) the special items of each group, counted within their sequence."""
        return [first[:, None] + np.arange(size) for first, size in zip(self.special, self.sizes, strict=True)]

    @cached_property
    def rows(self) -> tuple[list[Ints], list[Ints]]:
        """Where the items of the texts are in a column, and the (B, size) special ones of each group."""
        texts = [
            concatenate_ranges(self.starts + first, count) for first, count in zip(self.first, self.counts, strict=True)
        ]
        return texts, [self.starts[:, None] + items for items in self.special_items()]

    def fill(self, parts: Sequence[npt.NDArray[Any]], special: Sequence[Any] | int) -> npt.NDArray[Any]:
        """A column of items: those of the texts, and special ones as for :func:`surround`."""
        out = np.zeros((int(self.lengths.sum()), *parts[0].shape[1:]), parts[0].dtype)
        of_texts, of_groups = self.rows
        for rows, part in zip(of_texts, parts, strict=True):
            out[rows] = part
        for number, rows in enumerate(of_groups):
            out[rows] = special if isinstance(special, int) else special[number]
        return out


def _surround_sentence_ids(layouts: Sequence[Layout], words: _Slots) -> Ints | None:
    """Special words belong to the sentence before them, the first ones to the first sentence."""
    parts: list[Ints] = []
    ends: list[Ints] = [np.zeros(len(layouts[0]), np.int64)]
    for layout in layouts:
        if layout.sentence_ids is None:
            return None
        shift = ends[-1] + (len(parts) > 0)
        parts.append(layout.sentence_ids + np.repeat(shift, layout.word_counts))
        ends.append(shift + np.maximum(layout.sentence_counts - 1, 0))
    return words.fill(parts, [end[:, None] for end in ends])


def _group_links(links: Sequence[tuple[Ints, Ints]], count: int) -> Ragged:
    """Links, and the text of each, by text."""
    values, texts = map(np.concatenate, zip(*links, strict=True))
    order = np.argsort(texts, kind="stable")
    return Ragged.from_counts(values[order], np.bincount(texts, minlength=count))


def _concatenate_feature(name: str, arrays: Sequence[npt.NDArray[Any]], lengths: Ints) -> npt.NDArray[Any]:
    if len(arrays) != len(lengths):
        raise DataError(f"{len(arrays)} arrays for {len(lengths)} sentences", field=name, hint="Give one for each.")
    for index, (values, length) in enumerate(zip(arrays, lengths, strict=True)):
        if len(values) != length:
            raise DataError(
                f"{len(values)} values for the {length} tokens of sentence {index}",
                field=name,
                hint="Give one for each token, without [CLS].",
            )
    return np.concatenate(arrays) if len(arrays) else np.empty(0, np.int32)


def _word_ids(sentences: Sequence[Sentence], lengths: Ints) -> Ints:
    total = int(lengths.sum())
    if all(sentence.word_ids is None for sentence in sentences):
        return count_up(lengths)
    ids = (range(len(s)) if s.word_ids is None else s.word_ids for s in sentences)
    return np.fromiter(chain.from_iterable(ids), np.int64, total)


class MissingHeadsError(DataError):
    """A sentence without a parse where a relation requires one."""


@contextmanager
def advise_parser() -> Iterator[None]:
    """Name the option of a parser in errors of sentences without a parse, for callers that have it."""
    try:
        yield
    except MissingHeadsError as error:
        error.alternative, error.options = "Or parse the texts with {parser=stanza}.", ("parser",)
        raise


def missing_heads_error(words: Sequence[str], *, number: int, path: str | None, line: int | None) -> DataError:
    """The error of a sentence without a parse where a relation requires one."""
    subject, start = f"sentence {number}" if line is None else "sentence", " ".join(words[:5])
    message = f"{subject} ({start!r} ...) has no heads, but the relation 'dependency' needs them"
    hint = (
        "Give parsed sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza wrote), or "
        "leave the relation out."
    )
    return MissingHeadsError(message, path=path, line=line, field="heads", hint=hint)


def check_parsed(unparsed: Ints | list[int], describe: Callable[[int], DataError], *, required: bool) -> None:
    """Raise the error of the first sentence without heads, or warn that heads are missing if none are required."""
    if len(unparsed) and required:
        raise describe(int(unparsed[0]))
    if len(unparsed):
        warn_of_missing_heads()


def _dependencies(
    sentences: Sequence[Sentence], words: Ints, deprel_id: Callable[[str], int], *, needs_heads: bool
) -> tuple[Ints, Ints]:
    unparsed = [n for n, sentence in enumerate(sentences) if sentence.heads is None and sentence.num_words]

    def describe(number: int) -> DataError:
        path, line = sentences[number].origin or (None, None)
        return missing_heads_error(sentences[number].words, number=number, path=path, line=line)

    check_parsed(unparsed, describe, required=needs_heads)
    total = int(words.sum())
    rows = ((0,) * s.num_words if s.heads is None else s.heads for s in sentences)
    heads = np.fromiter(chain.from_iterable(rows), np.int64, total) - 1
    names = chain.from_iterable(s.deprels if s.deprels is not None else ("",) * s.num_words for s in sentences)
    return heads, np.fromiter(map(deprel_id, names), np.int32, total)


@lru_cache(maxsize=1)
def warn_of_missing_heads() -> None:
    """Warn, once in a process, that texts without a parse have no arcs."""
    warn_caller(
        GraphAttnWarning(
            "some texts have no parse, so their words have no dependency arcs. Give parsed sentences (CoNLL-U, or a "
            "store that graphattn build --parser stanza wrote)"
        )
    )


@lru_cache(maxsize=1)
def warn_of_missing_links() -> None:
    """Warn, once in a process, that no text has links."""
    warn_caller(
        GraphAttnWarning(
            "none of these texts has links, so the relation 'links' has no edges. Read a corpus with a field of links, "
            "or give Sentence(links=...); [] says that a text has none"
        )
    )


def _sentence_ids(sentences: Sequence[Sentence], words: Ints) -> Ints:
    """(W,) sentence of each word within its text."""
    rows = (assign_sentence_ids(s.words) if s.sentence_ids is None else s.sentence_ids for s in sentences)
    return np.fromiter(chain.from_iterable(rows), np.int64, int(words.sum()))


def _links(sentences: Sequence[Sentence]) -> Ragged:
    """The (source, target) pairs of each text; texts may lack them, with a warning if all do."""
    if any(map(len, sentences)) and all(sentence.links is None for sentence in sentences):
        warn_of_missing_links()
    counts = np.fromiter((len(sentence.links or ()) for sentence in sentences), np.int64, len(sentences))
    flat = chain.from_iterable(chain.from_iterable(sentence.links or () for sentence in sentences))
    return Ragged.from_counts(np.fromiter(flat, np.int64, 2 * int(counts.sum())).reshape(-1, 2), counts)
