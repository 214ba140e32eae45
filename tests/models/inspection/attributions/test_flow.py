"""Flow against linear programming, which knows nothing of augmenting paths."""

import numpy as np
import pytest
from scipy.optimize import linprog

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attributions import attention_flow, flow
from graphattn.models.inspection.attributions.rollout import layer_matrices

TEXT = "fine and never dull"


def largest_flow(matrices, source, ends):
    """Maximise what arrives at the last layer: one variable for each pipe, what comes into a node goes out of it."""
    pipes = [
        (layer, s, t, matrix[t, s])
        for layer, matrix in enumerate(matrices)
        for t, s in zip(*matrix.nonzero(), strict=True)
    ]
    count, top = len(ends), len(matrices)
    gains = [-1.0 if layer == top - 1 else 0.0 for layer, *_ in pipes]
    balance, limits = [], []
    for layer in range(1, top):
        for node in range(count):
            into = [int(one[0] == layer - 1 and one[2] == node) for one in pipes]
            out_of = [int(one[0] == layer and one[1] == node) for one in pipes]
            balance.append(np.subtract(into, out_of))
    for node in range(count):
        limits.append([float(one[0] == top - 1 and one[2] == node) for one in pipes])
    starts = [float(one[0] == 0 and one[1] != source) for one in pipes]
    equal = np.array([*balance, starts])
    found = linprog(gains, limits, ends, equal, np.zeros(len(equal)), bounds=[(0, one[3]) for one in pipes])
    assert found.success
    return -found.fun


@pytest.mark.parametrize("target", [None, 0, 3])
def test_it_equals_linear_programming(target, classifier):
    attention = classifier.attention(TEXT)
    matrices = [matrix.toarray() for matrix in layer_matrices(attention, 0.5)]
    ends = np.full(5, 1 / 5) if target is None else (np.arange(5) == target).astype(float)
    found = attention_flow(attention, target=target)
    expected = [largest_flow(matrices, source, ends) for source in range(5)]
    np.testing.assert_allclose(found.attribution, expected, atol=1e-6)


def test_long_texts_are_refused(classifiers, monkeypatch):
    attention = classifiers["transformer"].attention(TEXT)
    monkeypatch.setattr(flow, "MOST_EDGES", 49)
    with pytest.raises(ConfigError, match="50 edges"):
        attention_flow(attention)
