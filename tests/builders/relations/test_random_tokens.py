"""Random edges: as many as asked for, the same in every batch, all tokens equally likely."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Random, Sentence, TextGraphBuilder
from graphattn.exceptions import ConfigError


def sources_of(relation, lengths, cls=False):
    """For each sentence, for each token its sources, counted in the sentence."""
    layout = TextGraphBuilder([relation], cls=cls).layout([Sentence(["x"] * length) for length in lengths])
    arrays = relation.edges(layout)
    rows = np.split(arrays.indices, arrays.indptr[1:-1])[: layout.num_tokens]
    sentences = [[] for _ in lengths]
    for token, row in enumerate(rows):
        sentence = layout.sentence_of_token[token]
        sentences[sentence].append((row - layout.token_starts[sentence]).tolist())
    return sentences


@settings(max_examples=60)
@given(
    count=st.integers(1, 6),
    seed=st.integers(0, 2**63),
    lengths=st.lists(st.integers(0, 12), max_size=5),
    cls=st.booleans(),
)
def test_every_token_sees_so_many_different_tokens_of_its_text(count, seed, lengths, cls):
    for length, rows in zip(lengths, sources_of(Random(count, seed), lengths, cls), strict=True):
        length += cls
        assert len(rows) == length
        for row in rows:
            assert row == sorted(set(row))
            assert len(row) == min(count, length)
            assert all(0 <= source < length for source in row)


@settings(max_examples=30)
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, 12), max_size=5))
def test_the_rest_of_the_batch_changes_nothing(follows, seed, lengths):
    relation = Random(3, seed)
    alone = {length: sources_of(relation, [length])[0] for length in {*lengths, *(n + 1 for n in lengths)}}

    def definition(length):
        pairs = [(target, source) for target, row in enumerate(alone[length]) for source in row]
        return {relation.canonical: pairs}

    follows(relation, [Sentence(["x"] * length) for length in lengths], definition)


def test_another_seed_and_another_length_give_other_edges():
    assert sources_of(Random(3, 1), [40]) != sources_of(Random(3, 2), [40])
    assert sources_of(Random(3), [41])[0][:40] != sources_of(Random(3), [40])[0]
    assert len({tuple(row) for row in sources_of(Random(3), [40])[0]}) > 35


def test_all_sets_of_sources_are_equally_likely():
    seen = Counter(tuple(row) for seed in range(600) for row in sources_of(Random(2, seed), [6])[0])
    assert set(seen) == set(combinations(range(6), 2))
    expected = 600 * 6 / 15
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi_square < 36.1  # 14 degrees of freedom, one in a thousand


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "random:0 has no edges; give at least 1"), ((3, -1), "seed is -1; it must be at least 0")],
)
def test_what_cannot_be(arguments, message):
    with pytest.raises(ConfigError) as caught:
        Random(*arguments)
    assert str(caught.value) == message


def test_name():
    assert (Random(3).name, Random(3, 7).name) == ("random:3", "random:3:7")
    assert (repr(Random(3)), repr(Random(3, seed=7))) == ("Random(3)", "Random(3, seed=7)")
