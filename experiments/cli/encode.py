"""``graphattn encode``: texts in, their sentence vectors out, as a NumPy or a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.corpus_options import CorpusOptions
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output_files import check_place, files_of_model, new_file

if TYPE_CHECKING:
    from graphattn.models import TextClassifier

EXAMPLES = (
    "graphattn encode model reviews.txt --out vectors.npy\n\n"
    "graphattn encode model reviews.csv --text-column review --out vectors.parquet"
)
_UNUSED = {"label_separator", "tag_column", "tags"}
_FORMATS = (".npy", ".parquet")


@with_flags(flags_of(CorpusOptions(), "Input", without=_UNUSED))
def encode(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote, of a classifier.")],
    given: Values,
    texts: Annotated[str, typer.Argument(help="File of texts; - for standard input.")] = "-",
    out: Annotated[Path, typer.Option(help="File to write, .npy or .parquet.")] = Path("vectors.npy"),
    chunk: Annotated[int, typer.Option(min=1, help="Texts that are encoded together.")] = 512,
) -> None:
    """Write the sentence vector of each text: what a classifier's last layers see, for scikit-learn or a search.

    A .npy file holds one row for each text; a .parquet file has the columns text and vector, and label where lines have
    labels, as label<TAB>text and a store do, or --label-column names their column. A pair of texts has two rows, one
    after the other.
    """
    if out.suffix not in _FORMATS:
        raise ConfigError(f"{out} is neither .npy nor .parquet; choose another --out")
    from graphattn.experiments.cli.text_stream import read_texts
    from graphattn.models import TextClassifier, load

    check_place(out, texts, *files_of_model(model))
    estimator = load(model)
    if not isinstance(estimator, TextClassifier):
        raise ConfigError(
            f"{model} {estimator.description} and has no sentence vectors; give a classifier's model directory"
        )
    label_column = given.pop("label_column", None)
    if out.suffix == ".npy" and label_column is not None:
        raise ConfigError(f"{out} has no place for labels; leave --label-column out, or let --out end in .parquet")
    split = estimator.inputs_.split
    items = read_texts(texts, estimator.corpus_kind, CorpusOptions(**given), split=split, label_column=label_column)
    with new_file(out, binary=True) as file:  # what cannot be written is told before anything is encoded
        told = encoded(estimator, items, chunk=chunk)
        if out.suffix == ".npy":
            np.save(file, told.vectors)
        else:
            _write_parquet(file, told)
    print(f"{len(told.vectors)} vectors of {told.vectors.shape[1]} numbers: {out}")


@dataclass(frozen=True)
class Encoded:
    """Texts with their vectors, those of a pair one after the other.

    Parameters
    ----------
    texts : as they were read
    labels : of each text, its pair's of a pair; None where none was read
    vectors : (S, F)
    """

    texts: list[str]
    labels: list[Any]
    vectors: npt.NDArray[np.float32]


def encoded(estimator: TextClassifier, items: Iterable[Any], *, chunk: int = 512) -> Encoded:
    """Texts and their vectors.

    Parameters
    ----------
    estimator : a fitted classifier
    items : its inputs
    chunk : inputs that are encoded together
    """
    waiting, parts = iter(items), []
    texts: list[str] = []
    labels: list[Any] = []
    while part := list(islice(waiting, chunk)):
        for item in part:
            own = _texts(item)
            texts += own
            labels += [_label(item)] * len(own)
        parts.append(estimator.sentence_vectors(part))
    vectors = np.concatenate(parts or [estimator.sentence_vectors([])])
    return Encoded(texts, labels, vectors)


def _texts(item: Any) -> list[str]:
    if isinstance(item, str):
        return [item]
    if hasattr(item, "text"):
        return [item.text] if item.second is None else [item.text, item.second]
    if isinstance(item, tuple):
        return [text for own in item for text in _texts(own)]
    return [" ".join(getattr(item, "words", item))]


def _label(item: Any) -> Any:
    first = item[0] if isinstance(item, tuple) else item  # a pair of a store: both sentences have its label
    return getattr(first, "label", None)


def _write_parquet(file: Any, told: Encoded) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.FixedSizeListArray.from_arrays(pa.array(told.vectors.ravel()), told.vectors.shape[1])
    columns = {"text": told.texts, "vector": rows}
    if any(label is not None for label in told.labels):
        columns["label"] = _of_one_kind(told.labels)
    pq.write_table(pa.table(columns), file)


def _of_one_kind(labels: list[Any]) -> list[Any]:
    """A column holds texts or lists: where one text has several labels, those of the others are lists too."""
    if not any(isinstance(label, tuple) for label in labels):
        return labels
    return [label if label is None or isinstance(label, tuple) else (label,) for label in labels]
