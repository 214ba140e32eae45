#!/usr/bin/env bash
# DGL's edge_softmax in bfloat16 gives weights that add up to more than 1 at nodes with over 256 incoming edges.
#
# Version:  dgl 1.1.3 with torch 2.13.0 (CPU), Python 3.11
# Source:   dgl.nn.functional.edge_softmax on a CPU; as if it added exponentials in bfloat16, in which 256 + 1 is 256
# Expected: weights of a node add up to 1 within the rounding of bfloat16, as those of torch.softmax do; DGL's own
#           update_all(copy_u, sum) of 2,000 ones in bfloat16 is exactly 2,000
# Observed: 2,000 edges with equal scores each have the weight 1 / 256, so a node's weights add up to 7.8. In float32
#           they add up to 1.
# Way out:  edge_softmax(graph, scores.float()).to(scores.dtype)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet dgl==1.1.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 networkx==3.6.1
venv/bin/pip install --quiet --no-deps setuptools==69.5.1 packaging==26.3  # which DGL imports
cat >check.py <<'PYTHON'
import dgl
import torch
from dgl import function
from dgl.nn.functional import edge_softmax


def add_up_weights(edges, dtype):
    graph = dgl.graph((torch.arange(edges), torch.zeros(edges, dtype=torch.long)), num_nodes=edges)
    graph.ndata["one"] = torch.ones(edges, 1, dtype=dtype)
    graph.update_all(function.copy_u("one", "message"), function.sum("message", "count"))
    weights = edge_softmax(graph, torch.zeros(edges, 1, dtype=dtype))
    dense = torch.zeros(edges, dtype=dtype).softmax(0)
    return {
        "edge_softmax": round(weights.float().sum().item(), 2),
        "torch.softmax": round(dense.float().sum().item(), 2),
        "update_all": graph.ndata["count"][0].item(),
    }


for edges, dtype, total in (
    (256, torch.bfloat16, 1.0),
    (512, torch.bfloat16, 2.0),
    (2000, torch.bfloat16, 7.81),
    (2000, torch.float32, 1.0),
):
    found = add_up_weights(edges, dtype)
    print(edges, dtype, found)
    assert found == {"edge_softmax": total, "torch.softmax": 1.0, "update_all": edges}, found
PYTHON
DGLBACKEND=pytorch venv/bin/python check.py
