"""Relation ``links``: the user's own edges, which come with the corpus (coreference, semantic roles, citations ...)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.batch import RelationArrays
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import expand_to_tokens, indptr_from_degrees
from graphattn.exceptions import ConfigError
from graphattn.schema import TOKEN, WORD


class Links(Relation):
    """The edges in :attr:`Sentence.links <graphattn.builders.Sentence>`, as they are: no self-loops, not both ways.

    Parameters
    ----------
    on : ``"token"``, where a link joins all tokens of its two words, or ``"word"``

    Raises
    ------
    ConfigError
        when ``on`` is neither

    Examples
    --------
    >>> from graphattn.builders import Sentence, TextGraphBuilder, Window
    >>> sentence = Sentence(["Ada", "thinks", "she", "errs"], links=[(0, 2)])
    >>> graph = TextGraphBuilder([Links(), (Links() | Links().reverse() | Window(1))], cls=False).build(sentence)
    >>> graph.num_edges("links"), graph.num_edges("links|reverse(links)|window:1")
    (1, 6)
    """

    name = "links"
    needs_links = True

    def __init__(self, on: str = TOKEN):
        if on not in (WORD, TOKEN):
            raise ConfigError(f"Links(on={on!r}) is not possible; choose 'word' or 'token'")
        self.source = self.target = on

    @property
    def spec(self) -> str:
        """``links:word`` between words."""
        return self.name if self.target == TOKEN else f"{self.name}:{WORD}"

    def edges(self, layout: Layout) -> RelationArrays:
        """The pairs, in a batch's numbers."""
        assert layout.links is not None
        shift = np.repeat(layout.word_starts, layout.links.counts)
        sources: Ints = layout.links.sources + shift
        indptr = indptr_from_degrees(np.bincount(layout.links.targets + shift, minlength=int(layout.word_counts.sum())))
        if self.target == TOKEN:
            indptr, sources, _ = expand_to_tokens(self.name, layout, indptr, sources)
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr))

    def __repr__(self) -> str:
        return f"Links(on={self.target!r})"
