"""The comparison that every relation must pass: its arrays for a batch against a loop over sentences and nodes."""

import numpy as np
import pytest

from graphattn.builders.layout import Layout

BATCH_SIZES = (0, 1, 4, 0, 9)


@pytest.fixture(scope="session")
def agrees(edge_table):
    """Assert that a relation's edges in a batch are those of the table, destination by destination."""

    def check(relation, sentences, cls):
        layout = Layout.of(sentences, with_cls=cls, deprel_id=getattr(relation, "deprel_id", None))
        starts = {"token": layout.token_starts, "word": layout.word_starts}
        totals = {"token": layout.num_tokens, "word": int(layout.word_counts.sum())}
        expected, per_sentence = [], []
        for number, sentence in enumerate(sentences):
            rows = edge_table(relation.canonical, sentence, cls)
            shift_target, shift_source = starts[relation.target][number], starts[relation.source][number]
            expected += [(target + shift_target, source + shift_source, *arc) for target, source, *arc in rows]
            per_sentence.append(len(rows))
        arrays = relation.edges(layout)
        assert arrays.indptr.shape == (totals[relation.target] + 1,)
        assert arrays.indptr[0] == 0
        destinations = np.repeat(np.arange(totals[relation.target]), np.diff(arrays.indptr))
        assert list(zip(destinations.tolist(), arrays.indices.tolist(), strict=True)) == [row[:2] for row in expected]
        assert arrays.per_sentence.tolist() == per_sentence
        assert relation.num_edges(layout).tolist() == per_sentence
        return expected, arrays

    return check


@pytest.fixture(scope="session")
def sentences_of_many_lengths(random_sentence):
    """One batch with empty, short and longer sentences, made from a `Random`."""
    return lambda random: [random_sentence(random, size) for size in BATCH_SIZES]
