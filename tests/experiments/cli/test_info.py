"""``graphattn info``: its description of a store and of a model, and reports of damage."""

import json
import shutil

import pytest


@pytest.fixture(scope="module")
def store(graphattn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("info")
    rows = [
        '{"tokens": ["Dogs", "bark"], "heads": [2, 0], "deprels": ["nsubj", "root"], "tags": ["N", "V"]}',
        '{"tokens": ["a", "b", "c", "d", "e"], "label": "x"}',
        '{"tokens": []}',
    ]
    (folder / "a.jsonl").write_text("\n".join(rows) + "\n")
    graphattn("build", folder / "a.jsonl", "--relations", "window:3,all", "--out", folder / "s")
    return folder / "s"


def test_counts_lengths_edges_and_memory(graphattn, store):
    answer = graphattn("info", store, "--batch-size", "2")
    size = (store / "sentences" / "part-000000.parquet").stat().st_size
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        f"{store}: a.jsonl\n"
        "sentences: 3 (1 parsed, 0 left out)\n"
        "words: 7\n"
        "tokens: 7 (2.3 a sentence, 5 at most)\n"
        f"size: {size:,} bytes in 1 shard ({size / 7:.2f} a token)\n"
        "\n"
        "tokens  sentences\n"
        "0               1  ########################################\n"
        "2-3             1  ########################################\n"
        "4-7             1  ########################################\n"
        "\n"
        "relation  edges  a sentence\n"
        "window:3     24         8.0\n"
        "all          46        15.3\n"
        "\n"
        "memory of a batch's graph, 2 sentences: 0.00 MB, 0.00 MB at most\n"
        "labels: x 1\n"
        "tags: N 1, V 1\n"
        "dependencies: nsubj 1, root 1\n"
    )


def test_damaged_shards_are_reported(graphattn, store):
    path = store / "sentences" / "part-000000.parquet"
    whole = path.read_bytes()
    assert graphattn("info", store, "--check").out.endswith("\nall checksums match\n")
    path.write_bytes(whole[:-1])
    answer = graphattn("info", store, "--check")
    path.write_bytes(whole)
    assert answer.out.endswith(
        f"\ndamaged: sentences/part-000000.parquet has {len(whole) - 1:,} bytes instead of {len(whole):,}\n"
    )
    assert (answer.code, answer.err) == (
        1,
        f"error: {store}: 1 file is damaged. Run the same graphattn build again, which keeps the others.\n",
    )


def test_other_folders_are_rejected(graphattn, tmp_path):
    assert graphattn("info", tmp_path).error == (
        f"{tmp_path}: is neither a store nor a model. Give a folder that graphattn build or graphattn train wrote."
    )


def test_a_run_before_the_end_of_its_first_epoch(graphattn, tmp_path):
    (tmp_path / "training.json").write_text("{}")
    answer = graphattn("info", tmp_path)
    assert answer.code == 1
    assert "it is the folder of a training run of which no epoch has ended" in answer.err


def test_a_model_is_shown_with_its_options_and_epochs(graphattn, classifier):
    answer = graphattn("info", classifier)
    metrics = json.loads((classifier / "metrics.json").read_text())
    about, options, epochs = answer.out.split("\n\n")
    assert (answer.code, answer.err) == (0, "")
    assert about == (
        f"{classifier}: classifies texts, encoder ms-trans\n"
        f"parameters: {metrics['parameters']:,} trained\n"
        f"size: {sum(file.stat().st_size for file in classifier.iterdir()):,} bytes\n"
        f"vocabulary: {_words(classifier)} words\n"
        "labels: neg, pos\n"
        "heads of all layers: 1 along window:1, 1 along window:3"
    )
    assert options == (
        "options that are not the defaults:\n"
        "  hidden: 16\n  layers: 1\n  heads: 2\n  scales: 1, 3\n  embedding: 16\n"
        "  epochs: 2\n  batch_size: 16\n  logs: False"
    )
    heading, *rows, note = epochs.splitlines()
    names = "epoch train loss dev accuracy dev macro precision dev macro recall dev macro f1 deep linear"
    assert heading.split() == names.split()
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    kept = [row for row in rows if row.endswith("  *")]
    assert [row.split()[0] for row in kept] == [str(metrics["best_epoch"])]
    assert note == "* has the weights that are kept"
    assert float(kept[0].split()[-7]) == pytest.approx(metrics["dev"]["accuracy"], rel=1e-3)


def _words(model):
    return len(json.loads((model / "tokenizer.json").read_text())["model"]["vocab"])


@pytest.mark.parametrize(("kind", "does"), [("tagger", "tags words"), ("pair_classifier", "classifies pairs of texts")])
def test_models_of_other_tasks_are_shown(graphattn, request, kind, does):
    model = request.getfixturevalue(kind)
    answer = graphattn("info", model)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{model}: {does}, encoder ms-trans\n")


def test_changed_metrics_are_reported(graphattn, classifier, tmp_path):
    """Loading does not read them."""
    model = shutil.copytree(classifier, tmp_path / "model")
    assert graphattn("info", model, "--check").out.endswith("\nall checksums match\n")
    metrics = model / "metrics.json"
    metrics.write_text(metrics.read_text().replace('"epochs": 2', '"epochs": 3'))
    assert graphattn("info", model).code == 0
    answer = graphattn("info", model, "--check")
    assert answer.error == f"{metrics} is damaged: its checksum is not the one in config.json. Copy the directory again"


def test_a_damaged_model_is_reported(graphattn, classifier, tmp_path):
    for file in classifier.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "labels.json").write_text("[]")
    answer = graphattn("info", tmp_path)
    assert answer.error == (
        f"{tmp_path}/labels.json is damaged: its checksum is not the one in config.json. Copy the directory again"
    )
