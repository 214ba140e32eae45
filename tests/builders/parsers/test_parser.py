"""Texts of several sentences are parsed sentence by sentence; spaCy documents become sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._sentence import Sentence
from graphattn.builders.parsers import Parse, from_spacy
from graphattn.builders.parsers._parser import parse_texts


class Chain:
    """Each word depends on the one before."""

    name = "chain"

    def parse(self, sentences):
        return [Parse(tuple(range(len(words))), tuple(words)) for words in sentences]


def test_heads_count_over_the_text():
    parse = parse_texts(Chain(), [["a", "b", "c", "d"], [], ["e", "f"]], [[0, 0, 1, 1], None, None])
    assert [p.heads for p in parse] == [(0, 1, 0, 3), (), (0, 1)]
    assert [p.deprels for p in parse] == [("a", "b", "c", "d"), (), ("e", "f")]


@given(st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=4))
def test_heads_are_valid_in_texts_of_any_number_of_sentences(sizes):
    texts = [[f"w{n}" for n in range(sum(sentence_numbers))] for sentence_numbers in sizes]
    ids = [[s for s, size in enumerate(sentence_numbers) for _ in range(size)] for sentence_numbers in sizes]
    for words, sentence_numbers, parse in zip(texts, ids, parse_texts(Chain(), texts, ids), strict=True):
        Sentence(words, heads=parse.heads, deprels=parse.deprels)
        assert parse.deprels == tuple(words)
        assert all(head in (0, place) for place, head in enumerate(parse.heads))
        assert [place for place, head in enumerate(parse.heads) if not head] == [
            sentence_numbers.index(s) for s in sorted({*sentence_numbers})
        ]


@pytest.fixture(scope="module")
def document():
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    words = ["Dogs", "bark", "\n", "now", ".", "Cats", "sleep"]
    return spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words,
        heads=[1, 1, 1, 2, 1, 6, 6],
        deps=["nsubj", "ROOT", "dep", "advmod", "punct", "nsubj", "ROOT"],
        pos=["NOUN", "VERB", "SPACE", "ADV", "PUNCT", "NOUN", "VERB"],
    )


@pytest.mark.slow
def test_a_document(document):
    assert from_spacy(document) == Sentence(
        ["Dogs", "bark", "now", ".", "Cats", "sleep"],
        heads=[2, 0, 2, 2, 6, 0],
        deprels=["nsubj", "root", "advmod", "punct", "nsubj", "root"],
        tags=["NOUN", "VERB", "ADV", "PUNCT", "NOUN", "VERB"],
        sentence_ids=[0, 0, 0, 0, 1, 1],
    )


def test_a_span(document):
    span = from_spacy(document[3:6])
    assert (span.tokens, span.heads, span.sentence_ids) == (("now", ".", "Cats"), (0, 0, 0), (0, 0, 1))
    assert from_spacy(next(document.sents)).heads == (2, 0, 2, 2)


def test_a_document_without_a_parse(document):
    spacy = pytest.importorskip("spacy")
    assert from_spacy(spacy.blank("en")("Dogs bark")) == Sentence(["Dogs", "bark"])
    assert from_spacy(spacy.blank("en")("")).tokens == ()
