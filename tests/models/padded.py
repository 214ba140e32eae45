"""Padded ids of texts."""

from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from graphattn._edges import lengths_of
from graphattn.models._estimators.state import make_corpus

MODELS = Path(__file__).parents[1] / "data" / "models"


def pad_ids(estimator, texts, *, segments=False):
    """(B, L) ids, mask and, if asked for, segments of what a fitted estimator reads of texts."""
    return pad_batch(make_corpus(estimator, texts)[list(range(len(texts)))].graph, segments=segments)


def pad_batch(graph, *, segments=False):
    """The same of a batch."""
    features, lengths = graph.node_features["token"], lengths_of(graph, "token").tolist()
    columns = [features["id"], torch.ones(sum(lengths)), *([features["segment"]] if segments else [])]
    return tuple(pad_sequence(list(column.long().split(lengths)), batch_first=True) for column in columns)
