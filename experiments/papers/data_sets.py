"""The corpora of the result tables: where each lies below the data folder, how it is read, what is measured on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graphattn.builders import Example, Sentence
from graphattn.builders.readers import read_conll, read_conllu, read_labelled_lines
from graphattn.exceptions import ConfigError

Items = list[Example] | list[Sentence]
DATA_VARIABLE = "GRAPHATTN_DATA"
FOLDS = 10


@dataclass(frozen=True)
class DataSet:
    """One corpus.

    Parameters
    ----------
    task : ``classify``, ``pair`` or ``tag``
    train, test : files below the data folder; without a test file the corpus is cut into ten folds, and the seed of a
        run says which one is the test set
    dev : file of the dev set; when None a tenth of the training set is held out
    read : reader of one file
    metric : what the tables report, in percent
    """

    task: str
    train: str
    test: str | None
    read: Callable[[Path], Iterable[Example] | Iterable[Sentence]]
    dev: str | None = None
    metric: str = "accuracy"

    def load(self, part: str, folder: Path | None = None) -> Items:
        """``train``, ``dev`` or ``test`` in memory.

        Raises
        ------
        ConfigError
            when no data folder is given
        """
        return list(self.read((folder or data_folder()) / getattr(self, part)))  # type: ignore[return-value]

    def training_and_test(self, seed: int, folder: Path | None = None) -> tuple[Items, Items]:
        """Training and test set of the run with a seed; the same for all seeds unless there is no test file.

        Raises
        ------
        ConfigError
            when no data folder is given, or there is no fold for the seed
        """
        train = self.load("train", folder)
        return (train, self.load("test", folder)) if self.test is not None else cross_validation_fold(train, seed)


def cross_validation_fold(items: Sequence[Any], fold: int) -> tuple[list[Any], list[Any]]:
    """One of ten folds and the rest, the rest first; each fold has its share of every label.

    Raises
    ------
    ConfigError
        when there is no such fold
    """
    check_fold(fold)
    from sklearn.model_selection import StratifiedKFold

    labels = [item.label for item in items]
    cuts = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(labels, labels)
    rest, held = list(cuts)[fold]
    return [items[index] for index in rest], [items[index] for index in held]


def check_fold(fold: int) -> None:
    """Refuse a seed that stands for no fold.

    Raises
    ------
    ConfigError
        when there is no such fold
    """
    if not 0 <= fold < FOLDS:
        raise ConfigError(f"seed {fold} is no fold: this data set is cut into {FOLDS}; give --seeds up to {FOLDS}")


def data_folder() -> Path:
    """The folder that the environment variable ``GRAPHATTN_DATA`` names.

    Raises
    ------
    ConfigError
        when it is not set or no folder
    """
    value = os.environ.get(DATA_VARIABLE)
    if not value or not Path(value).is_dir():
        raise ConfigError(f"{DATA_VARIABLE} is {value!r}; set it to the folder that holds the corpora, or give --data")
    return Path(value)


_labelled = partial(read_labelled_lines, columns=("label", "text"))
_pairs = partial(read_labelled_lines, columns=("text", "second", "label"))


def _cleaned(name: str, train: str = "train.clean.tsv.xz", test: str = "test.clean.tsv.xz") -> DataSet:
    """A corpus of text_gcn, in that paper's split and cleaning."""
    return DataSet("classify", f"text_gcn/{name}/{train}", f"text_gcn/{name}/{test}", _labelled)


def _folded(name: str) -> DataSet:
    return DataSet("classify", f"{name}/all.tsv", None, _labelled)


def _mtl(domain: str) -> DataSet:
    return DataSet("classify", f"mtl16/{domain}.task.train", f"mtl16/{domain}.task.test", _labelled)


DATA_SETS: dict[str, DataSet] = {
    "sst2": DataSet("classify", "sst2/train.tsv", "sst2/test.tsv", _labelled, dev="sst2/dev.tsv"),
    "sst5": DataSet("classify", "sst5/train.tsv", "sst5/test.tsv", _labelled, dev="sst5/dev.tsv"),
    "r8": DataSet("classify", "text_gcn/R8/train.tsv.xz", "text_gcn/R8/test.tsv", _labelled),
    "apparel": _mtl("apparel"),
    "books": _mtl("books"),
    "dvd": _mtl("dvd"),
    "kitchen": _mtl("kitchen_housewares"),
    "cr": _folded("cr"),
    "mpqa": _folded("mpqa"),
    "mr": _folded("mr"),
    "gcn-r8": _cleaned("R8", test="test.clean.tsv"),
    "gcn-r52": _cleaned("R52", test="test.clean.tsv"),
    "gcn-mr": _cleaned("MR", "train.tsv", "test.tsv"),
    "gcn-ohsumed": _cleaned("ohsumed"),
    "gcn-20ng": _cleaned("20ng"),
    "sick": DataSet("pair", "sick/train.tsv", "sick/test.tsv", _pairs, dev="sick/dev.tsv"),
    "ewt": DataSet(
        "tag",
        "ud_english_ewt/en_ewt-ud-train.conllu.xz",
        "ud_english_ewt/en_ewt-ud-test.conllu",
        partial(read_conllu, tags="upos"),
        dev="ud_english_ewt/en_ewt-ud-dev.conllu",
    ),
    "conll2003": DataSet(
        "tag",
        "conll2003_ner/eng.train.xz",
        "conll2003_ner/eng.testb",
        read_conll,
        dev="conll2003_ner/eng.testa",
        metric="f1",
    ),
}
"""Name -> corpus."""
