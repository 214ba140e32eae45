"""Test scores side by side, their standard errors, and the pages that show them."""

import importlib
import statistics
from pathlib import Path

import pytest

from graphattn.experiments.papers import DATA_SETS
from graphattn.experiments.papers._comparison import (
    TEST_TEXTS,
    TRAINING_WORDS,
    compare_data_sets,
    compare_rows,
    estimate_error,
    mark_best,
)
from graphattn.experiments.papers._experiment import Experiment, Row, find_results
from graphattn.experiments.papers._figures import draw_differences, find_differences
from graphattn.experiments.papers._result_rows import group_runs

DOCS = Path(__file__).resolve().parents[3] / "docs"


def make_runs(data_set, encoder, *scores, **figures):
    return [
        {"data_set": data_set, "encoder": encoder, "seed": seed, "test": score, **figures}
        for seed, score in enumerate(scores)
    ]


def test_errors_are_over_seeds_and_texts():
    assert estimate_error(make_runs("conll2003", "a", 80.0)) == 0  # no seeds, no bootstrap, no accuracy
    assert estimate_error(make_runs("conll2003", "a", 80.0, 82.0)) == pytest.approx(1.0)
    assert estimate_error(make_runs("conll2003", "a", 80.0, 82.0, test_error=2.4)) == pytest.approx(2.6)
    assert estimate_error(make_runs("apparel", "a", 80.0)) == pytest.approx(100 * (0.8 * 0.2 / 400) ** 0.5)


def test_the_best_and_what_ties_with_it_are_marked():
    cells = {name: make_runs("conll2003", name, score, test_error=1.0) for name, score in (("a", 80.0), ("b", 78.5))}
    assert mark_best(cells) == {"a": "**80.0**", "b": "78.5"}
    cells["c"] = make_runs("conll2003", "c", 79.0, 79.4, test_error=1.0)
    assert mark_best({**cells, "d": []}) == {"a": "**80.0**", "b": "78.5", "c": "*79.2 ± 0.3*", "d": ""}
    assert mark_best({"a": cells["a"]}) == {"a": "80.0"}, "one system is compared with nothing"


def test_encoders_have_their_order_and_gaps():
    rows = [
        *make_runs("sick", "duo=a+b", 60.0),
        *make_runs("sst2", "tfidf", 77.0),
        *make_runs("sst2", "transformer", 80.0, 82.0),
        {"data_set": "sst2", "encoder": "ms-trans", "seed": 0, "dev": 83.0},
    ]
    assert compare_data_sets(group_runs(rows)).splitlines() == [
        "| data set | ms-trans | transformer | tfidf | duo=a+b |",
        "|---|---|---|---|---|",
        "| sst2 |  | **81.0 ± 1.4** | 77.0 |  |",
        "| sick |  |  |  | 60.0 |",
    ]


def test_all_domains_have_a_mean():
    domains = [name for name in TEST_TEXTS if TEST_TEXTS[name] == 400]
    rows = [run for n, name in enumerate(domains) for run in make_runs(name, "bilstm", 70.0 + n)]
    rows += [run for name in domains[1:] for run in make_runs(name, "tfidf", 70.0)]
    assert compare_data_sets(group_runs(rows)).splitlines()[-1] == "| mean of MTL-16 | 77.5 |  |"
    rows += [run for name in domains for run in make_runs(name, "ms-trans", 77.0)]
    rows += make_runs(domains[0], "tfidf", 70.0)
    # a domain's error is the binomial one of 400 texts, that of the mean a quarter of it: 0.5
    assert compare_data_sets(group_runs(rows)).splitlines()[-1] == "| mean of MTL-16 | *77.0* | **77.5** | 70.0 |"
    cells = group_runs(rows)
    assert "mean of MTL-16" not in [name for name, *_ in find_differences(cells, "ms-trans", "transformer")]
    *_, (name, difference, error) = find_differences(cells, "ms-trans", "bilstm")
    assert (name, difference) == ("mean of MTL-16", -0.5)
    errors = [estimate_error(cells[domain, encoder]) ** 2 for domain in domains for encoder in ("ms-trans", "bilstm")]
    assert error == pytest.approx(sum(errors) ** 0.5 / 16)


def test_rows_of_a_paper_next_to_its_numbers():
    rows = (
        Row("Apparel / MS-Trans", "apparel", "ms-trans", {}, {"test": 87.25}),
        Row("Apparel / BiLSTM", "apparel", "bilstm", {}, {"test": 86.05}),
        Row("Books / MS-Trans", "books", "ms-trans", {}, {"test": 85.25}),
        Row("Baby / MS-Trans", "baby", "ms-trans"),
    )
    table = Experiment("some", "table 3", "MTL-16", rows, averages={"MS-Trans": None})
    runs = [
        *make_runs("apparel", "ms-trans", 80.0, test_error=1.0),
        *make_runs("apparel", "bilstm", 85.0, test_error=1.0),
        *make_runs("books", "ms-trans", 81.0),
    ]
    results = find_results({row.label: table.run(row, {}) for row in rows}, runs)
    assert compare_rows(table, rows, results).splitlines() == [
        "some table 3: MTL-16",
        "",
        "|  | MS-Trans | BiLSTM |",
        "|---|---|---|",
        "| Apparel | 80.0 (87.2) | **85.0** (86.0) |",
        "| Books | 81.0 (85.2) |  |",
        "| mean of these | 80.5 |  |",
    ]
    assert compare_rows(table, rows[3:], results) == "some table 3: no run has a test score"


def test_differences_of_common_data_sets(tmp_path):
    pytest.importorskip("matplotlib")
    cells = group_runs(
        run
        for name in ("books", "sst2")
        for encoder, score in (("ms-trans", 84.0), ("bilstm", 83.0))
        for run in make_runs(name, encoder, score)
    )
    (name, difference, error), (longer, *_) = find_differences(cells, "ms-trans", "bilstm")
    assert longer == "books"
    assert (name, difference) == ("sst2", 1.0)
    assert error == pytest.approx(1.23, abs=0.01)
    assert find_differences(cells, "ms-trans", "mtsa") == []
    draw_differences(cells, ["ms-trans", "bilstm", "mtsa"], tmp_path / "differences.svg")
    picture = (tmp_path / "differences.svg").read_text(encoding="utf-8")
    assert "ms-trans minus bilstm" in picture
    assert "sst2 (19 words)" in picture


def test_sizes_of_test_sets(corpora):
    assert {name: len(DATA_SETS[name].load("test", corpora)) for name in ("sst2", "sst5", "sick", "apparel")} == {
        name: TEST_TEXTS[name] for name in ("sst2", "sst5", "sick", "apparel")
    }


def test_words_of_training_sets(corpora):
    names = "sst2", "sick", "ewt", "apparel", "imdb-short"
    for name in names:
        texts = DATA_SETS[name].load("train", corpora)
        words = [len(text) if name == "ewt" else len(text.text.split()) for text in texts]
        assert round(statistics.mean(words)) == TRAINING_WORDS[name], name


PAGES = (
    *("decisions.md", "calibration.md", "int8.md", "reproduce.md", "reproduce-papers.md"),
    *("results.md", "results-runs.md"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_pages_have_the_tables_of_their_runs(name, monkeypatch):
    if not (DOCS / "fill_tables.py").is_file():
        pytest.skip("there is no clone")
    monkeypatch.syspath_prepend(DOCS)
    page = (DOCS / name).read_text(encoding="utf-8")
    assert importlib.import_module("fill_tables").fill_tables(page) == page, "run docs/fill_tables.py"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--encoder", "bilstm"], "--picture compares encoders; name two with --encoder"),
        (["--encoder", "bilstm", "--encoder", "mtsa", "--picture", "x.bmp"], "x.bmp"),
    ],
)
def test_a_picture_is_checked_before_anything_runs(graphattn, tmp_path, words, message):
    pytest.importorskip("matplotlib")
    answer = graphattn("reproduce", "sst2", "--picture", "x.png", *words, "--data", tmp_path, "--out", tmp_path / "r")
    assert (answer.code, message in answer.err) == (1, True)
    assert not (tmp_path / "r").exists()
