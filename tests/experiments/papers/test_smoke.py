"""All tables and figures run with small models on generated corpora."""

import pytest

from graphattn.experiments.papers._catalogue import PAPERS


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_all_tables_and_figures(graphattn, paper):
    answer = graphattn("reproduce", paper, "--smoke")
    assert (answer.code, answer.err) == (0, "")
    rows = [line.rpartition(" rows, ")[0] for line in answer.out.splitlines()]
    assert rows == [f"{experiment.full_name}: {len(experiment.rows)}" for experiment in PAPERS[paper]]
