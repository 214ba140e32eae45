"""``bench predict``: texts, files and ratios."""

import json

import numpy as np
import pytest

from graphattn.experiments.benchmarks import _predict as predict
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._workloads import Workload, uniform


@pytest.fixture(scope="module")
def report(small):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "LATENCY_RUNS", 3)
        return predict.measure(Settings(("3x7", "2x40"), repeats=2), options=small)


@pytest.mark.slow
def test_rows_and_shares(report):
    assert [(row["workload"], row["contender"]) for row in report.rows] == [
        *(("3x7", "predict"), ("3x7", "encoder"), ("2x40", "predict"), ("2x40", "encoder")),
        ("1x10", "sentence"),
    ]
    whole, bare = report.rows[:2]
    assert whole["share"] == bare["median_ms"] / whole["median_ms"]
    assert whole["tokens"] == bare["tokens"] == 3 * 8  # with [CLS]
    assert len(report.rows[-1]["times_ms"]) == 3


def test_the_table_has_tokens_a_second(report):
    row = {"workload": "3x7", "title": "predict", "tokens": 24, "median_ms": 2.0, "share": 0.754}
    row |= {"quartiles_ms": [1.0, 3.0], "times_ms": [1.0, 2.0, 3.0]}
    cells = [cell(row) for cell in report.columns.values()]
    assert cells == ["3x7", "predict", "2", "1 - 3", "3", "12,000", "75%"]


def test_texts_have_the_lengths_of_the_workload():
    texts = predict.make_texts(uniform(3, 7))
    assert [len(text.split()) for text in texts] == [7, 7, 7]
    assert len(set(texts)) == 3


def test_texts_of_a_corpus(monkeypatch, tmp_path):
    (tmp_path / "mr").mkdir()
    (tmp_path / "mr" / "all.tsv").write_text("1\tone film\n0\tno film at all\n")
    monkeypatch.setenv("GRAPHATTN_DATA", str(tmp_path))
    assert sorted(predict.make_texts(Workload("mr", ((4, 2),)))) == ["no film at all", "one film"]


@pytest.fixture(scope="module")
def estimator(small, tmp_path_factory):
    return predict.train_model(tmp_path_factory.mktemp("models") / "model", small)


def test_the_file_is_that_of_the_command(estimator, tmp_path):
    predict.make_predict_job(estimator, ["word1 word2", "word3"], tmp_path).time()
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["word1 word2", "word3"]
    assert [row["label"] for row in rows] == estimator.predict(["word1 word2", "word3"]).tolist()


def test_the_bare_encoder_gets_the_same_tokens(estimator):
    texts = ["word1 word2 word3", "word1", "word9 word9"]
    job, tokens = predict.make_encoder_job(estimator, texts)
    assert tokens == sum(len(text.split()) + 1 for text in texts)
    (batch,) = job.prepare()
    assert np.array_equal(batch.graph.batch_num_nodes("token"), [4, 3, 2])
    job.run([batch])
