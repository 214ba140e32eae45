"""Relation ``dependency``: arcs of a dependency tree, both ways, with self-loops (A_p of UMST, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import expand_to_tokens, indptr_from_degrees
from graphattn.builders.relations.membership import Membership
from graphattn.exceptions import ConfigError
from graphattn.schema import DEPENDENCY, TOKEN, WORD

UNIVERSAL_RELATIONS = tuple(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl "
    "fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative "
    "xcomp".split()
)
"""The 37 relations of Universal Dependencies v2; sub-types such as ``nsubj:pass`` count as their relation."""

SELF, UNKNOWN = 0, 1
"""Edge labels of self-loops and of relation names that are not in the list; the list's own start at 2."""

TO_ITSELF, FROM_HEAD, FROM_DEPENDENT = 0, 1, 2
"""Values of the edge feature ``direction``."""


class Dependency(Relation):
    """Undirected dependency arcs and self-loops, between words or between all tokens of the two words.

    Edge features: ``label`` (0 for self-loops, 1 for unknown names, from 2 on the names in ``labels``) and
    ``direction`` (0 self-loop, 1 the source is the head, 2 the source is the dependent).

    Parameters
    ----------
    on : ``"word"`` (brings the relation ``in`` along) or ``"token"``
    labels : names of dependency relations; those of Universal Dependencies by default
    required : whether every sentence must have a parse; without one it gets self-loops alone, and a warning is given

    Raises
    ------
    ConfigError
        when ``on`` is neither
    """

    name = DEPENDENCY
    takes_heads = True

    def __init__(self, on: str = WORD, *, labels: Sequence[str] = UNIVERSAL_RELATIONS, required: bool = True):
        if on not in (WORD, TOKEN):
            raise ConfigError(f"Dependency(on={on!r}) is not possible; choose 'word' or 'token'")
        self.source = self.target = on
        self.labels, self.needs_heads = tuple(labels), required
        self._ids = {label: index for index, label in enumerate(self.labels, start=UNKNOWN + 1)}

    def parts(self) -> tuple[Relation, ...]:
        """Between words, membership comes along: word nodes are of no use without it."""
        return (self,) if self.target == TOKEN else (self, Membership())

    @property
    def spec(self) -> str:
        """``dependency:token`` between tokens."""
        return f"{self.name}:{TOKEN}" if self.target == TOKEN else self.name

    def deprel_id(self, name: str) -> int:
        """Edge label of a dependency relation; a sub-type that is not listed counts as its relation.

        Examples
        --------
        >>> Dependency().deprel_id("nsubj:pass") == Dependency().deprel_id("nsubj"), Dependency().deprel_id("?")
        (True, 1)
        """
        label = self._ids.get(name)
        return self._ids.get(name.partition(":")[0], UNKNOWN) if label is None else label

    def edges(self, layout: Layout) -> RelationArrays:
        """Arcs between words; for tokens each arc is written out between all tokens of its two words."""
        indptr, sources, label, direction = _word_arcs(layout)
        if self.target == TOKEN:
            indptr, sources, arcs = expand_to_tokens(self.name, layout, indptr, sources)
            label, direction = label[arcs], direction[arcs]
        data: dict[str, npt.NDArray] = {"label": label.astype(np.int32), "direction": direction.astype(np.int8)}
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr), data)

    def reversed_data(self, data: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        """What came from the head goes to it, as from the dependent."""
        told = data.get("direction")
        if told is None or not np.isin(told, (TO_ITSELF, FROM_HEAD, FROM_DEPENDENT)).all():
            return dict(data)  # a relation that is derived from this one has features of its own
        turned = np.array([TO_ITSELF, FROM_DEPENDENT, FROM_HEAD], dtype=np.int8)[told.astype(np.int8)]
        return {**data, "direction": turned}

    def __repr__(self) -> str:
        return f"Dependency(on={self.target!r})"


def _word_arcs(layout: Layout) -> tuple[Ints, Ints, Ints, Ints]:
    """CSC arrays over words, with label and direction of each edge."""
    assert layout.heads is not None and layout.deprels is not None
    words = np.arange(len(layout.heads))
    dependents = words[layout.heads >= 0]
    heads = (layout.heads + layout.word_starts[layout.sentence_of_word])[dependents]
    names = layout.deprels[dependents]
    source = np.concatenate([words, heads, dependents])
    target = np.concatenate([words, dependents, heads])
    label = np.concatenate([np.full(len(words), SELF), names, names])
    direction = np.repeat([TO_ITSELF, FROM_HEAD, FROM_DEPENDENT], [len(words), len(heads), len(heads)])
    order = np.argsort(target * max(len(words), 1) + source, kind="stable")
    indptr = indptr_from_degrees(np.bincount(target, minlength=len(words)))
    return indptr, source[order], label[order], direction[order]
