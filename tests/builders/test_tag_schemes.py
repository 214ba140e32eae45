"""Schemes of chunk tags, checked against seqeval."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import scheme as seqeval_scheme

from graphattn.builders.tag_schemes import (
    SCHEMES,
    convert,
    detect_scheme,
    extract_spans,
    extract_valid_spans,
    write_tags,
)
from graphattn.exceptions import ConfigError, DataError

SEQEVAL = {
    "IOB1": seqeval_scheme.IOB1,
    "IOB2": seqeval_scheme.IOB2,
    "BIOES": seqeval_scheme.IOBES,
    "BILOU": seqeval_scheme.BILOU,
}
CHUNKS = tuple(SEQEVAL)
schemes = st.sampled_from(SCHEMES[:-1])
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
    written = write_tags(marked, length, source)
    converted = convert(written, source, target)
    assert extract_spans(written, source) == extract_spans(converted, target) == marked
    assert convert(converted, target, source) == written


@given(marked_sentences(types=st.just("")), schemes)
def test_types_are_optional(sentence, scheme):
    marked, length = sentence
    tags = write_tags(marked, length, scheme)
    assert all(len(tag) == 1 for tag in tags)
    assert extract_spans(tags, scheme) == marked


@given(marked_sentences(), st.sampled_from(CHUNKS))
def test_spans_agree_with_seqeval(sentence, scheme):
    tags = write_tags(*sentence, scheme)
    assert extract_spans(tags, scheme) == by_seqeval(tags, scheme)


@pytest.mark.parametrize(("scheme", "prefixes"), [("IOB1", "BI"), ("IOB2", "BI"), ("BIOES", "BIES"), ("BILOU", "BILU")])
def test_a_sequence_is_valid_if_and_only_if_its_spans_round_trip(scheme, prefixes):
    @given(tag_lists(prefixes))
    def check(tags):
        repaired = extract_spans(tags, scheme, repair=True)
        rewritten = write_tags(repaired, len(tags), scheme)
        try:
            spans = extract_spans(tags, scheme)
        except DataError:
            assert rewritten != tags
        else:
            assert rewritten == tags
            assert spans == repaired == extract_valid_spans(tags, scheme) == by_seqeval(tags, scheme)

    check()


@pytest.mark.parametrize(("scheme", "prefixes"), [("IOB2", "BI"), ("BIOES", "BIES")])
def test_valid_spans_agree_with_seqeval_in_any_sequence(scheme, prefixes):
    @given(tag_lists(prefixes))
    def check(tags):
        assert extract_valid_spans(tags, scheme) == by_seqeval(tags, scheme)

    check()


@pytest.mark.parametrize(
    ("scheme", "tags", "spans"),
    [
        ("IOB1", "O B-PER I-PER", []),
        ("IOB1", "I-PER B-PER I-PER", [("PER", 0, 1), ("PER", 1, 3)]),
        ("IOB1", "I-PER B-LOC O I-LOC", [("PER", 0, 1), ("LOC", 3, 4)]),
        # Hyphens belong to types.
        ("IOB2", "B-ion I-ion I-ion- B-ion- B--ion B", [("ion", 0, 2), ("ion-", 3, 4), ("-ion", 4, 5), ("", 5, 6)]),
    ],
)
def test_valid_spans(scheme, tags, spans):
    assert extract_valid_spans(tags.split(), scheme) == spans


@given(st.lists(marked_sentences(min_spans=1), min_size=1), schemes)
def test_detection_finds_the_scheme(sentences, scheme):
    """BILOU, BMES and BMEWO show themselves by a letter that BIOES lacks; a span of three words has them all."""
    tags = [write_tags(*sentence, scheme) for sentence in [*sentences, ([("PER", 0, 3), ("PER", 3, 4)], 4)]]
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
        ([["U-PER", "O"]], "BILOU"),
        ([["B-PER", "L-PER"]], "BILOU"),
        ([["B", "M", "E", "S"]], "BMES"),
        ([["W-PER"], ["O"]], "BMEWO"),
        ([["M", "U", "L", "O"]], "none"),
        ([["U-PER", "NN"]], "none"),
    ],
)
def test_detection_examples(sequences, scheme):
    assert detect_scheme(iter(sequences)) == scheme


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        (
            [["O"], ["B-PER", "O", "I-LOC"]],
            "tag 1 ('B-PER') of sequence 1 breaks IOB1 and tag 3 ('I-LOC') of sequence 1 breaks IOB2",
        ),
        (
            [["B-PER", "O"], ["PER"]],
            "tag 1 ('B-PER') of sequence 0 belongs to spans and tag 1 ('PER') of sequence 1 does not",
        ),
    ],
)
def test_detection_of_mixed_tags(sequences, message):
    with pytest.raises(DataError) as caught:
        detect_scheme(sequences)
    assert caught.value.message == message


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
        extract_spans(tags, scheme)
    assert caught.value.message == f"{problem} in {scheme}"
    assert extract_spans(tags, scheme, repair=True) == repaired
    for target in CHUNKS:
        with pytest.raises(DataError, match=re.escape(problem)):
            convert(tags, scheme, target)
        assert extract_spans(convert(tags, scheme, target, repair=True), target) == repaired


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("tag", ["S-A", "PER", "b-A", "B-", "-A", "", "o"])
def test_tags_of_other_schemes(tag, repair):
    with pytest.raises(DataError) as caught:
        extract_spans(["O", tag], "IOB2", repair=repair)
    assert caught.value.message == f"tag 2 ({tag!r}) is not of IOB2"


def test_plain_tags():
    assert extract_spans(["DT", "NN"], "none") == [("DT", 0, 1), ("NN", 1, 2)]
    assert write_tags([("DT", 0, 1), ("NN", 1, 2)], 2, "none") == ["DT", "NN"]
    tags = ["DT", "NN"]
    assert convert(tags, "none", "none") == tags
    assert convert(tags, "none", "none") is not tags


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: write_tags([("A", 0, 0)], 3, "IOB2"), DataError, "span ('A', 0, 0) does not fit between token 0 and"),
        (lambda: write_tags([("A", 1, 4)], 3, "IOB2"), DataError, "span ('A', 1, 4) does not fit between token 0 and"),
        (lambda: write_tags([("A", -1, 1)], 3, "IOB2"), DataError, "span ('A', -1, 1) does not fit between token 0"),
        (lambda: write_tags([("A", 0, 2), ("B", 1, 3)], 3, "IOB2"), DataError, "between token 2 and token 3"),
        (lambda: convert(["O"], "none", "IOB2"), ConfigError, "from none to IOB2"),
        (lambda: convert(["O"], "BIOES", "none"), ConfigError, "from BIOES to none"),
        (lambda: convert([], "IOB2", "IOBES"), ConfigError, "no tag scheme 'IOBES'; choose one of IOB1, IOB2, BIOES"),
        (lambda: convert([], "none", "IOBES"), ConfigError, "no tag scheme 'IOBES'"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
