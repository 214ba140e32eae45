#!/usr/bin/env bash
# igraph reads other words and no mixed numbers from files of NetworkX, and NetworkX no such words from igraph's.
#
# Version:  networkx 3.6.1, igraph 1.0.0, Python 3.11
# Source:   GML's specification writes characters beyond ASCII as &#233;, which NetworkX does, and igraph leaves as it
#           is; igraph writes UTF-8, which NetworkX rejects. For an attribute with whole numbers and fractions NetworkX
#           writes two GraphML keys of one name, which it joins again, and igraph rejects
# Expected: each of the two reads the graphs of the other, words and weights included
# Observed: from GML, igraph has the word "caf&#233;" for "café", and "a&#38;b" for "a&b", without a warning; igraph's
#           own file is "not ASCII-encoded" for NetworkX. From GraphML both have "café", but weights 1 and 0.25 are a
#           duplicate attribute for igraph, 1.0 and 0.25 are not.
# Way out:  GraphML, with all weights as float
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet networkx==3.6.1 igraph==1.0.0
cat >check.py <<'PYTHON'
import igraph
import networkx as nx

words = ["time", "café", "a&b"]


def make(*weights):
    graph = nx.DiGraph()
    graph.add_nodes_from((number, {"word": word}) for number, word in enumerate(words))
    graph.add_edges_from((number, number + 1, {"weight": weight}) for number, weight in enumerate(weights))
    return graph


def rejects(read, path):
    try:
        read(path)
    except (igraph.InternalError, nx.NetworkXError) as error:
        return str(error)
    return None


nx.write_gml(make(1.0, 0.25), "networkx.gml")
assert [word for _, word in nx.read_gml("networkx.gml").nodes(data="word")] == words
read = igraph.Graph.Read_GML("networkx.gml")
print("GML, NetworkX to igraph:", read.vs["word"])
assert read.vs["word"] == ["time", "caf&#233;", "a&#38;b"]
read.vs["word"] = words
read.write_gml("igraph.gml")
assert igraph.Graph.Read_GML("igraph.gml").vs["word"] == words
print("GML, igraph to NetworkX:", rejects(nx.read_gml, "igraph.gml"))
assert "ASCII" in rejects(nx.read_gml, "igraph.gml")

for weights in ((1.0, 0.25), (1, 0.25)):
    nx.write_graphml(make(*weights), "networkx.graphml")
    back = nx.read_graphml("networkx.graphml")
    assert ([word for _, word in back.nodes(data="word")], back.size("weight")) == (words, 1.25)
    print("GraphML, weights", weights, "to igraph:", rejects(igraph.Graph.Read_GraphML, "networkx.graphml") or "read")
    if isinstance(weights[0], float):
        assert igraph.Graph.Read_GraphML("networkx.graphml").vs["word"] == words
    else:
        assert "Duplicate attribute name" in rejects(igraph.Graph.Read_GraphML, "networkx.graphml")
PYTHON
venv/bin/python -W ignore check.py
