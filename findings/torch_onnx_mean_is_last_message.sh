#!/usr/bin/env bash
# PyTorch's ONNX export turns the mean over a node's messages into the message of its last edge, without a warning.
#
# Version:  torch 2.13.0 (CPU) with onnxscript 0.7.2, onnx 1.23.2, onnxruntime 1.32.0, Python 3.11
# Source:   ONNX has no such mean (issue 5100 of onnx; pull request 102048 of PyTorch leaves it out as unsupported).
#           onnxscript's function_libs/torch_lib/ops/core.py translates "mean" to ScatterElements with reduction "none",
#           a mean with index_reduce is a ConversionError. Issue 1335 of chemprop is about ways around it
# Guess:    written before the run: include_self=False is ignored (it is not)
# Expected: the exported model computes what the model computes, as it does for sum, amax, amin and prod; or an error
# Observed: for "mean" each node gets one message, that of the last edge: 6 for the messages 1, 2 and 6, and 1 if the
#           same edges come in another order. The export and the check of the model succeed.
# Way out:  divide a sum by the number of messages, as PyTorch Geometric's scatter does, whose export is right; or
#           export with verify=True, which compares the outputs and writes the difference into its log
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0
cat >check.py <<'PYTHON'
import warnings

import numpy as np
import onnx
import onnxruntime
import torch


class Gather(torch.nn.Module):
    """What the nodes of a graph get from the messages at their edges."""

    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def forward(self, messages, targets):
        return torch.zeros(3).scatter_reduce(0, targets, messages, self.reduce, include_self=False)


class Divide(torch.nn.Module):
    def forward(self, messages, targets):
        counts = torch.zeros(3).scatter_reduce(0, targets, torch.ones_like(messages), "sum")
        return torch.zeros(3).scatter_reduce(0, targets, messages, "sum") / counts.clamp(min=1)


def export(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = torch.onnx.export(model.eval(), graphs["in order"], dynamo=True, verbose=False)
    assert not [warning for warning in caught if "scatter" in str(warning.message).lower()]
    program.save("model.onnx")
    onnx.checker.check_model("model.onnx", full_check=True)
    session = onnxruntime.InferenceSession("model.onnx")
    names = [entry.name for entry in session.get_inputs()]
    return lambda *inputs: session.run(None, dict(zip(names, (entry.numpy() for entry in inputs))))[0].tolist()


# three messages for node 0, none for node 1, one for node 2
messages, targets = torch.tensor([1.0, 2.0, 6.0, 4.0]), torch.tensor([0, 0, 0, 2])
graphs = {"in order": (messages, targets), "reversed": (messages.flip(0), targets.flip(0))}
for reduce in ("sum", "amax", "amin", "prod", "mean", "divided"):
    model = Divide() if reduce == "divided" else Gather(reduce)
    run = export(model)
    for order, inputs in graphs.items():
        expected, found = model(*inputs).tolist(), run(*inputs)
        print(f"{reduce:8} {order:9} PyTorch {expected} ONNX {found}")
        if reduce == "mean":
            assert expected == [3, 0, 4]
            assert found == [6 if order == "in order" else 1, 0, 4]
        else:
            assert np.allclose(expected, found)
PYTHON
OMP_NUM_THREADS=1 venv/bin/python check.py 2>warnings.txt || { cat warnings.txt >&2; exit 1; }
