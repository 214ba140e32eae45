"""What readers produce and graph builders consume: a tokenised sentence, and a text that still has to be tokenised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

from graphattn.exceptions import DataError

Label = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A raw text, or a pair of them, with its label as it stands in the corpus.

    Parameters
    ----------
    text : the text, not yet tokenised
    second : the other text of a pair, or None
    label : class name; a tuple of names when the corpus is multi-label; None when unknown
    """

    text: str
    second: str | None = None
    label: Label | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tokenised sentence; the unit from which graphs are built.

    Parameters
    ----------
    tokens : the units that attend: words or sub-words
    word_ids : for each token the 0-based word it belongs to, without gaps and never decreasing;
        None when each token is a word of its own
    heads : for each *word* the 1-based word it depends on, 0 for a root, as in CoNLL-U
    deprels : for each word the name of its dependency relation
    label : class name, or a tuple of names when there may be several
    tags : one tag for each word
    sentence_ids : for each word the 0-based sentence it stands in, when the text has several; never decreasing,
        without gaps
    links : edges of your own as (source, target) pairs of 0-based words: the target will see the source
    origin : file and 1-based line where the sentence begins, for errors; no part of what makes two sentences equal

    Raises
    ------
    DataError
        when a field is a string, the lengths disagree, a head is no whole number or out of range, the heads form a
        cycle, sentences go backwards, or a link leads out of the text

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

    tokens: tuple[str, ...]
    word_ids: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    deprels: tuple[str, ...] | None = None
    label: Label | None = None
    tags: tuple[str, ...] | None = None
    sentence_ids: tuple[int, ...] | None = None
    links: tuple[tuple[int, int], ...] | None = None
    origin: tuple[str, int] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.tokens is None:
            raise DataError("there are no tokens", field="tokens", hint="Give a list of them; it may be empty.")
        for name in ("tokens", "word_ids", "heads", "deprels", "tags", "sentence_ids"):
            value = getattr(self, name)
            if isinstance(value, str):
                unit = "token" if name in ("tokens", "word_ids") else "word"
                raise DataError(f"a string, {value[:30]!r}", field=name, hint=f"Give a list, one for each {unit}.")
            if value is not None and not isinstance(value, tuple):
                object.__setattr__(self, name, tuple(value))
        if self.word_ids is not None:
            _check_groups("word_ids", self.word_ids, len(self.tokens), "token")
        if self.sentence_ids is not None:
            _check_groups("sentence_ids", self.sentence_ids, self.num_words, "word")
        if self.links is not None:
            object.__setattr__(self, "links", _checked_links(self.links, self.num_words))
        for name in ("heads", "deprels", "tags"):
            value = getattr(self, name)
            if value is not None and len(value) != self.num_words:
                raise DataError(
                    f"{len(value)} {name} for {self.num_words} words", field=name, hint="Give one for each word."
                )
        if self.heads is not None:
            try:
                check_heads(self.heads, self.words)
            except TypeError:
                raise DataError("some are no whole numbers", field="heads", hint="Convert them with int.") from None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_words(self) -> int:
        """Number of words; equals the number of tokens when ``word_ids`` is None."""
        if self.word_ids is None:
            return len(self.tokens)
        return self.word_ids[-1] + 1 if self.word_ids else 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words, each the concatenation of its tokens."""
        if self.word_ids is None:
            return self.tokens
        parts: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.word_ids, strict=True):
            parts[word].append(token)
        return tuple("".join(part) for part in parts)

    def with_tokens(self, tokens: Sequence[str], word_ids: Sequence[int] | None) -> Sentence:
        """The same words cut into other tokens."""
        return replace(self, tokens=tuple(tokens), word_ids=None if word_ids is None else tuple(word_ids))


def _check_groups(field: str, ids: tuple[int, ...], count: int, unit: str) -> None:
    """Refuse groups of neighbouring units that do not count up from 0."""
    if len(ids) != count:
        raise DataError(f"{len(ids)} {field} for {count} {unit}s", field=field, hint=f"Give one for each {unit}.")
    previous = -1
    for position, group in enumerate(ids):
        if group not in (previous, previous + 1) or group < 0:
            raise DataError(
                f"{field} go from {previous} to {group} at {unit} {position}",
                field=field,
                hint=f"They start at 0 and grow by at most 1 from {unit} to {unit}.",
            )
        previous = group


def _checked_links(links: Sequence[Sequence[int]], num_words: int) -> tuple[tuple[int, int], ...]:
    """Links as pairs, each once and in order."""
    for link in links:
        ends = link if isinstance(link, (tuple, list)) else ()
        if len(ends) != 2 or not all(isinstance(end, Integral) and 0 <= int(end) < num_words for end in ends):
            raise DataError(
                f"the link {link!r} does not join two words; the text has {num_words} words",
                field="links",
                hint="Give [source, target] pairs of word numbers, which count from 0.",
            )
    return tuple(sorted({(int(source), int(target)) for source, target in links}, key=lambda link: link[::-1]))


def check_heads(
    heads: Sequence[int], words: Sequence[str], *, path: str | None = None, lines: Sequence[int] | None = None
) -> None:
    """Refuse heads that are out of range or that never reach a root.

    Parameters
    ----------
    heads, words : of one sentence
    path : file they stand in
    lines : the 1-based line of each word

    Raises
    ------
    DataError
        naming the first word that is out of range, or the first one of a cycle, and its line
    """
    count = len(heads)

    def wrong(word: int, message: str, hint: str) -> DataError:
        return DataError(message, path=path, line=lines[word - 1] if lines else None, field="heads", hint=hint)

    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= count:
            message = f"word {word} ({words[word - 1]!r}) has head {head}, the sentence has {count} words"
            raise wrong(word, message, "Heads are 1-based word numbers, 0 for a root.")
    seen_from = [0] * (count + 1)  # the word whose walk to the root first came by
    for word in range(1, count + 1):
        node = word
        while node and not seen_from[node]:
            seen_from[node] = word
            node = heads[node - 1]
        if node and seen_from[node] == word:
            first = _first_of_cycle(heads, node)
            message = f"heads form a cycle through word {first} ({words[first - 1]!r})"
            raise wrong(first, message, "Each word must lead to a root.")


def _first_of_cycle(heads: Sequence[int], member: int) -> int:
    first, node = member, heads[member - 1]
    while node != member:
        first, node = min(first, node), heads[node - 1]
    return first
