"""The steps of the demo: a generated corpus, its graphs, two models with baselines, a prediction, two pictures."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Window, WordGroup
from graphattn.builders._atomic import is_vacant
from graphattn.builders.relations import parse_relation
from graphattn.builders.store import CorpusFile, Manifest, StoreSettings, build_store
from graphattn.exceptions import ConfigError, Hint
from graphattn.experiments._cli.config import config_text
from graphattn.experiments._cli.corpus_options import CLASSIFY, TAG
from graphattn.experiments._cli.output import open_output
from graphattn.experiments._cli.train import train_model
from graphattn.experiments._cli.training_plan import TrainingPlan
from graphattn.experiments.demo import _grammar as grammar
from graphattn.models import TASKS, SequenceTagger, TextClassifier, load
from graphattn.models.inspection import Attention

RELATIONS = ("window:3", "window:N/4", "group", "dependency")
SENTENCE = "although the soup was lovely , the fish that the guests never ordered were not good ."


@dataclass(frozen=True)
class DemoSize:
    """The size of the corpus and of the models."""

    train: int = 3000
    dev: int = 300
    test: int = 500
    hidden: int = 64  # width of the models
    classifier_epochs: int = 12
    tagger_epochs: int = 4


@dataclass(frozen=True)
class DemoModel:
    """One of the models: its corpus, its training and its baseline."""

    folder: str  # of the model
    suffix: str
    header: str
    format: Callable[[Sentence], str]
    options: dict[str, Any]  # of the training
    epochs: Callable[[DemoSize], int]  # from the size of the demo
    baseline: str
    measure_baseline: Callable[[Sequence[Sentence], Sequence[Sentence]], float]


MARK = ".graphattn-demo"
"""File that marks the folder of a demo, whose content a demo may replace."""


class Demo:
    """One run of the demo; each step needs the steps before it and returns its result."""

    def __init__(self, out: Path, *, seed: int = 0, size: DemoSize | None = None):
        self.out, self.seed, self.size = out, seed, size or DemoSize()
        if out.exists() and not (out.is_dir() and ((out / MARK).is_file() or is_vacant(out))):
            raise ConfigError(f"{out} exists and is not the folder of a demo; choose another --out")
        splits = grammar.corpus(self.size.train, self.size.dev, self.size.test, seed=seed)
        self.splits = dict(zip(("train", "dev", "test"), splits, strict=True))

    def write_corpus(self) -> Sentence:
        """Write the corpus as ``label<TAB>text`` and as CoNLL-U, and settings for both trainings."""
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).touch()  # first: without it, a later demo could not use a folder with anything else
        (self.out / "corpus").mkdir(exist_ok=True)
        for task, model in _MODELS.items():
            for split, sentences in self.splits.items():
                with open_output(self.corpus_file(task, split)) as file:
                    file.write(model.header)
                    file.writelines(map(model.format, sentences))
            with open_output(self.settings_file(task)) as file:
                file.write(config_text(self._settings(task), f"Settings of the demo's {model.folder}"))
        return self.splits["train"][0]

    def build_store(self) -> Manifest:
        """Build the store of the training set and return its manifest."""
        shutil.rmtree(self.out / "store", ignore_errors=True)
        corpus = CorpusFile(self.corpus_file(TAG, "train"), options={"tags": "xpos"})
        builder = TextGraphBuilder([parse_relation(name) for name in RELATIONS])
        return build_store([corpus], self.out / "store", StoreSettings(builder))

    def draw_graph(self) -> tuple[Sentence, Path]:
        """Draw a sentence with sub-words, so that the picture has all relations."""
        from graphattn.experiments.drawing._graph import draw_graph

        builder = TextGraphBuilder([Window(3), Window("N/4"), WordGroup(), Dependency()])
        sentences = grammar.generate(200, seed=self.seed, subwords=True)
        sentence = next(s for s in sentences if s.num_words < len(s) <= 18 and "," in s.tokens)
        path = self.out / "graph.png"
        draw_graph(builder.text_batch([sentence]), sentence, path, title=grammar.explain(sentence))
        return sentence, path

    def train(self, task: str) -> dict[str, float]:
        """Train one of the models; return the accuracies on the test set in percent, that of a baseline first."""
        plan = TrainingPlan.of(TASKS[task], {"resume": False}, self.settings_file(task))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Hint)
            figures = train_model(plan, [self.corpus_file(task, "train")], self.model(task), report=True)
        model = _MODELS[task]
        baseline = model.measure_baseline(self.splits["train"], self.splits["test"])
        return {model.baseline: baseline, "ms-trans": figures["test"]["accuracy"]}

    def predict(self, text: str) -> dict[str, Any]:
        """Predict a text with the saved models: label, its probability, and words with their tags."""
        classifier, tagger = load(self.model(CLASSIFY)), load(self.model(TAG))
        assert isinstance(classifier, TextClassifier) and isinstance(tagger, SequenceTagger)
        (label,), (probabilities,) = classifier.predict_with_probabilities([text])
        return {
            "label": str(label),
            "probability": float(np.max(probabilities)),
            "tags": list(zip(tagger.vocabulary_.split(text), tagger.predict([text])[0], strict=True)),
        }

    def save_attention(self, text: str) -> tuple[Attention, Path]:
        """Write the classifier's attention weights as a table."""
        attention = load(self.model(CLASSIFY)).attention(text)
        return attention, attention.save(self.out / "attention.csv")

    def draw_attention(self, attention: Attention) -> Path | None:
        """Draw the weights of the first layer; None for a long text."""
        from graphattn.experiments.drawing._arcs import draw_arcs
        from graphattn.experiments.drawing._canvas import MAX_TOKENS

        if len(attention.tokens["text"]) > MAX_TOKENS:
            return None
        path = self.out / "attention.png"
        draw_arcs(attention.only(layer=0), path, title="attention in the first layer")
        return path

    def corpus_file(self, task: str, split: str) -> Path:
        """A split of the corpus in the format that a task reads."""
        return self.out / "corpus" / f"{split}.{_MODELS[task].suffix}"

    def settings_file(self, task: str) -> Path:
        """The settings of a training."""
        return self.out / f"{task}.yaml"

    def model(self, task: str) -> Path:
        """The directory of a model."""
        return self.out / _MODELS[task].folder

    def _settings(self, task: str) -> dict[str, Any]:
        size, model = self.size, _MODELS[task]
        return {
            "dev": str(self.corpus_file(task, "dev")),
            "test": (str(self.corpus_file(task, "test")),),
            "encoder": "ms-trans",
            **{"hidden": size.hidden, "heads": 4, "layers": 2, "scales": ("1", "3", "5", "9"), "alpha": 0.0},
            **{"embedding": size.hidden, "embedding_dropout": 0.1, "dropout": 0.1, "head_dropout": 0.1},
            **{"epochs": model.epochs(size), "seed": self.seed, "logs": False},
            **model.options,
        }


def _format_labelled(sentence: Sentence) -> str:
    return f"{sentence.label}\t{' '.join(sentence.tokens)}\n"


def _format_conllu(sentence: Sentence) -> str:
    columns: Sequence[Any] = (sentence.tokens, sentence.tags or (), sentence.heads or (), sentence.deprels or ())
    rows = [
        f"{number}\t{form}\t_\t_\t{tag}\t_\t{head}\t{deprel}\t_\t_\n"
        for number, (form, tag, head, deprel) in enumerate(zip(*columns, strict=True), start=1)
    ]
    return f"# text = {' '.join(sentence.tokens)}\n{''.join(rows)}\n"


def bag_of_words_accuracy(train: Sequence[Sentence], test: Sequence[Sentence]) -> float:
    """Accuracy in percent of logistic regression on word counts.

    Examples
    --------
    >>> good, bad = Sentence(["good"], label="+"), Sentence(["bad"], label="-")
    >>> bag_of_words_accuracy([good, bad], [bad])
    100.0
    """
    model = make_pipeline(CountVectorizer(analyzer=lambda sentence: sentence.words), LogisticRegression(max_iter=1000))
    model.fit(train, [sentence.label for sentence in train])
    return 100 * float(model.score(test, [sentence.label for sentence in test]))


def frequent_tag_accuracy(train: Sequence[Sentence], test: Sequence[Sentence]) -> float:
    """Accuracy in percent if each word gets its most frequent tag, and new words the most frequent tag of all.

    Examples
    --------
    >>> frequent_tag_accuracy([Sentence(["a", "dog"], tags=["DT", "NN"])], [Sentence(["a", "cat"], tags=["DT", "NN"])])
    50.0
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            counts[word][tag] += 1
    tag_of = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    most_frequent = sum(counts.values(), Counter()).most_common(1)[0][0]
    pairs = [(word, tag) for s in test for word, tag in zip(s.words, s.tags or (), strict=True)]
    return 100 * sum(tag_of.get(word, most_frequent) == tag for word, tag in pairs) / len(pairs)


_MODELS = {
    CLASSIFY: DemoModel(
        folder="classifier",
        suffix="tsv",
        header="label\ttext\n",
        format=_format_labelled,
        options={"learning_rate": 0.002},
        epochs=attrgetter("classifier_epochs"),
        baseline="bag of words",
        measure_baseline=bag_of_words_accuracy,
    ),
    TAG: DemoModel(
        folder="tagger",
        suffix="conllu",
        header="",
        format=_format_conllu,
        options={"tags": "xpos", "learning_rate": 0.005},
        epochs=attrgetter("tagger_epochs"),
        baseline="most frequent tag of each word",
        measure_baseline=frequent_tag_accuracy,
    ),
}
