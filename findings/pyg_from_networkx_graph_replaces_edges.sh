#!/usr/bin/env bash
# PyTorch Geometric's from_networkx drops an attribute of all edges if the graph has an attribute of the same name.
#
# Version:  torch_geometric 2.8.1 with torch 2.13.0 (CPU), networkx 3.6.1, igraph 1.0.0, Python 3.11
# Source:   torch_geometric/utils/convert.py: an edge's attribute that nodes have too becomes edge_..., and a graph's
#           becomes graph_... (issue 3276, pull request 4343); edges and graph are not compared. The documentation does
#           not mention names that clash
# Guess:    written before the run: the graph's value replaces the edges' values
# Expected: the text's class and the relations of its words are both there, as they are in igraph and if nodes have a
#           "label" too; or an error
# Observed: "label" is the class of the text; the relations are gone, without a warning. With group_edge_attrs, the
#           edge_attr is this class, one row for all edges. A graph's "weight" becomes the weight of every edge: a layer
#           broadcasts it and returns other numbers. A GML file that has a label for its graph loses its edges' too.
# Way out:  rename the graph's attribute before: graph.graph["graph_label"] = graph.graph.pop("label")
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 torch_geometric==2.8.1 networkx==3.6.1 igraph==1.0.0 numpy==2.4.6
cat >check.py <<'PYTHON'
import igraph
import networkx
import torch
from torch_geometric.nn import GraphConv
from torch_geometric.utils import from_networkx

NSUBJ, DET = 3, 8


def make(**attributes):
    """The text "the dog barks" with the number of each relation as a label."""
    text = networkx.DiGraph(**attributes)
    text.add_nodes_from((place, {"place": place}) for place in range(3))
    text.add_edge(1, 0, label=DET, weight=0.25)
    text.add_edge(2, 1, label=NSUBJ, weight=0.5)
    return text


plain, labelled = make(), make(label=1)
print("without a class:", from_networkx(plain).label, "with class 1:", from_networkx(labelled).label)
assert from_networkx(plain).label.tolist() == [DET, NSUBJ]
data = from_networkx(labelled)
assert data.label.item() == 1 and not [key for key in data.keys() if key.startswith(("edge_l", "graph_l"))]
kept = igraph.Graph.from_networkx(labelled)
assert (kept["label"], kept.es["label"]) == (1, [DET, NSUBJ])

nodes = make(label=1)
networkx.set_node_attributes(nodes, {0: 10, 1: 11, 2: 12}, "label")
data = from_networkx(nodes)
print("with labels of nodes too:", data.label, data.edge_label, data.graph_label)
assert (data.label.tolist(), data.edge_label.tolist(), data.graph_label.item()) == ([10, 11, 12], [DET, NSUBJ], 1)

grouped = [from_networkx(text, group_edge_attrs=["label"]).edge_attr.tolist() for text in (plain, labelled)]
print("edge_attr:", grouped)
assert grouped == [[[DET], [NSUBJ]], [[1]]]

torch.manual_seed(0)
layer = GraphConv(1, 1)
torch.nn.init.ones_(layer.lin_rel.weight)
torch.nn.init.zeros_(layer.lin_rel.bias)
torch.nn.init.zeros_(layer.lin_root.weight)
outputs = []
for text in (make(), make(weight=7.0)):
    data = from_networkx(text)
    outputs.append(layer(torch.ones(3, 1), data.edge_index, data.weight).flatten().tolist())
print("sums of weights at the words, without and with a weight of the graph:", outputs)
assert outputs == [[0.25, 0.5, 0], [7, 7, 0]]

gml = """graph [ directed 1 label "question" node [ id 0 label "dog" ] node [ id 1 label "barks" ]
edge [ source 1 target 0 label "nsubj" ] ]"""
data = from_networkx(networkx.parse_gml(gml))
print("GML:", data.label)
assert data.label == "question" and "nsubj" not in str(data.to_dict())
PYTHON
venv/bin/python -W ignore check.py
