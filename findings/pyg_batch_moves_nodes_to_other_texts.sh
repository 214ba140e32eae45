#!/usr/bin/env bash
# In PyTorch Geometric, a text without a node type makes a batch put later nodes of this type into earlier texts.
#
# Version:  torch_geometric 2.8.1 with torch 2.13.0 (CPU), Python 3.11
# Source:   torch_geometric/data/collate.py counts only the texts that have a type. Issues 7147 and 10801 of PyTorch
#           Geometric say that types which the first graph lacks are left out, and that its documentation does not tell
# Expected: the sentence of the third text belongs to the third text and its words; or an error, as from dgl.batch
# Observed: of three texts, the second of which has no sentence node, the third text's sentence is in text 1 (batch is
#           [0, 1], not [0, 2]), and its words are the second text's: edges come from words 2 and 3, not 5 and 6. All
#           indices are valid, so a layer and a pooling run, on other words. If the text comes first, as it may in a
#           shuffled loader, all sentences of the batch are gone. There is no warning.
# Way out:  give every text every type: store.x = torch.zeros(0, size), and an edge_index of shape (2, 0)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 torch_geometric==2.8.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import DataLoader

MEMBERS = ("word", "in", "sentence")


def make(words, sentences, complete=False):
    """A text with at most one sentence, which has all its words."""
    text = HeteroData()
    text["word"].x = torch.ones(words, 1)
    if sentences or complete:
        text["sentence"].x = torch.ones(sentences, 1)
        text[MEMBERS].edge_index = torch.stack([torch.arange(words), torch.zeros(words).long()])[:, : words * sentences]
    return text


def batch(*sizes, complete=False):
    (graph,) = DataLoader([make(*size, complete) for size in sizes], batch_size=len(sizes))
    if "sentence" not in graph.node_types:
        return None
    return graph["sentence"].batch.tolist(), graph[MEMBERS].edge_index[0].tolist(), graph["word"].batch.tolist()


middle = batch((2, 1), (3, 0), (2, 1))
first = batch((3, 0), (2, 1), (2, 1))
complete = batch((2, 1), (3, 0), (2, 1), complete=True)
for name, found in {"in the middle": middle, "first": first, "with all types": complete}.items():
    print(f"text without a sentence {name}: texts of sentences, their words, texts of words:", found)
words = [0, 0, 1, 1, 1, 2, 2]
assert middle == ([0, 1], [0, 1, 2, 3], words)
assert first is None
assert complete == ([0, 2], [0, 1, 5, 6], words)
PYTHON
venv/bin/python -W ignore check.py
