"""A small model's options, workloads of one length and of several, reference attention, and fixed memory."""

import pytest
import torch

from graphattn.experiments.benchmarks import _harness as harness
from graphattn.experiments.benchmarks import _pretrained as pretrained
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.benchmarks._fresh_processes import PeakMemory
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


@pytest.fixture(scope="session")
def require():
    """Return a contender that can run on this machine; skip the test of another."""

    def check(contender):
        try:
            return contender.check_requirements()
        except UnableError as error:
            pytest.skip(str(error))

    return check


@pytest.fixture
def fix_memory(monkeypatch):
    """Replace processes by fixed MiB: ``fix_memory({"ours": 2, "dgl": None})``, None for a killed one.

    An allocator that keeps freed memory needs 1,000 more. Returns the class and workload of each request.
    """

    def fix(added, *, held=1, libraries=5 * 2**10):
        requests = []

        def measure(contender, workload, *, keep_freed=True, backward=True):
            requests.append((type(contender).__name__, workload.name))
            if added[contender.name] is None:
                raise UnableError("ended by signal 9")
            more = added[contender.name] + 1000 * keep_freed
            sizes = {"held": held, "added": more, "whole": more + libraries}
            return PeakMemory(**{name: size * 2**20 for name, size in sizes.items()}, run_ms=1.0)

        for module in (harness, pretrained):
            monkeypatch.setattr(module, "measure_peak_memory", measure)
        return requests

    return fix
