"""``bench encoder`` and ``bench train-step``: rows, and the arithmetic limit beside the Transformer's."""

import pytest

from graphattn.experiments.benchmarks import encoder, train_step
from graphattn.experiments.benchmarks.comparison import Settings
from graphattn.experiments.benchmarks.workloads import Workload, uniform


@pytest.mark.parametrize(
    ("module", "name", "task"), [(encoder, "encoder", "inference"), (train_step, "train-step", "training step")]
)
def test_rows_of_all_encoders(module, name, task):
    report = module.measure(Settings(("2x6",), repeats=1))
    assert report.name == name
    assert [(row["contender"], row["task"]) for row in report.rows] == [
        (who, task) for who in ("ours", "transformer", "masked", "dgl")
    ]
    limits = [report.columns["limit"](row) for row in report.rows]
    assert limits == ["", f"{encoder.arithmetic_limit(uniform(2, 6)):.2f}", "", ""]


def test_the_limit_grows_with_length():
    limits = [encoder.arithmetic_limit(uniform(2, length)) for length in (109, 201, 2048, 8192)]
    assert limits == sorted(limits)
    # at 22 tokens more windows hold one token only, which needs no query and no key
    assert encoder.arithmetic_limit(uniform(2, 22)) == pytest.approx(4.22, abs=0.01)
    # without end: 30 heads x n^2 pairs, against heads on N/16, N/8 and N/4 (6, 4, 3 of them less the clipped ends)
    endless = encoder.arithmetic_limit(uniform(1, 10**7))
    shares = {16: 6, 8: 4, 4: 3}
    expected = 30 / sum(heads * (1 / part - 1 / (2 * part) ** 2) for part, heads in shares.items())
    assert endless == pytest.approx(expected, rel=0.01)


def test_the_limit_is_of_all_sentences_together():
    assert encoder.arithmetic_limit(Workload("a", ((5, 9), (5,)))) == encoder.arithmetic_limit(
        Workload("b", ((5, 5, 9),))
    )
