"""Relation ``links``: custom edges from the corpus (coreference, semantic roles, citations ...)."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import Relation, check_choice
from graphattn.builders.relations._csc import expand_to_tokens


class Links(Relation):
    """The edges in :attr:`Sentence.links <graphattn.builders.Sentence>`, directed and without self-loops.

    Parameters
    ----------
    on : ``"token"``, where a link joins all tokens of its two words, or ``"word"``

    Examples
    --------
    >>> from graphattn.builders import Sentence, TextGraphBuilder, Window
    >>> sentence = Sentence(["Ada", "thinks", "she", "errs"], links=[(0, 2)])
    >>> relations = [Links(), Links() | Links().reverse() | Window(1)]
    >>> batch = TextGraphBuilder(relations, cls=False).text_batch([sentence])
    >>> [edges.num_edges for edges in batch.edges.values()]
    [1, 6]
    """

    name = "links"
    needs_links = True

    def __init__(self, on: str = TOKEN):
        check_choice("on", on, (TOKEN, WORD))
        self.source = self.target = on

    @property
    @override
    def spec(self) -> str:
        return self.name if self.target == TOKEN else f"{self.name}:{WORD}"

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        assert layout.links is not None
        links: Ints = layout.links.values + layout.word_starts[layout.links.row_of_value, None]
        sources, targets = links.T
        indptr = offsets_from_counts(np.bincount(targets, minlength=int(layout.word_counts.sum())))
        if self.target == TOKEN:
            indptr, sources, _ = expand_to_tokens(self.name, layout, indptr, sources)
        return RelationArrays(indptr, sources)

    def __repr__(self) -> str:
        return f"Links(on={self.target!r})"
