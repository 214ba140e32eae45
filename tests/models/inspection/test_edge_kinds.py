"""Kinds of edges, pair by pair, from the sentence's words and heads."""

import numpy as np

from graphattn.builders import Sentence
from graphattn.models.inspection.edge_kinds import EdgeKinds

PARSED = Sentence(
    ["un", "known", "dogs", "bark"], word_ids=[0, 0, 1, 2], heads=[2, 3, 0], deprels=["amod", "nsubj", "root"]
)


def kind(sentence, source, target):
    """By hand; tokens count from 0, the first is [CLS]."""
    if source == target:
        return "itself"
    if 0 in (source, target):
        return "[CLS]"
    words = sentence.word_ids or tuple(range(len(sentence)))
    one, other = words[source - 1], words[target - 1]
    if one == other:
        return "same word"
    heads = sentence.heads or (0,) * sentence.num_words
    if heads[one] == other + 1:
        return f"{sentence.deprels[one]}>"
    if heads[other] == one + 1:
        return f"{sentence.deprels[other]}<"
    return "other"


def test_every_pair_of_a_batch():
    sentences = [PARSED, Sentence([]), Sentence(["a", "b"]), PARSED]
    kinds = EdgeKinds(sentences)
    start = 0
    for sentence in sentences:
        count = len(sentence) + 1
        sources, targets = np.divmod(np.arange(count * count), count)
        codes = kinds.codes(sources + start, targets + start)
        expected = [kind(sentence, source, target) for source, target in zip(sources, targets, strict=True)]
        assert [kinds.names[code] for code in codes] == expected
        start += count
