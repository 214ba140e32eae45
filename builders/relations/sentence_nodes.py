"""Relations ``sentence`` and ``document``: nodes for the sentences of a text and for the text as a whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import CompoundRelation, Nodes, RangeRelation, Relation
from graphattn.schema import DOCUMENT, SENTENCE, TOKEN


class SentenceNodes(CompoundRelation):
    """Tokens see their sentence's tokens and node; a sentence's node sees its tokens and all sentences of the text.

    The sentences are those of ``Sentence.sentence_ids``; where these are not given, they end with punctuation. This is
    the graph that ETC gives structured inputs, one global token for each sentence, with long-to-long attention kept
    inside the sentence.

    References
    ----------
    Ainslie et al.: ETC: Encoding Long and Structured Inputs in Transformers. EMNLP 2020. arXiv:2004.08483, section 3.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> graph = TextGraphBuilder([SentenceNodes()], cls=False).build(["no", ".", "we", "stay", "."])
    >>> graph.num_nodes("sentence"), graph.num_edges(("token", "sentence", "token"))
    (2, 13)
    """

    name = SENTENCE

    def parts(self) -> tuple[Relation, ...]:
        """Inside the sentence, sentence to token, token to sentence, sentence to sentence."""
        return (
            _Neighbours(self.name),
            _FromSentence(self.name),
            _ToSentence(self.name),
            _BetweenSentences(self.name),
        )


class DocumentTree(CompoundRelation):
    """A tree: tokens and their sentences see each other, sentences and the document see each other; all see themselves.

    It is the hierarchy of words, sentences and document, with as many edges as nodes, whatever the text's length.

    References
    ----------
    Yang, Yang, Dyer, He, Smola, Hovy: Hierarchical Attention Networks for Document Classification. NAACL 2016.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> graph = TextGraphBuilder([DocumentTree()], cls=False).build(["no", ".", "we", "stay", "."])
    >>> graph.num_nodes("sentence"), graph.num_nodes("document"), graph.num_edges()
    (2, 1, 22)
    """

    name = DOCUMENT

    def parts(self) -> tuple[Relation, ...]:
        """Each of the three with itself, tokens with sentences, and sentences with the document, both ways."""
        return (
            _Itself(self.name, TOKEN),
            _FromSentence(self.name),
            _ToSentence(self.name),
            _Itself(self.name, SENTENCE),
            _FromDocument(self.name),
            _ToDocument(self.name),
            _Itself(self.name, DOCUMENT),
        )


class _Part(RangeRelation):
    """What the kinds of edges share."""

    needs_sentences = True

    def __init__(self, name: str):
        self.name = name

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        counts = {SENTENCE: layout.sentence_counts, DOCUMENT: np.ones(len(layout), np.int64)}
        return {kind: _counted(counts[kind]) for kind in {self.source, self.target} - {TOKEN}}

    @abstractmethod
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]: ...


class _Itself(_Part):
    def __init__(self, name: str, kind: str):
        super().__init__(name)
        self.source = self.target = kind

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        counts = {TOKEN: layout.lengths, SENTENCE: layout.sentence_counts, DOCUMENT: np.ones(len(layout), np.int64)}
        here = np.arange(int(counts[self.target].sum()))
        return here, here + 1


class _Neighbours(_Part):
    """The tokens of a token's sentence."""

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = _tokens_of_sentences(layout)
        own = layout.own_sentence_of_token
        return first[own], stop[own]


class _FromSentence(_Part):
    source = SENTENCE

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.own_sentence_of_token, layout.own_sentence_of_token + 1


class _ToSentence(_Part):
    target = SENTENCE

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return _tokens_of_sentences(layout)


class _BetweenSentences(_Part):
    source = target = SENTENCE

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        counts = layout.sentence_counts
        starts = np.repeat(layout.sentence_starts, counts)
        return starts, starts + np.repeat(counts, counts)


class _FromDocument(_Part):
    source, target = DOCUMENT, SENTENCE

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        texts = np.repeat(np.arange(len(layout)), layout.sentence_counts)
        return texts, texts + 1


class _ToDocument(_Part):
    source, target = SENTENCE, DOCUMENT

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.sentence_starts, layout.sentence_starts + layout.sentence_counts


def _tokens_of_sentences(layout: Layout) -> tuple[Ints, Ints]:
    """First token of each sentence, and the one after its last."""
    sizes = np.bincount(layout.own_sentence_of_token, minlength=int(layout.sentence_counts.sum()))
    ends = np.cumsum(sizes)
    return ends - sizes, ends


def _counted(per_sentence: Ints) -> Nodes:
    starts = np.cumsum(per_sentence) - per_sentence
    position = np.arange(int(per_sentence.sum())) - np.repeat(starts, per_sentence)
    return Nodes(per_sentence, {"position": position.astype(np.int32)})
