"""Tables and figures run with small models on generated corpora: a row of each sort."""

from importlib.util import find_spec

import pytest

from graphattn.experiments.papers import _few_labels
from graphattn.experiments.papers._catalogue import PAPERS
from graphattn.experiments.papers._data_sets import find_data_set
from graphattn.experiments.papers._measurements import MEASUREMENTS
from graphattn.experiments.papers._runs import execute
from graphattn.experiments.papers._settings import SETFIT
from graphattn.experiments.papers._smoke import shrink


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::graphattn.exceptions.GraphAttnWarning")
@pytest.mark.parametrize("paper", PAPERS)
def test_rows_run(folder, tmp_path, paper, monkeypatch):
    """Rows of the same task, with the same encoder and changed options, are alike; one of them runs."""
    monkeypatch.setattr(_few_labels, "STEPS", 2)
    runs = {}
    for experiment in PAPERS[paper]:
        for row in experiment.rows:
            if row.encoder == SETFIT and find_spec("setfit") is None:
                continue
            task = row.data_set if row.data_set in MEASUREMENTS else find_data_set(row.data_set).task
            changed = str({group: sorted(values) for group, values in row.changes.items()})
            runs.setdefault((task, row.encoder.partition("=")[0], changed), shrink(experiment.run(row, {})))
    assert len(execute(runs.values(), tmp_path / "r.jsonl", folder=folder)) == len(runs)


@pytest.mark.slow
def test_the_command_runs_all_rows(graphattn):
    answer = graphattn("reproduce", "umst", "--table", 7, "--smoke")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("umst table 7: 3 rows, ")
