#!/usr/bin/env bash
# A PyTorch Geometric EdgeIndex made outside of PyTorch's inference mode cannot be used inside: layers raise.
#
# Version:  torch_geometric 2.8.1 with torch 2.13.0 (CPU), Python 3.11
# Source:   torch_geometric/edge_index.py, the handler of aten.select, makes a wrapper subclass of the selected row
# Expected: a layer accepts an EdgeIndex wherever it accepts the plain edge_index; inference mode only turns off
#           gradients
# Observed: GCNConv, SAGEConv, GATConv and TransformerConv work on an EdgeIndex under torch.no_grad(), and on a plain
#           edge_index under torch.inference_mode(). On an EdgeIndex under torch.inference_mode(), even on edge_index[0],
#           "RuntimeError: Cannot set version_counter for inference tensor", unless the EdgeIndex was made there, too;
#           data sets and loaders make it outside.
# Way out:  torch.no_grad(), or edge_index.as_tensor()
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 torch_geometric==2.8.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import warnings

import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TransformerConv

warnings.simplefilter("ignore")
plain = torch.tensor([[0, 1, 2], [1, 2, 2]])
nodes = torch.randn(3, 4)
outside = EdgeIndex(plain, sparse_size=(3, 3), sort_order="col")


def try_each(mode, edge_index):
    outcomes = {}
    calls = {"edge_index[0]": lambda: edge_index[0]}
    for kind in (GCNConv, SAGEConv, GATConv, TransformerConv):
        layer = kind(4, 4)
        calls[kind.__name__] = lambda layer=layer: layer(nodes, edge_index)
    for name, call in calls.items():
        with mode():
            try:
                call()
                outcomes[name] = "works"
            except RuntimeError as error:
                outcomes[name] = str(error)
    return outcomes


with torch.inference_mode():
    inside = EdgeIndex(plain, sparse_size=(3, 3), sort_order="col")
works, fails = "works", "Cannot set version_counter for inference tensor"
cases = {
    "plain, inference mode": (torch.inference_mode, plain, works),
    "as_tensor(), inference mode": (torch.inference_mode, outside.as_tensor(), works),
    "EdgeIndex, no_grad": (torch.no_grad, outside, works),
    "EdgeIndex, inference mode": (torch.inference_mode, outside, fails),
    "EdgeIndex made inside, inference mode": (torch.inference_mode, inside, works),
}
for name, (mode, edge_index, expected) in cases.items():
    outcomes = try_each(mode, edge_index)
    print(f"{name}: {outcomes}")
    assert set(outcomes.values()) == {expected}, (name, outcomes)
PYTHON
venv/bin/python check.py
