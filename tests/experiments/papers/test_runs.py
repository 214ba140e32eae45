"""Runs of the result tables on small corpora laid out like the real ones."""

import json
import lzma
from dataclasses import replace

import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.papers import _result_rows as result_rows
from graphattn.experiments.papers import _runs as results
from graphattn.experiments.papers._data_sets import DATA_SETS
from graphattn.experiments.papers._settings import VECTOR_FILES, make_estimator

SMALL = {"encoder": {"hidden": 20, "layers": 1}, "training": {"epochs": 2}}


def reproduce(data_sets, encoders, seeds, out, *, changes=None, **options):
    """Make all combinations of a run."""
    runs = results.combine(data_sets, encoders, seeds)
    return results.execute([results.with_changes(run, changes or {}) for run in runs], out, **options)


@pytest.fixture
def folder(tmp_path):
    """A data folder with a small SST-2 and vectors for its words."""
    lines = [f"{label}\t{word} {noun}" for noun in "abcdefgh" for label, word in ((1, "good"), (0, "bad"))]
    (tmp_path / "sst2").mkdir()
    for part in ("train", "dev", "test"):
        (tmp_path / "sst2" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    vectors = tmp_path / VECTOR_FILES["skipgram"]
    vectors.parent.mkdir()
    vectors.write_bytes(lzma.compress(b"2 4\ngood 1 0 0 1\nbad 0 1 1 0\n"))
    return tmp_path


@pytest.fixture
def no_files(monkeypatch):
    """No data folder: its files count as present."""
    monkeypatch.setattr(results, "data_folder", lambda: None)
    monkeypatch.setattr(results, "require_files", lambda folder, files: list(files))


def test_a_series_writes_each_run_and_resumes(folder, tmp_path):
    out, reported = tmp_path / "out.jsonl", []
    for encoder, changes in (("bilstm", SMALL), ("tfidf", None)):
        reproduce(["sst2"], [encoder], [0, 1], out, changes=changes, folder=folder, report=reported.append)
    rows = result_rows.read_rows(out)
    assert [(row["encoder"], row["seed"]) for row in rows] == [("bilstm", 0), ("bilstm", 1), ("tfidf", 0), ("tfidf", 1)]
    assert rows == reported
    assert all(0 <= row["test"] <= 100 for row in rows)
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:-1]))
    again = []
    reproduce(["sst2"], ["tfidf"], [0, 1], out, folder=folder, report=again.append)
    assert [(row["encoder"], row["seed"]) for row in again] == [("tfidf", 1)]


def test_the_test_set_is_not_read_while_choosing_settings(folder):
    (folder / "sst2" / "test.tsv").unlink()
    row = results.run("sst2", "bilstm", 0, folder=folder, on_test=False, changes=SMALL)
    assert "test" not in row
    assert row["epochs"] == 2
    assert row["changes"] == SMALL
    for encoder, changes in (("bilstm", SMALL), ("tfidf", {})):
        row = results.run("sst2", encoder, 0, folder=folder, fold=1, changes=changes)
        assert "test" not in row
        assert 0 <= row["held_out"] <= 100


def test_a_class_with_a_single_example(folder, monkeypatch):
    monkeypatch.setitem(DATA_SETS, "sst2", replace(DATA_SETS["sst2"], dev=None))
    with (folder / "sst2" / "train.tsv").open("a") as file:
        file.write("lonely\tthe only one of its kind\n")
    assert 0 <= results.run("sst2", "tfidf", 0, folder=folder)["dev"] <= 100


def test_without_a_dev_set_the_last_epoch_counts(folder, monkeypatch):
    monkeypatch.setitem(DATA_SETS, "sst2", replace(DATA_SETS["sst2"], dev=None))
    changes = {**SMALL, "training": {"epochs": 2, "dev_fraction": 0.0}}
    row = results.run("sst2", "bilstm", 0, folder=folder, changes=changes)
    assert "dev" not in row
    assert row["best_epoch"] == row["epochs"] == 2
    assert result_rows.results_table([row]).endswith(f"| 1 | - | {row['test']:.1f} |")


@pytest.mark.slow
def test_default_runs_hold_out_a_part_of_a_sample(folder, tmp_path):
    (folder / "sst2" / "dev.tsv").write_text("unknown\tnot used\n")
    rows = reproduce(["sst2:14"], ["default", "default-bilstm"], [0], tmp_path / "out.jsonl", folder=folder)
    assert [row["epochs"] <= 20 for row in rows] == [True, True]
    assert all({"dev", "test"} <= row.keys() for row in rows)
    with pytest.raises(ConfigError, match="write a number of training examples after the colon"):
        reproduce(["sst2:many"], ["default"], [0], tmp_path / "out.jsonl", folder=folder)


def write_words(path, sentences):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join("".join(f"{word} {tag}\n" for word, tag in sentence) + "\n" for sentence in sentences))


def test_the_crf_baseline(tmp_path):
    sentences = [[("Anna", "B-PER"), ("Li", "I-PER"), ("sees", "O"), (name, "B-PER")] for name in ("Bob", "Zoe")] * 10
    for part in ("train", "dev", "test"):
        write_words(tmp_path / "wnut17_ner" / f"{part}.conll", sentences)
    (row,) = reproduce(["wnut17"], ["crf", "tfidf"], [0], tmp_path / "out.jsonl", folder=tmp_path)
    assert (row["encoder"], row["dev"], row["test"]) == ("crf", 100.0, 100.0)


def test_the_baseline_of_pairs(tmp_path):
    (tmp_path / "mrpc").mkdir()
    lines = [f"a{n} b\t{'a' if n % 2 else 'c'}{n} b\t{n % 2}" for n in range(40)]
    for part in ("train", "test"):
        (tmp_path / "mrpc" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    (row,) = reproduce(["mrpc"], ["tfidf"], [0], tmp_path / "out.jsonl", folder=tmp_path)
    assert row["test"] == 100.0


def test_a_run_on_a_fold(tmp_path):
    (tmp_path / "cr").mkdir()
    lines = [f"{number % 2}\t{('good', 'bad')[number % 2]} thing {number}" for number in range(40)]
    (tmp_path / "cr" / "all.tsv").write_text("\n".join(lines) + "\n")
    rows = reproduce(["cr"], ["tfidf"], range(2), tmp_path / "out.jsonl", folder=tmp_path)
    assert [(row["seed"], "test" in row) for row in rows] == [(0, True), (1, True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["sst3"], ["tfidf"], [0]), "data set 'sst3' does not exist; did you mean 'sst5' or 'sst2'"),
        ((["r8"], ["tfidf", "typo"], [0]), "typo"),
        ((["cr"], ["tfidf"], [0, 11]), "seed 11 is no fold"),
    ],
)
def test_impossible_runs_are_rejected_before_the_first_one(tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr(results, "execute_run", None)
    with pytest.raises(ConfigError, match=message):
        reproduce(*arguments, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("place", ["missing/r.jsonl", "."])
def test_an_unwritable_file_is_rejected_before_the_first_run(tmp_path, monkeypatch, place):
    monkeypatch.setattr(results, "execute_run", None)
    with pytest.raises(DataError):
        reproduce(["r8"], ["tfidf"], [0], tmp_path / place)


@pytest.fixture
def calls(monkeypatch):
    """Data sets, encoders and seeds of the runs, which are not executed."""
    calls = []

    def execute_run(item, folder, run_dir):
        calls.append((item.data_set, item.encoder, item.seed))
        return {"data_set": item.data_set, "encoder": item.encoder, "seed": item.seed, "test": 1.0}

    monkeypatch.setattr(results, "execute_run", execute_run)
    return calls


def test_repeated_runs_run_once(tmp_path, calls, no_files):
    reproduce(["r8", "r8"], ["tfidf", "tfidf"], [0, 0], tmp_path / "r.jsonl")
    assert calls == [("r8", "tfidf", 0)]


def test_changed_settings_have_a_separate_line(tmp_path, monkeypatch, no_files):
    plain = {"data_set": "r8", "encoder": "transformer", "seed": 0, "dev": 90.0, "test": 91.0, "changes": {}}
    changed = {**plain, "test": 50.0, "changes": {"encoder": {"ffn": 8}}}
    again = {**plain, "test": 93.0}
    assert result_rows.results_table([plain, changed, again]).splitlines()[2:] == [
        "| r8 | transformer | 1 | 90.0 | 93.0 |",
        "| r8 | transformer (ffn 8) | 1 | 90.0 | 50.0 |",
    ]
    (tmp_path / "r.jsonl").write_text(json.dumps(changed) + "\n")
    monkeypatch.setattr(results, "execute_run", lambda *arguments: plain)
    assert len(reproduce(["r8"], ["transformer"], [0], tmp_path / "r.jsonl")) == 2


def test_a_table_of_selected_runs(graphattn, tmp_path):
    rows = [
        {"data_set": name, "encoder": encoder, "seed": 0, "test": 90.0} for name in ("r8", "cr") for encoder in "ab"
    ]
    changed = {**rows[0], "changes": {"encoder": {"layers": 2}}}
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = graphattn("reproduce", "cr", "--encoder", "b", "--show", "--out", tmp_path / "r.jsonl")
    assert answer.out.splitlines()[2:] == ["| cr | b | 1 | - | 90.0 |"]
    assert len(graphattn("reproduce", "--show", "--out", tmp_path / "r.jsonl").out.splitlines()) == 6
    answer = graphattn("reproduce", "--show", "--side-by-side", "--out", tmp_path / "r.jsonl")
    assert answer.out.splitlines()[2:] == ["| r8 | **90.0** | *90.0* |", "| cr | **90.0** | 90.0 |"]
    with open(tmp_path / "r.jsonl", "a") as file:
        file.write(json.dumps(changed) + "\n")
    of_encoder = ["reproduce", "r8", "--encoder", "a", "--show", "--out", tmp_path / "r.jsonl"]
    lines = ["| r8 | a | 1 | - | 90.0 |", "| r8 | a (layers 2) | 1 | - | 90.0 |"]
    assert graphattn(*of_encoder).out.splitlines()[2:] == lines
    assert graphattn(*of_encoder, "--side-by-side").out.splitlines()[2:] == ["| r8 | 90.0 |"]


@pytest.mark.parametrize("arguments", [["--out", "none.jsonl"], ["mr", "--out", "r.jsonl"]])
def test_a_table_without_runs_is_an_error(graphattn, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.jsonl").write_text('{"data_set": "r8", "encoder": "tfidf", "seed": 0, "test": 90.0}\n')
    answer = graphattn("reproduce", "--show", *arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"error: {arguments[-1]}: holds no such runs. "
        "Name the file that runs were written to, and data sets and encoders that are in it.\n"
    )


TRANSLATOR = {
    "encoder": {"hidden": 16, "layers": 1, "ffn": 16},
    "decoder": {"decoder_layers": 1, "decoder_ffn": 16},
    "inputs": {"vocabulary_size": 90},
    "training": {"epochs": 2, "precision": "32", "max_tokens": 200, "warmup_steps": 5},
    "search": {"max_length": 8, "beam": 2},
}


@pytest.fixture
def parallel_folder(tmp_path):
    """A data folder with a small Multi30k and a small SciTLDR."""
    words = ["a dog", "a cat", "two birds", "the tree", "one house", "no fish"]
    sentences = [f"{one} sees {two}" for one in words for two in words]
    abstracts = [{"source": [f"We saw {word}.", "It ran."], "target": [f"See {word}.", "Run."]} for word in words * 3]
    for name, lines in (("multi30k", sentences), ("scitldr", list(map(json.dumps, abstracts)))):
        for file in map(tmp_path.joinpath, DATA_SETS[name].files()):
            file.parent.mkdir(exist_ok=True)
            file.write_bytes((lzma.compress if file.suffix == ".xz" else bytes)("\n".join(lines).encode()))
            if name == "multi30k":
                file.with_suffix(".de").write_text("\n".join(f"{line}." for line in lines))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("data_set", ["multi30k", "scitldr"])
def test_a_run_of_a_translator(data_set, parallel_folder):
    row = results.run(data_set, "transformer", 1, changes=TRANSLATOR, folder=parallel_folder)
    assert (row["data_set"], row["encoder"], row["seed"], row["epochs"]) == (data_set, "transformer", 1, 2)
    assert row["all_test"].keys() == {"bleu", "chrf", "rouge_1", "rouge_2", "rouge_l", "exact_match"}
    assert row["test"] == row["all_test"][DATA_SETS[data_set].metric]
    assert result_rows.describe_run(row).startswith(f"{data_set} transformer seed 1: dev ")


def test_the_test_set_of_pairs_is_not_read_while_choosing_settings(parallel_folder):
    (parallel_folder / "multi30k_en_de" / "test_2016_flickr.en").unlink()
    row = results.run("multi30k", "transformer", 0, changes=TRANSLATOR, folder=parallel_folder, on_test=False)
    assert "test" not in row
    assert "dev" in row


def test_an_encoder_with_an_option_off(tmp_path):
    whole, without = (
        make_estimator("multi30k", encoder, 0, TRANSLATOR, tmp_path).encoder
        for encoder in ("umst", "umst=without-inter-group")
    )
    assert without == replace(whole, inter_group=False)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (
            "umst=without-trees",
            "there is no umst 'without-trees'; choose among: without-class-embedding, without-scale-classes, "
            "without-intra-group, without-inter-group, without-word-positions",
        ),
        ("transformer=small", "there is no transformer 'small'; it has nothing to leave out"),
    ],
)
def test_unknown_options_to_turn_off(encoder, message, tmp_path):
    with pytest.raises(ConfigError) as caught:
        make_estimator("multi30k", encoder, 0, {}, tmp_path)
    assert str(caught.value) == message


def test_the_first_sentence_as_a_baseline(parallel_folder):
    row = results.run("scitldr", "lead-1", 0, folder=parallel_folder)
    assert row["test"] == row["all_test"]["rouge_l"] > 30
    with pytest.raises(ConfigError) as caught:
        results.run("multi30k", "lead-1", 0, folder=parallel_folder)
    assert str(caught.value) == "lead-1 is a baseline of summaries; this data set has none"


def test_baselines_run_only_on_their_data_sets(tmp_path, calls, no_files):
    sets, encoders = ["multi30k", "scitldr"], ["transformer", "tfidf", "lead-1"]
    rows = reproduce(sets, encoders, [0], tmp_path / "out.jsonl")
    assert calls == [("multi30k", "transformer", 0), ("scitldr", "transformer", 0), ("scitldr", "lead-1", 0)]
    assert "| multi30k | transformer | 1 | - | 1.0 |" in result_rows.results_table(rows)
