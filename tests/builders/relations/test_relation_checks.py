"""Users' relations are validated before a graph is built."""

import numpy as np
import pytest

from graphattn._edges import Edges
from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import Global, Nearest, Nodes, RangeRelation, Relation, RelationArrays, Window
from graphattn.builders.relations._relation_checks import may_read_ids
from graphattn.exceptions import GraphError

BATCH = [["a", "b"], ["c"]]  # with [CLS] five tokens: 0 1 2 | 3 4
CROSSING = "an edge leads from one sentence to another"


def ranges(give):
    class Mine(RangeRelation):
        name = "mine"

        def bounds(self, layout):
            return give()

    return Mine()


def arcs(give):
    class Mine(Relation):
        name = "mine"

        def edges(self, layout):
            return give()

    return Mine()


def array(*numbers):
    return np.array(numbers, dtype=np.int64)


def to_each(*sources):
    return RelationArrays(array(0, 1, 2, 3, 4, 5), array(*sources))


def triple(indptr, indices, data):
    return arcs(lambda: RelationArrays(array(*indptr), array(*indices), data))


RISING = "indptr must rise from 0 to the number of edges, 3"


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (ranges(lambda: (array(0, 0), array(1, 1))), "first has shape (2,) and type int64; expected (5,) integers"),
        (ranges(lambda: None), "TypeError"),
        (ranges(lambda: ([0] * 5, [1] * 5)), "AttributeError"),
        (ranges(lambda: (np.zeros(5), np.ones(5))), "first has shape (5,) and type float64"),
        (ranges(lambda: (array(0, 0, 0, 4, 3), array(1, 1, 1, 3, 4))), "a range stops before it begins"),
        (ranges(lambda: (np.zeros(5, dtype=int), np.full(5, 5))), CROSSING),
        (arcs(lambda: to_each(4, 1, 2, 3, 3)), CROSSING),
        (arcs(lambda: to_each(3, 1, 2, 3, 3)), CROSSING),
        (arcs(lambda: to_each(0, 1, 2, 2, 3)), CROSSING),
        (arcs(lambda: RelationArrays(array(0, 2, 2, 2, 2, 2), array(1, 0))), "sources of a destination"),
        (arcs(lambda: None), "AttributeError"),
        (
            arcs(lambda: RelationArrays(array(0, 1, 2, 3, 4, 5), array(0, 1, 2, 3, 3)[:, None])),
            "indices has shape (5, 1)",
        ),
        (triple((0, 1, 3), (0, 0, 1), {}), "indptr has shape (3,) and type int64; expected (6,) integers"),
        (triple((0, 1, 2, 2, 2, 5), (0, 0, 1), {}), RISING),
        (triple((1, 1, 2, 2, 2, 3), (0, 0, 1), {}), RISING),
        (triple((0, 2, 1, 2, 2, 3), (0, 0, 1), {}), RISING),
        (triple((0, 1, 2, 2, 2, 3), (0, 0, 5), {}), CROSSING),
        (triple((0, 1, 2, 2, 2, 3), (0, -1, 3), {}), CROSSING),
        (triple((0, 1, 2, 2, 2, 3), (0, 0, 3), {"x": np.ones(2)}), "'x' has shape (2,); expected 3 rows"),
        (triple((0, 1, 2, 2, 2, 3), (0, 0, 3), {"x": [1.0]}), "AttributeError"),
        (arcs(lambda: 1 / 0), "ZeroDivisionError: division by zero"),
        (ranges(lambda: 1 / 0), "ZeroDivisionError: division by zero"),
        (ranges(lambda: (np.zeros(5), np.ones(5))) | Window(1), "relation 'mine|window:1'"),
        (ranges(lambda: (array(0, 0, 0, 4, 3), array(1, 1, 1, 3, 4))) | Window(1), "relation 'mine|window:1'"),
        (arcs(lambda: 1 / 0) | Window(1), "'mine|window:1' fails with ZeroDivisionError: division by zero"),
    ],
)
def test_invalid_edges(relation, message):
    with pytest.raises(GraphError) as caught:
        TextGraphBuilder([relation]).text_batch(BATCH)
    assert str(caught.value).startswith("relation 'mine")
    assert message in str(caught.value)


def test_more_edges_than_int32_can_number():
    indices = np.broadcast_to(np.zeros(1, np.int32), (2**31,))  # takes no memory
    with pytest.raises(GraphError, match="relation 'mine' has 2,147,483,648 edges"):
        TextGraphBuilder([arcs(lambda: RelationArrays(array(0, 0, 0, 0, 0, 2**31), indices))]).text_batch(BATCH)


def test_counts_of_a_users_relation():
    layout = TextGraphBuilder([Window(1)]).layout(BATCH)

    def counting(give):
        relation = arcs(lambda: to_each(0, 0, 2, 3, 3))
        relation.num_edges = lambda layout: give()
        return TextGraphBuilder([relation]).num_edges(layout)

    assert counting(lambda: array(3, 2)).tolist() == counting(lambda: [3, 2]).tolist() == [3, 2]
    for give, message in (
        (lambda: 1 / 0, "fails with ZeroDivisionError: division by zero"),
        (lambda: [3.0, 2.0], "num_edges has shape (2,) and type float64; expected (2,) integers"),
        (lambda: array(5), "num_edges has shape (1,)"),
    ):
        with pytest.raises(GraphError) as caught:
            counting(give)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (lambda: {"hub": Nodes(array(1, 1), {})}, None),
        (lambda: {}, "needs 'hub' nodes, but no relation adds them"),
        (lambda: 1 / 0, "fails with ZeroDivisionError: division by zero"),
        (lambda: {"hub": [1, 1]}, "fails with AttributeError"),
        (lambda: {"hub": Nodes(np.ones(2), {})}, "per_sentence of 'hub' nodes has shape (2,) and type float64"),
        (lambda: {"hub": Nodes(array(2), {})}, "per_sentence of 'hub' nodes has shape (1,)"),
    ],
)
def test_nodes_of_a_users_relation(nodes, message):
    relation = arcs(lambda: RelationArrays(array(0, 3, 5), array(0, 1, 2, 3, 4)))
    relation.target, relation.nodes = "hub", lambda layout: nodes()
    builder = TextGraphBuilder([relation])
    if message is None:
        assert Edges.of(builder.text_batch(BATCH)).num_edges == 5
        return
    with pytest.raises(GraphError) as caught:
        builder.text_batch(BATCH)
    assert message in str(caught.value)


def test_memory_errors_pass():
    def full():
        raise MemoryError

    with pytest.raises(MemoryError):
        TextGraphBuilder([arcs(full)]).text_batch(BATCH)


def test_valid_edges():
    """Empty ranges can start anywhere."""
    empty = ranges(lambda: (array(0, 0, 0, 0, 3), array(3, 0, 3, 0, 5)))
    assert Edges.of(TextGraphBuilder([empty]).text_batch(BATCH)).num_edges == 8
    pair = [array(0, 0, 0, 3, 3).astype(np.uint8), array(3, 3, 3, 5, 5).astype(np.uint8)]
    assert Edges.of(TextGraphBuilder([ranges(lambda: pair) | Window(1)]).text_batch(BATCH)).num_edges == 13
    assert Edges.of(TextGraphBuilder([ranges(lambda: np.stack(pair))]).text_batch(BATCH)).num_edges == 13
    twice = arcs(lambda: RelationArrays(array(0, 2, 2, 2, 2, 2), array(1, 1)))
    assert Edges.of(TextGraphBuilder([twice]).text_batch(BATCH)).num_edges == 2
    assert Edges.of(TextGraphBuilder([arcs(lambda: to_each(0, 0, 2, 3, 3))]).text_batch(BATCH)).num_edges == 5


def test_third_party_relations_and_those_with_vectors_may_read_ids():
    mine = arcs(None)
    assert all(map(may_read_ids, [Nearest(1), (Window(3) | Nearest(1)).reverse(), mine, Window(3) | mine]))
    assert not any(map(may_read_ids, [Window(3) | Global(1), Nearest(1, "place")]))
