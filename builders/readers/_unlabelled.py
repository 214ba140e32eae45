"""Labels that stand for none: find them, and leave out the examples and words that have them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from graphattn.builders._sentence import Example, Sentence
from graphattn.builders.readers._column_layout import ENTITY_TAG
from graphattn.builders.readers._rows import Skip, map_with_errors
from graphattn.exceptions import DataError, Hint, warn_caller

_MARKS = frozenset({"-", "--", "?", "n/a", "#n/a", "#name?", "#ref!", "#value!", "<na>", "nan", "null", "\\n", "-100"})
_TAG_MARKS = (_MARKS - {"-", "--", "?"}) | {"_"}  # the others may be tags of punctuation

_NUMBER = re.compile(r"\+|-?(\d+\.\d*|\.\d+)$")
"""``+``, ``+1``, ``0.`` or ``.5``, next to which -1 is a number, too."""


def find_marks(classes: Iterable[Any], *, tags: bool = False) -> list[Any]:
    """The classes that usually stand for no label; -1 next to names, or at least three whole numbers from 0 on.

    Examples
    --------
    >>> find_marks(["yes", "no", "N/A"]), find_marks(["yes", "no", "-1"])
    (['N/A'], ['-1'])
    >>> find_marks([-1, 0, 1, 2]), find_marks([-1, 0, 1])
    ([-1], [])
    """
    names = {str(name): name for name in classes}
    marks = [name for spelled, name in names.items() if spelled.casefold() in (_TAG_MARKS if tags else _MARKS)]
    rest = [spelled for spelled, name in names.items() if name not in marks and spelled != "-1"]
    are_numbers = len(rest) > 2 and all(map(str.isdecimal, rest))
    are_names = bool(rest) and not any(map(_NUMBER.match, rest)) and not any(name[-1:].isdecimal() for name in rest)
    if "-1" in names and (are_numbers or are_names):
        marks.append(names["-1"])
    return marks


def drop_labels(
    items: Iterable[Example | Sentence], labels: Collection[str], path: str, skip: Skip | None = None
) -> Iterator[Example | Sentence]:
    """Leave out examples with these labels, and words with these tags; say how many.

    Of several labels of an example the others are kept.
    """
    dropped, totals = Counter[str](), Counter[str]()

    def drop(item: Example | Sentence) -> Example | Sentence | None:
        if isinstance(item, Sentence) and item.tags is not None:
            shorter = _drop_words(item, labels)
            totals["words"] += item.num_words
            dropped["words"] += item.num_words - shorter.num_words
            return shorter if shorter.num_words else None
        kept: Example | Sentence | None = None if item.label in labels else item
        if isinstance(item.label, tuple):
            rest = tuple(label for label in item.label if label not in labels)
            kept = item if len(rest) == len(item.label) else replace(item, label=rest) if rest else None
        totals["texts"] += 1
        dropped["texts"] += kept is None
        return kept

    for item in map_with_errors(iter(items), drop, skip):
        if item is not None:
            yield item
    names = " or ".join(map(repr, labels))
    for unit, total in totals.items():
        if total:
            message = f"{path}: {dropped[unit]:,} of {total:,} {unit} are left out, with the label {names}"
            warn_caller(Hint(message))


def _drop_words(sentence: Sentence, tags: Collection[str]) -> Sentence:
    kept = [number for number, tag in enumerate(sentence.tags or ()) if not _is_tag_of(tag, tags)]
    if len(kept) == sentence.num_words:
        return sentence
    if any(getattr(sentence, name) is not None for name in ("heads", "links", "word_ids", "sentence_ids")):
        path, line = sentence.origin or (None, None)
        hint = "Leave out {drop_label}, or read words without trees and sub-words."
        problem = "a word with a tag to leave out belongs to a tree or has sub-words"
        raise DataError(problem, path=path, line=line, hint=hint, options=("drop_label",))
    marks, features = sentence.predicates, sentence.features
    return replace(
        sentence,
        tokens=[sentence.tokens[number] for number in kept],
        tags=[tag for tag in sentence.tags or () if not _is_tag_of(tag, tags)],
        predicates=None if marks is None else [marks[number] for number in kept],
        features=features and {name: [values[number] for number in kept] for name, values in features.items()},
    )


def _is_tag_of(tag: str, labels: Collection[str]) -> bool:
    """Whether a tag is one of some labels, or of an entity with that type, such as ``B-null``."""
    return tag in labels or (ENTITY_TAG.fullmatch(tag) is not None and tag[2:] in labels)
