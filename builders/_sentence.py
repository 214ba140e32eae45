"""Sentences and texts: what readers produce and graph builders consume."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from unicodedata import category

from typing_extensions import override

from graphattn.builders._records import ArrowRow
from graphattn.builders._values import describe_value, is_list, is_missing, read_integers, read_strings
from graphattn.exceptions import DataError

Label = str | tuple[str, ...]

# Sentence_Terminal in Unicode 17.0 (PropList.txt), and the ellipsis.
_MARKS = (
    "!.?\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a\u104b\u1362"
    "\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b4e\u1b4f\u1b5a\u1b5b"
    "\u1b5e\u1b5f\u1b7d-\u1b7f\u1c3b\u1c3c\u1c7e\u1c7f\u2024\u2026\u203c\u203d\u2047-\u2049\u2cf9-\u2cfb\u2e2e\u2e3c"
    "\u2e53\u2e54\u2e60\u2e61\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9"
    "\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57\uff01\uff0e\uff1f\uff61\U00010a56\U00010a57"
    "\U00010f55-\U00010f59\U00010f86-\U00010f89\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143"
    "\U000111c5\U000111c6\U000111cd\U000111de\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9"
    "\U000113d4\U000113d5\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c\U00011c41\U00011c42"
    "\U00011ef7\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44"
    "\U00016d6e\U00016d6f\U00016e98\U0001bc9f\U0001da88"
)
_BLANK = "\u2581?"  # sub-words that keep blanks may begin with it
_END = re.compile(f"{_BLANK}(?:[{_MARKS}]\ufe0f?)+(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A raw text, or a pair of texts, with its label.

    Parameters
    ----------
    text : the text
    second : the second text of a pair
    label : class name; a tuple of names in a multi-label corpus; None if unknown
    cells : name of a further column -> its value, for classifiers and regressors with ``feature_columns``
    """

    text: str
    second: str | None = None
    label: Label | None = None
    cells: Mapping[str, Any] | None = field(default=None, hash=False)

    @override
    def __repr__(self) -> str:
        return _show(self, ("text", "second", "label"))


class TableRow(NamedTuple):
    """All fields of the row of a table, or of the JSON record, out of which an example or a sentence was made."""

    names: tuple[str, ...]  # names of the columns
    cells: tuple[Any, ...]  # the fields: strings, or values of JSON
    quoted: bool = True  # whether they may have separators and newlines
    arrow: ArrowRow | None = None  # columns as Arrow has them


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tokenized sentence; the unit from which graphs are built.

    Sequences are stored as tuples.

    Parameters
    ----------
    tokens : the units that attend: words or sub-words
    word_ids : 0-based word of each token, starting at 0 and growing by at most 1; None if each token is a word
    heads : for each *word* the 1-based word it depends on, 0 for a root, as in CoNLL-U
    deprels : for each word the name of its dependency relation
    label : class name, or a tuple of names if there may be several
    tags : one tag for each word
    sentence_ids : for a text of several sentences, the 0-based sentence of each word
    predicates : 1 for each word whose semantic roles the tags are, 0 for all others
    links : custom edges, as (source, target) pairs of 0-based words: the target attends to the source
    features : name -> one value for each word, such as its part of speech, for taggers with ``feature_columns``
    cells : name of a further column -> its value, for classifiers and regressors with ``feature_columns``
    origin : file and 1-based line where the sentence begins, for errors; ignored by ``==``

    Raises
    ------
    DataError
        if ``tokens`` is a string, lengths disagree, ids have gaps, a head or link is out of range, or heads form a
        cycle

    Examples
    --------
    >>> Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"]).num_words
    2
    >>> Sentence(["un", "known", "word"], word_ids=[0, 0, 1]).num_words
    2
    >>> Sentence(["a", "b"], heads=[2, 1])
    Traceback (most recent call last):
        ...
    graphattn.exceptions.DataError: field 'heads': heads form a cycle through word 1 ('a'). Each word must ...
    """

    tokens: Sequence[str]
    word_ids: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    deprels: Sequence[str] | None = None
    label: Label | None = None
    tags: Sequence[str] | None = None
    sentence_ids: Sequence[int] | None = None
    links: Sequence[Sequence[int]] | None = None
    predicates: Sequence[int] | None = None
    features: Mapping[str, Sequence[str]] | None = field(default=None, hash=False)
    cells: Mapping[str, Any] | None = field(default=None, hash=False)
    origin: tuple[str, int] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tokens, str):  # a sequence of strings for a type checker
            raise DataError(f"a string, {self.tokens[:30]!r}", field="tokens", hint="Give a list of tokens.")
        for name, read in _READERS.items():
            values = getattr(self, name)
            if values is not None or name == "tokens":
                object.__setattr__(self, name, read(values, name.removesuffix("s").replace("_", " "), name))
        if self.word_ids is not None:
            _check_ids("word_ids", self.word_ids, len(self.tokens), "token")
        if self.sentence_ids is not None:
            _check_ids("sentence_ids", self.sentence_ids, self.num_words, "word")
        if self.links is not None:
            object.__setattr__(self, "links", _sort_links(self.links, self.num_words))
        for name in ("heads", "deprels", "tags", "predicates"):
            values = getattr(self, name)
            if values is not None and len(values) != self.num_words:
                raise DataError(
                    f"{len(values)} {name} for {self.num_words} words", field=name, hint="Give one for each word."
                )
        if self.features is not None:
            object.__setattr__(self, "features", _check_features(self.features, self.num_words))
        if self.heads is not None:
            check_heads(self.heads, self.words)
        if self.predicates is not None and not {*self.predicates} <= {0, 1}:
            raise DataError("a mark is neither 0 nor 1", field="predicates", hint="Write 1 for a predicate, else 0.")

    @override
    def __repr__(self) -> str:
        return _show(self, _SHOWN)

    @classmethod
    def of_tokens(cls, tokens: tuple[str, ...], word_ids: tuple[int, ...] | None) -> Sentence:
        """A sentence of tokens that a tokenizer found, without checks and anything else."""
        sentence = object.__new__(cls)
        for name in cls.__slots__:
            object.__setattr__(sentence, name, None)
        object.__setattr__(sentence, "tokens", tokens)
        object.__setattr__(sentence, "word_ids", word_ids)
        return sentence

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_words(self) -> int:
        """Number of words; equals the number of tokens if ``word_ids`` is None."""
        if self.word_ids is None:
            return len(self.tokens)
        return self.word_ids[-1] + 1 if self.word_ids else 0

    @property
    def words(self) -> Sequence[str]:
        """The words, each the concatenation of its tokens."""
        if self.word_ids is None:
            return self.tokens
        parts: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.word_ids, strict=True):
            parts[word].append(token)
        return tuple("".join(part) for part in parts)

    def with_tokens(self, tokens: Sequence[str], word_ids: Sequence[int] | None) -> Sentence:
        """Return the same words with other tokens."""
        return replace(self, tokens=tokens, word_ids=word_ids)

    def truncate(self, limit: int) -> Sentence:
        """Return the first ``limit`` tokens, as :meth:`Layout.truncate` cuts them: a word without its head is a root.

        Examples
        --------
        >>> Sentence(["Dogs", "bark", "loudly"], heads=[2, 0, 2]).truncate(1).heads
        (0,)
        """
        if len(self) <= limit:
            return self
        tokens = Sentence(self.tokens[:limit], None if self.word_ids is None else self.word_ids[:limit])
        count = tokens.num_words
        names = ("deprels", "tags", "sentence_ids", "predicates")
        of_words = {name: values[:count] for name in names if (values := getattr(self, name)) is not None}
        heads = None if self.heads is None else [head if head <= count else 0 for head in self.heads[:count]]
        links = None if self.links is None else [link for link in self.links if max(link) < count]
        if self.features is not None:
            of_words["features"] = {name: values[:count] for name, values in self.features.items()}
        return replace(self, tokens=tokens.tokens, word_ids=tokens.word_ids, heads=heads, links=links, **of_words)


_SHOWN = tuple(name for name in Sentence.__slots__ if name not in ("cells", "origin"))


def _show(item: Example | Sentence, names: Iterable[str]) -> str:
    """The fields of an item, with its cells only if it has some: digests of items without are those of before."""
    shown = [f"{name}={getattr(item, name)!r}" for name in names]
    shown += [] if item.cells is None else [f"cells={item.cells!r}"]
    return f"{type(item).__qualname__}({', '.join(shown)})"


_READERS = {
    **dict.fromkeys(("tokens", "deprels", "tags"), read_strings),
    **dict.fromkeys(("word_ids", "heads", "sentence_ids", "predicates"), read_integers),
}
"""Field -> the function that checks its items."""


def assign_sentence_ids(*paragraphs: Sequence[str]) -> tuple[int, ...]:
    """Find the 0-based sentence of each word by punctuation.

    A sentence ends with a word of sentence-final punctuation in any script (Unicode's Sentence_Terminal) and the
    closing quotes and brackets after it, or with its paragraph. An abbreviation that keeps its full stop (``Dr.``) ends
    none.

    Examples
    --------
    >>> assign_sentence_ids(["He", "said", '"', "no", ".", '"', "Dr.", "X", "left", "!"])
    (0, 0, 0, 0, 0, 0, 1, 1, 1, 1)
    """
    ids: list[int] = []
    sentence = 0
    for words in paragraphs:
        ended = False
        for word in words:
            plain = word.strip().removeprefix("\u2060")  # without what a sub-word tokenizer's pieces depend on
            end = _END.fullmatch(plain)
            is_end = end is not None and _is_closing(end[1])
            if ended and not is_end and not _is_closing(plain.removeprefix("\u2581")):
                sentence, ended = sentence + 1, False
            ended = ended or is_end
            ids.append(sentence)
        sentence += bool(words)
    return tuple(ids)


def _is_closing(text: str) -> bool:
    """Whether a text consists of closing quotes and brackets."""
    return all(character in "\"'" or category(character) in ("Pe", "Pf") for character in text)


def check_heads(heads: Sequence[int], words: Sequence[str], *, lines: Sequence[int] | None = None) -> None:
    """Check that every head exists and that every word leads to a root."""
    count = len(heads)

    def error_at(word: int, message: str, hint: str) -> DataError:
        return DataError(message, line=lines[word - 1] if lines else None, field="heads", hint=hint)

    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= count:
            message = f"word {word} ({words[word - 1]!r}) has head {head}, the sentence has {count} words"
            raise error_at(word, message, "Heads are 1-based word numbers, 0 for a root.")
    visited_from = [0] * (count + 1)  # the word whose walk to the root visited this one first
    for word in range(1, count + 1):
        node = word
        while node and not visited_from[node]:
            visited_from[node] = word
            node = heads[node - 1]
        if node and visited_from[node] == word:
            first = _first_in_cycle(heads, node)
            message = f"heads form a cycle through word {first} ({words[first - 1]!r})"
            raise error_at(first, message, "Each word must lead to a root.")


def _check_ids(field: str, ids: Sequence[int], count: int, unit: str) -> None:
    if len(ids) != count:
        raise DataError(f"{len(ids)} {field} for {count} {unit}s", field=field, hint=f"Give one for each {unit}.")
    previous = -1
    for position, current in enumerate(ids):
        if current not in (previous, previous + 1) or current < 0:
            raise DataError(
                f"{field} go from {previous} to {current} at {unit} {position}",
                field=field,
                hint=f"They start at 0 and grow by at most 1 from {unit} to {unit}.",
            )
        previous = current


def _check_features(features: Mapping[str, Sequence[str]], num_words: int) -> dict[str, tuple[str, ...]]:
    """The values of each feature as strings, one for each word."""
    if not isinstance(features, Mapping):
        hint = "Give a dictionary: name -> one value for each word."
        raise DataError(f"{describe_value(features)} where a dictionary was expected", field="features", hint=hint)
    checked = {}
    for name, values in features.items():
        hint = "Give a list with one for each word."
        if not is_list(values):
            what = "a string" if isinstance(values, str) else describe_value(values)
            raise DataError(f"{what} for {num_words} words", field=name, hint=hint)
        values = list(values)
        if len(values) != num_words:
            raise DataError(f"{len(values)} values for {num_words} words", field=name, hint=hint)
        for number, value in enumerate(values):
            if is_missing(value) or is_list(value):
                hint = "Give a string or a number for each word."
                raise DataError(f"value {number} is {describe_value(value)}", field=name, hint=hint)
        checked[name] = tuple(map(str, values))
    return checked


def _sort_links(links: Sequence[Sequence[int]], num_words: int) -> tuple[tuple[int, int], ...]:
    """Unique links, by target, then by source."""
    pairs, hint = set(), "Give [source, target] pairs of 0-based words."
    if not is_list(links):
        raise DataError(f"{describe_value(links)} where a list was expected", field="links", hint=hint)
    for number, link in enumerate(links):
        ends = read_integers(link, f"link {number}: word", "links") if is_list(link) else ()
        if len(ends) != 2:
            raise DataError(f"link {number} is {describe_value(link)}, not a pair of words", field="links", hint=hint)
        source, target = ends
        if not (0 <= source < num_words and 0 <= target < num_words):
            raise DataError(
                f"the link {[source, target]} does not join two words; the text has {num_words} words",
                field="links",
                hint=hint,
            )
        pairs.add((source, target))
    return tuple(sorted(pairs, key=lambda link: link[::-1]))


def _first_in_cycle(heads: Sequence[int], member: int) -> int:
    first, node = member, heads[member - 1]
    while node != member:
        first, node = min(first, node), heads[node - 1]
    return first
