"""Small corpora for every task, small estimators that train quickly, and new processes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

WORDS = "the a film plot actor was is not very quite rather slow dull fine great awful Paris NATO B52 never".split()
NOUNS = {"dog": "hund", "cat": "katze", "child": "kind", "tree": "baum", "house": "haus", "bird": "vogel"}
ADJECTIVES = {"small": "klein", "big": "gross", "old": "alt", "red": "rot"}
VERBS = {"sees": "sieht", "likes": "mag", "finds": "findet"}


@pytest.fixture(scope="session")
def corpus() -> Callable[..., tuple[list, list]]:
    """Inputs and labels of a task: ``corpus(kind, count)``; one input has no word, another only one.

    Kinds are ``classifier``, ``multilabel``, ``pair``, ``tagger``, ``crf``, ``regressor``, ``pair regressor``, and
    ``translator``, whose inputs have words.
    """

    def make(kind: str, count: int = 40) -> tuple[list, list]:
        if kind == "translator":
            return _translations(count)
        random = Random(7)
        inputs = [
            _words(random, 0 if number == 3 else 1 if number == 5 else random.randint(2, 12)) for number in range(count)
        ]
        if kind in ("tagger", "crf"):
            return inputs, [_entities(words) if kind == "crf" else [_shape(w) for w in words] for words in inputs]
        texts = [" ".join(words) for words in inputs]
        if kind == "regressor":
            return texts, [3.5 + words.count("great") - words.count("dull") for words in inputs]
        if kind == "multilabel":
            return texts, [tuple(name for name in ("slow", "dull", "great") if name in words) for words in inputs]
        labels = ["good" if words.count("not") + words.count("never") < 1 else "bad" for words in inputs]
        if kind == "classifier":
            return texts, labels
        seconds = [texts[number - 1] if number % 2 else text for number, text in enumerate(texts)]
        pairs = list(zip(texts, seconds, strict=True))
        if kind == "pair regressor":
            return pairs, [len({*one.split()} & {*other.split()}) / 4 for one, other in pairs]
        return pairs, ["same" if one == other else "different" for one, other in pairs]

    return make


def _translations(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Distinct sentences, and translations with other words in another order."""
    random, pairs = Random(seed), {}
    while len(pairs) < count:
        one, two = random.sample(list(NOUNS), 2)
        how, what, verb = (random.choice(list(words)) for words in (ADJECTIVES, ADJECTIVES, VERBS))
        source = f"the {how} {one} {verb} a {what} {two}."
        pairs[source] = f"Ein {NOUNS[two]}, {ADJECTIVES[what]}, den {NOUNS[one]} {ADJECTIVES[how]} {VERBS[verb]}!"
    return list(pairs), list(pairs.values())


def _words(random: Random, count: int) -> list[str]:
    return [random.choice(WORDS) for _ in range(count)]


def _shape(word: str) -> str:
    return "NAME" if word[0].isupper() else "SHORT" if len(word) < 4 else "LONG"


def _entities(words: list[str]) -> list[str]:
    """IOB2: runs of capitalised words are one entity, typed by their first word."""
    tags: list[str] = []
    for word in words:
        if not word[0].isupper():
            tags.append("O")
        elif tags and tags[-1] != "O":
            tags.append(f"I-{tags[-1][2:]}")
        else:
            tags.append("B-LOC" if word == "Paris" else "B-ORG")
    return tags


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Any]:
    """An untrained estimator with the papers' settings: ``tiny(kind, encoder, inputs={...}, head={...}, ...)``."""
    from graphattn.models import (
        BiLSTMOptions,
        DecoderOptions,
        HeadOptions,
        InputOptions,
        MSTransOptions,
        PairClassifier,
        PairRegressor,
        SearchOptions,
        SequenceTagger,
        SubwordOptions,
        TextClassifier,
        TextRegressor,
        TrainingOptions,
        TransformerOptions,
        TranslationTraining,
        Translator,
    )
    from graphattn.models._encoders import ENCODERS, encoder_options
    from graphattn.models._estimators.tasks.task import PAPER

    encoders = {
        "ms-trans": lambda: MSTransOptions(hidden=12, heads=3, layers=2, scales=("1", "3", "N/4"), alpha=1.0),
        "transformer": lambda: TransformerOptions(hidden=12, heads=2, layers=1, ffn=16),
        "bilstm": lambda: BiLSTMOptions(hidden=12),
        "able": lambda: MSTransOptions(hidden=24, heads=3, layers=2, scales=("1", "3", "N/4"), alpha=1.0, dropout=0.0),
    }
    kinds = {
        "classifier": (TextClassifier, {}, {}, {}),
        "multilabel": (TextClassifier, {"multilabel": True}, {}, {}),
        "pair": (PairClassifier, {}, {}, {}),
        "regressor": (TextRegressor, {}, {}, {}),
        "pair regressor": (PairRegressor, {}, {}, {}),
        "tagger": (SequenceTagger, {}, {}, {}),
        "crf": (SequenceTagger, {}, {"characters": True, "character_filters": 6}, {"crf": True}),
    }

    brief = {**PAPER["training"], "epochs": 2, "batch_size": 8, "learning_rate": 0.01}

    def small(encoder: str) -> Any:
        return encoders[encoder]() if encoder in encoders else replace(encoder_options(encoder), hidden=20)

    def make_translator(encoder: Any, *, inputs: Any = None, training: Any = None, **arguments: Any) -> Any:
        sizes = {"hidden": 16, "layers": 1, "heads": 4, "ffn": 24, "dropout": 0.1}
        brief = {"precision": "32", "epochs": 2, "max_tokens": 200, "warmup_steps": 5, "learning_rate": 0.01}
        return Translator(
            ENCODERS[encoder][0].for_translation(sizes) if isinstance(encoder, str) else encoder,
            inputs=SubwordOptions(**{"vocabulary_size": 90, **(inputs or {})}),
            decoder=DecoderOptions(1, 2, 24, 0.1),
            training=TranslationTraining(**{**brief, **(training or {})}),
            **{"search": SearchOptions(beam=2, max_length=12), **arguments},
        )

    def make(kind: str = "classifier", encoder: Any = "ms-trans", **arguments: Any) -> Any:
        if kind == "translator":
            return make_translator(encoder, **arguments)
        estimator, fixed, inputs, head = kinds[kind]
        options = {
            "inputs": InputOptions(
                **{"embedding": 8, "character_embedding": 5, **PAPER["inputs"], **inputs, **arguments.pop("inputs", {})}
            ),
            "head": HeadOptions(**{**PAPER["head"], **head, **arguments.pop("head", {})}),
            "training": TrainingOptions(**{**brief, **arguments.pop("training", {})}),
        }
        return estimator(small(encoder) if isinstance(encoder, str) else encoder, **options, **fixed, **arguments)

    return make


@pytest.fixture(scope="session")
def fitted(corpus: Callable[..., tuple[list, list]], tiny: Callable[..., Any]) -> Callable[[str, str], Any]:
    """An estimator after one epoch on its corpus, shared by all tests, which must not change it."""

    @cache
    def fit(kind: str, encoder: str) -> Any:
        return tiny(kind, encoder, training={"epochs": 1, "dev_fraction": 0.0}).fit(*corpus(kind))

    return lambda kind, encoder="ms-trans": fit(kind, encoder)


@pytest.fixture(scope="session")
def able(tiny: Callable[..., Any]) -> Callable[..., Any]:
    """An untrained estimator that can memorise its corpus."""

    def make(kind: str, inputs: dict[str, Any] | None = None, **arguments: Any) -> Any:
        return tiny(
            kind,
            "able",
            inputs={"embedding_dropout": 0.0, "lowercase": False, **(inputs or {})},
            head={"head_dropout": 0.0},
            training={"epochs": 20, "learning_rate": 0.02, "dev_fraction": 0.0},
            **arguments,
        )

    return make


@pytest.fixture(scope="session")
def entity_tagger(corpus: Callable[..., tuple[list, list]], able: Callable[..., Any]) -> Any:
    """A tagger without a CRF that has learnt entities; tests must not change it."""
    return able("tagger").fit(*corpus("crf", 60))


@pytest.fixture(scope="session")
def parts(corpus: Callable[..., tuple[list, list]], tiny: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """A model, and a corpus with targets: what `train` takes."""

    def make(kind: str = "classifier", count: int = 24, **arguments: Any) -> tuple[Any, Any]:
        from graphattn.models._estimators.state import make_corpus

        inputs, labels = corpus(kind, count)
        estimator = tiny(kind, training={"epochs": 1, "dev_fraction": 0.0}).fit(inputs, labels)
        return estimator.model_, make_corpus(estimator, inputs, labels)

    return make


@pytest.fixture(scope="session")
def vectors_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors in text format for most words of the corpora, and for some others."""
    random = Random(1)
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    words = [word.lower() for word in WORDS[:-3]] + [f"other{number}" for number in range(10)]
    lines = [f"{word} {' '.join(f'{random.gauss(0, 2):.4f}' for _ in range(6))}" for word in words]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


_PRELUDE = """
import json, sys
import numpy as np
from graphattn import models

def estimator_from(values):
    options = {"inputs": models.InputOptions, "head": models.HeadOptions, "training": models.TrainingOptions}
    made = {name: kind.from_dict(values[name]) for name, kind in options.items()}
    return getattr(models, values["class"])(values["encoder"], **made, **values["more"])

given = json.load(open(sys.argv[1]))
"""


@pytest.fixture
def fresh_process(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a script in a new process: ``fresh_process(script, **given)``.

    The script finds the plain values ``given`` and ``estimator_from`` for those of :func:`described`.
    """

    def run(script: str, **given: Any) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
        (tmp_path / "script.py").write_text(_PRELUDE + script, encoding="utf-8")
        command = [sys.executable, "script.py", "given.json"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def described() -> Callable[[Any], dict[str, Any]]:
    """An estimator's parameters as plain values."""

    def describe(estimator: Any) -> dict[str, Any]:
        groups = {name: getattr(estimator, name).to_dict() for name in ("encoder", "inputs", "head", "training")}
        more = {} if not getattr(estimator, "multilabel", False) else {"multilabel": True}
        return {"class": type(estimator).__name__, **groups, "more": more}

    return describe


@pytest.fixture(scope="session")
def toy_pairs() -> Callable[..., tuple[list[str], list[str]]]:
    """Sentences and their translations: ``toy_pairs(count, seed)``."""
    return _translations


@pytest.fixture(scope="session")
def figures() -> Callable[[Any, Any], list[Any]]:
    """The probabilities of each input, or the score of its translation."""

    def predict(estimator: Any, inputs: Any) -> list[Any]:
        if hasattr(estimator, "predict_proba"):
            return list(estimator.predict_proba(inputs))
        return [output.score for (output,) in estimator.outputs(inputs)]

    return predict


@pytest.fixture
def killed_at(monkeypatch) -> Callable[[int, int], Any]:
    """``with killed_at(epoch, batch):`` training inside the block stops there without any clean-up."""
    from graphattn.models.training._module import TrainingModule

    @contextmanager
    def kill(epoch: int, batch: int) -> Iterator[None]:
        original = TrainingModule.training_step

        def step(self, taken, batch_idx):
            if (self.epoch, batch_idx) == (epoch, batch):
                raise RuntimeError("killed")
            return original(self, taken, batch_idx)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingModule, "training_step", step)
            with pytest.raises(RuntimeError, match="killed"):
                yield

    return kill


@pytest.fixture(scope="session")
def same_weights() -> Callable[[Any, Any], bool]:
    """Whether two fitted estimators, or weights by name, are equal bit for bit."""
    import torch

    def same(one: Any, other: Any) -> bool:
        some, others = (part.model_.state_dict() if hasattr(part, "model_") else part for part in (one, other))
        return some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)

    return same
