"""``graphattn encode``: write the sentence vectors of texts as a NumPy or a Parquet file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.corpus_options import CorpusOptions, parser_flags
from graphattn.experiments._cli.flags import Address, EngineName, Jobs, MaxTokens, Precision, Values, with_flags
from graphattn.experiments._cli.loaded_models import ModelSettings, load_once, resolve_model
from graphattn.experiments._cli.output import check_output, model_files, open_output
from graphattn.experiments._cli.resumable import (
    CHUNK,
    Chunk,
    ChunkResult,
    ModelJob,
    Tally,
    TextError,
    apply_to_texts,
    iter_chunks,
    keep_results,
    make_engine,
)
from graphattn.options import list_options

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn encode model reviews.txt --out vectors.npy\n\n"
    "graphattn encode model reviews.csv --text-column review --out vectors.parquet\n\n"
    "graphattn encode sentence-transformers/all-MiniLM-L6-v2 reviews.txt --out vectors.npy"
)
_UNUSED = {"drop_label", "label_separator", "layer", "tag_column", "tags"}
_FORMATS = (".npy", ".parquet")
_CHUNKS_PER_GROUP = 64
"""Chunks in a row group of a Parquet file."""


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
    chunk: Annotated[int, typer.Option(min=1, help="Texts that are encoded together.")] = CHUNK,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = "32",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Write the sentence vector of each text: what a classifier's last layers see, for scikit-learn or a search.

    With a sentence-transformers directory, the vectors are those of sentence-transformers.

    A .npy file holds one row for each text; a .parquet file has the columns text and vector, and label where lines have
    labels, as label<TAB>text and a store do, or --label-column names their column. A pair of texts has two rows, one
    after the other. The same command resumes after an interruption.
    """
    if out.suffix not in _FORMATS:
        raise ConfigError(f"{out} is neither .npy nor .parquet; choose another --out")
    from graphattn.experiments._cli.text_stream import read_numbered_texts
    from graphattn.models.pretrained._checkpoint import is_hugging_face_directory

    model = resolve_model(model)
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
        max_tokens_per_text=max_tokens_per_text,
        is_hugging_face=is_hugging_face_directory(model),
    )
    estimator = load_once(replace(settings, threads=None))
    width = estimator.sentence_vectors([]).shape[1]  # an error if the model has none
    read_as: Any = getattr(estimator, "task", estimator)  # a pretrained model has no task
    numbered = read_numbered_texts(
        texts,
        read_as.corpus_kind,
        CorpusOptions(**flag_values),
        split=estimator.inputs_.split,
        label_column=label_column,
    )
    job, chunks = ModelJob(settings, encode_chunk, {"width": width}), iter_chunks(numbered, chunk)
    with keep_results(out) as results:
        with open_output(out, binary=True):  # a full disk is reported before anything is encoded
            results.compute(job, chunks, make_engine(engine, jobs, address), "encoding")
        tally = Tally()
        deque(tally.count(results), maxlen=0)
        with open_output(out, binary=True) as file:
            count = (_write_numpy if out.suffix == ".npy" else _write_parquet)(file, results, width)
    print(f"{count} vector{'s' * (count != 1)} of {width} numbers: {out}")
    tally.report(estimator, "The vectors are NaN there.")


def encode_chunk(estimator: Estimator, chunk: Chunk, *, width: int) -> ChunkResult:
    """Encode a chunk as an Arrow table of texts, labels and vectors; those of a text with an error are NaN.

    The two texts of a pair make two rows, unless the model reads them as one.
    """
    import numpy as np
    import pyarrow as pa

    rows = estimator.vectors_per_input
    empty = np.full((rows, width), np.nan, np.float32)

    def encode(inputs: list[Any], first: int) -> list[npt.NDArray[np.float32]]:
        return list(estimator.sentence_vectors(inputs).reshape(len(inputs), rows, width))

    results = apply_to_texts(encode, chunk)
    errors = [result for result in results if isinstance(result, TextError)]
    bad_lines = tuple(error.line for error in errors)
    vectors = np.stack([empty if isinstance(result, TextError) else result for result in results])
    texts = [text for numbered in chunk.texts for text in _texts(numbered.content, rows)]
    labels = [_label(numbered.content) for numbered in chunk.texts for _ in range(rows)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
    table = pa.table({"text": texts, "vector": column, "label": _unify_labels(labels)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return ChunkResult(sink.getvalue().to_pybytes(), bad_lines, errors[0].message if errors else "")


def _read_tables(results: Iterable[ChunkResult]) -> Iterator[pa.Table]:
    import pyarrow as pa

    return (pa.ipc.open_stream(result.content).read_all() for result in results)


def _write_numpy(file: Any, results: Iterable[ChunkResult], width: int) -> int:
    """Write the vectors as one array, a chunk at a time; return their number."""
    import numpy as np

    count = sum(int(table.num_rows) for table in _read_tables(results))
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**header, "shape": (count, width)})
    for table in _read_tables(results):
        file.write(table["vector"].combine_chunks().values.to_numpy().tobytes())
    return count


def _write_parquet(file: Any, results: Iterable[ChunkResult], width: int) -> int:
    """Write texts, vectors and, if there are any, labels, some chunks at a time; return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    label_types = {table["label"].type for table in _read_tables(results)} - {pa.null()}
    if len(label_types) > 1:  # a list in some chunks, a single label in others
        label_types = {pa.list_(pa.string())}
    fields = [
        ("text", pa.string()),
        ("vector", pa.list_(pa.float32(), width)),
        *(("label", label_type) for label_type in label_types),
    ]
    schema, count, tables = pa.schema(fields), 0, _read_tables(results)
    with pq.ParquetWriter(file, schema) as writer:
        while group := [_with_label_type(table, schema) for table in islice(tables, _CHUNKS_PER_GROUP)]:
            writer.write_table(pa.concat_tables(group))
            count += sum(table.num_rows for table in group)
    return count


def _with_label_type(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with labels of another type, or without labels."""
    import pyarrow as pa

    if "label" not in schema.names:
        return table.drop_columns("label")
    labels = table["label"].to_pylist()
    if pa.types.is_list(schema.field("label").type):
        labels = [label if label is None or isinstance(label, list) else [label] for label in labels]
    return table.set_column(2, schema.field("label"), pa.array(labels, schema.field("label").type)).cast(schema)


def _texts(item: Any, rows: int) -> list[str]:
    if item is None:  # it could not be read
        return [""] * rows
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
