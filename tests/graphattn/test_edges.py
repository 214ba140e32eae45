"""Edges: read from DGL graphs, made from ranges, identities and blocks, validation."""

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn import Edges, attend
from graphattn.exceptions import GraphError

matrices = st.integers(0, 6).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from([0, 0, 1, 1, 2]), min_size=n, max_size=n), min_size=n, max_size=n)
)
block_sizes = st.lists(st.integers(1, 4), max_size=4)


def edges_from(matrix, dtype=torch.int32):
    """Edges of a matrix of counts, destinations by sources, sources ascending."""
    counts = np.array(matrix, dtype=np.int64).reshape(len(matrix), len(matrix))
    targets, sources = (np.repeat(ends, counts[counts > 0]) for ends in counts.nonzero())
    indptr = np.searchsorted(targets, np.arange(len(counts) + 1))
    return Edges(torch.tensor(indptr, dtype=dtype), torch.tensor(sources, dtype=dtype), counts.shape[1])


def blocks_of(matrix):
    """Sizes when the matrix is all ones in squares along its diagonal and zero elsewhere; None otherwise."""
    matrix = np.array(matrix).reshape(len(matrix), len(matrix))
    starts = [i for i in range(len(matrix)) if i == 0 or not matrix[i, i - 1]]
    sizes = np.diff([*starts, len(matrix)]).tolist()
    squares = np.zeros_like(matrix)
    for start, size in zip(starts, sizes, strict=True):
        squares[start : start + size, start : start + size] = 1
    return sizes if (matrix == squares).all() else None


@given(matrix=matrices, dtype=st.sampled_from([torch.int32, torch.int64]))
def test_is_identity_and_blocks(matrix, dtype):
    edges = edges_from(matrix, dtype)
    assert edges.is_identity == (np.array(matrix).reshape(len(matrix), len(matrix)) == np.eye(len(matrix))).all()
    assert (None if edges.blocks is None else edges.blocks.tolist()) == blocks_of(matrix)


@given(sizes=block_sizes, data=st.data())
def test_blocks_with_one_edge_changed(sizes, data):
    total = sum(sizes)
    matrix = np.zeros((total, total), dtype=np.int64)
    start = 0
    for size in sizes:
        matrix[start : start + size, start : start + size] = 1
        start += size
    assert edges_from(matrix).blocks.tolist() == sizes
    if total:
        row, column = data.draw(st.integers(0, total - 1)), data.draw(st.integers(0, total - 1))
        matrix[row, column] += data.draw(st.sampled_from([-1, 1])) if matrix[row, column] else 1
        blocks = edges_from(matrix).blocks
        assert (None if blocks is None else blocks.tolist()) == blocks_of(matrix)


def test_complete_graphs_in_another_order_are_not_blocks():
    indptr = torch.tensor([0, 2, 4])
    assert Edges(indptr, torch.tensor([0, 1, 0, 1]), 2).blocks.tolist() == [2]
    assert Edges(indptr, torch.tensor([1, 0, 0, 1]), 2).blocks is None
    assert Edges(indptr, torch.tensor([0, 1, 0, 1]), 2, torch.tensor([3, 1, 2, 0])).blocks is None
    assert Edges(indptr, torch.tensor([0, 1, 0, 1]), 3).blocks is None


def test_bipartite_relations_are_neither_identity_nor_blocks():
    edges = Edges(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), num_sources=3)
    assert not edges.is_identity
    assert edges.blocks is None


@given(
    ends=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20),
    idtype=st.sampled_from([torch.int32, torch.int64]),
)
def test_edges_of_pairs(ends, idtype):
    sources, targets = (torch.tensor([pair[end] for pair in ends], dtype=idtype) for end in (0, 1))
    edges = Edges.of_pairs(sources, targets, 6, 4)
    assert (edges.num_sources, edges.num_destinations, edges.indptr.dtype) == (6, 4, idtype)
    by_destination = sorted(range(len(ends)), key=lambda edge: ends[edge][1])
    assert edges.sources.tolist() == [ends[edge][0] for edge in by_destination]
    assert edges.destinations.tolist() == [ends[edge][1] for edge in by_destination]
    assert (edges.edge_ids is None) == (by_destination == list(range(len(ends))))
    assert [ids.tolist() for ids in edges.ends_by_id()] == [sources.tolist(), targets.tolist()]


@given(
    num_nodes=st.integers(1, 6),
    ends=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20),
    idtype=st.sampled_from([torch.int32, torch.int64]),
)
def test_edges_of_a_coo_graph(dgl, num_nodes, ends, idtype):
    ends = [(source % num_nodes, target % num_nodes) for source, target in ends]
    graph = dgl.graph(([s for s, _ in ends], [t for _, t in ends]), num_nodes=num_nodes, idtype=idtype)
    edges = Edges.of(graph)
    assert (edges.num_edges, edges.num_destinations, edges.num_sources) == (len(ends), num_nodes, num_nodes)
    ids = range(len(ends)) if edges.edge_ids is None else edges.edge_ids.tolist()
    in_slots = list(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    assert in_slots == [ends[edge] for edge in ids]
    assert edges.destinations.tolist() == sorted(target for _, target in ends)
    assert {edges.sources.dtype, edges.destinations.dtype} == {torch.int64}
    assert edges.indptr.dtype == idtype
    assert (edges.edge_ids is None) == (list(ids) == list(range(len(ends))))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_edges_of_a_graph_restricted_to_one_format(dgl, layout):
    graph = dgl.graph(([2, 0, 1], [0, 1, 1]), num_nodes=3).formats(layout)
    edges = Edges.of(graph)
    assert edges.indptr.tolist() == [0, 1, 3, 3]
    assert edges.indices.tolist() == [2, 0, 1]
    assert graph.formats()["created"] == [layout], "the user's graph does not change"


def test_edges_of_one_of_several_relations(dgl):
    ends = {("token", "in", "word"): ([0, 1, 2], [0, 0, 1]), ("word", "of", "token"): ([1], [2])}
    graph = dgl.heterograph(ends, num_nodes_dict={"token": 4, "word": 2})
    membership = Edges.of(graph, "in")
    assert (membership.num_sources, membership.num_destinations, membership.num_edges) == (4, 2, 3)
    assert Edges.of(graph, ("word", "of", "token")).num_destinations == 4
    with pytest.raises(GraphError, match="the graph has no relation 'group'; it has: in, of"):
        Edges.of(graph, "group")


def test_edges_of_a_graph_are_cached_until_it_changes(dgl):
    graph = dgl.graph(([2, 0, 1], [0, 1, 1]), num_nodes=3)
    edges = Edges.of(graph)
    assert Edges.of(graph) is edges
    with graph.local_scope():
        graph.ndata["x"] = torch.zeros(3)
        assert Edges.of(graph) is edges
    for change, arguments, sources in (
        ("add_edges", ([2], [1]), [2, 0, 1, 2]),
        ("remove_edges", ([0],), [0, 1, 2]),
        ("add_nodes", (1,), [0, 1, 2]),
        ("remove_nodes", ([2],), [0, 1]),
    ):
        getattr(graph, change)(*arguments)
        assert Edges.of(graph).sources.tolist() == sources
        assert Edges.of(graph).num_destinations == graph.num_nodes()
    reference = weakref.ref(Edges.of(graph))
    del graph, edges
    gc.collect()
    assert reference() is None


def test_training_after_inference_mode(dgl):
    graph = dgl.graph(([2, 0, 1], [0, 1, 1]), num_nodes=3)
    values = torch.ones(3, 1, 2)
    with torch.inference_mode():
        attend(graph, values, values, values)
    attend(graph, values, values, values.requires_grad_(), backend="torch").sum().backward()
    assert values.grad is not None


def test_moving_to_a_device():
    edges = Edges(torch.tensor([0, 1]), torch.tensor([0]), 1, torch.tensor([0]))
    assert edges.to("cpu") is edges.to("cpu:0") is edges
    moved = edges.to("meta")
    assert moved is edges.to("meta") is edges.to(torch.device("meta", 0))
    assert {moved.indptr.device.type, moved.indices.device.type, moved.edge_ids.device.type} == {"meta"}
    assert (moved.num_sources, moved.num_edges, moved.num_destinations) == (1, 1, 1)
    assert Edges(torch.tensor([0, 1]), torch.tensor([0]), 1).to("meta").edge_ids is None


SOURCES, DESTINATIONS = "indices must be from 0 to 2, the source nodes", "destinations must be from 0 to 1"
RANGES = "ranges must begin before they end and stay within the 3 sources"
PERMUTATION = "edge_ids must be a permutation of the numbers from 0 to 1"
SHORT = torch.tensor([0, 1], dtype=torch.int16)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Edges, ([0, 1], [10**9], 3), SOURCES),
        (Edges, ([0, 1], [-1], 3), SOURCES),
        (Edges, ([0, 2], [1], 3), "indptr must rise from 0 to the number of edges, 1"),
        (Edges, ([1, 1], [1], 3), "indptr must rise from 0 to the number of edges, 1"),
        (Edges, ([0, 2, 1, 3], [0, 1, 2], 3), "indptr must rise from 0 to the number of edges, 3"),
        (Edges, ([], [], 3), "indptr and indices have shapes (0,) and (0,); expected (destinations + 1,) and (edges,)"),
        (
            Edges,
            ([0, 1], [[1]], 3),
            "indptr and indices have shapes (2,) and (1, 1); expected (destinations + 1,) and (edges,)",
        ),
        (
            Edges,
            ([0, 1], SHORT[:1].int(), 1),
            "indptr is torch.int64 and indices torch.int32; both must be int32, or both int64",
        ),
        (
            Edges,
            (SHORT, SHORT[:1], 1),
            "indptr is torch.int16 and indices torch.int16; both must be int32, or both int64",
        ),
        (Edges, ([0, 2], [0, 1], 2, [0, 0]), PERMUTATION),
        (Edges, ([0, 2], [0, 1], 2, [0, 2]), PERMUTATION),
        (Edges, ([0, 2], [0, 1], 2, [0]), PERMUTATION),
        (Edges.of_pairs, ([0, 3], [0, 0], 3, 2), SOURCES),
        (Edges.of_pairs, ([0, -1], [0, 0], 3, 2), SOURCES),
        (Edges.of_pairs, ([0, 0], [0, 2], 3, 2), DESTINATIONS),
        (Edges.of_pairs, ([0, 0], [0, -1], 3, 2), DESTINATIONS),
        (Edges.of_ranges, ([2], [1], 3), RANGES),
        (Edges.of_ranges, ([-1], [1], 3), RANGES),
        (Edges.of_ranges, ([0], [4], 3), RANGES),
        (Edges.of_ranges, ([0, 1], [2], 3), RANGES),
    ],
)
def test_invalid_arrays(make, arguments, message):
    arrays = [torch.tensor(each, dtype=torch.int64) if isinstance(each, list) else each for each in arguments]
    with pytest.raises(GraphError) as caught:
        make(*arrays)
    assert str(caught.value) == message


def tensors(**changed):
    made = {"query": torch.zeros(2, 3, 4), "key": torch.zeros(5, 3, 4), "value": torch.zeros(5, 3, 6), "bias": None}
    return {**made, **changed}


SHAPES, AGREE = "query, key and value have shapes", "heads and query/key features must agree"
ONE_TYPE = "query, key, value and bias must be of one floating-point type"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"query": torch.zeros(5, 3, 4)}, "query has shape (5, 3, 4); expected (2, heads, features)"),
        ({"key": torch.zeros(2, 3, 4)}, "key has shape (2, 3, 4); expected (5, heads, features)"),
        ({"value": torch.zeros(5, 18)}, "value has shape (5, 18); expected (5, heads, features)"),
        ({"query": torch.zeros(2, 0, 4)}, "query has shape (2, 0, 4); expected (2, heads, features)"),
        ({"value": torch.zeros(5, 3, 0)}, "value has shape (5, 3, 0); expected (5, heads, features)"),
        ({"query": torch.zeros(2, 3, 5)}, f"{SHAPES} (2, 3, 5), (5, 3, 4), (5, 3, 6); {AGREE}"),
        ({"value": torch.zeros(5, 1, 6)}, f"{SHAPES} (2, 3, 4), (5, 3, 4), (5, 1, 6); {AGREE}"),
        ({"bias": torch.zeros(3)}, "bias has shape (3,); expected (3, 3)"),
        ({"bias": torch.zeros(3, 1)}, "bias has shape (3, 1); expected (3, 3)"),
        ({"key": torch.zeros(5, 3, 4).double()}, f"key is torch.float64; {ONE_TYPE}"),
        ({"bias": torch.zeros(3, 3).half()}, f"bias is torch.float16; {ONE_TYPE}"),
        (
            {name: tensor.long() for name, tensor in tensors().items() if tensor is not None},
            f"query is torch.int64; {ONE_TYPE}",
        ),
        ({"value": torch.zeros(5, 3, 6, device="meta")}, "value is on meta and the edges on cpu; use edges.to(...)"),
    ],
)
def test_tensors_that_do_not_fit(changed, message):
    edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([4, 0, 1]), num_sources=5)
    edges.check(**tensors())
    edges.check(**tensors(bias=torch.zeros(3, 3)))
    with pytest.raises(GraphError) as caught:
        edges.check(**tensors(**changed))
    assert str(caught.value) == message


def test_indices_of_ranges():
    edges = Edges.of_ranges(torch.tensor([0, 1, 1, 2]), torch.tensor([2, 1, 3, 3]), 3)
    assert edges.num_edges == 5
    assert edges.indptr.tolist() == [0, 2, 2, 4, 5]
    assert edges.indices.tolist() == edges.sources.tolist() == [0, 1, 1, 2, 2]
    assert edges.destinations.tolist() == [0, 0, 2, 2, 3]
    assert edges.indices.dtype == torch.int64


def test_is_identity_and_blocks_of_ranges():
    here = torch.arange(4, dtype=torch.int32)
    assert Edges.of_ranges(here, here + 1, 4).is_identity
    assert not Edges.of_ranges(here, here + 1, 5).is_identity
    assert not Edges.of_ranges(torch.tensor([0, 1]), torch.tensor([2, 1]), 2).is_identity
    complete = Edges.of_ranges(torch.tensor([0, 0, 2, 2]), torch.tensor([2, 2, 4, 4]), 4)
    assert complete.blocks.tolist() == [2, 2]
    assert Edges.of_ranges(torch.tensor([0, 0, 2, 2]), torch.tensor([2, 3, 4, 4]), 4).blocks is None


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_reverse(kind):
    edges = Edges(torch.tensor([0, 2, 2, 5], dtype=kind), torch.tensor([3, 0, 1, 3, 0], dtype=kind), 4)
    reverse, slots = edges.reverse
    assert (reverse.num_sources, reverse.num_destinations, reverse.num_edges) == (3, 4, 5)
    assert reverse.indptr.dtype == reverse.indices.dtype == kind
    led = list(zip(reverse.destinations.tolist(), reverse.sources.tolist(), strict=True))
    assert led == [(0, 0), (0, 2), (1, 2), (3, 0), (3, 2)]
    there = list(zip(edges.sources[slots].tolist(), edges.destinations[slots].tolist(), strict=True))
    assert there == led
    assert (
        Edges(torch.tensor([0, 0], dtype=kind), torch.tensor([], dtype=kind), 2).reverse[0].indptr.tolist() == [0] * 3
    )


def test_by_id():
    edges = Edges(torch.tensor([0, 3]), torch.tensor([0, 1, 2]), 3, torch.tensor([2, 0, 1]))
    assert edges.by_id(torch.tensor([20, 0, 10])).tolist() == [0, 10, 20]
    narrow = Edges(
        *(torch.tensor(numbers, dtype=torch.int32) for numbers in ([0, 3], [0, 1, 2])), 3, edges.edge_ids.int()
    )
    assert narrow.by_id(torch.tensor([20, 0, 10])).tolist() == [0, 10, 20]
    slots = torch.tensor([1, 2])
    assert Edges(torch.tensor([0, 2]), torch.tensor([0, 1]), 2).by_id(slots) is slots


def test_edge_ids_from_inference_mode():
    with torch.inference_mode():
        edges = Edges(torch.tensor([0, 2]), torch.tensor([0, 1]), 2, torch.tensor([1, 0]))
    assert not edges.edge_ids.is_inference()


@pytest.mark.parametrize("make", [lambda edges: edges, lambda edges: Edges.of_ranges(*edges.ranges, 4)])
def test_cached_tensors_from_inference_mode(make):
    low = torch.tensor([0, 0, 1, 2])
    edges = make(Edges.of_ranges(low, low + 2, 4))
    with torch.inference_mode():
        actual = (edges.indices, edges.sources, edges.destinations, edges.reverse[0].indices, edges.reverse[1])
        edges.blocks  # noqa: B018
    assert not any(tensor.is_inference() for tensor in actual)


def test_ranges_keep_their_integer_type():
    low = torch.tensor([0, 0, 1], dtype=torch.int32)
    edges = Edges.of_ranges(low, low + 2, 3)
    assert {edges.indptr.dtype, edges.indices.dtype, edges.reverse[0].indptr.dtype} == {torch.int32}


def test_edges_on_the_meta_device_are_not_checked():
    edges = Edges(*(torch.zeros(count, dtype=torch.int64, device="meta") for count in (3, 5)), 4)
    assert (edges.num_edges, edges.num_destinations, edges.num_sources) == (5, 2, 4)


def test_other_objects_are_no_graphs():
    states = torch.zeros(1, 1, 2)
    with pytest.raises(GraphError) as caught:
        attend("x", states, states, states)
    assert str(caught.value).startswith(
        "graph is a str; give a TextBatch, a graph of DGL or PyTorch Geometric, Edges, "
    )
