"""Kinds of edges of all pairs, from the sentence's words and heads."""

import numpy as np
import pytest

from graphattn.builders import Sentence
from graphattn.models.inspection._edge_kinds import EdgeKinds

PARSED = Sentence(
    ["un", "known", "dogs", "bark"], word_ids=[0, 0, 1, 2], heads=[2, 3, 0], deprels=["amod", "nsubj", "root"]
)


def kind(sentence, one, other):
    """The kind of two words, by its definition; word 0 is [CLS]."""
    if 0 in (one, other):
        return "[CLS]"
    if one == other:
        return "same word"
    heads = sentence.heads or (0,) * sentence.num_words
    if heads[one - 1] == other:
        return f"{sentence.deprels[one - 1]}>"
    if heads[other - 1] == one:
        return f"{sentence.deprels[other - 1]}<"
    return "other"


def word_of_token(sentence):
    return [0, *(word + 1 for word in sentence.word_ids or range(len(sentence)))]


@pytest.mark.parametrize("ends", ["token", "word"])
def test_kinds_of_all_pairs_of_a_batch(ends):
    sentences = [PARSED, Sentence([]), Sentence(["a", "b"]), PARSED]
    kinds = EdgeKinds(sentences)
    start = 0
    for sentence in sentences:
        words = word_of_token(sentence) if ends == "token" else list(range(sentence.num_words + 1))
        sources, targets = np.divmod(np.arange(len(words) ** 2), len(words))
        codes = kinds.codes(sources + start, targets + start, ends)
        expected = [
            "itself" if source == target else kind(sentence, words[source], words[target])
            for source, target in zip(sources, targets, strict=True)
        ]
        assert [kinds.names[code] for code in codes] == expected
        start += len(words)


def test_parts_of_a_word_and_its_head():
    kinds = EdgeKinds([PARSED])
    sources, targets = np.array([1, 2, 4, 2]), np.array([2, 3, 3, 4])
    names = ["same word", "amod>", "nsubj<", "other"]
    assert [kinds.names[code] for code in kinds.codes(sources, targets)] == names
    assert [kinds.names[code] for code in kinds.codes(sources[1:] - 1, targets[1:] - 1, "word")] == names[1:]
