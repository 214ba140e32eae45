"""spaCy's documents and spans, with and without parses, blanks and sentences."""

import pytest

from graphattn.builders import Sentence
from graphattn.builders.parsers import from_spacy


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
