"""Relation ``dependency``: arcs of a dependency tree, undirected, with self-loops (A_p of UMST, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import DEPENDENCY, TOKEN, WORD
from graphattn.builders._batch import RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders._sentence import Sentence
from graphattn.builders.relations._base import Relation, check_choice
from graphattn.builders.relations._csc import expand_to_tokens
from graphattn.builders.relations._word_group import Membership

UNIVERSAL_RELATIONS = tuple(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl "
    "fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative "
    "xcomp".split()
)
"""The 37 relations of Universal Dependencies v2; sub-types such as ``nsubj:pass`` count as their relation."""

SELF, UNKNOWN = 0, 1
"""Edge labels of self-loops and of unlisted relation names; the listed names start at 2."""

SELF_LOOP, FROM_HEAD, FROM_DEPENDENT = 0, 1, 2
"""Values of the edge feature ``direction``."""


class Dependency(Relation):
    """Undirected dependency arcs and self-loops, between words or between all tokens of the two words.

    Edge features: ``label`` (0 self-loop, 1 unknown name, then the names in ``labels``) and ``direction`` (0
    self-loop, 1 the source is the head, 2 the source is the dependent).

    Parameters
    ----------
    on : ``"word"`` (adds the relation ``in``) or ``"token"``
    labels : names of dependency relations; by default those of Universal Dependencies, see :meth:`of` for other schemes
    required : whether every sentence must have a parse; otherwise a sentence without one gets only self-loops, with a
        warning
    """

    name = DEPENDENCY
    takes_heads = True

    def __init__(self, on: str = WORD, *, labels: Sequence[str] = UNIVERSAL_RELATIONS, required: bool = True):
        check_choice("on", on, (WORD, TOKEN))
        self.source = self.target = on
        self.labels, self.needs_heads = tuple(labels), required
        self._ids = {label: index for index, label in enumerate(self.labels, start=UNKNOWN + 1)}

    @classmethod
    def of(cls, sentences: Iterable[Sentence], on: str = WORD, *, required: bool = True) -> Self:
        """The relation with the names of the training sentences as labels, whatever their scheme.

        Examples
        --------
        >>> from graphattn.builders import Sentence
        >>> Dependency.of([Sentence(["in", "town"], heads=[0, 1], deprels=["root", "pobj"])]).labels
        ('pobj', 'root')
        """
        names = {name for sentence in sentences for name in sentence.deprels or ()}
        return cls(on, labels=sorted(names), required=required)

    @override
    def parts(self) -> tuple[Relation, ...]:
        return (self,) if self.target == TOKEN else (self, Membership())

    @property
    @override
    def spec(self) -> str:
        return f"{self.name}:{TOKEN}" if self.target == TOKEN else self.name

    def deprel_id(self, name: str) -> int:
        """Edge label of a dependency relation; an unlisted sub-type has the label of its relation.

        Examples
        --------
        >>> Dependency().deprel_id("nsubj:pass") == Dependency().deprel_id("nsubj"), Dependency().deprel_id("?")
        (True, 1)
        """
        label = self._ids.get(name)
        return self._ids.get(name.partition(":")[0], UNKNOWN) if label is None else label

    @property
    @override
    def num_kinds(self) -> int:  # type: ignore[override]
        return 2 * (UNKNOWN + 1 + len(self.labels))

    @override
    def edge_kinds(self, features: Mapping[str, Tensor]) -> Tensor:
        """Two for each label: 2 ``label`` + 1 if the source is the dependent, else 2 ``label``."""
        return 2 * features["label"].long() + (features["direction"] == FROM_DEPENDENT)

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        indptr, sources, label, direction = _word_arcs(layout)
        if self.target == TOKEN:
            indptr, sources, arcs = expand_to_tokens(self.name, layout, indptr, sources)
            label, direction = label[arcs], direction[arcs]
        data: dict[str, npt.NDArray[Any]] = {"label": label.astype(np.int32), "direction": direction.astype(np.int8)}
        return RelationArrays(indptr, sources, data)

    @override
    def reverse_data(self, data: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        direction = data.get("direction")
        if direction is None or not np.isin(direction, (SELF_LOOP, FROM_HEAD, FROM_DEPENDENT)).all():
            return dict(data)  # a derived class may have other features
        swapped = np.array([SELF_LOOP, FROM_DEPENDENT, FROM_HEAD], dtype=np.int8)[direction.astype(np.int8)]
        return {**data, "direction": swapped}

    def __repr__(self) -> str:
        return f"Dependency(on={self.target!r})"


def _word_arcs(layout: Layout) -> tuple[Ints, Ints, Ints, Ints]:
    """(W + 1,) indptr over words, and (A,) source, label and direction of each edge."""
    assert layout.heads is not None and layout.deprels is not None
    words = np.arange(len(layout.heads))
    dependents = words[layout.heads >= 0]
    heads = (layout.heads + layout.word_starts[layout.sentence_of_word])[dependents]
    names = layout.deprels[dependents]
    source = np.concatenate([words, heads, dependents])
    target = np.concatenate([words, dependents, heads])
    label = np.concatenate([np.full(len(words), SELF), names, names])
    direction = np.repeat([SELF_LOOP, FROM_HEAD, FROM_DEPENDENT], [len(words), len(heads), len(heads)])
    order = np.argsort(target * max(len(words), 1) + source, kind="stable")
    indptr = offsets_from_counts(np.bincount(target, minlength=len(words)))
    return indptr, source[order], label[order], direction[order]
