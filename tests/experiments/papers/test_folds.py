"""Folds in which copies stay together, against a search over all pairs."""

import re

from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example
from graphattn.experiments.papers.folds import FOLDS, copies, held_out_fold


def share_words(one, other):
    one, other = (re.findall("[a-z0-9]+", text.lower()) for text in (one, other))
    runs = [{tuple(words[i : i + 8]) for i in range(len(words) - 7)} for words in (one, other)]
    return bool(runs[0] & runs[1]) or (one == other and len(one) < 8)


texts = st.lists(st.text("aB ,", max_size=30), min_size=1, max_size=12)


@given(texts)
def test_copies_are_the_connected_texts(texts):
    expected = list(range(len(texts)))
    for _ in texts:  # the smallest number spreads along every pair
        for i, one in enumerate(texts):
            linked = [expected[j] for j, other in enumerate(texts) if share_words(one, other)]
            expected[i] = min([expected[i], *linked])
    assert copies(texts).tolist() == expected


def test_each_text_is_held_out_once_and_with_its_copies():
    examples = [Example(f"text {number % 30}", label=str(number % 2)) for number in range(50)]
    held_anywhere = []
    for number in range(FOLDS):
        rest, held = held_out_fold(examples, number)
        assert sorted([*rest, *held], key=examples.index) == sorted(examples, key=examples.index)
        assert not {example.text for example in rest} & {example.text for example in held}
        held_anywhere += held
    assert len(held_anywhere) == len(examples)
