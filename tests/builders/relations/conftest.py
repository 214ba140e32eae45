"""Edges of text batches as pairs, and the comparison of a relation with its definition."""

import pytest

from graphattn._edges import Edges
from graphattn.builders import TextGraphBuilder


@pytest.fixture(scope="session")
def pairs():
    """(destination, source) of each edge of a kind, in edge-id order."""
    return pairs_of


def pairs_of(graph, kind):
    """(destination, source) of each edge, in edge-id order."""
    sources, targets = Edges.of(graph, kind).ends_by_id()
    return list(zip(targets.tolist(), sources.tolist(), strict=True))


@pytest.fixture(scope="session")
def follows():
    """Assert that a relation has the edges of its definition.

    The definition takes a sentence and gives canonical edge type -> (destination, source) pairs. The contract of all
    relations tests that a batch equals its single texts.
    """

    def check(relation, sentences, definition, *, cls=True):
        builder = TextGraphBuilder([relation], cls=cls)
        for sentence in sentences:
            graph, expected = builder.text_batch([sentence]), definition(sentence)
            assert {part.canonical for part in relation.parts()} == set(expected)
            for kind, edges in expected.items():
                assert pairs_of(graph, kind) == sorted(edges), (kind, sentence)

    return check
