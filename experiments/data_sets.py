"""The corpora of the result tables: where each lies below the data folder, how it is read, what is measured on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graphattn.builders import Example, Sentence
from graphattn.builders.readers import read_conll, read_conllu, read_labelled_lines
from graphattn.exceptions import ConfigError

Items = list[Example] | list[Sentence]
DATA_VARIABLE = "GRAPHATTN_DATA"


@dataclass(frozen=True)
class DataSet:
    """One corpus.

    Parameters
    ----------
    task : ``classify``, ``pair`` or ``tag``
    train, test : files below the data folder
    dev : file of the dev set; when None a tenth of the training set is held out
    read : reader of one file
    metric : what the tables report, in percent
    """

    task: str
    train: str
    test: str
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
