"""``graphattn encode``: texts in, their sentence vectors out, as a NumPy or a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments.corpus_options import TAG, CorpusOptions
from graphattn.experiments.option_flags import Values, flags_of, with_flags
from graphattn.experiments.output_files import check_place, new_file

if TYPE_CHECKING:
    from graphattn.models import TextEstimator

EXAMPLES = (
    "graphattn encode model reviews.txt --out vectors.npy\n\n"
    "graphattn encode model reviews.csv --text-column review --out vectors.parquet"
)
_UNUSED = {"label_column", "label_separator", "tag_column", "tags"}
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

    A .npy file holds one row for each text; a .parquet file has the columns text and vector. A pair of texts has two
    rows, one after the other.
    """
    if out.suffix not in _FORMATS:
        raise ConfigError(f"{out} is neither .npy nor .parquet; choose another --out")
    from graphattn.experiments.text_stream import read_texts
    from graphattn.models import load

    check_place(out)
    estimator = load(model)
    if not hasattr(estimator, "sentence_vectors"):
        does = "tags words" if estimator.task == TAG else "translates"
        raise ConfigError(f"{model} {does} and has no sentence vectors; give a classifier's model directory")
    options = CorpusOptions(**given)
    with new_file(out, binary=True) as file:  # what cannot be written is told before anything is encoded
        own, vectors = encoded(estimator, read_texts(texts, estimator.task, options), chunk=chunk)
        if out.suffix == ".npy":
            np.save(file, vectors)
        else:
            _write_parquet(file, own, vectors)
    print(f"{len(vectors)} vectors of {vectors.shape[1]} numbers: {out}")


def encoded(
    estimator: TextEstimator, items: Iterable[Any], *, chunk: int = 512
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Texts and their vectors (S, F), those of a pair one after the other.

    Parameters
    ----------
    estimator : a fitted classifier
    items : its inputs
    chunk : inputs that are encoded together
    """
    waiting, texts, parts = iter(items), [], []
    while part := list(islice(waiting, chunk)):
        texts += [text for item in part for text in _texts(item)]
        parts.append(estimator.sentence_vectors(part))  # type: ignore[attr-defined]
    return texts, np.concatenate(parts or [estimator.sentence_vectors([])])  # type: ignore[attr-defined]


def _texts(item: Any) -> list[str]:
    if isinstance(item, str):
        return [item]
    if hasattr(item, "text"):
        return [item.text] if item.second is None else [item.text, item.second]
    if isinstance(item, tuple):
        return [text for own in item for text in _texts(own)]
    return [" ".join(getattr(item, "words", item))]


def _write_parquet(file: Any, texts: list[str], vectors: npt.NDArray[np.float32]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    pq.write_table(pa.table({"text": texts, "vector": rows}), file)
