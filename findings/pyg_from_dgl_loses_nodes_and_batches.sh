#!/usr/bin/env bash
# PyTorch Geometric's from_dgl and to_dgl lose nodes without features, and which graph of a batch a node is in.
#
# Version:  torch_geometric 2.8.1 with dgl 1.1.3 and torch 2.13.0 (CPU), Python 3.11
# Source:   torch_geometric/utils/convert.py: from_dgl copies edges and features but no numbers of nodes; both ignore
#           batches
# Expected: a converted graph has as many nodes of each type as before, and a batch of two graphs stays one
# Observed: a DGL graph of five words with one edge has two nodes in PyG, with a feature five. A heterograph of five
#           words and a text without features has none, and a warning comes only where num_nodes is read. A batch of two
#           texts comes out as one graph in both directions, so that a pooling layer gives one vector for both. to_dgl of
#           a HeteroData with words after the last edge and features is an error.
# Way out:  set num_nodes and batch by hand: data.num_nodes = graph.num_nodes()
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet dgl==1.1.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 networkx==3.6.1 torch_geometric==2.8.1
venv/bin/pip install --quiet --no-deps setuptools==69.5.1 packaging==26.3  # which DGL imports
cat >check.py <<'PYTHON'
import warnings

import dgl
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import from_dgl, to_dgl

warnings.simplefilter("ignore")
text = dgl.graph(([0], [1]), num_nodes=5)
relations = {("word", "next", "word"): ([0], [1]), ("word", "in", "text"): ([0], [0])}
several = dgl.heterograph(relations, num_nodes_dict={"word": 5, "text": 1})
nodes = {"graph": from_dgl(text).num_nodes, "heterograph": from_dgl(several).num_nodes}
text.ndata["x"] = torch.ones(5, 1)
nodes["with a feature"] = from_dgl(text).num_nodes
print("nodes:", nodes)
assert nodes == {"graph": 2, "heterograph": 0, "with a feature": 5}, nodes

data = from_dgl(dgl.batch([text, text]))
pooled = global_add_pool(data.x, data.batch).flatten().tolist()
edge_index = torch.tensor([[0], [1]])
batch = to_dgl(Batch.from_data_list([Data(x=torch.ones(5, 1), edge_index=edge_index)] * 2))
print("sums of two graphs:", pooled, "size of the batch in DGL:", batch.batch_size)
assert pooled == [10.0] and batch.batch_size == 1

words = HeteroData()
words["word"].x = torch.ones(5, 1)
words["word", "next", "word"].edge_index = edge_index
try:
    print("to_dgl of a HeteroData:", to_dgl(words))
    raise AssertionError("works")
except dgl.DGLError as error:
    print("to_dgl of a HeteroData:", error)
    assert "Got 5 and 2" in str(error)
PYTHON
DGLBACKEND=pytorch venv/bin/python check.py
