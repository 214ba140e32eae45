"""``bench frontier``: rows of fresh processes, which resume; missing peers; files that all contenders read."""

import json
import sys

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import _frontier as frontier
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.benchmarks._frontier import (
    ENTRIES,
    PEERS,
    Entry,
    FrontierSettings,
    RowsFile,
    measure,
    plot_frontier,
    run_process,
    trace_curve,
    write_splits,
)
from graphattn.experiments.papers._data_sets import DataSet, find_data_set

SMALL = "--hidden 8 --heads 2 --layers 1 --scales 1,3 --embedding 8 --epochs 1 --no-logs --quiet".split()
OURS = Entry("small", "GraphAttn, small", ("classify",), tuple(SMALL))
(TFIDF,) = (entry for entry in PEERS if entry.name == "tfidf")


def write_reviews(folder, count):
    """A folder in which SST-2 has so many training texts."""
    (folder / "sst2").mkdir(parents=True)
    for name, size in (("train", count), ("dev", 20), ("test", 40)):
        lines = [f"{n % 2}\tthe film {n} was {('dull', 'great')[n % 2]}\n" for n in range(size)]
        (folder / "sst2" / f"{name}.tsv").write_text("".join(lines))
    return folder


def make_row(name, seconds, score, *, is_peer, data_set="sst2"):
    return {
        **{"data_set": data_set, "contender": name, "title": name, "is_peer": is_peer, "cpu_seconds": seconds},
        **{"score": score, "test_cpu_seconds": 1.0, "command": name, "versions": {}},
    }


@pytest.mark.slow
def test_rows_of_fresh_processes_resume(tmp_path):
    data, out = write_reviews(tmp_path / "data", 200), tmp_path / "out"
    out.mkdir()
    bare = tmp_path / "python"  # without installed packages
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    tuned = Entry("tfidf-tuned", "no library", ("classify",), install="scikit-learn")
    settings = FrontierSettings(("sst2",), pythons={"tfidf-tuned": str(bare)})

    def run(*contenders):
        return measure(settings, data=data, out=out, contenders=contenders)

    report = run(OURS, TFIDF, tuned)
    assert {row["contender"]: row["score"] for row in report.rows}["tfidf"] == 100
    assert sorted(row["contender"] for row in report.rows) == ["small", "tfidf"]
    for row in report.rows:
        assert row["cpu_seconds"] > 0 < row["test_cpu_seconds"]
        assert row["model_bytes"] > 0
    assert report.left_out == ["no library: sklearn is not installed: pip install scikit-learn (sst2)"]
    report.write(out)
    assert sorted(path.name for path in out.iterdir()) == [
        *("frontier.json", "frontier.md", "frontier.png", "frontier.rows.jsonl"),
    ]
    assert "| `train classify --hidden 8 " in (out / "frontier.md").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("data", "out", "python")] == []
    again = run(OURS, TFIDF)
    assert again.rows == report.rows
    assert len((out / frontier.ROWS_FILE).read_text().splitlines()) == 2


def test_processes_keep_compiled_modules_also_where_the_shell_forbids_that(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    used = run_process([sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"], tmp_path, 60)
    assert used.output == "False\n"


def test_finished_rows_are_not_measured_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = make_row("tfidf", 2.0, 80.0, is_peer=True) | {"command": TFIDF.describe_command("classify")}
    path.write_text(json.dumps(row) + '\n{"data_set": "ss')  # the machine failed here
    rows = RowsFile(path)
    assert rows.has("sst2", "classify", TFIDF, 60)
    assert not rows.has("r8", "classify", TFIDF, 60)
    rows.append({**row, "data_set": "r8", "score": 90.0})
    stopped = {name: row[name] for name in ("contender", "title", "command")} | {"data_set": "imdb"}
    rows.append({**stopped, "stopped_after": 60.0})
    again = RowsFile(path)
    assert again.rows == rows.rows
    assert again.has("imdb", "classify", TFIDF, 60)
    assert not again.has("imdb", "classify", TFIDF, 61)


def test_selection():
    def select(*only):
        return [entry.name for entry in ENTRIES if FrontierSettings(only=only).selects("sst2", entry)]

    assert select() == [entry.name for entry in ENTRIES]
    assert select("sst2/tfidf", "r8/linear") == ["tfidf"]
    assert select("linear", "*/spacy-*") == ["linear", "spacy-bow", "spacy-ensemble", "spacy-ner"]
    assert select("r8") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "tdidf"], "--only has 'tdidf', which selects no row; give data sets (sst2, r8, "),
        (["--pythons", "default=python"], "--pythons has 'default'; choose from: tfidf, "),
        (["--pythons", "flair"], "--pythons is 'flair'; give peers and paths: flair=/path/to/python"),
        (["--data-sets", "sst3"], "data set 'sst3' does not exist; "),
        (["--data-sets", "multi30k", "--only", "multi30k"], "data set 'multi30k' has no classes and tags"),
    ],
)
def test_wrong_flags(graphattn, words, message):
    assert graphattn("bench", "frontier", *words).error.startswith(message)


def test_a_missing_corpus_is_left_out(tmp_path):
    report = measure(FrontierSettings(("sst2",)), data=tmp_path, contenders=[TFIDF])
    assert report.rows == []
    assert "lacks sst2/train.tsv" in report.left_out[0]


def test_all_contenders_read_the_same_files(tmp_path):
    from graphattn.experiments.benchmarks._frontier_peers import read_split

    (tmp_path / "sick").mkdir()
    (tmp_path / "conll2003_ner").mkdir()
    for name in ("train", "dev", "test"):
        (tmp_path / "sick" / f"{name}.tsv").write_text("a man runs\ta man walks\t1\n")
    tags = "EU NNP I-NP I-ORG\nUN NNP I-NP B-ORG\nlags VBZ I-VP O\n\nSpain NNP I-NP I-LOC\n"
    for name in ("train", "testa", "testb"):
        (tmp_path / "conll2003_ner" / f"eng.{name}").write_text(tags)
    pairs = write_splits("sick", find_data_set("sick"), tmp_path, tmp_path)
    read = read_split(pairs.folder, "train")
    assert (read.texts, read.labels, read.is_tagged) == ([("a man runs", "a man walks")], ["1"], False)
    tagged = write_splits(
        "conll2003", DataSet("tag", *_tag_files(), find_data_set("conll2003").read, metric="f1"), tmp_path, tmp_path
    )
    read = read_split(tagged.folder, "test")
    assert read.texts == [["EU", "UN", "lags"], ["Spain"]]
    assert read.labels == tagged.gold == [["B-ORG", "B-ORG", "O"], ["B-LOC"]]
    assert tagged.measure(tagged.gold) == 100
    assert tagged.measure([["B-ORG", "I-ORG", "O"], ["I-LOC"]]) == pytest.approx(40)


def _tag_files():
    return (f"conll2003_ner/eng.{name}" for name in ("train", "testb"))


def test_a_tenth_is_held_out_by_class(tmp_path):
    from graphattn.experiments.benchmarks._frontier_peers import read_split

    data = write_reviews(tmp_path, 100)
    corpus = DataSet("classify", "sst2/train.tsv", "sst2/test.tsv", find_data_set("sst2").read)
    files = write_splits("sst2", corpus, data, tmp_path)
    assert [len(read_split(files.folder, name).texts) for name in ("train", "dev", "test")] == [90, 10, 40]
    assert sorted(read_split(files.folder, "dev").labels) == ["0"] * 5 + ["1"] * 5


@pytest.mark.parametrize("name", ["tfidf-tuned", "crfsuite"])
def test_peers_of_our_dependencies(tmp_path, name):
    from graphattn.experiments.benchmarks._frontier_peers import PEERS, Labelled, main

    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    for split in ("train", "dev", "test"):
        if name == "crfsuite":
            text = "the\tO\nUN\tB-ORG\nsat\tO\n\nSpain\tB-LOC\nsat\tO\n\n" * 9
            (data / f"{split}.conll").write_text(text)
        else:
            rows = [{"text": "a man", "second": other, "label": other[-4:]} for other in ("a girl runs", "he eats")]
            (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 9))
    main("fit", name, str(data), str(model))
    main("predict", name, str(data), str(model))
    decided = json.loads((model / "predictions.json").read_text())
    assert decided[:2] == ([["O", "B-ORG", "O"], ["B-LOC", "O"]] if name == "crfsuite" else ["runs", "eats"])
    unseen = Labelled([["UN", "sat"]] if name == "crfsuite" else [("a man", "he runs")], [], name == "crfsuite")
    assert PEERS[name].predict(unseen, model, "") == ([["B-ORG", "O"]] if name == "crfsuite" else ["runs"])


def test_every_peer_has_a_script():
    from graphattn.experiments.benchmarks import _frontier_peers as script

    assert {entry.name for entry in PEERS} == set(script.PEERS)


def test_processes_that_fail(tmp_path):
    code = "import sys; sys.exit('error: this failed')"
    with pytest.raises(UnableError, match=r"^this failed$"):
        run_process([sys.executable, "-c", code], tmp_path, 60)
    with pytest.raises(UnableError, match="ended with code -9, no message"):
        run_process([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path, 60)


@pytest.mark.slow
def test_a_process_has_a_limit_and_one_thread(tmp_path):
    with pytest.raises(frontier.CpuLimitError):
        run_process([sys.executable, "-c", "while True: pass"], tmp_path, 1)
    code = "import os; print(os.environ['OMP_NUM_THREADS']); sum(range(10**7))"
    used = run_process([sys.executable, "-c", code], tmp_path, 60)
    assert used.output == "1\n"
    assert used.cpu_seconds > 0.02


@pytest.mark.slow
def test_the_picture_has_a_curve_of_ours(tmp_path):
    rows = [
        make_row("default", 90.0, 80.0, is_peer=False),
        make_row("linear", 5.0, 81.0, is_peer=False),
        make_row("fine-tuned", 400.0, 89.0, is_peer=False),
        make_row("fasttext", 2.0, 81.5, is_peer=True),
        make_row("trainer", 400.0, 88.0, is_peer=True, data_set="r8"),
    ]
    assert trace_curve(rows[:3]) == [(5, 81), (90, 81), (400, 89)]
    plot_frontier(rows, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 1000


def test_without_the_pretrained_model(tmp_path, monkeypatch):
    def find():
        raise ConfigError("the model is not installed")

    monkeypatch.setattr(frontier, "find_minilm", find)
    (frozen,) = (entry for entry in ENTRIES if entry.name == "frozen")
    report = measure(FrontierSettings(("sst2",)), data=write_reviews(tmp_path, 20), contenders=[frozen])
    assert report.left_out == ["GraphAttn, MiniLM frozen: the model is not installed (sst2)"]
