#!/usr/bin/env bash
# dgl.from_networkx numbers nodes by their sorted names; PyTorch Geometric and igraph keep the order of NetworkX.
#
# Version:  dgl 1.1.3, torch_geometric 2.8.1, igraph 1.0.0, networkx 3.6.1, torch 2.13.0 (CPU), Python 3.11
# Source:   python/dgl/convert.py, from_networkx; its documentation says only that nodes are relabelled
# Expected: node i of the result is the i-th node of the NetworkX graph, whose nodes have an order, so that a row of
#           vectors for each word, in the order of the text, fits
# Observed: the words w0 to w11 of a text come out as w0, w1, w10, w11, w2 and so on; a text of fewer than eleven words
#           keeps its order. Features named in node_attrs move along, tensors that were made for the text do not.
# Way out:  networkx.convert_node_labels_to_integers(graph) before, which keeps the order
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet dgl==1.1.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 networkx==3.6.1 \
    torch_geometric==2.8.1 igraph==1.0.0
venv/bin/pip install --quiet --no-deps setuptools==69.5.1 packaging==26.3  # which DGL imports
cat >check.py <<'PYTHON'
import dgl
import igraph
import networkx
from torch_geometric.utils import from_networkx


def list_places(words):
    """The places of a chain of words in graphs of each library."""
    text = networkx.DiGraph()
    for place in range(words):
        text.add_node(f"w{place}", place=place)
    for place in range(words - 1):
        text.add_edge(f"w{place}", f"w{place + 1}")
    numbered = networkx.convert_node_labels_to_integers(text)
    return {
        "dgl": dgl.from_networkx(text, node_attrs=["place"]).ndata["place"].tolist(),
        "dgl, with integers": dgl.from_networkx(numbered, node_attrs=["place"]).ndata["place"].tolist(),
        "torch_geometric": from_networkx(text).place.tolist(),
        "igraph": igraph.Graph.from_networkx(text).vs["place"],
    }


for words in (10, 12):
    for name, places in list_places(words).items():
        print(words, name, places)
        moves = name == "dgl" and words > 10
        assert places == ([0, 1, 10, 11, *range(2, 10)] if moves else [*range(words)]), (name, places)
PYTHON
DGLBACKEND=pytorch venv/bin/python check.py
