"""Edges between several types of nodes as one relation, against lists of edges."""

import pytest
import torch

from graphattn import attend
from graphattn._edges import Edges
from graphattn._homogeneous import JointNodes
from graphattn.builders import BinaryPartition, DocumentTree, Star, TextGraphBuilder, Window
from graphattn.builders._batch import TextBatch

TEXTS = [list("abc.de"), [], ["a"], list("some.words")]


def joint_pairs(graph, kinds, relations):
    """(destination, source) of each edge of each relation, in the order of ids, counted over all nodes."""
    first, total = {}, 0
    for kind in kinds:
        first[kind], total = total, total + graph.num_nodes(kind)
    pairs = []
    for source, name, target in relations:
        sources, targets = Edges.of(graph, (source, name, target)).ends_by_id()
        pairs += [
            (first[target] + i, first[source] + j) for i, j in zip(targets.tolist(), sources.tolist(), strict=True)
        ]
    return pairs


@pytest.mark.parametrize("relation", [Star(), BinaryPartition(2), DocumentTree(), Window(3)])
@pytest.mark.parametrize("backwards", [False, True])
def test_joint_edges_contain_all_relations(relation, backwards):
    graph = TextGraphBuilder([relation]).text_batch(TEXTS)
    parts = [part.canonical for part in relation.parts()]
    kinds = sorted(graph.node_counts, reverse=backwards)
    nodes = JointNodes(graph, kinds)
    joint = nodes.edges(parts)
    pairs = joint_pairs(graph, kinds, parts)
    assert joint.num_destinations == joint.num_sources == nodes.num_nodes == sum(map(graph.num_nodes, kinds))
    slots = list(zip(joint.destinations.tolist(), joint.sources.tolist(), strict=True))
    assert slots == sorted(pairs)
    ids = torch.arange(len(slots)) if joint.edge_ids is None else joint.edge_ids
    assert [pairs[index] for index in ids.tolist()] == slots


def test_edge_ids_of_a_graph_in_another_order():
    from_b = Edges.of_pairs(torch.tensor([2, 0, 1]), torch.tensor([1, 1, 0]), 3, 2)
    from_a = Edges.of_pairs(torch.tensor([1, 0]), torch.tensor([1, 0]), 2, 2)
    edges = {("b", "r", "a"): from_b, ("a", "r", "a"): from_a}
    graph = TextBatch({"a": torch.tensor([2]), "b": torch.tensor([3])}, edges)
    joint = JointNodes(graph, ["a", "b"]).edges(list(edges))
    slots = list(zip(joint.destinations.tolist(), joint.sources.tolist(), strict=True))
    assert slots == [(0, 0), (0, 3), (1, 1), (1, 4), (1, 2)]  # by edge id within each relation
    assert joint.edge_ids.tolist() == [4, 2, 3, 0, 1]


def test_weights_by_edge_id_follow_the_relations():
    graph = TextGraphBuilder([Star()]).text_batch(TEXTS)
    nodes = JointNodes(graph, ["token", "relay"])
    parts = [part.canonical for part in Star().parts()]
    joint = nodes.edges(parts)
    query, key, value = torch.randn(3, nodes.num_nodes, 2, 5, dtype=torch.float64).unbind()
    out, weights = attend(joint, query, key, value, return_weights=True)
    summed = torch.zeros_like(out)
    counts = [Edges.of(graph, part).num_edges for part in parts]
    for part, own in zip(parts, weights.split(counts), strict=True):
        sources, targets = (ends.long() for ends in Edges.of(graph, part).ends_by_id())
        first_source, first_target = nodes.offsets[part[0]], nodes.offsets[part[2]]
        summed.index_add_(0, first_target + targets, own.unsqueeze(-1) * value[first_source + sources])
    torch.testing.assert_close(summed, out)


def test_average_sources():
    graph = TextGraphBuilder([Star()], cls=False).text_batch([["a", "b"], [], ["c"]])
    averages = JointNodes(graph, ["token", "relay"]).average_sources(
        ("token", "star", "relay"), torch.tensor([[1.0, 0.0], [3.0, 1.0], [7.0, 7.0]])
    )
    assert averages.tolist() == [[2.0, 0.5], [0.0, 0.0], [7.0, 7.0]]
