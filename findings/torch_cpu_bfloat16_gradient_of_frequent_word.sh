#!/usr/bin/env bash
# On a CPU in bfloat16 the gradient of a word stops growing with its 256th occurrence, and a mean by index is far off.
#
# Version:  torch 2.13.0 (CPU) with torch_geometric 2.8.1, Python 3.11
# Source:   index_put_ with accumulate (the backward of embedding, and of rows[index]), index_reduce_ and
#           segment_reduce on a CPU: as if one row after the other were added in bfloat16, in which 256 + 1 is 256
# Expected: sums over indices are rounded once, as scatter_reduce_ and a two-dimensional index_add_ do here
# Observed: of a word that occurs 2,000 times in a batch with gradients of 1, as token type 0 of a BERT may, the
#           gradient is 256. index_reduce_(..., "mean") of 2,000 ones is 0.13, scatter_reduce_(..., "mean") 1. PyTorch
#           Geometric's softmax has weights that add up to 1 with index, and to 7.8 with ptr, which says the same.
# Way out:  embeddings in float32 under autocast, and float32 for sums over edges
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 torch_geometric==2.8.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import warnings

import torch
from torch.nn import functional
from torch_geometric.utils import softmax

warnings.simplefilter("ignore")
COUNT = 2000
same = torch.zeros(COUNT, dtype=torch.long)


def measure(dtype):
    ones = torch.ones(COUNT, 1, dtype=dtype)
    embedding = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    functional.embedding(same, embedding).sum().backward()
    rows = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    rows[same].sum().backward()
    zeros = torch.zeros(1, 1, dtype=dtype)
    return {
        "gradient of embedding": embedding.grad.item(),
        "gradient of rows[index]": rows.grad.item(),
        "index_add": zeros.index_add(0, same, ones).item(),
        "index_reduce, mean": round(zeros.index_reduce(0, same, ones, "mean", include_self=False).item(), 2),
        "scatter_reduce, mean": zeros.scatter_reduce(0, same[:, None], ones, "mean", include_self=False).item(),
        "softmax, index": round(softmax(0 * ones, same).float().sum().item(), 2),
        "softmax, ptr": round(softmax(0 * ones, ptr=torch.tensor([0, COUNT])).float().sum().item(), 2),
    }


right = dict.fromkeys(measure(torch.float32), 1.0)
right |= dict.fromkeys(("gradient of embedding", "gradient of rows[index]", "index_add"), 2000.0)
wrong = {"gradient of embedding": 256.0, "gradient of rows[index]": 256.0, "index_reduce, mean": 0.13}
for dtype, expected in ((torch.float32, right), (torch.bfloat16, right | wrong | {"softmax, ptr": 7.81})):
    found = measure(dtype)
    print(dtype, found)
    assert found == expected, found
PYTHON
venv/bin/python check.py
