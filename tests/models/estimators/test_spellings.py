"""Every task gives the same results for every Unicode form of its texts, labels and lists."""

import random
import unicodedata

import numpy as np
import pytest
import torch

from graphattn import load
from graphattn.builders._spelling import compose
from graphattn.exceptions import Hint
from graphattn.models import (
    HeadOptions,
    InputOptions,
    MSTransOptions,
    PairClassifier,
    PairRegressor,
    SequenceTagger,
    TextClassifier,
    TextRegressor,
    TrainingOptions,
)
from graphattn.models._estimators.inspectable import encode_input

PEOPLE = ["Adẹ́wálé", "Ọláyínká", "Nguyễn", "Thị", "김민준", "이서연", "Noël", "Zoé", "Renée"]
PLACES = ["Ọ̀yọ́", "Èkó", "Huế", "Đà", "Nẵng", "서울", "부산", "Nîmes", "Besançon", "Orléans"]
OTHERS = ["ọmọ", "ìwé", "đường", "phố", "갔다", "에서", "été", "où", "il", "va", "naïve", "l\u2019été", "...", "3,5"]
LABELS = ["ngườí", "lieué"]
FORMS = ("NFC", "NFD", "mixed")

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.GraphAttnWarning")


def slow(*values):
    """Parameters of a slow test."""
    return pytest.param(*values, marks=pytest.mark.slow)


def write(value, form):
    """A text, or a list or tuple of values, in a Unicode form; other values as they are."""
    if isinstance(value, str):
        draw = random.Random(value)
        parts = [
            unicodedata.normalize(draw.choice(FORMS[:2]) if form == "mixed" else form, v) for v in value.split(" ")
        ]
        return " ".join(parts)
    return type(value)(write(item, form) for item in value) if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="module")
def tagged():
    """Words and IOB2 tags of sentences in Yoruba, Vietnamese, Korean and French."""
    draw, words, tags = random.Random(3), [], []
    for _ in range(60):
        sentence, labels = [], []
        for _ in range(draw.randint(2, 5)):
            kind, count = draw.choice([0, 1, 2, 2]), draw.randint(1, 2)
            sentence += draw.choices([PEOPLE, PLACES, OTHERS][kind], k=count)
            labels += ["O"] * count if kind == 2 else [f"B-{LABELS[kind]}", f"I-{LABELS[kind]}"][:count]
        words.append(sentence)
        tags.append(labels)
    return words, tags


@pytest.fixture
def make(tmp_path):
    """Make a small estimator with the default features, and others."""
    names = tmp_path / "names.txt"
    entries = [f"{name}\t{LABELS[0]}" for name in PEOPLE] + [f"Đà Nẵng\t{LABELS[1]}"]
    names.write_text("".join(f"{write(entry, 'mixed')}\n" for entry in entries), encoding="utf-8")

    def make(kind, **arguments):
        inputs = {"gazetteer": str(names)} if arguments.pop("gazetteer", False) else arguments.pop("inputs", {})
        return kind(
            MSTransOptions(hidden=12, heads=3, layers=1),
            inputs=InputOptions(embedding=16, **inputs),
            head=HeadOptions(),
            training=TrainingOptions(epochs=2, batch_size=16, learning_rate=0.01, precision="32"),
            **arguments,
        )

    return make


def results_in_every_form(make, inputs, labels):
    """Metrics, predictions and probabilities of models trained and tested in several forms; texts are composed."""
    for trained in ("NFC", "mixed"):
        model = make().fit(write(inputs[:40], trained), write(labels[:40], trained))
        for tested in FORMS:
            X, y = write(inputs[40:], tested), write(labels[40:], tested)
            shares = (
                [np.asarray(row).tolist() for row in model.predict_proba(X)] if hasattr(model, "predict_proba") else []
            )
            yield model.evaluate(X, y), write(list(model.predict(X)), "NFC"), shares


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        slow({"inputs": {"suffixes": 3}}),
        slow({"gazetteer": True}),
        slow({"inputs": {"level": "bpe", "vocabulary_size": 80}}),
        slow({"inputs": {"lowercase": False}}),
        slow({"class_weight": "balanced"}),
    ],
    ids=["default", "suffixes", "gazetteer", "bpe", "cased", "weights"],
)
def test_taggers(options, tagged, make):
    first, *others = results_in_every_form(lambda: make(SequenceTagger, **options), *tagged)
    assert first[0]["f1"] > 30
    assert all(result == first for result in others)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TextClassifier, {}),
        slow(TextClassifier, {"inputs": {"characters": True, "suffixes": 2}}),
        slow(TextClassifier, {"multilabel": True}),
        slow(TextClassifier, {"class_weight": {"lieue\u0301": 2.0, "O": 1.5}}),
        slow(PairClassifier, {}),
        slow(TextRegressor, {}),
        slow(PairRegressor, {}),
    ],
)
def test_texts(kind, options, tagged, make):
    words, tags = tagged
    inputs = [" ".join(sentence) for sentence in words]
    if kind in (PairClassifier, PairRegressor):
        inputs = list(zip(inputs, inputs[1:] + inputs[:1], strict=True))
    labels = [row[0].removeprefix("B-") for row in tags]
    if options.get("multilabel"):
        labels = [tuple(sorted({tag[2:] for tag in row if tag != "O"})) for row in tags]
    if kind in (TextRegressor, PairRegressor):
        labels = [float(sum(tag != "O" for tag in row)) for row in tags]
    first, *others = results_in_every_form(lambda: make(kind, **options), inputs, labels)
    assert all(result == first for result in others)


@pytest.mark.slow
def test_labels_keep_their_first_form_with_one_hint(tagged, make, tmp_path):
    inputs = [" ".join(sentence) for sentence in tagged[0]]
    names = ["cafe\u0301", "café", "tea"] * 20
    with pytest.warns(Hint, match="'cafe\u0301' are written in several Unicode forms; all are read") as caught:
        model = make(TextClassifier).fit(inputs, names)
    assert sum("Unicode" in str(warning.message) for warning in caught) == 1
    assert model.classes_.tolist() == ["cafe\u0301", "tea"]
    assert {*model.predict(inputs)} <= {"cafe\u0301", "tea"}
    loaded = load(model.save(tmp_path / "model"))
    assert loaded.evaluate(inputs, names) == model.evaluate(inputs, [compose(name) for name in names])
    assert loaded.score(inputs, ["café"] * 60) == loaded.score(inputs, ["cafe\u0301"] * 60)


@pytest.mark.slow
def test_warm_starts_keep_the_form_of_the_model(tagged, make):
    words, tags = tagged
    model = make(SequenceTagger, warm_start=True).fit(write(words[:40], "NFD"), write(tags[:40], "NFD"))
    before = model.classes_.tolist()
    assert model.fit(words[40:], tags[40:]).classes_.tolist() == before


def test_predictions_print_words_as_given(tagged, make):
    words = write(tagged[0][:20], "NFD")
    model = make(SequenceTagger).fit(*tagged)
    assert [row["words"] for row in model.predict_rows(words)] == words


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TextClassifier, SequenceTagger])
def test_a_class_to_explain_is_named_in_any_form(kind, tagged, make):
    words, tags = tagged
    model = make(kind).fit(words, tags if kind is SequenceTagger else [row[0] for row in tags])
    inputs, name = encode_input(model, words[0]), next(name for name in model.classes_.tolist() if not name.isascii())
    scores = torch.zeros(len(words[0]) if kind is SequenceTagger else 1, len(model.classes_))
    choose = model.explainer_.choose_target
    assert choose(inputs, scores, label=write(name, "NFD")) == choose(inputs, scores, label=name)
