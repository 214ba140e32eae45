"""The comparison that every relation must pass: its arrays for a batch against a loop over sentences and nodes."""

import numpy as np
import pytest

from graphattn._edges import Edges
from graphattn.builders import TextGraphBuilder
from graphattn.builders._layout import Layout

BATCH_SIZES = (0, 1, 4, 0, 9)


@pytest.fixture(scope="session")
def assert_agrees(edge_table):
    """Assert that a relation's edges in a batch equal the table, in order of destinations."""

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
    """One batch with empty, short and longer sentences, drawn from a `Random`."""
    return lambda random: [random_sentence(random, size) for size in BATCH_SIZES]


@pytest.fixture(scope="session")
def follows(batch_equals_singles):
    """Assert that a relation, alone and in a batch, has the edges of its definition.

    The definition takes a sentence's number of tokens, ``[CLS]`` counted, and gives canonical edge type ->
    (destination, source) pairs. A batch must equal its single texts, edge for edge.
    """

    def check(relation, sentences, definition, *, cls=True):
        builder = TextGraphBuilder([relation], cls=cls)
        layout = builder.layout(sentences)
        singles = batch_equals_singles(builder, sentences)
        for sentence, single in zip(sentences, singles, strict=True):
            expected = definition(len(sentence) + cls)
            assert {part.canonical for part in relation.parts()} == set(expected)
            for kind, pairs in expected.items():
                assert pairs_of(single, kind) == sorted(pairs), (kind, len(sentence) + cls)
        batch = builder.text_batch(sentences)
        for part in relation.parts():
            per_sentence = batch.batch_num_edges(part.canonical).tolist()
            assert part.num_edges(layout).tolist() == part.edges(layout).per_sentence.tolist() == per_sentence
        assert relation.num_edges(layout).sum() == sum(edges.num_edges for edges in batch.edges.values())
        return batch

    return check


@pytest.fixture(scope="session")
def batch_equals_singles():
    """Assert that a builder's batch equals its single texts, one after another, edge for edge; return these."""

    def check(builder, sentences):
        singles = [builder.text_batch([sentence]) for sentence in sentences]
        assert_concatenates(builder.text_batch(sentences), singles)
        return singles

    return check


@pytest.fixture(scope="session")
def concatenates():
    """Assert that a batch has the nodes, edges and features of single texts, one after another."""
    return assert_concatenates


@pytest.fixture(scope="session")
def pairs():
    """(destination, source) of each edge of a kind, in edge-id order."""
    return pairs_of


def pairs_of(graph, kind):
    """(destination, source) of each edge, in edge-id order."""
    sources, targets = Edges.of(graph, kind).ends_by_id()
    return list(zip(targets.tolist(), sources.tolist(), strict=True))


def assert_concatenates(batch, singles):
    shifts = dict.fromkeys(batch.node_counts, 0)
    pairs = {kind: [] for kind in batch.edges}
    for single in singles:
        for kind in single.edges:
            pairs[kind] += [
                (target + shifts[kind[2]], source + shifts[kind[0]]) for target, source in pairs_of(single, kind)
            ]
        shifts = {kind: shift + single.num_nodes(kind) for kind, shift in shifts.items()}
    assert {kind: batch.batch_num_nodes(kind).tolist() for kind in shifts} == {
        kind: [single.num_nodes(kind) for single in singles] for kind in shifts
    }
    for kind, features in batch.node_features.items():
        for name, values in features.items():
            assert values.tolist() == [row for single in singles for row in single.node_features[kind][name].tolist()]
    for kind in batch.edges:
        assert pairs_of(batch, kind) == pairs[kind]
        assert batch.batch_num_edges(kind).tolist() == [single.edges[kind].num_edges for single in singles]
        for name, values in batch.edge_features[kind].items():
            assert values.tolist() == [row for single in singles for row in single.edge_features[kind][name].tolist()]
