"""Conversion to networkx and back: round trips, attributes, texts, weights, GraphML, errors."""

import networkx as nx
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
from graphattn.builders.batch import TextBatch
from graphattn.dgl_graphs import import_dgl
from graphattn.edges import Edges
from graphattn.exceptions import GraphError
from graphattn.networkx_graphs import from_networkx, to_networkx

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
    # without force_multigraph networkx overwrites an edge feature "id"
    return nx.parse_graphml("\n".join(nx.generate_graphml(exported)), force_multigraph=True)


@st.composite
def sentences(draw):
    """A sentence of 0 to 6 tokens with word boundaries and heads that form a tree."""
    steps = draw(st.lists(st.integers(0, 1), max_size=5))
    words = 1 + sum(steps)
    word_ids = [sum(steps[:place]) for place in range(len(steps) + 1)]
    if draw(st.integers(0, 4)) == 0:
        return Sentence([], heads=[], deprels=[])
    heads = [draw(st.integers(0, word)) for word in range(words)]
    deprels = draw(st.lists(st.sampled_from(["nsubj", "obj", "?"]), min_size=words, max_size=words))
    tokens = draw(st.lists(st.sampled_from("abcd"), min_size=len(word_ids), max_size=len(word_ids)))
    return Sentence(tokens, word_ids=word_ids, heads=heads, deprels=deprels)


@st.composite
def text_batches(draw):
    chosen = draw(st.lists(st.sampled_from(RELATIONS), min_size=1, unique_by=lambda relation: relation.canonical))
    builder = TextGraphBuilder(chosen, cls=draw(st.booleans()), vocabulary=VOCABULARY)
    return builder.text_batch(draw(st.lists(sentences(), max_size=4)))


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


@given(text_batches())
@example(TextGraphBuilder(RELATIONS).text_batch([]))
@example(TextGraphBuilder([Window(3)], cls=False).text_batch([[], ["a"], []]))
def test_round_trip_of_text_batches(dgl, batch):
    assert_same_graph(from_networkx(to_networkx(batch)), batch.to_dgl())


@given(heterographs())
def test_round_trip_of_heterographs(dgl, graph):
    assert_same_graph(from_networkx(to_networkx(graph)), graph)


@settings(max_examples=40)
@given(text_batches().map(TextBatch.to_dgl) | heterographs())
def test_round_trip_through_graphml(dgl, graph):
    assert_same_graph(from_networkx(via_graphml(to_networkx(graph))), graph)


def test_round_trip_of_a_homogeneous_graph(dgl):
    graph = dgl.graph(([2, 0, 2], [1, 1, 1]))
    restored = from_networkx(to_networkx(graph))
    assert restored.is_homogeneous
    assert_same_graph(restored, graph)


def test_texts_and_weights_do_not_affect_the_round_trip(dgl):
    graph = TextGraphBuilder([Window(3), Dependency()]).build(TIME_FLIES)
    exported = to_networkx(
        graph, tokens=TIME_FLIES.tokens, words=TIME_FLIES.words, weights={"in": torch.rand(4, 2), "window:3": range(10)}
    )
    assert_same_graph(from_networkx(exported), graph)


def test_every_attribute_of_a_parsed_sentence():
    graph = TextGraphBuilder([Dependency()], cls=False, vocabulary=VOCABULARY).text_batch(
        [Sentence(["a", "x"], heads=[2, 0], deprels=["nsubj", "root"])]
    )
    exported = to_networkx(graph, tokens=["a", "x"], words=["a", "x"], weights={"dependency": [1.0, 0.25, 0.75, 1.0]})
    assert dict(exported.nodes(data=True)) == {
        ("token", 0): {"type": "token", "index": 0, "sentence": 0, "text": "a", "position": 0, "word": 0, "id": 3},
        ("token", 1): {"type": "token", "index": 1, "sentence": 0, "text": "x", "position": 1, "word": 1, "id": 1},
        ("word", 0): {"type": "word", "index": 0, "sentence": 0, "text": "a", "position": 0},
        ("word", 1): {"type": "word", "index": 1, "sentence": 0, "text": "x", "position": 1},
    }
    nsubj = Dependency().deprel_id("nsubj")

    def arc(index, label, direction, weight):
        return {"relation": "dependency", "index": index, "weight": weight, "label": label, "direction": direction}

    assert {(*edge[:3],): edge[3] for edge in exported.edges(keys=True, data=True)} == {
        (("word", 0), ("word", 0), ("dependency", 0)): arc(0, 0, 0, 1.0),
        (("word", 1), ("word", 0), ("dependency", 1)): arc(1, nsubj, 1, 0.25),
        (("word", 0), ("word", 1), ("dependency", 2)): arc(2, nsubj, 2, 0.75),
        (("word", 1), ("word", 1), ("dependency", 3)): arc(3, 0, 0, 1.0),
        (("token", 0), ("word", 0), ("in", 0)): {"relation": "in", "index": 0},
        (("token", 1), ("word", 1), ("in", 1)): {"relation": "in", "index": 1},
    }


def test_parallel_edges_of_several_relations():
    exported = to_networkx(TextGraphBuilder([Window(1), Window(3)], cls=False).text_batch([["a", "b"]]))
    loops = exported.get_edge_data(("token", 1), ("token", 1))
    assert list(loops) == [("window:1", 1), ("window:3", 3)]


def test_weights_of_each_head():
    graph = TextGraphBuilder([Window(1)], cls=False).text_batch([["a", "b"]])
    exported = to_networkx(graph, weights={"window:1": torch.tensor([[0.5, 1.0], [0.25, 0.125]])})
    assert [data for *_, data in exported.edges(data=True)] == [
        {"relation": "window:1", "index": 0, "weight_0": 0.5, "weight_1": 1.0},
        {"relation": "window:1", "index": 1, "weight_0": 0.25, "weight_1": 0.125},
    ]


def test_algorithms_accept_the_weights_of_a_head_by_name():
    graph = TextGraphBuilder([Window(3)], cls=False).text_batch([["a", "b", "c"]])
    # edges: 0->0 1->0 | 0->1 1->1 2->1 | 1->2 2->2
    weights = torch.tensor([[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1]])
    exported = to_networkx(graph, weights={"window:3": weights})
    costs = [nx.shortest_path_length(exported, ("token", 0), ("token", 2), f"weight_{head}") for head in (0, 1)]
    assert costs == [7, 2]


def test_rows_of_several_numbers_are_json():
    vectors = torch.tensor([[0.5, 1.0], [2.0, float("inf")]])
    no_edges = Edges(torch.tensor([0, 0, 0]), torch.tensor([], dtype=torch.int64), 2)
    graph = TextBatch({"n": torch.tensor([2])}, {("n", "r", "n"): no_edges}, {"n": {"h": vectors}})
    exported = to_networkx(graph)
    assert [data["h"] for _, data in exported.nodes(data=True)] == ["[0.5, 1.0]", "[2.0, Infinity]"]


def test_selected_relations():
    graph = TextGraphBuilder([Window(1), Window(3), Order("forward")]).text_batch([["a", "b"]])
    exported = to_networkx(graph, relations=["forward", ("token", "window:1", "token")])
    assert {data["relation"] for *_, data in exported.edges(data=True)} == {"forward", "window:1"}
    assert exported.number_of_nodes() == 3


def test_selected_relations_in_dgl(dgl):
    graph = TextGraphBuilder([Window(1), Window(3), Order("forward")]).build(["a", "b"])
    exported = to_networkx(graph, relations=["forward", ("token", "window:1", "token")])
    assert_same_graph(from_networkx(exported), graph.edge_type_subgraph(["forward", "window:1"]))


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        ([["a", "b"], [], ["c"]], "[CLS] a b [CLS] [CLS] c"),
        ([["<s>", "a", "b"], ["<s>"], ("<s>", "c")], "<s> a b <s> <s> c"),
        (["<s>", "a", "b", "<s>", "<s>", "c"], "<s> a b <s> <s> c"),
    ],
)
def test_tokens_of_a_batch(tokens, texts):
    exported = to_networkx(TextGraphBuilder([Window(1)]).text_batch([["a", "b"], [], ["c"]]), tokens=tokens)
    assert " ".join(exported.nodes[node]["text"] for node in exported) == texts
    assert [exported.nodes[node]["sentence"] for node in exported] == [0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize(("tokens", "texts"), [(["a", "b"], "[CLS] a b"), (("<s>", "a", "b"), "<s> a b")])
def test_tokens_of_one_sentence(tokens, texts):
    exported = to_networkx(TextGraphBuilder([Window(1)]).text_batch([["a", "b"]]), tokens=tokens)
    assert " ".join(exported.nodes[node]["text"] for node in exported) == texts


def test_texts_of_words():
    graph = TextGraphBuilder([Window(1), Membership()]).text_batch([TIME_FLIES])
    exported = to_networkx(graph, words=TIME_FLIES.words)
    texts = nx.get_node_attributes(exported, "text")
    assert texts == {("word", 0): "[CLS]", ("word", 1): "time", ("word", 2): "flies"}


def test_edges_are_renumbered_after_removal(dgl):
    graph = TextGraphBuilder([Dependency("token")]).batch([TIME_FLIES] * 2)
    exported = to_networkx(graph)
    exported.remove_edges_from([edge for edge in list(exported.edges(keys=True)) if edge[2][1] in (2, 3, 15)])
    restored = from_networkx(exported)
    expected = dgl.remove_edges(graph, torch.tensor([2, 3, 15], dtype=torch.int32))
    expected.edata.pop(dgl.EID, None)
    expected.set_batch_num_nodes(graph.batch_num_nodes())
    expected.set_batch_num_edges(graph.batch_num_edges() - torch.tensor([2, 1]))
    assert_same_graph(restored, expected)


def test_added_sentence(dgl):
    builder = TextGraphBuilder([Window(3)])
    exported = to_networkx(builder.batch([["a"], ["b"]]))
    exported.add_node("new", type="token", index=9, sentence=2, position=0, word=0)
    exported.add_edge("new", "new", relation="window:3", index=7)
    assert_same_graph(from_networkx(exported), builder.batch([["a"], ["b"], []]))


def test_added_edge_belongs_to_the_sentence_of_its_destination(dgl):
    builder = TextGraphBuilder([Window(1)], cls=False)
    exported = to_networkx(builder.batch([["a", "b"], ["c"]]))
    exported.add_edge(("token", 0), ("token", 1), relation="window:1", index=99)
    restored = from_networkx(exported)
    assert restored.batch_num_edges().tolist() == [3, 1]
    assert [ids.tolist() for ids in restored.edges(order="eid")] == [[0, 1, 0, 2], [0, 1, 1, 2]]


def test_graphml_file(dgl, tmp_path):
    graph = TextGraphBuilder(RELATIONS, vocabulary=VOCABULARY).batch([TIME_FLIES, Sentence([], heads=[])])
    graph.nodes["token"].data["vector"] = torch.randn(graph.num_nodes("token"), 2, 2)
    weights = {relation: torch.rand(graph.num_edges(relation), 2) for relation in graph.canonical_etypes}
    texts = [TIME_FLIES.words, ()]
    exported = to_networkx(graph, tokens=texts, words=texts, weights=weights)
    nx.write_graphml(exported, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml")
    assert [read.nodes[node] for node in read] == [exported.nodes[node] for node in exported]
    kept = {tuple(sorted(data.items())) for *_, data in read.edges(data=True)}
    assert kept == {tuple(sorted(data.items())) for *_, data in exported.edges(data=True)}
    assert_same_graph(from_networkx(read), graph)


GRAPH = TextGraphBuilder([Window(1), Order("forward")]).text_batch([["a", "b"], ["c"]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"tokens": ["a", "b", "c"]},
            "3 tokens are given for the graph, which has 5; give a text for each, or leave out [CLS] in every sentence",
        ),
        (
            {"tokens": [["a", "b"], ["[CLS]", "c"]]},
            "2 tokens are given for sentence 0, which has 3; "
            "give a text for each, or leave out [CLS] in every sentence",
        ),
        (
            {"tokens": [["[CLS]", "a", "b"], []]},
            "0 tokens are given for sentence 1, which has 2; "
            "give a text for each, or leave out [CLS] in every sentence",
        ),
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


@pytest.mark.parametrize(("view", "name", "owner"), [("ndata", "type", "_N"), ("edata", "weight", "_E")])
def test_features_named_like_attributes(dgl, view, name, owner):
    graph = dgl.graph(([0, 1], [1, 0]))
    getattr(graph, view)[name] = torch.ones(2)
    with pytest.raises(GraphError) as caught:
        to_networkx(graph, weights={"_E": [0.5, 0.5]})
    message = f"feature {name!r} of {owner!r} has the name of an attribute; rename the feature"
    assert str(caught.value) == message


def exported_with(change):
    exported = to_networkx(GRAPH)
    change(exported)
    return exported


EDGE = (("token", 0), ("token", 1), ("forward", 0))


@pytest.mark.parametrize(
    ("nx_graph", "message"),
    [
        (
            nx.path_graph(3, nx.DiGraph),
            "the networkx graph has no valid attribute 'graphattn'; use a graph from to_networkx",
        ),
        (
            nx.DiGraph(graphattn="{}"),
            "the networkx graph has no valid attribute 'graphattn'; use a graph from to_networkx",
        ),
        (
            nx.DiGraph(graphattn="[1"),
            "the networkx graph has no valid attribute 'graphattn'; use a graph from to_networkx",
        ),
        (
            to_networkx(GRAPH).to_undirected(),
            "the networkx graph is undirected; use a directed graph",
        ),
        (
            exported_with(lambda exported: exported.add_node("new")),
            "'new' has no attribute 'type'; set the attributes that to_networkx sets",
        ),
        (
            exported_with(lambda exported: exported.nodes["token", 1].pop("position")),
            "('token', 1) has no attribute 'position'; set the attributes that to_networkx sets",
        ),
        (
            exported_with(lambda exported: exported.nodes["token", 1].update(type="word")),
            "('token', 1) has the type 'word'; the graph has: token",
        ),
        (
            exported_with(lambda exported: exported.nodes["token", 1].update(sentence="first")),
            "('token', 1) has sentence 'first'; it must be an integer of at least 0",
        ),
        (
            exported_with(lambda exported: exported.edges[EDGE].update(index=-1)),
            "(('token', 0), ('token', 1)) has index -1; it must be an integer of at least 0",
        ),
        (
            exported_with(lambda exported: exported.edges[EDGE].update(relation="all")),
            "the graph has no relation ('token', 'all', 'token'); it has: forward, window:1",
        ),
        (
            exported_with(lambda exported: exported.nodes["token", 1].update(position="first")),
            "values of attribute 'position' are not int32 of shape ()",
        ),
    ],
)
def test_invalid_networkx_graphs(dgl, nx_graph, message):
    with pytest.raises(GraphError) as caught:
        from_networkx(nx_graph)
    assert str(caught.value) == message
