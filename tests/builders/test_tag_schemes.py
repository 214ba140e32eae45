import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import scheme as seqeval_scheme

from graphattn.builders.tag_schemes import SCHEMES, convert, detect_scheme, spans, tags_of_spans
from graphattn.exceptions import ConfigError, DataError

SEQEVAL = {"IOB1": seqeval_scheme.IOB1, "IOB2": seqeval_scheme.IOB2, "BIOES": seqeval_scheme.IOBES}
CHUNKS = tuple(SEQEVAL)
schemes = st.sampled_from(CHUNKS)
types = st.sampled_from(["PER", "LOC", "creative-work"])


@st.composite
def marked_sentences(draw, types=types, min_spans=0):
    """Spans with gaps of 0 to 2 tokens before each, and the sentence's length."""
    marked, end = [], 0
    for name, gap, length in draw(
        st.lists(st.tuples(types, st.integers(0, 2), st.integers(1, 4)), min_size=min_spans, max_size=6)
    ):
        marked.append((name, end + gap, end + gap + length))
        end += gap + length
    return marked, end + draw(st.integers(0, 2))


def tag_lists(prefixes):
    tags = st.one_of(st.just("O"), st.builds("{}-{}".format, st.sampled_from(prefixes), types))
    return st.lists(tags, max_size=8)


def by_seqeval(tags, scheme):
    (entities,) = seqeval_scheme.Entities([tags], scheme=SEQEVAL[scheme]).entities
    return [(entity.tag, entity.start, entity.end) for entity in entities]


@given(marked_sentences(), schemes, schemes)
def test_conversion_keeps_the_spans(sentence, source, target):
    marked, length = sentence
    written = tags_of_spans(marked, length, source)
    converted = convert(written, source, target)
    assert spans(written, source) == spans(converted, target) == marked
    assert convert(converted, target, source) == written


@given(marked_sentences(types=st.just("")), schemes)
def test_types_may_be_missing(sentence, scheme):
    marked, length = sentence
    tags = tags_of_spans(marked, length, scheme)
    assert set(tags) <= set("BIOES")
    assert spans(tags, scheme) == marked


@given(marked_sentences(), schemes)
def test_spans_agree_with_seqeval(sentence, scheme):
    tags = tags_of_spans(*sentence, scheme)
    assert spans(tags, scheme) == by_seqeval(tags, scheme)


@pytest.mark.parametrize(("scheme", "prefixes"), [("IOB1", "BI"), ("IOB2", "BI"), ("BIOES", "BIES")])
def test_any_sequence_is_either_refused_or_exactly_what_its_spans_are_written_as(scheme, prefixes):
    @given(tag_lists(prefixes))
    def check(tags):
        repaired = spans(tags, scheme, repair=True)
        rewritten = tags_of_spans(repaired, len(tags), scheme)
        try:
            found = spans(tags, scheme)
        except DataError:
            assert rewritten != tags
        else:
            assert rewritten == tags
            assert found == repaired == by_seqeval(tags, scheme)

    check()


@given(st.lists(marked_sentences(min_spans=1), min_size=1), schemes)
def test_detection_finds_the_scheme(sentences, scheme):
    tags = [tags_of_spans(*sentence, scheme) for sentence in sentences]
    assert detect_scheme(tags) == scheme


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        ([], "IOB2"),
        ([[]], "IOB2"),
        ([["O", "O"]], "IOB2"),
        ([["B", "I", "O"]], "IOB2"),
        ([["DT", "NN"], ["O", "B"]], "none"),
        ([["O"], ["NOUN"]], "none"),
        ([["B-PER", "E-PER"]], "BIOES"),
        ([["-LRB-", "B-"]], "none"),
    ],
)
def test_detection_by_hand(sequences, scheme):
    assert detect_scheme(iter(sequences)) == scheme


def test_detection_refuses_a_mixture_of_iob1_and_iob2():
    with pytest.raises(DataError) as caught:
        detect_scheme([["O"], ["B-PER", "O", "I-LOC"]])
    assert str(caught.value) == (
        "field 'tags': tag 1 ('B-PER') of sequence 1 breaks IOB1 and tag 3 ('I-LOC') of sequence 1 breaks IOB2."
        " Correct the tags, or name their scheme and set repair to True."
    )


def test_detection_refuses_plain_tags_among_those_of_spans():
    with pytest.raises(DataError) as caught:
        detect_scheme([["B-PER", "O"], ["PER"]])
    assert str(caught.value) == (
        "field 'tags': tag 1 ('B-PER') of sequence 0 belongs to spans and tag 1 ('PER') of sequence 1 does not."
        " Correct the tags, or name their scheme and set repair to True."
    )


@pytest.mark.parametrize(
    ("scheme", "tags", "problem", "repaired"),
    [
        ("IOB1", "B-A I-A", "tag 1 ('B-A') does not follow a span of its own type", [("A", 0, 2)]),
        ("IOB1", "I-A B-B", "tag 2 ('B-B') does not follow a span of its own type", [("A", 0, 1), ("B", 1, 2)]),
        ("IOB2", "O I-A I-A", "tag 2 ('I-A') does not continue a span", [("A", 1, 3)]),
        ("IOB2", "B-A I-B", "tag 2 ('I-B') does not continue a span", [("A", 0, 1), ("B", 1, 2)]),
        ("BIOES", "B-A I-A", "the end comes before the span is closed", [("A", 0, 2)]),
        ("BIOES", "B-A O", "tag 2 ('O') comes before the span is closed", [("A", 0, 1)]),
        ("BIOES", "B-A S-A", "tag 2 ('S-A') comes before the span is closed", [("A", 0, 1), ("A", 1, 2)]),
        ("BIOES", "E-A", "tag 1 ('E-A') does not continue a span", [("A", 0, 1)]),
        ("BIOES", "S-A I-A E-A", "tag 2 ('I-A') does not continue a span", [("A", 0, 1), ("A", 1, 3)]),
        ("BIOES", "B-A E-B", "tag 2 ('E-B') does not continue a span", [("A", 0, 1), ("B", 1, 2)]),
    ],
)
def test_invalid_sequences(scheme, tags, problem, repaired):
    tags = tags.split()
    with pytest.raises(DataError) as caught:
        spans(tags, scheme)
    assert str(caught.value) == f"field 'tags': {problem} in {scheme}. Correct the tags, or set repair to True."
    assert spans(tags, scheme, repair=True) == repaired
    for target in CHUNKS:
        with pytest.raises(DataError, match=re.escape(problem)):
            convert(tags, scheme, target)
        assert spans(convert(tags, scheme, target, repair=True), target) == repaired


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("tag", ["S-A", "PER", "b-A", "B-", "-A", "", "o"])
def test_foreign_tags_are_refused(tag, repair):
    with pytest.raises(DataError) as caught:
        spans(["O", tag], "IOB2", repair=repair)
    assert str(caught.value) == f"field 'tags': tag 2 ({tag!r}) is not of IOB2. Its tags are O, B-TYPE, I-TYPE."


def test_plain_tags():
    assert spans(["DT", "NN"], "none") == [("DT", 0, 1), ("NN", 1, 2)]
    assert tags_of_spans([("DT", 0, 1), ("NN", 1, 2)], 2, "none") == ["DT", "NN"]
    assert convert(["DT", "NN"], "none", "none") == ["DT", "NN"]


@pytest.mark.parametrize(("source", "target"), [("none", "IOB2"), ("BIOES", "none")])
def test_plain_tags_convert_only_into_themselves(source, target):
    with pytest.raises(ConfigError) as caught:
        convert(["O"], source, target)
    assert str(caught.value) == (
        f"tags cannot go from {source} to {target}. Plain tags mark no spans: leave them as they are."
    )


@pytest.mark.parametrize("wrong", [("A", 0, 0), ("A", 1, 4), ("A", -1, 1)])
def test_spans_out_of_place_are_refused(wrong):
    with pytest.raises(DataError) as caught:
        tags_of_spans([wrong], 3, "IOB2")
    assert str(caught.value) == (
        f"field 'tags': span {wrong} does not fit between token 0 and token 3."
        " Spans stand in order, do not overlap, and hold at least one token."
    )
    with pytest.raises(DataError, match=re.escape("span ('B', 1, 3) does not fit between token 2 and token 3")):
        tags_of_spans([("A", 0, 2), ("B", 1, 3)], 3, "IOB2")


def test_unknown_scheme():
    with pytest.raises(ConfigError) as caught:
        convert([], "IOB2", "BILOU")
    assert str(caught.value) == "there is no tag scheme 'BILOU'. Use one of 'IOB1', 'IOB2', 'BIOES', 'none'."
    assert SCHEMES == ("IOB1", "IOB2", "BIOES", "none")


def test_plain_tags_are_copied():
    tags = ["DT", "NN"]
    assert convert(tags, "none", "none") is not tags
