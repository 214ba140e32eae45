"""Tables and figures as data, and the printed comparison with the papers."""

from pathlib import Path

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._baselines import BASELINES
from graphattn.experiments.papers._catalogue import PAPERS, find_experiments
from graphattn.experiments.papers._experiment import MEASURES, Experiment, Row, find_results, show_experiment
from graphattn.experiments.papers._measurements import MEASUREMENTS
from graphattn.experiments.papers._runs import check_changes, row_key
from graphattn.experiments.papers._settings import make_estimator

EXPERIMENTS = [experiment for experiments in PAPERS.values() for experiment in experiments]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.full_name)
def test_rows_have_labels_measures_and_options(experiment):
    labels = [row.label for row in experiment.rows]
    assert len(set(labels)) == len(labels)
    for row in experiment.rows:
        assert row.paper.keys() <= set(MEASURES)
        check_changes(row.data_set, row.encoder, row.changes)
        if row.data_set not in MEASUREMENTS and row.encoder not in BASELINES:
            make_estimator(row.data_set, row.encoder, 0, row.changes, Path()).validate()
    ends = {row.parts()[-1] for row in experiment.rows}
    assert set(experiment.averages) <= ends
    assert set(experiment.measures) <= set(MEASURES)


def test_tables_and_figures_by_number():
    assert [experiment.name for experiment in find_experiments("duo", table="6")] == ["table 6"]
    assert len(find_experiments("duo")) == len(PAPERS["duo"])
    with pytest.raises(ConfigError) as caught:
        find_experiments("duo", figure="1")
    assert str(caught.value).startswith("duo has no figure 1; choose among: table 1, table 2")


TABLE = Experiment(
    "some",
    "table 1",
    "a comparison",
    (
        Row("One / CR", "cr", "transformer", {}, {"test": 80.0}),
        Row("Two / CR", "cr", "ms-trans", {"encoder": {"alpha": 0.0, "scales": ("1", "3")}}),
    ),
    ("test", "parameters"),
    averages={"CR": 81.5},
)


def plan(**options):
    return {row.label: TABLE.run(row, {}, **options) for row in TABLE.rows}


def results():
    changes = {"encoder": {"alpha": 0.0, "scales": ["1", "3"]}}
    rows = [
        {"data_set": "cr", "encoder": "transformer", "seed": 0, "dev": 70.0, "test": 60.0, "parameters": 1_500_000},
        {"data_set": "cr", "encoder": "transformer", "seed": 1, "dev": 72.0, "test": 64.0, "parameters": 1_500_000},
        {"data_set": "cr", "encoder": "transformer", "seed": 1, "dev": 72.0, "test": 62.0, "parameters": 1_500_000},
        {"data_set": "cr", "encoder": "ms-trans", "seed": 0, "failed": "the loss is nan", "changes": changes},
    ]
    return [*rows, {**rows[0], "fold": 1}, {**rows[0], "dev_only": True}, {**rows[0], "changes": changes}]


def test_our_numbers_are_next_to_the_papers():
    shown = show_experiment(TABLE, TABLE.rows, find_results(plan(), results()))
    assert shown.splitlines() == [
        "some table 1: a comparison",
        "",
        "| row | test, paper | test | parameters, M | dev | seeds |",
        "|---|---|---|---|---|---|",
        "| One / CR | 80.0 | 61.0 ± 1.4 | 1.50 ± 0.00 | 71.0 ± 1.4 | 2 |",
        "| Two / CR |  | failed | failed | failed | 1 |",
        "| Average / CR | 81.5 |  |  |  |  |",
    ]
    scored = [*results(), {**results()[3], "test": 71.0}]
    assert "| Average / CR | 81.5 | 66.0 |" in show_experiment(TABLE, TABLE.rows, find_results(plan(), scored))


def test_a_fold_and_changes_are_other_runs():
    assert len(find_results(plan(fold=1), results())["One / CR"]) == 1
    run = TABLE.run(TABLE.rows[0], {"encoder": {"ffn": 8}})
    assert run.changes == {"encoder": {"ffn": 8}}
    assert find_results({"x": run}, results()) == {"x": []}
    assert row_key(results()[3]) == plan()["Two / CR"].key()


def test_times_count_only_from_runs_that_were_alone():
    timed = Experiment("some", "table 2", "", TABLE.rows[:1], ("ms_per_128_texts",), timed=True)
    run = timed.run(timed.rows[0], {})
    row = {**results()[0], "inference_seconds": 2.0, "inference_texts": 256}
    assert not run.has_made(row)
    assert not run.has_made({**row, "jobs": 2})
    assert run.has_made({**row, "jobs": 1})
    assert "| 1000.0 |" in show_experiment(timed, timed.rows, {"One / CR": [row]})


def test_rows_by_label_or_by_a_part():
    assert TABLE.select(["One"]) == [TABLE.rows[0]]
    assert TABLE.select(["CR"]) == list(TABLE.rows)
    assert TABLE.select(["Two / CR"]) == [TABLE.rows[1]]
    with pytest.raises(ConfigError) as caught:
        TABLE.select(["Tow"])
    message = "some table 1 has no row 'Tow'; did you mean 'Two'? choose among: One, CR, Two"
    assert str(caught.value) == message
