"""A store instead of a corpus: train, evaluate, predict and encode give the same results."""

import json

import pytest

SENTENCES = ["good film", "a bad film", "a film that is bad", "great", "poor", "what a fine film", ""]


@pytest.fixture(scope="module")
def folder(graphattn, tmp_path_factory):
    """Corpora for each task, and stores of them."""
    folder = tmp_path_factory.mktemp("stores")
    rows = [(text, other) for text in SENTENCES for other in SENTENCES[:5]]
    label = {True: "same", False: "other"}
    pairs = [{"text": a, "second": b, "label": label[("bad" in a) == ("bad" in b)]} for a, b in rows]
    texts = [{"text": text, "label": "neg" if {"bad", "poor"} & {*text.split()} else "pos"} for text in SENTENCES * 4]
    words = [text.split() for text in SENTENCES * 4 if text]
    tagged = [{"tokens": tokens, "tags": ["A" if len(word) < 4 else "B" for word in tokens]} for tokens in words]
    for task, items in (("classify", texts), ("pair", pairs), ("tag", tagged)):
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in items))
        flags = ["--pairs"] if task == "pair" else []
        answer = graphattn("build", folder / f"{task}.jsonl", "--out", folder / f"{task}.store", *flags,
                           "--shard-size", "0.001")  # fmt: skip
        assert answer.code == 0, answer.err
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classify", "pair", "tag"])
def test_models_trained_on_a_store(graphattn, folder, tmp_path, tiny, task):
    corpus, store = folder / f"{task}.jsonl", folder / f"{task}.store"
    for name, data in (("file", corpus), ("store", store)):
        answer = graphattn("train", task, data, "--dev", data, "--test", data, "--out", tmp_path / name, *tiny)
        assert (answer.code, answer.err) == (0, "")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("file", "store")]
    assert weights[0] == weights[1]
    figures = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("file", "store")]
    assert figures[0] == figures[1]
    model = tmp_path / "file"
    assert graphattn("evaluate", model, store).out == graphattn("evaluate", model, corpus).out
    answers = [graphattn("predict", model, data) for data in (store, corpus)]
    assert [answer.code for answer in answers] == [0, 0] if task != "tag" else [0, 1]
    decided = "tags" if task == "tag" else "label"
    stored = [json.loads(line) for line in answers[0].out.splitlines()]
    if task == "pair":
        assert stored[1] == {"words": ["good", "film"], "second": ["a", "bad", "film"], "label": stored[1]["label"]}
    if task != "tag":
        assert [row[decided] for row in stored] == [json.loads(line)[decided] for line in answers[1].out.splitlines()]
        graphattn("encode", model, store, "--out", tmp_path / "store.npy")
        graphattn("encode", model, corpus, "--out", tmp_path / "file.npy")
        assert (tmp_path / "store.npy").read_bytes() == (tmp_path / "file.npy").read_bytes()
    else:
        assert len(stored) == len(corpus.read_text().splitlines())


def test_info_and_show_of_pairs(graphattn, folder):
    answer = graphattn("info", folder / "pair.store")
    assert "\nsentences: 70 (in 35 pairs, 0 parsed, 0 left out)\n" in answer.out
    assert sum(int(part.split()[-1]) for part in answer.out.split("labels: ")[1].split("\n")[0].split(", ")) == 35
    assert graphattn("show", folder / "pair.store", "--index", "3").out.startswith("a bad film\n")


def test_a_store_cannot_be_combined_with_other_corpora(graphattn, folder, tmp_path, tiny):
    store = folder / "classify.store"
    answer = graphattn("train", "classify", store, folder / "classify.jsonl", "--out", tmp_path / "m", *tiny)
    assert answer.error == (
        f"{store}: a store cannot be combined with other corpora. Append them to the store: graphattn build --append."
    )


def test_single_texts_are_not_pairs(graphattn, folder, tmp_path, tiny):
    store = folder / "classify.store"
    answer = graphattn("train", "pair", store, "--out", tmp_path / "m", *tiny)
    assert (
        answer.error
        == f"{store}: sentence 0 is not part of a pair. Build a store of pairs alone: graphattn build --pairs."
    )
