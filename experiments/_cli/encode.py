"""``graphattn encode``: write the sentence vectors of texts as a NumPy or a Parquet file."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import ConfigError, Hint
from graphattn.experiments._cli.corpus_options import CorpusOptions, parser_flags
from graphattn.experiments._cli.flags import (
    Address,
    Device,
    EngineName,
    Jobs,
    MaxTokens,
    Precision,
    Quiet,
    Values,
    with_flags,
)
from graphattn.experiments._cli.loaded_models import ModelSettings, find_directory
from graphattn.experiments._cli.output import check_output, model_files, open_output
from graphattn.experiments._cli.resumable import (
    ChunkResult,
    ModelJob,
    ProgressCounts,
    TextError,
    apply_to_texts,
    choose_chunk,
    iter_chunks,
    keep_results,
    make_engine,
)
from graphattn.options import list_options

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from graphattn.builders._sentence import Example
    from graphattn.experiments._cli.text_stream import NumberedText
    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn encode model reviews.txt --out vectors.npy\n\n"
    "graphattn encode model reviews.csv --text-column review --out vectors.parquet\n\n"
    "graphattn encode sentence-transformers/all-MiniLM-L6-v2 reviews.txt --out vectors.npy"
)
_UNUSED = {"drop_label", "feature_columns", "label_separator", "layer", "tag_column", "tags"}
_FORMATS = (".npy", ".parquet")


@with_flags(flag_values=list_options(CorpusOptions, "Input", without=_UNUSED), parser=parser_flags())
def encode(
    model: Annotated[
        Path, typer.Argument(help="Model directory of a classifier; or a Hugging Face directory, or a name on its hub.")
    ],
    flag_values: Values,
    parser: Values,
    texts: Annotated[str, typer.Argument(help="A text, or a file of texts; - for standard input.")] = "-",
    *,
    out: Annotated[Path, typer.Option(help="File to write, .npy or .parquet.")] = Path("vectors.npy"),
    chunk: Annotated[
        int | None, typer.Option(min=1, help="Texts that are encoded together (default: 512, on a GPU 8192).")
    ] = None,
    max_tokens_per_text: MaxTokens = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Prompt before each text, by its name in a sentence-transformers directory: query, document."
        ),
    ] = None,
    precision: Precision = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Write an embedding of each text, the input of a classifier's head, for scikit-learn or a search.

    With a sentence-transformers directory, the vectors are those of sentence-transformers.

    A .npy file holds one row for each text; a .parquet file has the columns text and vector, label where lines have
    labels, as label<TAB>text and a store do, or --label-column names their column, and then all other columns of the
    input, such as an id. A pair of texts has two rows, one after the other. The same command resumes after an
    interruption.
    """
    if quiet:
        warnings.simplefilter("ignore", Hint)
    if out.suffix not in _FORMATS:
        raise ConfigError(f"{out} is neither .npy nor .parquet; choose another --out")
    from graphattn.experiments._cli.arrow_tables import read_arrow, write_parquet
    from graphattn.experiments._cli.text_stream import read_numbered_texts
    from graphattn.models.pretrained._checkpoint import is_hugging_face_directory

    model = find_directory(model)
    check_output(out, texts, *model_files(model))
    label_column = flag_values.pop("label_column", None)
    if out.suffix == ".npy" and label_column is not None:
        raise ConfigError(f"{out} has no place for labels; leave --label-column out, or let --out end in .parquet")
    settings = ModelSettings.of(
        model,
        engine=engine,
        jobs=jobs,
        parser=tuple(parser.items()),
        precision=precision,
        device=device,
        max_tokens_per_text=max_tokens_per_text,
        prompt=prompt,
        is_hugging_face=is_hugging_face_directory(model),
    )
    estimator = settings.load_to_read(engine)
    width = estimator.encode([]).shape[1]  # an error if the model has none
    defaults = estimator.task_.describe_reading(estimator.corpus_)
    numbered = read_numbered_texts(
        texts,
        estimator.task.corpus_kind,
        CorpusOptions(**flag_values),
        split=estimator.inputs_.split,
        **defaults,
        label_column=label_column,
        keep_rows=out.suffix == ".parquet",
    )
    text_columns = flag_values.get("text_column") or defaults.get("training", {}).get("text") or "text"
    text_columns = [text_columns] if isinstance(text_columns, str) else list(text_columns)
    job = ModelJob(settings, encode_chunk, {"width": width, "text": text_columns, "label": label_column})
    chunks = iter_chunks(numbered, chunk or choose_chunk(settings))
    executor = make_engine(engine, jobs, address, device)
    write = partial(_write_numpy, width) if out.suffix == ".npy" else write_parquet
    inputs = getattr(estimator, "text_inputs_", None)  # a pretrained model alone has none
    tally = ProgressCounts(columns=None if inputs is None else inputs.text_columns)
    chunks = tally.watch(chunks)
    with keep_results(out) as results:
        with open_output(out, binary=True):  # a full disk is reported before anything is encoded
            results.compute(job, chunks, executor, None if quiet else "encoding")
        deque(tally.count(results), maxlen=0)
        with open_output(out, binary=True) as file:
            count = write(file, lambda: read_arrow(result.content for result in results))
    if not quiet:
        print(f"{count} vector{'s' * (count != 1)} of {width} numbers: {out}")
    tally.report(estimator, "The vectors are NaN there.")


def _count_vectors(estimator: Estimator) -> int:
    """The vectors of an input: two of a pair, unless the model reads it as one sequence."""
    texts = estimator.task.texts_per_input
    return 1 if texts == 1 or estimator.task.joins_pairs(estimator.options_) else texts


def encode_chunk(
    estimator: Estimator, chunk: Sequence[NumberedText], *, width: int, text: Sequence[str], label: str | None
) -> ChunkResult:
    """Encode a chunk as an Arrow table of texts, vectors, labels and other columns.

    ``text`` and ``label`` are the columns of the input that have the text and the label. The vectors of a text with an
    error are NaN, and its text and label are what its row has. The two texts of a pair make two rows, unless the model
    reads them as one.
    """
    import numpy as np
    import pyarrow as pa

    from graphattn.experiments._cli.arrow_tables import read_rows, serialize_arrow

    rows = _count_vectors(estimator)
    empty = np.full((rows, width), np.nan, np.float32)

    def encode(inputs: list[Any], first: int) -> list[npt.NDArray[np.float32]]:
        return list(estimator.encode(inputs).reshape(len(inputs), rows, width))

    results = apply_to_texts(encode, chunk)
    errors = [result for result in results if isinstance(result, TextError)]
    vectors = np.stack([empty if isinstance(result, TextError) else result for result in results])
    fields = [dict(zip(item.row.names, item.row.cells, strict=True)) if item.row else {} for item in chunk]
    shown = [
        _show_unread(row, text, label) if item.content is None else item.content
        for item, row in zip(chunk, fields, strict=True)
    ]
    texts = [each for item in shown for each in _texts(item, rows)]
    columns = {"text": texts, "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)}
    labels = [_label(item) for item in shown for _ in range(rows)]
    if any(label is not None for label in labels):
        columns["label"] = _unify_labels(labels)
    carried = read_rows([item.row and item.row.arrow for item in chunk for _ in range(rows)])
    for name in dict.fromkeys(name for row in fields for name in row):
        if name not in (*columns, "label", label, *text):
            columns[name] = carried.get(name, [row.get(name) for row in fields for _ in range(rows)])
    return ChunkResult.of(serialize_arrow(columns), errors)


def _write_numpy(width: int, file: Any, read_tables: Callable[[], Iterator[pa.Table]]) -> int:
    """Write the vectors as one array, a chunk at a time; return their number."""
    import numpy as np

    count = sum(int(table.num_rows) for table in read_tables())
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**header, "shape": (count, width)})
    for table in read_tables():
        file.write(table["vector"].combine_chunks().values.to_numpy().tobytes())
    return count


def _show_unread(row: Mapping[str, Any], text: Sequence[str], label: str | None) -> Example:
    """The text and the label of a row that could not be read, as far as they are strings."""
    from graphattn.builders._sentence import Example
    from graphattn.builders.readers._fields import join_texts

    texts = [cell for name in text if isinstance(cell := row.get(name), str)]
    name = row.get(label) if label is not None else None
    return Example(join_texts(texts), "", name if isinstance(name, str) and name.strip() else None)


def _texts(item: Any, rows: int) -> list[str]:
    if isinstance(item, str):
        return [item]
    if hasattr(item, "text"):
        return [item.text] if item.second is None or rows == 1 else [item.text, item.second]
    if isinstance(item, tuple):
        return [text for each in item for text in _texts(each, 1)]
    return [" ".join(getattr(item, "words", item))]


def _label(item: Any) -> Any:
    first = item[0] if isinstance(item, tuple) else item  # both sentences of a store's pair have its label
    return getattr(first, "label", None)


def _unify_labels(labels: list[Any]) -> list[Any]:
    """Labels as lists if any text has several, since a column has one type."""
    if not any(isinstance(label, tuple) for label in labels):
        return labels
    return [label if label is None or isinstance(label, tuple) else (label,) for label in labels]
