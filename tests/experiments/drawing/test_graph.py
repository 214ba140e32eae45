"""Pictures of DGL graphs and Graphviz' language: every relation, node and edge once."""

from __future__ import annotations

import re

import pytest
from matplotlib.image import imread

from graphattn._edges import Edges
from graphattn._networkx_graphs import to_networkx
from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    DocumentTree,
    Membership,
    Order,
    Sentence,
    Star,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.exceptions import DataError
from graphattn.experiments.demo._grammar import generate
from graphattn.experiments.drawing import _graph as drawing
from graphattn.experiments.drawing._graph import draw_graph, to_dot

QUOTED = r'"((?:[^"\\]|\\.)*)"'


@pytest.fixture
def arguments(monkeypatch) -> dict:
    """The arguments that ``draw_graph`` passes to ``draw_sentence``."""
    received: dict = {}

    def record(tokens, edges, path, **options):
        received.update(tokens=tokens, edges=edges, **options)

    monkeypatch.setattr(drawing, "draw_sentence", record)
    return received


SENTENCE = Sentence(
    ("fish", "was", "un", "pleasant"), word_ids=(0, 1, 2, 2), heads=(3, 3, 0), deprels=("nsubj", "cop", "root")
)


def test_edges_labels_and_weights_of_each_relation(arguments):
    builder = TextGraphBuilder([Complete(), Window(1), WordGroup(), Dependency()])
    draw_graph(builder.text_batch([SENTENCE]), SENTENCE, weights={"all": [1.0]}, title="t")
    assert arguments["tokens"] == ("[CLS]", "fish", "was", "un", "pleasant")
    assert arguments["word_ids"] == [0, 1, 2, 3, 3]
    assert list(arguments["edges"]) == ["window:1", "group", "dependency", "all"]
    assert arguments["word_relations"] == ["dependency"]
    assert sorted(arguments["edges"]["group"]) == [(0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 3), (4, 4)]
    labels = dict(zip(arguments["edges"]["dependency"], arguments["edge_labels"]["dependency"], strict=True))
    loops = {(word, word): "" for word in range(4)}
    assert labels == {**loops, (1, 3): "nsubj", (3, 1): "nsubj", (2, 3): "cop", (3, 2): "cop"}
    assert arguments["weights"] == {"all": [1.0]}
    assert arguments["title"] == "t"


def test_dependencies_between_tokens_are_labelled(arguments):
    graph = TextGraphBuilder([Dependency(on="token")], cls=False).text_batch([SENTENCE])
    draw_graph(graph, SENTENCE)
    assert arguments["tokens"] == SENTENCE.tokens
    assert arguments["word_relations"] == []
    labels = dict(zip(arguments["edges"]["dependency"], arguments["edge_labels"]["dependency"], strict=True))
    assert {labels[0, 2], labels[0, 3], labels[3, 0]} == {"nsubj"}
    assert labels[2, 3] == ""


def test_other_nodes_follow_the_tokens(arguments):
    text = Sentence(("so", ".", "we", "stay"))
    draw_graph(TextGraphBuilder([Star(), BinaryPartition(), DocumentTree()], cls=False).text_batch([text]), text)
    assert arguments["other_nodes"] == {
        "document": ["sentence 1", "sentence 2", "document"],
        "star": ["relay"],
        "binary:1": ["so … .", "we … stay", "so … stay"],
    }
    assert (4, 4) in arguments["edges"]["star"]
    assert {(0, 4), (4, 0), (4, 6), (6, 5)} <= set(arguments["edges"]["document"])
    assert {(5, 0), (3, 6)} <= set(arguments["edges"]["binary:1"])
    assert (6, 0) not in arguments["edges"]["binary:1"]


def test_edges_lead_from_source_to_destination(arguments):
    draw_graph(TextGraphBuilder([Order("forward")], cls=False).text_batch([SENTENCE]), SENTENCE)
    assert all(source < destination for source, destination in arguments["edges"]["forward"])


def test_a_sentence_without_a_parse(arguments):
    plain = Sentence(("time", "flies"))
    draw_graph(TextGraphBuilder([Window(3)]).text_batch([plain]), plain)
    assert arguments["edge_labels"] == {}


def test_a_graph_of_another_sentence_is_an_error():
    graph = TextGraphBuilder([Window(3)]).text_batch([Sentence(("time", "flies", "like", "arrows"))])
    with pytest.raises(DataError) as caught:
        draw_graph(graph, Sentence(("time", "flies")))
    assert str(caught.value) == ("the graph has 5 tokens, the sentence 2. Draw a sentence with its own graph.")


def test_a_list_of_tokens_is_drawn_and_unknown_relations_are_not(to_svg):
    graph = TextGraphBuilder([Window(3)], cls=False).text_batch([["time", "flies"]])
    texts = ["time", "flies"], Sentence(["time", "flies"])
    first, second = (to_svg(draw_graph(graph, text, weights={"window:3": [1, 0, 0, 1]})) for text in texts)
    assert first == second
    with pytest.raises(DataError) as caught:
        draw_graph(graph, ["time", "flies"], weights={"window:5": [1]})
    assert str(caught.value) == "there are no edges of relation 'window:5'. There are: window:3."


def test_weights_of_all_relations(read_texts):
    """Membership is drawn as brackets, not as edges."""
    sentence = Sentence(["time", "flies"])
    graph = TextGraphBuilder([Membership(), Window(3)]).text_batch([sentence])
    weights = {kinds[1]: [0.5] * Edges.of(graph, kinds).num_edges for kinds in graph.edges}
    texts = read_texts(draw_graph(graph, sentence, weights=weights))
    assert "window:3" in texts
    assert "in" not in texts


@pytest.mark.slow
def test_sentences_of_the_grammar_are_drawn(tmp_path):
    builder = TextGraphBuilder([Window(3), Window("N/4"), WordGroup(), Dependency(), Order("forward")])
    sentences = generate(60, seed=1, subwords=True)
    for sentence in (min(sentences, key=len), max(sentences, key=len)):
        draw_graph(builder.text_batch([sentence]), sentence, tmp_path / "graph.png")
        assert imread(tmp_path / "graph.png")[..., :3].min() < 0.2


def test_nodes_and_edges_are_those_of_the_graph():
    graph = TextGraphBuilder([Star(), Window(3)]).text_batch([["a", "b"]])
    text = to_dot(to_networkx(graph, tokens=["a", "b"]))
    nodes = dict(re.findall(rf"^  {QUOTED} \[label={QUOTED}\];$", text, re.MULTILINE))
    assert nodes == {"token_0": "[CLS]", "token_1": "a", "token_2": "b", "relay_0": "relay 0"}
    edges = re.findall(rf'^  {QUOTED} -> {QUOTED} \[color="(.*?)", tooltip={QUOTED}\];$', text, re.MULTILINE)
    expected = []
    for kind in graph.edges:
        sources, targets = Edges.of(graph, kind).ends_by_id()
        expected += [
            (f"{kind[0]}_{a}", f"{kind[2]}_{b}", kind[1])
            for a, b in zip(sources.tolist(), targets.tolist(), strict=True)
        ]
    assert sorted((a, b, name) for a, b, _, name in edges) == sorted(expected)
    assert len({(colour, name) for *_, colour, name in edges}) == 2
    assert '{ rank=same; "token_0"; "token_1"; "token_2"; }' in text


def test_quotes_and_backslashes_are_escaped():
    tokens = ['"', "\\", '\\"', "];\n}"]
    text = to_dot(to_networkx(TextGraphBuilder([Window(1)], cls=False).text_batch([tokens]), tokens=tokens))
    labels = re.findall(rf"\[label={QUOTED}\];", text)
    assert [label.replace('\\"', '"').replace("\\\\", "\\") for label in labels][:2] == ['"', "\\"]
    assert len(labels) == 4
