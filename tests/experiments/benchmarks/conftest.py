"""A small model's options, workloads of one length and of several, and reference attention."""

import pytest
import torch

from graphattn.experiments.benchmarks._workloads import Workload
from graphattn.models import MSTransOptions


@pytest.fixture(scope="session")
def small() -> MSTransOptions:
    """Two layers of four heads of three features."""
    return MSTransOptions(hidden=12, heads=4, layers=2, scales=("1", "3", "N/4", "N/2"), dropout=0.0)


@pytest.fixture(scope="session", params=["uniform", "ragged"])
def workload(request) -> Workload:
    """Two batches; sentences of one length, or of several."""
    return Workload("some", ((9, 9), (9,)) if request.param == "uniform" else ((7, 12, 1), (5, 9)))


@pytest.fixture(scope="session")
def reference_attention():
    """Attention of one head over one sentence: a loop over tokens, float64."""

    def attend(query, key, value, reach):
        query, key, value = query.double(), key.double(), value.double()
        rows = []
        for position in range(len(query)):
            window = slice(max(0, position - reach), position + reach + 1)
            weights = torch.softmax(key[window] @ query[position] / query.shape[1] ** 0.5, dim=0)
            rows.append(weights @ value[window])
        return torch.stack(rows)

    return attend
