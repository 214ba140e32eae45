"""Lexicon features: places in entries against a search by hand, suffixes, and models with them."""

import random

import numpy as np
import pytest
import torch

import graphattn
from graphattn._devices import copy_together, remember_copies
from graphattn.builders import Sentence
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.exceptions import DataError
from graphattn.models import InputOptions
from graphattn.models._features.lexicon import SUFFIX_WIDTH, Gazetteer, Lexicon, LexiconFeatures, suffix_ids

SPLITTER = WordSplitter.by_rule("web")


def places_by_hand(entries, words, kind):
    """Longest entry first, from left to right, of one type; a letter or None for each word."""
    known = {tuple(entry.lower().split()) for entry, own in entries if own == kind}
    lower, places, position = [word.lower() for word in words], [None] * len(words), 0
    while position < len(words):
        sizes = [size for size in range(len(words) - position, 0, -1) if tuple(lower[position:][:size]) in known]
        size = sizes[0] if sizes else 0
        if size == 1:
            places[position] = "S"
        elif size:
            places[position : position + size] = ["B", *"I" * (size - 2), "E"]
        position += max(1, size)
    return places


@pytest.mark.parametrize("seed", range(20))
def test_places_equal_a_search_by_hand(seed):
    draw = random.Random(seed)
    entries = [(" ".join(draw.choices("abc", k=draw.randint(1, 4))), draw.choice(["x", "y"])) for _ in range(8)]
    gazetteer, words = Gazetteer(entries), draw.choices("abcABd", k=12)
    marks = gazetteer.mark(words).reshape(len(words), len(gazetteer.types), 4)
    for number, kind in enumerate(gazetteer.types):
        actual = ["BIES"[row.argmax()] if row.any() else None for row in marks[:, number]]
        assert actual == places_by_hand(entries, words, kind)
        assert (marks[:, number].sum(1) <= 1).all()


def test_a_file(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("New York\tplace\n\nU.S.\tplace\nJust one\r\nNew York\tplace\n", encoding="utf-8")
    gazetteer = Gazetteer.read(path, SPLITTER)
    assert gazetteer.entries == (("New York", "place"), ("U.S.", "place"), ("Just one", "entry"))
    assert gazetteer.types == ("place", "entry")
    assert gazetteer.mark(["the", "u.s.", "just", "one"]).nonzero()[1].tolist() == [3, 4, 6]
    assert gazetteer.mark([]).shape == (0, 8)


@pytest.mark.parametrize(("text", "line"), [("a\tx\n\ty\n", 2), ("\n\n", None)])
def test_invalid_files(tmp_path, text, line):
    path = tmp_path / "names.txt"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        Gazetteer.read(path, SPLITTER)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_suffixes_depend_on_their_length_and_ignore_case():
    assert suffix_ids("Talks", 2) == suffix_ids("WALKS", 2) != suffix_ids("Talk", 2)
    assert suffix_ids("s", 2)[0] == suffix_ids("talks", 2)[0]
    assert suffix_ids("s", 2)[1] != suffix_ids("talks", 2)[1]
    assert all(number > 0 for number in suffix_ids("talks", 9))


def test_features_of_text_inputs_are_those_of_their_words():
    lexicon = Lexicon(2, Gazetteer([("unknown", "x")]))
    columns = lexicon.features([Sentence(["un", "known", "dog"], word_ids=[0, 0, 1]), Sentence([])])
    suffixes, marks = (columns[name][0] for name in ("suffixes", "gazetteer"))
    assert suffixes[0].tolist() == [suffix_ids("unknown", 2)] * 2 + [suffix_ids("dog", 2)]
    assert marks[0].tolist() == [[0, 0, 0, 1]] * 2 + [[0] * 4]
    assert [len(column) for column in (suffixes[1], marks[1])] == [0, 0]


def test_the_module_against_sums_by_hand():
    lexicon = Lexicon(2, Gazetteer([("dog", "x")]))
    module = LexiconFeatures(lexicon).double()
    suffixes, marks = torch.tensor([[5, 9], [0, 0]]), torch.tensor([[0, 0, 0, 1], [0] * 4], dtype=torch.uint8)
    vectors = torch.randn(2, 3, dtype=torch.float64)
    actual = module({"suffixes": suffixes, "gazetteer": marks}, vectors)
    table = module.suffixes.weight
    expected = torch.cat([vectors, torch.stack([table[5] + table[9], 0 * table[0]]), marks.double()], dim=1)
    torch.testing.assert_close(actual, expected)
    assert actual.shape[1] == 3 + lexicon.width == 3 + SUFFIX_WIDTH + 4


def test_the_module_reads_copies_on_a_gpu(count_copies):
    meta, module = torch.device("meta"), LexiconFeatures(Lexicon(2, Gazetteer([("dog", "x")]))).to("meta")
    features = {"suffixes": torch.ones(2, 2, dtype=torch.int32), "gazetteer": torch.ones(2, 4, dtype=torch.uint8)}
    remember_copies(features.values(), copy_together(list(features.values()), meta))
    assert count_copies(lambda: module(features, torch.empty(2, 3, device=meta))) == 0


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("film\tthing\ncast\tpeople\nfilm and cast\n")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "tagger", "pair"])
@pytest.mark.parametrize(("level", "cls"), [("word", True), ("bpe", False)])
def test_a_model_with_a_lexicon(corpus, tiny, figures, names, tmp_path, kind, level, cls):
    """A batch equals single inputs; the saved model needs no file; the features change predictions."""
    inputs = {"level": level, "suffixes": 3, "gazetteer": names, "cls": cls}
    X, y = corpus(kind, 12)
    model = tiny(kind, inputs=inputs, training={"epochs": 1}).fit(X, y)
    together = figures(model, X)
    for x, expected in zip(X[:4], together, strict=False):
        np.testing.assert_allclose(figures(model, [x])[0], expected, atol=1e-5)
    (tmp_path / "names.txt").unlink()
    loaded = graphattn.load(model.save(tmp_path / "model"))
    assert all(map(np.array_equal, figures(loaded, X), together))
    assert loaded.text_inputs_.gazetteer.entries == model.text_inputs_.gazetteer.entries
    loaded.text_inputs_.gazetteer = Gazetteer(
        [(f"none{number}", kind) for number, kind in enumerate(model.text_inputs_.gazetteer.types)]
    )
    assert not all(map(np.array_equal, figures(loaded, X), together))
    model.warm_start = True
    assert model.fit(X, y).text_inputs_.gazetteer is not None


@pytest.mark.slow
def test_a_tagger_learns_names_that_it_has_not_seen(tiny, names, tmp_path):
    path = tmp_path / "towns.txt"
    towns = [f"town{letter}" for letter in "abcdefghij"]
    path.write_text("\n".join(towns))
    words = [["we", "saw", town, "today"] for town in towns[:8]] + [["we", "saw", f"dog{n}", "today"] for n in range(8)]
    tags = [["O", "O", "B-X", "O"]] * 8 + [["O"] * 4] * 8
    inputs = {"gazetteer": str(path), "characters": False, "embedding_dropout": 0.0, "word_dropout": 0.5}
    settings = {"epochs": 40, "dev_fraction": 0.0, "learning_rate": 0.01}
    tagger = tiny("tagger", inputs=inputs, training=settings).fit(words, tags)
    assert tagger.predict([["we", "saw", "townj", "today"], ["we", "saw", "cats", "today"]]) == [tags[0], tags[-1]]


def test_options():
    with pytest.raises(graphattn.exceptions.ConfigError) as caught:
        InputOptions(suffixes=-1).validate()
    assert caught.value.options == ("suffixes",)


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("Été", "E\u0301te\u0301"),
        ("ΚΌΣΜΟΣ", "κόσμος"),
        ("izmir", "İZMIR"),
        ("O\u2019Brien", "o'brien"),
        ("각", "\u1100\u1161\u11a8"),
    ],
)
def test_entries_are_found_in_any_spelling(entry, word):
    for one, other in ((entry, word), (word, entry)):
        assert Gazetteer([(f"big {one}", "x")]).mark(["Big", other]).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]


def test_a_type_has_one_unicode_form():
    gazetteer = Gazetteer([("a", "café"), ("b", "cafe\u0301")])
    assert gazetteer.types == ("café",)
    assert gazetteer.mark(["a", "b"]).tolist() == [[0, 0, 0, 1]] * 2
