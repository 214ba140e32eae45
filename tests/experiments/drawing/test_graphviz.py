"""Graphviz' language: every node and edge once, and texts that cannot break out of their quotes."""

import re

from graphattn.builders import Star, TextGraphBuilder, Window
from graphattn.experiments.drawing.graphviz import dot_text
from graphattn.networkx_graphs import to_networkx

QUOTED = r'"((?:[^"\\]|\\.)*)"'


def test_nodes_and_edges_are_those_of_the_graph():
    graph = TextGraphBuilder([Star(), Window(3)]).build(["a", "b"])
    text = dot_text(to_networkx(graph, tokens=["a", "b"]))
    nodes = dict(re.findall(rf"^  {QUOTED} \[label={QUOTED}\];$", text, re.MULTILINE))
    assert nodes == {"token 0": "[CLS]", "token 1": "a", "token 2": "b", "relay 0": "relay 0"}
    edges = re.findall(rf'^  {QUOTED} -> {QUOTED} \[color="(.*?)", tooltip={QUOTED}\];$', text, re.MULTILINE)
    expected = []
    for kind in graph.canonical_etypes:
        sources, targets = graph.edges(etype=kind)
        expected += [
            (f"{kind[0]} {a}", f"{kind[2]} {b}", kind[1])
            for a, b in zip(sources.tolist(), targets.tolist(), strict=True)
        ]
    assert sorted((a, b, name) for a, b, _, name in edges) == sorted(expected)
    assert len({(colour, name) for *_, colour, name in edges}) == 2
    assert '{ rank=same; "token 0"; "token 1"; "token 2"; }' in text


def test_quotes_and_backslashes_are_escaped():
    tokens = ['"', "\\", '\\"', "];\n}"]
    text = dot_text(to_networkx(TextGraphBuilder([Window(1)], cls=False).build(tokens), tokens=tokens))
    labels = re.findall(rf"\[label={QUOTED}\];", text)
    assert [label.replace('\\"', '"').replace("\\\\", "\\") for label in labels][:2] == ['"', "\\"]
    assert len(labels) == 4
