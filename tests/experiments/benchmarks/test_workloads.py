"""Workloads: names, sizes, draws from corpora."""

import pytest
import torch

from graphattn._edges import Edges
from graphattn.builders import TextGraphBuilder, Window
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import _workloads as workloads
from graphattn.experiments.benchmarks._workloads import Workload, draw_sample, parse_workloads, uniform


def test_a_length_names_a_batch_of_the_usual_size():
    names = ["22", "109", "201", "512", "2048", "8192", "32768", "100000", "3x7"]
    parsed, missing = parse_workloads(names)
    sizes = ["128x22", "128x109", "128x201", "32x512", "8x2048", "2x8192", "1x32768", "1x100000", "3x7"]
    assert [workload.name for workload in parsed] == sizes
    assert [workload.tokens for workload in parsed][:5] == [2816, 13952, 25728, 16384, 16384]
    assert missing == []


@pytest.mark.parametrize("name", ["x7", "7x", "0", "3x0", "sst", "-1", "1e3", ""])
def test_other_names_are_errors(name):
    with pytest.raises(ConfigError) as error:
        parse_workloads(["22", name])
    assert str(error.value) == (
        f"--lengths has {name!r}; give lengths such as 109, sentences x length such as 8x2048, "
        "corpora: mr, mtl16, imdb; or random lengths: questions, sentences, reviews"
    )


@pytest.mark.parametrize("folder", ["", "nowhere", "empty"])
def test_a_missing_corpus_is_reported(monkeypatch, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("GRAPHATTN_DATA", str(tmp_path / folder) if folder else "")
    assert parse_workloads(["mr", "2x3"]) == (
        [uniform(2, 3)],
        ["mr: there is no mr/all.tsv in the folder that GRAPHATTN_DATA names"],
    )


def test_a_corpus_gives_its_lengths(monkeypatch, tmp_path):
    (tmp_path / "mtl16").mkdir()
    (tmp_path / "mtl16" / "books.task.test").write_text("1\ta b c\n0\td\n")
    (tmp_path / "mtl16" / "dvd.task.test").write_text("1\te f\n")
    monkeypatch.setenv("GRAPHATTN_DATA", str(tmp_path))
    (workload,), missing = parse_workloads(["mtl16"])
    assert (workload.name, workload.lengths, missing) == ("mtl16", (3, 2, 1), [])


@pytest.mark.parametrize("name", ["mr", "mtl16", "imdb"])
def test_real_corpora_have_their_lengths(corpora, name):
    (workload,), _ = parse_workloads([name])
    mean = workload.tokens / len(workload.lengths)
    assert workloads.SAMPLE_TOKENS <= workload.tokens < workloads.SAMPLE_TOKENS + 6000
    assert {"mr": 18, "mtl16": 80, "imdb": 180}[name] < mean < {"mr": 26, "mtl16": 180, "imdb": 320}[name]


def test_a_sample_is_long_enough_sorted_and_repeatable():
    population = list(range(1, 101))
    workload = draw_sample("some", population, tokens=500)
    assert workload == draw_sample("some", population, tokens=500)
    assert workload != draw_sample("some", population, tokens=500, seed=1)
    assert 500 <= workload.tokens < 600
    assert list(workload.lengths) == sorted(workload.lengths, reverse=True)
    assert len(set(workload.lengths)) == len(workload.lengths)  # without replacement


def test_padded_batches_stay_within_the_budget():
    workload = draw_sample("some", [9000, 5000, 3000, 3000, 2000, 10, 10, 10])
    assert workload.batches == ((9000,), (5000,), (3000, 3000), (2000, 10, 10, 10)), "the small corpus is used whole"


def test_graphs_equal_those_of_sentences_without_cls():
    workload = Workload("some", ((3, 1), (2,)))
    builder = TextGraphBuilder([Window(3)], cls=False)
    assert (workload.uniform_length, uniform(2, 3).uniform_length) == (None, 3)
    first, second = workload.graphs(builder)
    expected = builder.text_batch([["a"] * 3, ["a"]])
    assert first.batch_num_nodes("token").tolist() == expected.batch_num_nodes("token").tolist() == [3, 1]
    assert all(map(torch.equal, Edges.of(first).ends_by_id(), Edges.of(expected).ends_by_id()))
    assert first.node_features["token"]["position"].tolist() == [0, 1, 2, 0]
    assert second.num_nodes() == 2
    assert workload.graphs(builder)[0] is not first
