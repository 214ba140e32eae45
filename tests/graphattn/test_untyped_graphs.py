"""Edges, edge_index and sparse matrices in operators, layers and encoders, against dense attention and each other."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from graphattn import Edges, MultiScaleAttention, TensorizedAttention, attend, tensorized_attend
from graphattn.exceptions import GraphError
from graphattn.layers import GraphAttention, GraphConvolution, NeighbourMean, edges_of
from graphattn.layers._rectified import RectifiedAttention
from graphattn.models import BiLSTMOptions, MSTransOptions, TransformerOptions, make_encoder

pyg = pytest.importorskip("torch_geometric")

SOURCES, DESTINATIONS, NODES = torch.tensor([4, 0, 1, 2, 3, 0, 0]), torch.tensor([0, 1, 2, 3, 4, 2, 0]), 5
EDGE_INDEX = torch.stack([SOURCES, DESTINATIONS])
MATRIX = scipy.sparse.coo_array((np.ones(7), (DESTINATIONS.numpy(), SOURCES.numpy())), (NODES, NODES))


class SparseTensor:
    """What torch_sparse's matrix has of its interface."""

    def sparse_sizes(self):
        return NODES, NODES

    def coo(self):
        return DESTINATIONS, SOURCES, None


def to_coo():
    return torch.sparse_coo_tensor(EDGE_INDEX.flip(0), torch.ones(7), (NODES, NODES), check_invariants=True)


def to_data(name, value):
    graph = pyg.data.Data(num_nodes=NODES)
    graph[name] = value
    return graph


def to_dgl():
    return pytest.importorskip("dgl").graph((SOURCES, DESTINATIONS), num_nodes=NODES)


GRAPHS = {
    "edges": lambda: Edges.of_pairs(SOURCES, DESTINATIONS, NODES, NODES),
    "edge_index": lambda: EDGE_INDEX,
    "edge_index, int32": EDGE_INDEX.int,
    "EdgeIndex": lambda: pyg.EdgeIndex(EDGE_INDEX),
    "COO": to_coo,
    "COO, coalesced": lambda: to_coo().coalesce(),
    "CSR": lambda: to_coo().to_sparse_csr(),
    "CSC": lambda: to_coo().to_sparse_csc(),
    "CSR that learns": lambda: to_coo().to_sparse_csr().requires_grad_(),
    "SciPy, COO": lambda: MATRIX,
    "SciPy, CSR": MATRIX.tocsr,
    "SciPy, CSC": MATRIX.tocsc,
    "SciPy, LIL": MATRIX.tolil,
    "SciPy, matrix": lambda: scipy.sparse.csr_matrix(MATRIX),
    "SparseTensor": SparseTensor,
    "Data": lambda: to_data("edge_index", EDGE_INDEX),
    "Data, adj_t": lambda: to_data("adj_t", to_coo().to_sparse_csr()),
    "ToSparseTensor": lambda: pyg.transforms.ToSparseTensor()(to_data("edge_index", EDGE_INDEX)),
    "DGL": to_dgl,
}


def make_layers():
    torch.manual_seed(0)
    rows = torch.randn(NODES, 2, 4)
    inputs = rows.flatten(1)
    modules = {
        "one relation": MultiScaleAttention(8, 4, {"window:3": 2}),
        "any relation": MultiScaleAttention(8, 4, 2),
        "tensorized": TensorizedAttention(8, 4, 2),
        "graph attention": GraphAttention(8, 2),
        "convolution": GraphConvolution(8),
        "mean": NeighbourMean(),
        "rectified": RectifiedAttention(8, 2),
        "Transformer": make_encoder(TransformerOptions(hidden=8, heads=2, ffn=8, layers=1)).eval(),
        "BiLSTM": make_encoder(BiLSTMOptions(hidden=8)).eval(),
    }
    calls = {name: lambda graph, layer=layer: layer(graph, inputs) for name, layer in modules.items()}
    pair, encoder = modules["any relation"], modules["Transformer"]
    return calls | {
        "attend": lambda graph: attend(graph, rows, rows + 1, rows),
        "tensorized_attend": lambda graph: tensorized_attend(graph, rows, rows, rows, rows),
        "pair": lambda graph: pair(graph, (inputs, inputs)),
        "means": lambda graph: encoder.means(graph, inputs),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_everything_takes_every_graph(make):
    edges = GRAPHS["edges"]()
    for name, call in make_layers().items():
        assert_close(call(make()), call(edges), msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize("layout", ["edge_index", "COO", "CSR", "CSC", "SciPy, CSR", "SciPy, CSC", "SparseTensor"])
def test_rows_of_a_matrix_are_destinations(layout):
    """Dense attention of query i over the columns of row i; weights and biases are in the order of entries."""
    graph, dense = GRAPHS[layout](), torch.from_numpy(MATRIX.toarray()) > 0
    query, key, value = torch.randn(3, NODES, 1, 4, generator=torch.Generator().manual_seed(0)).unbind()
    scores = (query[:, 0] @ key[:, 0].T / 2).masked_fill(~dense, float("-inf"))
    out, weights = attend(graph, query, key, value, return_weights=True)
    assert_close(out[:, 0], scores.softmax(1) @ value[:, 0])
    order = (SOURCES, DESTINATIONS)
    if "CSR" in layout:
        order = tuple(np.argwhere(dense.numpy()).T[::-1])
    elif "CSC" in layout:
        order = tuple(np.argwhere(dense.T.numpy()).T)
    assert_close(weights[:, 0], scores.softmax(1)[order[1], order[0]])


def test_between_other_nodes():
    sources, destinations = torch.tensor([3, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
    edges, index = Edges.of_pairs(sources, destinations, 4, 3), torch.stack([sources, destinations])
    matrix = torch.sparse_coo_tensor(index.flip(0), torch.ones(4), (3, 4), check_invariants=True)
    layer, inputs = MultiScaleAttention(6, 4, {"a": 1}), torch.randn(7, 6)
    pair = inputs[:4], inputs[4:]
    for graph in (index, matrix):
        assert_close(layer(graph, pair), layer(edges, pair))
    assert Edges.of(index, num_nodes=(4, 3)).num_destinations == 3
    with pytest.raises(GraphError, match="num_nodes"):
        Edges.of(index)
    for graph in (edges, matrix):
        with pytest.raises(GraphError, match="4 nodes to 3"):
            layer(graph, inputs[:4])


def test_an_edge_index_is_read_again_after_a_change():
    index, rows = torch.tensor([[0, 1], [2, 2]]), torch.arange(3.0).view(3, 1, 1)
    zeros = torch.zeros_like(rows)
    assert attend(index, zeros, zeros, rows).flatten().tolist() == [0, 0, 0.5]
    index[0, 0] = 2
    assert attend(index, zeros, zeros, rows).flatten().tolist() == [0, 0, 1.5]


INVALID = {
    "networkx": nx.path_graph(3),
    "networkx, directed": nx.MultiDiGraph(),
    "tensors by name": {"a": EDGE_INDEX},
    "list": [EDGE_INDEX],
    "tuple": (SOURCES, DESTINATIONS),
    "None": None,
    "dense": torch.ones(5, 5),
    "mask": torch.ones(5, 5, dtype=torch.bool),
    "NumPy": EDGE_INDEX.numpy(),
    "transposed": EDGE_INDEX.T,
    "out of range": torch.tensor([[0, 9], [0, 1]]),
    "negative": torch.tensor([[0, 1], [0, -1]]),
    "another shape": scipy.sparse.csr_array((3, 4)),
    "three dimensions": torch.zeros(2, 3, 4).to_sparse(),
}


@pytest.mark.parametrize("graph", INVALID.values(), ids=INVALID)
def test_other_objects_are_one_error(graph):
    for call in make_layers().values():
        with pytest.raises(GraphError):
            call(graph)


def test_several_relations_need_names():
    edges, inputs = GRAPHS["edges"](), torch.zeros(NODES, 8)
    encoder = make_encoder(MSTransOptions(hidden=8, head_feats=4, heads=2, layers=1))
    for graph in (edges, EDGE_INDEX, GRAPHS["Data"]()):
        for layer in (
            MultiScaleAttention(8, 4, {"a": 1, "b": 1}),
            TensorizedAttention(8, 4, {"a": 1, "b": 1}),
            encoder,
        ):
            with pytest.raises(GraphError, match="without a name"):
                layer(graph, inputs)
        with pytest.raises(GraphError, match="without a name"):
            edges_of(graph, ["a", "b"], num_nodes=(NODES, NODES))
    with pytest.raises(GraphError, match="'a' are a Tensor"):
        MultiScaleAttention(8, 4, {"a": 1})({"a": EDGE_INDEX}, inputs)


def make_pyg(*relations):
    graph = pyg.data.HeteroData()
    for node_type in ("user", "film"):
        graph[node_type].num_nodes = 3
    for relation in relations:
        graph[relation].edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return graph


def make_dgl(*relations):
    dgl = pytest.importorskip("dgl")
    ends = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
    return dgl.heterograph(dict.fromkeys(relations, ends), num_nodes_dict={"user": 3, "film": 3})


LIKES, BACK, NEXT = ("user", "likes", "film"), ("film", "back", "user"), ("film", "next", "film")


@pytest.mark.parametrize("make", [make_pyg, make_dgl])
@pytest.mark.parametrize(
    ("relations", "is_pair", "is_valid"),
    [
        ([LIKES, BACK], True, False),
        ([LIKES, BACK], False, False),
        ([LIKES, NEXT], True, False),
        ([LIKES], False, False),
        ([LIKES], True, True),
        ([NEXT], False, True),
    ],
)
def test_node_types_are_those_of_the_inputs(make, relations, is_pair, is_valid):
    """All have three nodes, so that numbers of rows do not tell."""
    graph, rows = make(LIKES, BACK, NEXT), torch.randn(3, 8)
    names = [name for _, name, _ in relations]
    layers = [MultiScaleAttention(8, 4, dict.fromkeys(names, 1))]
    layers += [] if is_pair else [TensorizedAttention(8, 4, dict.fromkeys(names, 1))]
    calls = [lambda layer=layer: layer(graph, (rows, rows) if is_pair else rows) for layer in layers]
    calls += [lambda layer=layer: layer(edges_of(graph, names), (rows, rows) if is_pair else rows) for layer in layers]
    if len(relations) == 1 and not is_pair:
        mixers = GraphConvolution(8), GraphAttention(8, 2), NeighbourMean(), RectifiedAttention(8, 2)
        calls += [lambda layer=layer: layer(make(*relations), rows) for layer in mixers]
    for call in calls:
        if is_valid:
            assert len(call()) == 3
            continue
        with pytest.raises(GraphError, match="likes"):
            call()
