#!/usr/bin/env bash
# A bool feature of a DGL graph comes back from a file as uint8, so that `~mask` no longer turns it round.
#
# Version:  dgl 1.1.3 with torch 2.13.0 (CPU), Python 3.11
# Source:   dgl.save_graphs and dgl.load_graphs; DGL's arrays have no bool
# Expected: a loaded graph has features of the types that were saved, as it has for int8, float16 and bfloat16
# Observed: torch.bool becomes torch.uint8. Then ~mask is 255 and 254, all of it true, and nodes[~mask] selects every
#           node.
# Way out:  graph.ndata["mask"] = graph.ndata["mask"].bool() after loading
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet dgl==1.1.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 networkx==3.6.1
venv/bin/pip install --quiet --no-deps setuptools==69.5.1 packaging==26.3  # which DGL imports
cat >check.py <<'PYTHON'
import warnings

import dgl
import torch

warnings.simplefilter("ignore")
graph = dgl.graph(([0, 1, 2], [1, 2, 3]))
mask = torch.tensor([True, False, False, True])
types = (torch.bool, torch.int8, torch.float16, torch.bfloat16)
for number, dtype in enumerate(types):
    graph.ndata[str(number)] = mask.to(dtype)
dgl.save_graphs("graphs.bin", [graph])
(loaded,), _ = dgl.load_graphs("graphs.bin")
found = {dtype: loaded.ndata[str(number)].dtype for number, dtype in enumerate(types)}
print(found)
assert found == {dtype: torch.uint8 if dtype is torch.bool else dtype for dtype in types}, found
others = [torch.arange(4)[~masks].tolist() for masks in (graph.ndata["0"], loaded.ndata["0"])]
print("nodes outside the mask, before and after:", others)
assert others == [[1, 2], [0, 1, 2, 3]], others
PYTHON
DGLBACKEND=pytorch venv/bin/python check.py
