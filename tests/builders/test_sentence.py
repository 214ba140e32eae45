"""Sentences refuse what no sentence can be; heads in particular."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError


def test_sequences_become_tuples():
    sentence = Sentence(["a", "b"], word_ids=[0, 1], heads=[2, 0], deprels=["det", "root"], tags=iter("XY"))
    assert sentence == Sentence(("a", "b"), (0, 1), (2, 0), ("det", "root"), None, ("X", "Y"))
    assert hash(sentence) == hash(Sentence(("a", "b"), (0, 1), (2, 0), ("det", "root"), None, ("X", "Y")))


def test_words_are_counted_apart_from_tokens():
    sentence = Sentence(["un", "known", "word"], word_ids=[0, 0, 1], heads=[2, 0], tags=["A", "N"])
    assert (len(sentence), sentence.num_words, sentence.words) == (3, 2, ("unknown", "word"))
    assert sentence.with_tokens(["unknown", "wo", "rd"], [0, 1, 1]).words == sentence.words
    assert sentence.with_tokens(["unknown", "word"], None).heads == (2, 0)


def test_an_empty_sentence_is_a_sentence():
    for empty in (Sentence([]), Sentence([], word_ids=[], heads=[], deprels=[], tags=[])):
        assert (len(empty), empty.num_words, empty.words) == (0, 0, ())


def test_links_are_kept_by_target_each_once():
    sentence = Sentence(["a", "b", "c"], links=[[2, 0], [0, 1], [2, 0], [1, 0]])
    assert sentence.links == ((1, 0), (2, 0), (0, 1))
    assert hash(sentence) == hash(Sentence(["a", "b", "c"], links=[(2, 0), (1, 0), (0, 1)]))


def test_sentences_of_a_text_are_those_of_its_words():
    text = Sentence(["un", "known", "!", "so"], word_ids=[0, 0, 1, 2], sentence_ids=[0, 0, 1])
    assert text.with_tokens(["unknown", "!", "so"], None).sentence_ids == (0, 0, 1)


def test_an_example_may_be_a_pair_or_have_several_labels():
    assert Example("a").second is None
    assert Example("a", "b", ("x", "y")).label == ("x", "y")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"word_ids": [0]}, "field 'word_ids': 1 word_ids for 3 tokens. Give one for each token."),
        (
            {"word_ids": [0, 2, 3]},
            "field 'word_ids': word_ids go from 0 to 2 at token 1. They start at 0 and grow by at most 1 from token to"
            " token.",
        ),
        (
            {"word_ids": [0, 1, 0]},
            "field 'word_ids': word_ids go from 1 to 0 at token 2. They start at 0 and grow by at most 1 from token to"
            " token.",
        ),
        (
            {"word_ids": [1, 1, 2]},
            "field 'word_ids': word_ids go from -1 to 1 at token 0. They start at 0 and grow by at most 1 from token to"
            " token.",
        ),
        (
            {"word_ids": [-1, 0, 1]},
            "field 'word_ids': word_ids go from -1 to -1 at token 0. They start at 0 and grow by at most 1 from token"
            " to token.",
        ),
        (
            {"sentence_ids": [0, 0]},
            "field 'sentence_ids': 2 sentence_ids for 3 words. Give one for each word.",
        ),
        (
            {"sentence_ids": [0, 1, 3]},
            "field 'sentence_ids': sentence_ids go from 1 to 3 at word 2. They start at 0 and grow by at most 1 from"
            " word to word.",
        ),
        *(
            (
                {"links": [(0, 1), link]},
                f"field 'links': the link {link!r} does not join two words; the text has 3 words. Give [source, "
                "target] pairs of word numbers, which count from 0.",
            )
            for link in ([0, 3], [-1, 0], [0, 1, 2], 7, ["0", "1"])
        ),
        ({"heads": [0, 1]}, "field 'heads': 2 heads for 3 words. Give one for each word."),
        ({"word_ids": [0, 0, 1], "tags": ["X", "Y", "Z"]}, "field 'tags': 3 tags for 2 words. Give one for each word."),
        ({"tags": "XYZ"}, "field 'tags': a string, 'XYZ'. Give a list, one for each word."),
        ({"tokens": "abc"}, "field 'tokens': a string, 'abc'. Give a list, one for each token."),
        ({"heads": ["2", "0", "1"]}, "field 'heads': some are no whole numbers. Convert them with int."),
        ({"heads": [2.0, 0.0, 1.0]}, "field 'heads': some are no whole numbers. Convert them with int."),
        ({"deprels": []}, "field 'deprels': 0 deprels for 3 words. Give one for each word."),
        (
            {"heads": [0, 4, 1]},
            "field 'heads': word 2 ('b') has head 4, the sentence has 3 words. Heads are 1-based word numbers, 0 for a"
            " root.",
        ),
        (
            {"heads": [0, -1, 1]},
            "field 'heads': word 2 ('b') has head -1, the sentence has 3 words. Heads are 1-based word numbers, 0 for a"
            " root.",
        ),
        (
            {"heads": [0, 1, 3]},
            "field 'heads': heads form a cycle through word 3 ('c'). Each word must lead to a root.",
        ),
        (
            {"heads": [3, 3, 2]},  # word 1 leads into the cycle of 2 and 3
            "field 'heads': heads form a cycle through word 2 ('b'). Each word must lead to a root.",
        ),
        (
            {"word_ids": [0, 0, 1], "heads": [2, 1]},
            "field 'heads': heads form a cycle through word 1 ('ab'). Each word must lead to a root.",
        ),
    ],
)
def test_impossible_sentences_are_refused(fields, message):
    with pytest.raises(DataError) as caught:
        Sentence(**{"tokens": ["a", "b", "c"], **fields})
    assert str(caught.value) == message


@given(random=st.randoms(use_true_random=False), num_words=st.integers(0, 12))
def test_trees_pass_whatever_their_order(random_sentence, random, num_words):
    assert random_sentence(random, num_words).num_words == num_words


@given(heads=st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_heads_pass_exactly_when_every_word_leads_to_a_root(heads):
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
    made = [random_sentence(Random(seed), 6) for seed in range(40)]
    assert {sentence.word_ids is None for sentence in made} == {True, False}
    assert {sentence.deprels is None for sentence in made} == {True, False}
    assert len({sentence.heads for sentence in made}) > 30
