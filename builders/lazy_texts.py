"""Texts that stay where they are until they are needed: what training asks of a corpus that memory need not hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.sentence import Sentence

if TYPE_CHECKING:
    from graphattn.builders.graph_builder import TextGraphBuilder


class LazyTexts(Sequence[Sentence]):
    """Texts in an order, each read when it is asked for; estimators take them where they take a list."""

    @property
    @abstractmethod
    def tokenized_by(self) -> str | None:
        """The rule that cut raw texts into words, ``"another"`` for none of ours; None where words were given."""

    @abstractmethod
    def take(self, numbers: Sequence[int]) -> LazyTexts:
        """A choice of the texts."""

    @abstractmethod
    def column(self, field: str) -> Sequence[Any]:
        """The ``label`` or the ``tags`` of each text, None where there is none."""

    @abstractmethod
    def words(self) -> Counter[str]:
        """How often each word occurs, in the order of first appearance."""

    @abstractmethod
    def num_words(self) -> Ints:
        """(S,) words of each text."""

    @abstractmethod
    def parts(self) -> Iterator[list[Sentence]]:
        """All texts, so many at a time as memory holds with ease."""

    @abstractmethod
    def layouts(self, builder: TextGraphBuilder) -> Iterator[Layout]:
        """What ``builder.layout`` makes of the parts."""


class LazyCorpus(ABC):
    """A corpus of single texts, of pairs, or of both."""

    @abstractmethod
    def texts(self) -> LazyTexts:
        """Its texts; of a pair the first."""

    @abstractmethod
    def pairs(self) -> tuple[LazyTexts, LazyTexts]:
        """The first texts of its pairs and the second ones.

        Raises
        ------
        DataError
            when it does not consist of pairs
        """
