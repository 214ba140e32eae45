"""``graphattn encode``: write the sentence vectors of texts as a NumPy or a Parquet file."""

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
from graphattn.experiments.cli.corpus_options import CorpusOptions, parser_flags, split_parser_flags
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output import check_output, model_files, open_output

if TYPE_CHECKING:
    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn encode model reviews.txt --out vectors.npy\n\n"
    "graphattn encode model reviews.csv --text-column review --out vectors.parquet"
)
_UNUSED = {"label_separator", "tag_column", "tags"}
_FORMATS = (".npy", ".parquet")


@with_flags([*flags_of(CorpusOptions(), "Input", without=_UNUSED), *parser_flags()])
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
    from graphattn.experiments.cli.prediction_options import load_model
    from graphattn.experiments.cli.text_stream import read_texts

    check_output(out, texts, *model_files(model))
    parser, given = split_parser_flags(given)
    label_column = given.pop("label_column", None)
    if out.suffix == ".npy" and label_column is not None:
        raise ConfigError(f"{out} has no place for labels; leave --label-column out, or let --out end in .parquet")
    estimator = load_model(model, parser)
    split = estimator.inputs_.split
    items = read_texts(texts, estimator.corpus_kind, CorpusOptions(**given), split=split, label_column=label_column)
    with open_output(out, binary=True) as file:  # first, so that a full disk is reported before anything is encoded
        encoded = encode_texts(estimator, items, chunk=chunk)
        if out.suffix == ".npy":
            np.save(file, encoded.vectors)
        else:
            _write_parquet(file, encoded)
    print(f"{len(encoded.vectors)} vectors of {encoded.vectors.shape[1]} numbers: {out}")


@dataclass(frozen=True)
class EncodedTexts:
    """Texts with their vectors; the two of a pair follow each other.

    Parameters
    ----------
    texts : as they were read
    labels : of each text or of its pair; None where none was read
    vectors : (S, F)
    """

    texts: list[str]
    labels: list[Any]
    vectors: npt.NDArray[np.float32]


def encode_texts(estimator: Estimator, items: Iterable[Any], *, chunk: int = 512) -> EncodedTexts:
    """Compute the sentence vectors of texts.

    Parameters
    ----------
    estimator : a fitted classifier
    items : its inputs
    chunk : number of inputs that are encoded together
    """
    texts: list[str] = []
    labels: list[Any] = []
    vectors = [estimator.sentence_vectors([])]  # an error if the model has none
    remaining = iter(items)
    while part := list(islice(remaining, chunk)):
        for item in part:
            item_texts = _texts(item)
            texts += item_texts
            labels += [_label(item)] * len(item_texts)
        vectors.append(estimator.sentence_vectors(part))
    return EncodedTexts(texts, labels, np.concatenate(vectors))


def _texts(item: Any) -> list[str]:
    if isinstance(item, str):
        return [item]
    if hasattr(item, "text"):
        return [item.text] if item.second is None else [item.text, item.second]
    if isinstance(item, tuple):
        return [text for part in item for text in _texts(part)]
    return [" ".join(getattr(item, "words", item))]


def _label(item: Any) -> Any:
    first = item[0] if isinstance(item, tuple) else item  # both sentences of a store's pair have its label
    return getattr(first, "label", None)


def _write_parquet(file: Any, encoded: EncodedTexts) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.FixedSizeListArray.from_arrays(pa.array(encoded.vectors.ravel()), encoded.vectors.shape[1])
    columns = {"text": encoded.texts, "vector": rows}
    if any(label is not None for label in encoded.labels):
        columns["label"] = _unify_labels(encoded.labels)
    pq.write_table(pa.table(columns), file)


def _unify_labels(labels: list[Any]) -> list[Any]:
    """Labels as lists if any text has several, since a column has one type."""
    if not any(isinstance(label, tuple) for label in labels):
        return labels
    return [label if label is None or isinstance(label, tuple) else (label,) for label in labels]
