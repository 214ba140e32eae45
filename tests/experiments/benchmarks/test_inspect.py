"""``bench inspect``: three passes of each encoder, their ratios and bounds."""

from graphattn.experiments.benchmarks import inspect
from graphattn.experiments.benchmarks.comparison import Settings
from graphattn.models import DuoOptions, MTSAOptions


def test_rows_and_ratios():
    encoders = (MTSAOptions(hidden=8), DuoOptions(hidden=8))
    report = inspect.measure(Settings(("2x5",), repeats=2), encoders=encoders)
    assert [(row["encoder"], row["contender"]) for row in report.rows] == [
        (name, what) for name in ("mtsa", "duo") for what in ("plain", "asked before", "asked")
    ]
    plain, before, asked = report.rows[:3]
    assert "ratio" not in plain
    assert before["ratio"] == before["median_ms"] / plain["median_ms"]
    assert asked["target"] == inspect.ASKED.verdict(asked["ratio"])
    assert before["target"].startswith("<= 1.05: ")
    assert [len(row["times_ms"]) for row in report.rows] == [2] * 6
    assert "| mtsa | 2x5 | asked before |" in report.markdown()


def test_every_encoder_with_attention_is_measured():
    from graphattn.models.encoders import ENCODERS

    assert set(inspect.ENCODERS) <= set(ENCODERS)
