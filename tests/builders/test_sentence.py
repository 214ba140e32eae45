"""Sentences: their fields, errors (above all cyclic heads), and boundaries found by punctuation."""

from itertools import chain
from random import Random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from graphattn.builders import Example, Sentence
from graphattn.builders._sentence import assign_sentence_ids
from graphattn.builders._subwords import BLANK
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.exceptions import DataError


def test_tokens_of_a_tokenizer_are_taken_as_they_are():
    sentence = Sentence.of_tokens(("un", "known"), (0, 0))
    assert sentence == Sentence(["un", "known"], word_ids=[0, 0])
    assert (sentence.words, sentence.origin, hash(sentence)) == (("unknown",), None, hash(sentence))


def test_sequences_become_tuples():
    sentence = Sentence(["a", "b"], word_ids=[0, 1], heads=[2, 0], deprels=["det", "root"], tags=iter("XY"))
    assert sentence == Sentence(("a", "b"), (0, 1), (2, 0), ("det", "root"), None, ("X", "Y"))
    assert hash(sentence) == hash(Sentence(("a", "b"), (0, 1), (2, 0), ("det", "root"), None, ("X", "Y")))


def test_words_and_tokens():
    sentence = Sentence(["un", "known", "word"], word_ids=[0, 0, 1], heads=[2, 0], tags=["A", "N"])
    assert (len(sentence), sentence.num_words, sentence.words) == (3, 2, ("unknown", "word"))
    assert sentence.with_tokens(["unknown", "wo", "rd"], [0, 1, 1]).words == sentence.words
    assert sentence.with_tokens(["unknown", "word"], None).heads == (2, 0)


def test_empty_sentence():
    for empty in (Sentence([]), Sentence([], word_ids=[], heads=[], deprels=[], tags=[])):
        assert (len(empty), empty.num_words, empty.words) == (0, 0, ())


def test_links_are_unique_and_sorted_by_target():
    sentence = Sentence(["a", "b", "c"], links=[[2, 0], [0, 1], [2, 0], [1, 0]])
    assert sentence.links == ((1, 0), (2, 0), (0, 1))
    assert hash(sentence) == hash(Sentence(["a", "b", "c"], links=[(2, 0), (1, 0), (0, 1)]))


def test_with_tokens_keeps_sentence_ids():
    text = Sentence(["un", "known", "!", "so"], word_ids=[0, 0, 1, 2], sentence_ids=[0, 0, 1])
    assert text.with_tokens(["unknown", "!", "so"], None).sentence_ids == (0, 0, 1)


def test_example_with_a_pair_and_with_several_labels():
    assert Example("a").second is None
    assert Example("a", "b", ("x", "y")).label == ("x", "y")


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"tokens": "abc"}, "tokens", "a string"),
        ({"word_ids": [0]}, "word_ids", "1 word_ids for 3 tokens"),
        ({"word_ids": [0, 2, 3]}, "word_ids", "from 0 to 2 at token 1"),
        ({"word_ids": [0, 1, 0]}, "word_ids", "from 1 to 0 at token 2"),
        ({"word_ids": [1, 1, 2]}, "word_ids", "from -1 to 1 at token 0"),
        ({"word_ids": [-1, 0, 1]}, "word_ids", "from -1 to -1 at token 0"),
        ({"sentence_ids": [0, 0]}, "sentence_ids", "2 sentence_ids for 3 words"),
        ({"sentence_ids": [0, 1, 3]}, "sentence_ids", "from 1 to 3 at word 2"),
        ({"links": [(0, 1), (0, 3)]}, "links", "[0, 3]"),
        ({"links": [[-1, 0]]}, "links", "[-1, 0]"),
        ({"heads": [0, 1]}, "heads", "2 heads for 3 words"),
        ({"word_ids": [0, 0, 1], "tags": ["X", "Y", "Z"]}, "tags", "3 tags for 2 words"),
        ({"predicates": [1]}, "predicates", "1 predicates for 3 words"),
        ({"features": {"pos": ["DT"]}}, "pos", "1 values for 3 words"),
        ({"features": {"pos": "abc"}}, "pos", "a string for 3 words"),
        ({"predicates": [1, 2, 0]}, "predicates", "neither 0 nor 1"),
        ({"deprels": []}, "deprels", "0 deprels for 3 words"),
        ({"heads": [0, 4, 1]}, "heads", "word 2 ('b') has head 4"),
        ({"heads": [0, -1, 1]}, "heads", "word 2 ('b') has head -1"),
        ({"heads": [0, 1, 3]}, "heads", "cycle through word 3 ('c')"),
        ({"heads": [3, 3, 2]}, "heads", "cycle through word 2 ('b')"),  # word 1 leads into the cycle of 2 and 3
        ({"word_ids": [0, 0, 1], "heads": [2, 1]}, "heads", "cycle through word 1 ('ab')"),
    ],
)
def test_invalid_sentences(fields, field, message):
    with pytest.raises(DataError) as caught:
        Sentence(**{"tokens": ["a", "b", "c"], **fields})
    assert caught.value.field == field
    assert message in caught.value.message


@given(random=st.randoms(use_true_random=False), num_words=st.integers(0, 12))
def test_trees_of_any_word_order_are_valid(random_sentence, random, num_words):
    assert random_sentence(random, num_words).num_words == num_words


@given(heads=st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_heads_are_valid_if_and_only_if_every_word_leads_to_a_root(heads):
    def leads_to_root(word):
        for _ in heads:
            word = heads[word - 1] if word else 0
        return word == 0

    def is_in_cycle(word):
        walk = [word]
        for _ in heads:
            walk.append(heads[walk[-1] - 1] if walk[-1] else 0)
        return word in walk[1:]

    words = range(1, len(heads) + 1)
    if all(map(leads_to_root, words)):
        assert Sentence(["w"] * len(heads), heads=heads).heads == tuple(heads)
    else:
        with pytest.raises(DataError, match="heads form a cycle through word") as caught:
            Sentence(["w"] * len(heads), heads=heads)
        assert is_in_cycle(int(str(caught.value).split("word ")[1].split()[0]))


def test_long_chains_are_checked_in_linear_time():
    count = 50_000  # a walk to the root from every word would take a billion steps
    assert len(Sentence(["w"] * count, heads=range(count))) == count
    assert len(Sentence(["w"] * count, heads=[*range(2, count + 1), 0])) == count


def test_random_sentences_vary(random_sentence):
    sentences = [random_sentence(Random(seed), 6) for seed in range(40)]
    assert {sentence.word_ids is None for sentence in sentences} == {True, False}
    assert {sentence.deprels is None for sentence in sentences} == {True, False}
    assert len({sentence.heads for sentence in sentences}) > 30


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("a b", [0, 0]),
        (". a", [0, 1]),
        ("a . b ! ? c", [0, 0, 1, 1, 1, 2]),
        ("a ?! ' ) b . . . c", [0, 0, 0, 0, 1, 1, 1, 1, 2]),
        ("Dr. X left . So did 3.5 % …", [0, 0, 0, 0, 1, 1, 1, 1, 1]),
        ("a . '' b !\" c", [0, 0, 0, 1, 1, 2]),
        ("a \u3002 b \uff1f\uff01 c", [0, 0, 1, 1, 2]),
        ("a 。 」 b 「 c 」 d ！』 e", [0, 0, 0, 1, 1, 1, 1, 1, 1, 2]),  # noqa: RUF001
        ("a ‼️ ” b", [0, 0, 0, 1]),
    ],
)
def test_a_sentence_ends_after_its_punctuation(text, ids):
    assert list(assign_sentence_ids(text.split())) == ids


@pytest.mark.parametrize("mark", ["।", "॥", "؟", "۔", "։", "።", "។", "｡", "．", "‼", "⁇", "။", "᪨", "꧈"])  # noqa: RUF001
def test_sentences_end_in_every_script(mark):
    words = WordSplitter.by_rule("web").split(f"a b{mark} c")
    assert assign_sentence_ids(words) == (0, 0, 0, 1)


@pytest.mark.slow
def test_sentence_terminals_are_those_of_unicode():
    """Oniguruma may have an older version of Unicode, so a mark may be missing there."""
    every = "".join(map(chr, chain(range(0xD800), range(0xE000, 0x110000))))
    split = pre_tokenizers.Split(Regex(r"[^\p{Sentence_Terminal}]+"), "removed")
    marks = "".join(run for run, _ in split.pre_tokenize_str(every))
    assert len(marks) > 150
    assert [mark for mark in marks if assign_sentence_ids([mark, "a"]) != (0, 1)] == []


def test_a_paragraph_ends_a_sentence():
    assert assign_sentence_ids(["a", "b"], [], ["c", ".", "d"], ["e"]) == (0, 0, 1, 1, 2, 3)


@pytest.mark.parametrize("text", ["a . b ! ? c", "a ?! ' ) b . . . c", "Dr. X left . So did 3.5 % …"])
def test_sub_words_with_blanks_have_the_same_boundaries(text):
    words = text.split()
    assert assign_sentence_ids([BLANK + word for word in words]) == assign_sentence_ids(words)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 3, [["a"]], b"ab", {"a": 1}], ids=repr)
@pytest.mark.parametrize(
    "field", ["tokens", "word_ids", "heads", "deprels", "tags", "sentence_ids", "predicates", "links", "features"]
)
def test_values_where_a_list_of_strings_or_numbers_is_expected(field, value):
    good = {"tokens": "b", "deprels": "b", "tags": "b", "links": [0, 1]}.get(field, 0)
    for wrong in ([] if value is None and field != "tokens" else [value]) + [[good, value]]:
        with pytest.raises(DataError) as caught:
            Sentence(**{"tokens": ["a", "b"], field: wrong})
        assert caught.value.field in (field, "a")


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, ["a"]], ids=repr)
def test_a_feature_without_a_value(value):
    with pytest.raises(DataError, match="field 'f': value 1 is"):
        Sentence(["a", "b"], features={"f": ["x", value]})
