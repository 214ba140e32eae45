"""Texts with entities: offsets, probabilities against all sequences of tags, CoNLL and HTML."""

import json
from copy import deepcopy
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest
import torch

from graphattn.builders import Example, Sentence
from graphattn.builders.readers import read_conll
from graphattn.builders.tag_schemes import extract_spans
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.state import make_corpus
from graphattn.models._results.entities import EntitySpan, TaggedText, format_conll

HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def tagger(able, corpus):
    return able("crf").fit(*corpus("crf", 60))


@pytest.mark.slow
def test_offsets_are_those_of_the_raw_text(tagger):
    text = "  the plot:\tParis  NATO, was\u00a0never 👩‍🚀 Paris!\n"
    (tagged,) = tagger.predict_spans([text])
    assert tagged.text == text
    words, (tags,) = tagger.vocabulary_.split(text), tagger.predict([text])
    expected = [(name, words[first], words[end - 1]) for name, first, end in extract_spans(tags, "IOB2")]
    assert len(expected) == 2
    for span, (name, first, last) in zip(tagged.spans, expected, strict=True):
        assert span.type == name
        assert span.text == text[span.start : span.end]
        assert span.text.startswith(first)
        assert span.text.endswith(last)


@pytest.mark.parametrize("words", [["the", "Paris", "NATO", "was", "Paris"], ["New York", "Paris"], []])
def test_words_are_joined_by_blanks(tagger, words):
    plain, sentence = tagger.predict_spans([words, Sentence(words)])
    assert plain == sentence
    assert plain.text == " ".join(words)
    assert [span.text for span in plain.spans] == [plain.text[span.start : span.end] for span in plain.spans]
    (tags,) = tagger.predict([words])
    names = [" ".join(words[first:end]) for _, first, end in extract_spans(tags, "IOB2")]
    assert [span.text for span in plain.spans] == names


def test_examples_are_texts(tagger):
    assert tagger.predict_spans([Example("Paris was dull")]) == tagger.predict_spans(["Paris was dull"])


def sequence_probabilities(estimator, words):
    """Every sequence of tag ids for one sentence, and its probability."""
    crf = estimator.model_.head.crf
    with torch.no_grad():
        scores = estimator.model_(make_corpus(estimator, [words])[[0]]).double()
        sequences = torch.tensor(list(product(range(scores.shape[1]), repeat=len(words))))
        totals = scores[range(len(words)), sequences].sum(1)
        if crf is not None:
            totals = totals + crf.start_transitions[sequences[:, 0]] + crf.end_transitions[sequences[:, -1]]
            totals = totals + crf.transitions[sequences[:, :-1], sequences[:, 1:]].sum(1)
    return sequences.numpy(), totals.softmax(0).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_the_confidence_is_the_probability_of_exactly_this_entity(tagger, entity_tagger, corpus, kind):
    estimator = entity_tagger
    if kind == "crf":
        estimator = deepcopy(tagger)
        first, last = (estimator.classes_.tolist().index(tag) for tag in ("B-LOC", "E-LOC"))
        with torch.no_grad():
            estimator.model_.head.crf.transitions[first, last] += 4
    starts = [words[:4] for words in corpus("crf", 60)[0]]
    tagged = zip(starts, estimator.predict(starts), strict=True)
    words = next(words for words, tags in tagged if any(tag.startswith("I-") for tag in tags))
    sequences, probabilities = sequence_probabilities(estimator, words)
    (tagged,) = estimator.predict_spans([words])
    spans = extract_spans(estimator.predict([words])[0], "IOB2")
    for span, (name, first, end) in zip(tagged.spans, spans, strict=True):
        inner = "B" + "I" * (end - first - 2) + "E"
        path = [f"{prefix}-{name}" for prefix in (inner if end - first > 1 else "S")]
        has_path = (estimator.classes_[sequences[:, first:end]] == path).all(1)
        assert span.confidence == pytest.approx(probabilities[has_path].sum(), abs=1e-5)


def test_one_word_has_its_marginal(tagger):
    (tagged,) = tagger.predict_spans([["Paris", "was", "dull"]])
    (rows,) = tagger.predict_proba([["Paris", "was", "dull"]])
    single = np.flatnonzero(tagger.classes_ == "S-LOC")[0]
    assert tagged.spans[0].confidence == pytest.approx(float(rows[0, single]), abs=1e-6)


def test_an_invalid_sequence_is_rated_as_the_entity_that_is_read(entity_tagger, monkeypatch):
    """Without a CRF the tags may be B-LOC O, which is read as S-LOC O."""
    ids = {tag: number for number, tag in enumerate(entity_tagger.classes_)}
    decided = torch.tensor([ids["B-LOC"], ids["O"]])
    monkeypatch.setattr(entity_tagger.model_.head, "decide", lambda scores, graph: decided)
    (tagged,) = entity_tagger.predict_spans([["the", "dull"]])
    (rows,) = entity_tagger.predict_proba([["the", "dull"]])
    assert [span[:4] for span in tagged.spans] == [("LOC", 0, 3, "the")]
    assert tagged.spans[0].confidence == pytest.approx(float(rows[0, ids["S-LOC"]]), abs=1e-6)


def test_plain_tags_have_no_spans(corpus, tiny):
    estimator = tiny("tagger", training={"epochs": 1}).fit(*corpus("tagger"))
    with pytest.raises(ConfigError, match="such as 'LONG', mark no entities"):
        estimator.predict_spans([["the"]])


class Read(HTMLParser):
    """The text outside of labels, and the style of each label."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.colours = [], "", {}
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        assert tag in ("p", "mark", "b")
        self.open.append(tag)
        if tag == "mark":
            self.style = dict(attrs)["style"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "b" in self.open:
            self.text = self.text.removesuffix(" ")
            self.colours.setdefault(data, set()).add(self.style)
        else:
            self.text += data


def test_html_is_escaped_and_coloured_by_type():
    text = f"a {HOSTILE} b"
    spans = [EntitySpan("LOC", 0, 1, "a", 0.5), EntitySpan('"<b>', 2, len(text) - 2, HOSTILE, 0.25)]
    actual = Read(TaggedText(text, spans, ['"<b>', "LOC"])._repr_html_())
    assert actual.open == []
    assert actual.text == text
    assert list(actual.colours) == ["LOC", '"<b>']
    assert len(set.union(*actual.colours.values())) == 2


def test_a_type_has_the_same_colour_in_each_text(tagger):
    texts = tagger.predict_spans([["Paris"], ["NATO", "was", "Paris"], ["NATO"]])
    colours = [Read(text._repr_html_()).colours for text in texts]
    assert [list(each) for each in colours] == [["LOC"], ["ORG", "LOC"], ["ORG"]]
    assert colours[1] == {**colours[0], **colours[2]}


def test_rows_are_json(tagger):
    (tagged,) = tagger.predict_spans([["Paris", "was"]])
    (span,) = tagged.spans
    confidence = round(span.confidence, 6)
    assert json.loads(json.dumps(tagged.to_row())) == {
        "text": "Paris was",
        "spans": [{**span._asdict(), "confidence": confidence}],
    }


def test_conll_is_read_back(tmp_path):
    words, tags = [["New York", "is"], ["a"]], [["B-LOC", "O"], ["O"]]
    (tmp_path / "tags.conll").write_text("".join(map(format_conll, words, tags)))
    sentences = list(read_conll(tmp_path / "tags.conll", separator="\t"))
    assert [(list(s.words), list(s.tags)) for s in sentences] == list(zip(words, tags, strict=True))
