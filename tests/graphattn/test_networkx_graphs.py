"""Conversion to networkx and back: round trips, attributes, texts, weights, formats, other programs, errors."""

import json
from random import Random

import networkx as nx
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphattn import from_networkx, to_networkx
from graphattn._dgl_graphs import import_dgl
from graphattn._edges import Edges
from graphattn.builders import (
    Complete,
    Dependency,
    Membership,
    Order,
    Sentence,
    TextGraphBuilder,
    Vocabulary,
    Window,
    WordGroup,
)
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import GraphError

VOCABULARY = Vocabulary.train([["a", "b", "c"]])
RELATIONS = [
    Window(1),
    Window(3),
    Window("N/4"),
    WordGroup(),
    Dependency(),
    Dependency("token"),
    Order("forward"),
    Order("backward"),
    Complete(),
]
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64]
TIME_FLIES = Sentence(["time", "fli", "es"], word_ids=[0, 1, 1], heads=[2, 0])


def assert_same_features(one, other):
    assert set(one) == set(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0, equal_nan=True)


def assert_same_graph(one, other):
    assert (one.ntypes, one.canonical_etypes, one.idtype) == (other.ntypes, other.canonical_etypes, other.idtype)
    assert one.batch_size == other.batch_size
    for kind in one.ntypes:
        assert one.num_nodes(kind) == other.num_nodes(kind)
        assert one.batch_num_nodes(kind).tolist() == other.batch_num_nodes(kind).tolist()
        assert_same_features(one.nodes[kind].data, other.nodes[kind].data)
    for relation in one.canonical_etypes:
        ends = [[ids.tolist() for ids in graph.edges(etype=relation, order="eid")] for graph in (one, other)]
        assert ends[0] == ends[1]
        assert one.batch_num_edges(relation).tolist() == other.batch_num_edges(relation).tolist()
        assert_same_features(one.edges[relation].data, other.edges[relation].data)


def via_graphml(exported):
    return nx.parse_graphml("\n".join(nx.generate_graphml(exported)))


@st.composite
def features(draw, count):
    dtype = draw(st.sampled_from(DTYPES))
    shape = (count, *draw(st.lists(st.integers(0, 2), max_size=2)))
    noise = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    if dtype.is_floating_point and noise.numel() > 1 and draw(st.booleans()):
        noise.view(-1)[:2] = torch.tensor([float("nan"), float("-inf")])
        return noise.to(dtype)
    return noise.to(dtype) if dtype.is_floating_point else (10 * noise.abs()).to(dtype)


@st.composite
def single_heterographs(draw, kinds, relations, idtype):
    counts = {kind: draw(st.integers(0, 4)) for kind in kinds}
    edges = {}
    for relation in relations:
        sources, targets = counts[relation[0]], counts[relation[2]]
        pairs = st.tuples(st.integers(0, max(sources - 1, 0)), st.integers(0, max(targets - 1, 0)))
        drawn = draw(st.lists(pairs, max_size=6)) if sources and targets else []
        edges[relation] = tuple(torch.tensor([pair[end] for pair in drawn], dtype=idtype) for end in (0, 1))
    return import_dgl().heterograph(edges, num_nodes_dict=counts, idtype=idtype)


@st.composite
def heterographs(draw):
    """Several node types, relations of one name between several types, parallel edges, edge ids in any order."""
    kinds = draw(st.lists(st.sampled_from(["token", "word", "text"]), min_size=1, unique=True))
    triples = st.tuples(st.sampled_from(kinds), st.sampled_from(["r", "s"]), st.sampled_from(kinds))
    relations = draw(st.lists(triples, min_size=1, max_size=3, unique=True))
    singles = single_heterographs(kinds, relations, draw(st.sampled_from([torch.int32, torch.int64])))
    graph = import_dgl().batch(draw(st.lists(singles, min_size=1, max_size=3)))
    names = st.lists(st.sampled_from(["x", "label", "id"]), max_size=2, unique=True)
    for kind in kinds:
        for name in draw(names):
            graph.nodes[kind].data[name] = draw(features(graph.num_nodes(kind)))
    for relation in relations:
        for name in draw(names):
            graph.edges[relation].data[name] = draw(features(graph.num_edges(relation)))
    return graph


@settings(max_examples=40)
@given(
    random=st.randoms(use_true_random=False),
    sizes=st.lists(st.integers(0, 5), max_size=4),
    relations=st.lists(st.sampled_from(RELATIONS), min_size=1, unique_by=lambda relation: relation.canonical),
    cls=st.booleans(),
)
@example(random=Random(0), sizes=[], relations=RELATIONS, cls=True)
@example(random=Random(0), sizes=[0, 1, 0], relations=[Window(3)], cls=False)
def test_round_trip_of_text_batches(dgl, random_sentence, random, sizes, relations, cls):
    builder = TextGraphBuilder(relations, cls=cls, vocabulary=VOCABULARY)
    batch = builder.text_batch([random_sentence(random, size) for size in sizes])
    assert_same_graph(from_networkx(to_networkx(batch)), batch.to_dgl())


@pytest.mark.slow
@settings(max_examples=40)
@given(heterographs())
def test_round_trip_of_heterographs_and_through_graphml(dgl, graph):
    exported = to_networkx(graph)
    assert_same_graph(from_networkx(exported), graph)
    assert_same_graph(from_networkx(via_graphml(exported)), graph)


def test_every_attribute_of_a_parsed_sentence():
    graph = TextGraphBuilder([Dependency()], cls=False, vocabulary=VOCABULARY).text_batch(
        [Sentence(["a", "x"], heads=[2, 0], deprels=["nsubj", "root"])]
    )
    exported = to_networkx(graph, tokens=["a", "x"], words=["a", "x"], weights={"dependency": [1.0, 0.25, 0.75, 1.0]})
    nodes = ("type", "index", "sentence", "label", "text", "position", "word", "feature_id")
    assert dict(exported.nodes(data=True)) == {
        "token_0": dict(zip(nodes, ("token", 0, 0, "a", "a", 0, 0, 3), strict=True)),
        "token_1": dict(zip(nodes, ("token", 1, 0, "x", "x", 1, 1, 1), strict=True)),
        "word_0": dict(zip(nodes, ("word", 0, 0, "a", "a", 0, -1, -1), strict=True)),
        "word_1": dict(zip(nodes, ("word", 1, 0, "x", "x", 1, -1, -1), strict=True)),
    }
    edges = ("relation", "edge_id", "feature_label", "direction", "weight")
    nsubj = Dependency().deprel_id("nsubj")
    assert {edge[:3]: edge[3] for edge in exported.edges(keys=True, data=True)} == {
        ("word_0", "word_0", 0): dict(zip(edges, ("dependency", 0, 0, 0, 1.0), strict=True)),
        ("word_1", "word_0", 1): dict(zip(edges, ("dependency", 1, nsubj, 1, 0.25), strict=True)),
        ("word_0", "word_1", 2): dict(zip(edges, ("dependency", 2, nsubj, 2, 0.75), strict=True)),
        ("word_1", "word_1", 3): dict(zip(edges, ("dependency", 3, 0, 0, 1.0), strict=True)),
        ("token_0", "word_0", 4): dict(zip(edges, ("in", 0, -1, -1, 0.0), strict=True)),
        ("token_1", "word_1", 5): dict(zip(edges, ("in", 1, -1, -1, 0.0), strict=True)),
    }


def test_names_sort_in_the_order_of_the_text_and_keys_are_unique():
    exported = to_networkx(TextGraphBuilder([Window(1), Window(3)], cls=False).text_batch([["a"] * 12]))
    assert list(exported) == sorted(exported)
    assert sorted(key for *_, key in exported.edges(keys=True)) == list(range(46))


def test_names_of_types_with_other_characters_stay_apart(dgl):
    edges = {("a b", "r", "a_b"): ([0], [1]), ("a/b", "r", "a b"): ([1], [0])}
    graph = dgl.heterograph(edges, num_nodes_dict={"a b": 2, "a/b": 2, "a_b": 2})
    exported = to_networkx(graph)
    assert exported.number_of_nodes() == 6
    assert_same_graph(from_networkx(exported), graph)


def test_algorithms_accept_the_weights_of_a_head_by_name():
    graph = TextGraphBuilder([Window(3)], cls=False).text_batch([["a", "b", "c"]])
    # edges: 0->0 1->0 | 0->1 1->1 2->1 | 1->2 2->2
    weights = torch.tensor([[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1]])
    exported = to_networkx(graph, weights={"window:3": weights})
    costs = [nx.shortest_path_length(exported, "token_0", "token_2", f"weight_{head}") for head in (0, 1)]
    assert costs == [7, 2]


def test_rows_of_several_numbers_are_json():
    vectors = torch.tensor([[0.5, 1.0], [2.0, float("inf")]])
    no_edges = Edges(torch.tensor([0, 0, 0]), torch.tensor([], dtype=torch.int64), 2)
    graph = TextBatch({"n": torch.tensor([2])}, {("n", "r", "n"): no_edges}, {"n": {"h": vectors}})
    exported = to_networkx(graph)
    assert [data["h"] for _, data in exported.nodes(data=True)] == ["[0.5, 1.0]", "[2.0, Infinity]"]


def test_selected_relations(dgl):
    graph = TextGraphBuilder([Window(1), Window(3), Order("forward")]).build(["a", "b"])
    exported = to_networkx(graph, relations=["forward", ("token", "window:1", "token")])
    assert exported.number_of_nodes() == 3
    assert_same_graph(from_networkx(exported), graph.edge_type_subgraph(["forward", "window:1"]))


@pytest.mark.parametrize(
    ("texts", "tokens", "expected"),
    [
        (["ab", "", "c"], [["a", "b"], [], ["c"]], "[CLS] a b [CLS] [CLS] c"),
        (["ab", "", "c"], [["<s>", "a", "b"], ["<s>"], ("<s>", "c")], "<s> a b <s> <s> c"),
        (["ab", "", "c"], ["<s>", "a", "b", "<s>", "<s>", "c"], "<s> a b <s> <s> c"),
        (["ab"], ["a", "b"], "[CLS] a b"),
        (["ab"], ("<s>", "a", "b"), "<s> a b"),
    ],
)
def test_texts_of_tokens(texts, tokens, expected):
    batch = TextGraphBuilder([Window(1)]).text_batch(list(map(list, texts)))
    exported = to_networkx(batch, tokens=tokens)
    assert " ".join(exported.nodes[node]["text"] for node in exported) == expected
    sentences = [number for number, text in enumerate(texts) for _ in range(len(text) + 1)]
    assert [exported.nodes[node]["sentence"] for node in exported] == sentences


def test_texts_of_words():
    graph = TextGraphBuilder([Window(1), Membership()]).text_batch([TIME_FLIES])
    exported = to_networkx(graph, words=TIME_FLIES.words)
    assert [text for name, text in exported.nodes(data="text") if name.startswith("word")] == ["[CLS]", "time", "flies"]
    assert exported.nodes["token_3"]["label"] == "token 3"


def test_edges_are_renumbered_after_removal(dgl):
    graph = TextGraphBuilder([Dependency("token")]).batch([TIME_FLIES] * 2)
    exported = to_networkx(graph)
    exported.remove_edges_from([edge for edge in list(exported.edges(keys=True)) if edge[2] in (2, 3, 15)])
    restored = from_networkx(exported)
    expected = dgl.remove_edges(graph, torch.tensor([2, 3, 15], dtype=torch.int32))
    expected.edata.pop(dgl.EID, None)
    expected.set_batch_num_nodes(graph.batch_num_nodes())
    expected.set_batch_num_edges((graph.batch_num_edges() - torch.tensor([2, 1])).to(graph.idtype))
    assert_same_graph(restored, expected)


def test_added_sentence(dgl):
    builder = TextGraphBuilder([Window(3)])
    exported = to_networkx(builder.batch([["a"], ["b"]]))
    exported.add_node("new", type="token", index=9, sentence=2, position=0, word=0)
    exported.add_edge("new", "new", relation="window:3", edge_id=7)
    assert_same_graph(from_networkx(exported), builder.batch([["a"], ["b"], []]))


def test_added_edge_belongs_to_the_sentence_of_its_destination(dgl):
    builder = TextGraphBuilder([Window(1)], cls=False)
    exported = to_networkx(builder.batch([["a", "b"], ["c"]]))
    exported.add_edge("token_0", "token_1", relation="window:1", edge_id=99)
    restored = from_networkx(exported)
    assert restored.batch_num_edges().tolist() == [3, 1]
    assert [ids.tolist() for ids in restored.edges(order="eid")] == [[0, 1, 0, 2], [0, 1, 1, 2]]


EACH = "give a text for each, or leave out [CLS] in every sentence"
GRAPH = TextGraphBuilder([Window(1), Order("forward")]).text_batch([["a", "b"], ["c"]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": ["a", "b", "c"]}, f"3 tokens are given for the graph, which has 5; {EACH}"),
        ({"tokens": [["a", "b"], ["[CLS]", "c"]]}, f"2 tokens are given for sentence 0, which has 3; {EACH}"),
        ({"tokens": [["[CLS]", "a", "b"], []]}, f"0 tokens are given for sentence 1, which has 2; {EACH}"),
        ({"tokens": [["a", "b"], ["c"], ["d"]]}, "3 lists of tokens are given for 2 sentences"),
        ({"words": ["a", "b"]}, "words are given, but the graph has no nodes of type 'word'"),
        ({"weights": {"all": [1.0]}}, "the graph has no relation 'all'; it has: forward, window:1"),
        ({"relations": ["in"]}, "the graph has no relation 'in'; it has: forward, window:1"),
        ({"weights": {"window:1": [1.0]}}, "weights of 'window:1' have shape (1,); expected (5,) or (5, heads)"),
        (
            {"weights": {"forward": torch.ones(4, 2, 1)}},
            "weights of 'forward' have shape (4, 2, 1); expected (4,) or (4, heads)",
        ),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(GraphError) as caught:
        to_networkx(GRAPH, **arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("view", "name"), [("ndata", "type"), ("ndata", "id"), ("edata", "weight"), ("edata", "index")]
)
def test_features_named_like_attributes(dgl, view, name):
    graph = dgl.graph(([0, 1], [1, 0]))
    getattr(graph, view)[name] = torch.tensor([3, 4])
    exported = to_networkx(graph, weights={"_E": [0.5, 0.25]})
    rows = exported.nodes(data=True) if view == "ndata" else exported.edges(data=True)
    assert [row[-1][f"feature_{name}"] for row in rows] == [3, 4]
    assert [weight for *_, weight in exported.edges(data="weight")] == [0.5, 0.25]
    assert_same_graph(from_networkx(exported), graph)


def full_graph():
    """Several types, features and relations, parallel edges, weights and an empty sentence."""
    builder = TextGraphBuilder(RELATIONS, vocabulary=VOCABULARY)
    graph = builder.text_batch([TIME_FLIES, Sentence([], heads=[]), Sentence(["a", "b"], heads=[2, 0])])
    weights = {relation: torch.rand(edges.num_edges, 2) for relation, edges in graph.edges.items()}
    return graph, to_networkx(graph, tokens=[TIME_FLIES.words, [], ["a", "&"]], weights=weights)


def via_json(write, read):
    return lambda exported, path: read(json.loads(json.dumps(write(exported))))


def via_file(write, read):
    def convert(exported, path):
        write(exported, path)
        return read(path)

    return convert


@pytest.mark.parametrize(
    "convert",
    [
        via_file(nx.write_graphml, nx.read_graphml),
        via_file(nx.write_gexf, nx.read_gexf),
        via_file(nx.write_gml, nx.read_gml),
        via_json(nx.node_link_data, nx.node_link_graph),
        via_json(nx.adjacency_data, nx.adjacency_graph),
        via_json(nx.cytoscape_data, nx.cytoscape_graph),
    ],
)
def test_every_format_of_networkx_keeps_nodes_edges_and_features(dgl, convert, tmp_path):
    graph, exported = full_graph()
    read = convert(exported, tmp_path / "graph")
    assert list(read) == list(exported)
    assert read.number_of_edges() == exported.number_of_edges()
    read.graph.setdefault("graphattn", exported.graph["graphattn"])  # GEXF has no attributes of graphs
    assert_same_graph(from_networkx(read), graph.to_dgl())


def test_gexf_lacks_what_from_networkx_needs(dgl, tmp_path):
    _, exported = full_graph()
    with pytest.raises(GraphError, match="GEXF"):
        from_networkx(via_file(nx.write_gexf, nx.read_gexf)(exported, tmp_path / "graph"))


@pytest.mark.slow
def test_a_graphml_file_that_igraph_wrote_again(dgl, tmp_path):
    igraph = pytest.importorskip("igraph")
    graph, exported = full_graph()
    nx.write_graphml(exported, tmp_path / "graph.graphml")
    read = igraph.read(tmp_path / "graph.graphml")
    assert read.ecount() == exported.number_of_edges()
    read.write(tmp_path / "again.graphml")
    again = nx.read_graphml(tmp_path / "again.graphml")
    assert isinstance(again.nodes["n0"]["index"], float)
    assert_same_graph(from_networkx(again), graph.to_dgl())


def test_pytorch_geometric_reads_it():
    utils = pytest.importorskip("torch_geometric.utils")
    _, exported = full_graph()
    data = utils.from_networkx(exported)
    names = list(exported)
    assert [(names[source], names[target]) for source, target in data.edge_index.T.tolist()] == list(exported.edges())
    assert data.position.tolist() == [position for _, position in exported.nodes(data="position")]
    assert data.weight_1.tolist() == pytest.approx([weight for *_, weight in exported.edges(data="weight_1")])
    data.validate()


def test_a_union_of_two_graphs_names_nodes_with_the_same_place(dgl):
    builder = TextGraphBuilder([Window(3)])
    graphs = [to_networkx(builder.text_batch([tokens])) for tokens in (["a", "b"], ["c"])]
    with pytest.raises(GraphError, match="nodes 0 and 3 are both token 0 of sentence 0"):
        from_networkx(nx.disjoint_union(*graphs))
    for _, attributes in graphs[1].nodes(data=True):
        attributes["sentence"] += 1
    assert_same_graph(from_networkx(nx.disjoint_union(*graphs)), builder.batch([["a", "b"], ["c"]]))


EDGE = ("token_0", "token_1", 5)
NOT_OURS = (
    "the networkx graph has no valid attribute 'graphattn', which files of GEXF lose; use a graph from to_networkx"
)


@pytest.mark.parametrize(
    "nx_graph", [nx.path_graph(3, nx.DiGraph), nx.DiGraph(graphattn="{}"), nx.DiGraph(graphattn="[1")]
)
def test_graphs_of_others(nx_graph):
    with pytest.raises(GraphError) as caught:
        from_networkx(nx_graph)
    assert str(caught.value) == NOT_OURS


def test_undirected_graphs():
    with pytest.raises(GraphError, match=r"^the networkx graph is undirected; use a directed graph$"):
        from_networkx(to_networkx(GRAPH).to_undirected())


def change_token(**attributes):
    return lambda exported: exported.nodes["token_1"].update(attributes)


def change_edge(**attributes):
    return lambda exported: exported.edges[EDGE].update(attributes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda exported: exported.add_node("new"),
            "'new' has no attribute 'type'; set the attributes that to_networkx sets",
        ),
        (
            lambda exported: exported.nodes["token_1"].pop("position"),
            "'token_1' has no attribute 'position'; set the attributes that to_networkx sets",
        ),
        (change_token(type="word"), "'token_1' has the type 'word'; the graph has: token"),
        (change_token(sentence="first"), "'token_1' has sentence 'first'; it must be an integer of at least 0"),
        (change_token(index=0.5), "'token_1' has index 0.5; it must be an integer of at least 0"),
        (change_token(position=0.5), "values of attribute 'position' are not int32 of shape ()"),
        (change_token(position="first"), "values of attribute 'position' are not int32 of shape ()"),
        (change_edge(edge_id=-1), "('token_0', 'token_1') has edge_id -1; it must be an integer of at least 0"),
        (change_edge(relation="all"), "the graph has no relation ('token', 'all', 'token'); it has: forward, window:1"),
    ],
)
def test_changed_attributes(dgl, change, message):
    exported = to_networkx(GRAPH)
    change(exported)
    with pytest.raises(GraphError) as caught:
        from_networkx(exported)
    assert str(caught.value) == message


def test_a_feature_named_text_is_no_text():
    batch = TextGraphBuilder([Window(1)], cls=False).text_batch([["a", "b"]])
    batch.node_features["token"]["text"] = torch.tensor([7, 8])
    exported = to_networkx(batch)
    assert [data["label"] for _, data in exported.nodes(data=True)] == ["token 0", "token 1"]
    assert [data["feature_text"] for _, data in exported.nodes(data=True)] == [7, 8]
