"""Sources and targets as users hand them over, made plain and checked; texts are counted from 1, as lines are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from graphattn.builders import Sentence
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import DataError
from graphattn.models.estimators.inputs import as_list, dev_parts, held_out_split, of_dev_set, single_column
from graphattn.models.options import TrainingOptions


@dataclass(frozen=True)
class Pairs:
    """Sources and their targets.

    Parameters
    ----------
    sources, targets : as many of each
    places : where each stood in what was given, from 0 on; None when all of it is here, in its order
    """

    sources: list[Source]
    targets: list[Any]
    places: list[int] | None = None

    def chosen(self, places: list[int]) -> Pairs:
        """Some of them."""
        return Pairs([self.sources[i] for i in places], [self.targets[i] for i in places], places)


def sources_of(X: Iterable[Any]) -> list[Source]:
    """Inputs as one column."""
    return list(single_column(as_list(X), "Translator")[0])


def pairs_of(X: Iterable[Any], y: Iterable[Any] | None) -> tuple[list[Source], list[Any]]:
    """Sources, and a target for each, given or carried by examples.

    Raises
    ------
    DataError
        when there are none, or not one for each
    """
    items = as_list(X)
    if not items:
        raise DataError("there are no sources")
    if y is None:
        bare = next((n for n, item in enumerate(items, 1) if getattr(item, "second", None) is None), None)
        if bare is not None:
            raise DataError(f"source {bare} has no target", hint="Give y, or examples with both texts.")
        return sources_of(items), [item.second for item in items]
    targets = as_list(y)
    if len(targets) != len(items):
        raise DataError(f"{len(items)} sources but {len(targets)} targets", hint="Give one for each.")
    return sources_of(items), targets


def with_dev_set(pairs: Pairs, dev: Any, training: TrainingOptions) -> tuple[Pairs, Pairs | None]:
    """Training set and dev set; a share of the first when none is given.

    Parameters
    ----------
    pairs : all that was given to train on
    dev : (sources, targets), or examples; None to hold out ``dev_fraction`` of the pairs
    training : says how large a share, and by which seed
    """
    if dev is not None:
        sources, targets = dev_parts(dev)
        with of_dev_set():
            held_out = Pairs(*pairs_of(sources, targets))
        refuse_bad_references(held_out.targets)
        return pairs, held_out
    size = len(pairs.sources)
    count = round(training.dev_fraction * size)
    if count < 1 or size - count < 2:
        return pairs, None
    rest, held = held_out_split(size, count, None, training.seed)
    return pairs.chosen(rest), pairs.chosen(held)


def refuse_bad_references(targets: Sequence[Any]) -> None:
    """Refuse what no text can be measured against.

    Raises
    ------
    DataError
        naming the first target that is neither a text nor several of them
    """
    for number, target in enumerate(targets, 1):
        several = isinstance(target, (list, tuple)) and target and all(isinstance(one, str) for one in target)
        if not (isinstance(target, str) or several):
            kind = "an empty list" if isinstance(target, (list, tuple)) and not target else f"a {type(target).__name__}"
            raise DataError(f"target {number} is {kind}", hint="Give a text, or a list of texts that are as good.")


def refuse_empty(sources: Sequence[Source], targets: Sequence[str]) -> None:
    """Refuse pairs from which nothing can be learnt.

    Raises
    ------
    DataError
        naming the pair
    """
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        if not isinstance(target, str):
            raise DataError(f"target {number} is a {type(target).__name__}", hint="Give a text to learn from.")
        for name, text in (("source", source), ("target", target)):
            words = text.words if isinstance(text, Sentence) else text
            if not (words.strip() if isinstance(words, str) else len(words)):
                raise DataError(f"{name} {number} is empty", hint="Leave the pair out, or complete it.")


def refuse_long(what: str, lengths: Iterable[int], longest: int, places: Iterable[int] | None = None) -> None:
    """Refuse texts of more sub-words than are allowed.

    Parameters
    ----------
    what : what errors call a text
    lengths : of each
    longest : most sub-words
    places : where each stood in what was given, from 0 on; None when all are there in their order

    Raises
    ------
    DataError
        naming the text and its length
    """
    for place, length in zip(count() if places is None else places, lengths, strict=False):
        if length > longest:
            raise DataError(
                f"{what} {place + 1} has {length:,} sub-words, longest is {longest:,}",
                hint="Cut it, leave it out, or raise longest.",
            )
