"""``graphattn predict``: one JSON line for each text, in order, as texts arrive."""

from __future__ import annotations

import json
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import (
    ConfigError,
    DataError,
    GraphAttnWarning,
    GraphError,
    Hint,
    TruncationWarning,
    verbatim,
    warn_caller,
)
from graphattn.experiments._cli.corpus_options import CorpusOptions, parser_flags
from graphattn.experiments._cli.flags import (
    Address,
    Device,
    EngineName,
    Jobs,
    Longest,
    MaxTokens,
    Precision,
    Quiet,
    SearchChanges,
    Threshold,
    Values,
    with_flags,
)
from graphattn.experiments._cli.loaded_models import ModelSettings, reject_unused
from graphattn.experiments._cli.output import check_output, encode_line, has_output, model_files, open_output
from graphattn.experiments._cli.resumable import (
    CHUNK,
    ChunkResult,
    ModelJob,
    ProgressCounts,
    TextError,
    apply_to_texts,
    choose_chunk,
    iter_chunks,
    keep_results,
    make_engine,
    stream_results,
)
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.experiments._cli.prediction_table import PredictionTable
    from graphattn.experiments._cli.text_stream import NumberedText
    from graphattn.models import Estimator, Task

EXAMPLES = (
    'graphattn predict model "a lovely film"\n\n'
    "graphattn predict model reviews.csv --text-column review --out labelled.csv\n\n"
    "graphattn predict tagger sentences.txt --output spans\n\n"
    "graphattn predict translator --plain --search beam=8 < test.en > test.de"
)
_UNUSED = {"drop_label", "label_column", "label_separator", "layer", "tag_column", "tags"}
_TABLES = ("csv", "tsv", "parquet")
_OUTPUTS = {
    ".csv": ("csv",),
    ".tsv": ("tsv",),
    ".parquet": ("parquet",),
    ".conll": ("conll",),
    ".html": ("html",),
    ".jsonl": ("json", "spans"),
    ".ndjson": ("json", "spans"),
    ".json": ("json", "spans"),
}
"""Extension -> what such a file may have; the first by default."""


@with_flags(flag_values=list_options(CorpusOptions, "Input", without=_UNUSED), parser=parser_flags())
def predict(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    flag_values: Values,
    parser: Values,
    texts: Annotated[str, typer.Argument(help="A text, or a file of texts; - for standard input.")] = "-",
    *,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of each class.")] = False,
    threshold: Threshold = "",
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Add the probabilities of the most probable classes (classifiers); to a table as columns top_1, "
            "top_1_probability, top_2 ...",
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Add the confidence; leave the label empty if it is less (classifiers)."),
    ] = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="Outputs for each text (translators); the beam is at least as wide.")
    ] = 1,
    search: SearchChanges = "",
    longest: Longest = None,
    output: Annotated[
        Literal["json", "csv", "tsv", "parquet", "spans", "conll", "html"] | None,
        typer.Option(
            help="JSON Lines, or a table; taggers also entities as JSON or in colours as HTML, or CoNLL (default: as "
            "the extension of --out says, else json)."
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print a translator's or regressor's outputs alone, without JSON.")
    ] = False,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1, help="Texts that are read and predicted together (default: 512, on a GPU 8192; typed ones 1)."
        ),
    ] = None,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = None,
    device: Device = "auto",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write instead of standard output; the same command resumes.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Predict texts; prints one JSON object for each, in order.

    A file of --out, .csv, .tsv, .parquet or .jsonl, has all columns of the input, and the label and its confidence.

    A plain file or standard input has one text on each line (for pairs two, with a tab between them); with
    --format words its lines are split at blanks only. Files with labels, as train and evaluate read them, work too. A
    translator prints its outputs with their scores.
    """
    from graphattn.builders._paths import is_stream
    from graphattn.builders.readers._samples import SAMPLE_LINES
    from graphattn.experiments._cli.text_stream import read_numbered_texts

    if quiet:
        warnings.simplefilter("ignore", Hint)
    if out is not None:
        check_output(out, texts, *model_files(model))
    elif not has_output():
        raise ConfigError("standard output is closed; give {out} a file, or redirect the output", options=("out",))
    settings = ModelSettings.of(
        model,
        engine=engine,
        jobs=jobs,
        parser=tuple(parser.items()),
        search=search,
        longest=longest,
        precision=precision,
        device=device,
        max_tokens_per_text=max_tokens_per_text,
        threshold=threshold,
    )
    estimator = settings.load_to_read(engine)
    added = {"top_k": top_k, "min_confidence": min_confidence}
    added = {name: value for name, value in added.items() if value is not None}
    reject_unused(
        model, estimator, probabilities=probabilities, n_best=n_best > 1, plain=plain, **dict.fromkeys(added, True)
    )
    row_options: dict[str, Any] = {"probabilities": probabilities, **added}
    form = _choose_output(output, out, estimator.task, plain=plain, n_best=n_best)
    has_rows = form in _TABLES or (out is not None and _has_rows(form, plain=plain))
    chunk = chunk or (1 if texts == "-" and sys.stdin is not None and sys.stdin.isatty() else choose_chunk(settings))
    numbered = read_numbered_texts(
        texts,
        estimator.task.corpus_kind,
        CorpusOptions(**flag_values),
        split=estimator.inputs_.split,
        **estimator.task_.describe_reading(estimator.corpus_),
        sample_lines=min(chunk, SAMPLE_LINES),  # read no more of a slow stream than the first predictions need
        keep_rows=has_rows,
    )
    choices: dict[str, Any] = {"n_best": n_best, "plain": plain, "output": form, **row_options}
    if has_rows:
        choices["table"], first = _make_table(estimator, numbered, form, row_options)
        numbered = chain(first, numbered)
    job = ModelJob(settings, predict_chunk, choices)
    executor = make_engine(engine, jobs, address, device)
    tally = ProgressCounts(columns=estimator.text_inputs_.text_columns)
    _write_predictions(job, tally.watch(iter_chunks(numbered, chunk)), executor, tally, out, quiet=quiet)
    if out is not None and not quiet and not is_stream(out):
        print(f"{tally.processed:,} prediction{'s' * (tally.processed != 1)}: {out}")
    hint = 'See the rows with "error".' if _has_rows(form, plain=plain) else "Empty lines stand for them."
    hint = "They have no prediction." if form in _TABLES else hint
    tally.report(estimator, hint)


def _choose_output(output: str | None, out: Path | None, task: type[Task], *, plain: bool, n_best: int) -> str:
    """The output that the extension of the file says, unless another is given; an error if they contradict."""
    suffix = "" if out is None else out.suffix.lower()
    allowed = _OUTPUTS.get(suffix, ())
    chosen = output or (allowed[0] if allowed else "json")
    if suffix not in ("", ".txt", *_OUTPUTS) and not (output or plain):
        known = ", ".join(_OUTPUTS)
        raise ConfigError(f"{{out}} ends in {verbatim(suffix)}; the name must end in one of {known}", options=("out",))
    if chosen not in task.output_formats:
        named = f"{{output}} is {chosen!r}" if output else f"{{out}} ends in {suffix}"
        raise ConfigError(
            f"{named}; a model that {task.description} has: {', '.join(task.output_formats)}",
            options=("output", "out"),
        )
    if allowed and chosen not in allowed:
        raise ConfigError(
            f"{{output}} is {chosen!r}, but {{out}} ends in {suffix}; leave {{output}} out, or change the extension",
            options=("output", "out"),
        )
    if chosen == "parquet" and out is None:
        raise ConfigError("Parquet needs a file; give {out}, or another {output}", options=("output", "out"))
    if chosen in _TABLES and (plain or n_best > 1):
        raise ConfigError(
            "a table has one output next to each text; leave {plain} and {n_best} out, or let {out} end in .jsonl",
            options=("plain", "n_best", "out"),
        )
    return chosen


def _make_table(
    estimator: Estimator, texts: Iterator[NumberedText], form: str, row_options: Mapping[str, Any]
) -> tuple[PredictionTable, list[NumberedText]]:
    """The table for the first text that can be predicted, and the texts that were taken to find it."""
    from graphattn.experiments._cli.prediction_table import PredictionTable
    from graphattn.experiments._cli.text_stream import NumberedText
    from graphattn.models._features.text_columns import hint_at_gaps_later

    # Of a tagger's words they take long, and a table has no place for one confidence.
    has_confidence = "probabilities" in estimator.task.prediction_options and estimator.task.corpus_kind != "tag"
    with_confidence = {**row_options, "probabilities": row_options["probabilities"] or has_confidence}
    taken: list[NumberedText] = []
    nothing = NumberedText(0, _make_empty_input(estimator))
    for text in chain(_take(texts, taken), [nothing]):
        with warnings.catch_warnings(), hint_at_gaps_later():  # it is predicted again
            warnings.simplefilter("ignore", TruncationWarning)
            try:
                (row,) = estimator.predict_rows([text.content], **with_confidence)
                break
            except (DataError, GraphError):
                if text is nothing:
                    raise
    if text is nothing:
        text = nothing._replace(row=next((text.row for text in taken if text.row is not None), None))
    table = PredictionTable.of(
        text,
        row if form != "spans" else {"text": "", "spans": []},
        f".{form}" if form in _TABLES else ".jsonl",
        probabilities=row_options["probabilities"],
        label_separator=estimator.corpus_.get("label_separator"),
    )
    if table.left_out:
        names = ", ".join(map(repr, sorted(table.left_out)))
        message = f"columns that are not text are left out: {verbatim(names)}; let {{out}} end in .parquet to keep them"
        warn_caller(GraphAttnWarning(message, options=("out",)))
    return table, taken


def _make_empty_input(estimator: Estimator) -> Any:
    """An input without words, with empty values of all that the model reads beside them."""
    from graphattn.builders import Example, Sentence

    known, has_predicates = estimator.task_.known_columns, estimator.text_inputs_.predicates
    if known.features or has_predicates:
        features = dict.fromkeys(known.features, ()) or None
        return Sentence((), features=features, predicates=() if has_predicates else None)
    if known.cells:
        cells = dict.fromkeys(column.name for column in known.cells)
        return Example("", "" if known.is_pair else None, cells=cells)
    return ("", "") if known.is_pair else ""


def _take(texts: Iterable[NumberedText], taken: list[NumberedText]) -> Iterator[NumberedText]:
    """The readable ones of the first texts, which are added to ``taken``."""
    for text in islice(texts, CHUNK):
        taken.append(text)
        if text.error is None:
            yield text


def _write_predictions(
    job: ModelJob,
    chunks: Iterator[Sequence[NumberedText]],
    executor: Any,
    tally: ProgressCounts,
    out: Path | None,
    *,
    quiet: bool,
) -> None:
    """Predict chunks to a file, resumably, or to a stream, each as soon as it is done; ``tally`` counts results."""
    from graphattn.builders._paths import is_stream

    is_parquet = out is not None and job.options["output"] == "parquet"
    if out is None or (is_stream(out) and not is_parquet):
        with nullcontext(sys.stdout.buffer) if out is None else open_output(out, binary=True) as file:
            for content in tally.count(stream_results(job, chunks, executor)):
                file.write(content)
                file.flush()
    else:
        with keep_results(out) as results:
            results.compute(job, chunks, executor, None if quiet else "predicting")
            with open_output(out, binary=True) as file:
                if is_parquet:
                    from graphattn.experiments._cli.arrow_tables import read_arrow, write_parquet

                    write_parquet(file, lambda: read_arrow(result.content for result in results))
                    deque(tally.count(results), maxlen=0)
                else:
                    file.writelines(tally.count(results))


def predict_chunk(
    estimator: Estimator,
    chunk: Sequence[NumberedText],
    *,
    n_best: int = 1,
    plain: bool = False,
    output: str = "json",
    table: PredictionTable | None = None,
    **row_options: Any,
) -> ChunkResult:
    """Predict a chunk; a text that cannot be predicted has a row with its line and the error, else an empty line.

    ``plain`` writes outputs of a translator or regressor without JSON, several of a source with its number and scores;
    ``row_options`` are those of ``predict_rows``.
    """
    from graphattn.models._results.entities import HTML_HEAD

    if table is not None and table.has_confidence:
        row_options["probabilities"] = True

    def format_texts(inputs: list[Any], first: int) -> Sequence[Any]:
        if output == "spans" and table is not None:
            return list(map(json.loads, _format_tags(estimator, inputs, output)))
        if output != "json" and table is None:
            return _format_tags(estimator, inputs, output)
        if "n_best" in estimator.task.prediction_options:
            row_options.update(first=first, n_best=n_best)
        rows = estimator.predict_rows(inputs, **row_options)
        if table is not None:
            return rows
        if plain:
            return [_format_plain(number, row, n_best) for number, row in enumerate(rows, first)]
        return list(map(encode_line, rows))

    results = apply_to_texts(format_texts, chunk)
    if table is not None:
        return _fill_table(table, chunk, results)
    lines, errors = [HTML_HEAD] if output == "html" and chunk[0].number == 1 else [], []
    for result in results:
        if isinstance(result, TextError):
            errors.append(result)
            lines.append(encode_line(result.to_row()) if _has_rows(output, plain=plain) else "\n")
        else:
            lines.append(result)
    return ChunkResult.of("".join(lines).encode("utf-8", "backslashreplace"), errors)


def _fill_table(table: PredictionTable, chunk: Sequence[NumberedText], predictions: Sequence[Any]) -> ChunkResult:
    """The rows of texts with their predictions, or errors."""
    rows, errors = [table.header()] if chunk[0].number == 1 and table.header() else [], []
    for text, prediction in zip(chunk, predictions, strict=True):
        if not isinstance(prediction, TextError):
            try:
                rows.append(table.make_row(text, prediction))
                continue
            except DataError as error:
                prediction = TextError.of(text.line, error)
        errors.append(prediction)
        rows.append(table.make_row_without_prediction(text, prediction.to_row()))
    return ChunkResult.of(table.join(rows), errors)


def _has_rows(output: str, *, plain: bool) -> bool:
    """Whether the output is JSON."""
    return output in ("json", "spans") and not plain


def _format_tags(tagger: Any, X: Sequence[Any], output: str) -> list[str]:
    """The predictions of a tagger for each text, as ``conll``, ``html`` or ``spans``."""
    from graphattn.models._results.entities import format_conll

    if output == "conll":
        return [format_conll(row["words"], row["tags"]) for row in tagger.predict_rows(X)]
    if output == "html":
        return [f"{tagged._repr_html_()}\n" for tagged in tagger.predict_spans(X)]
    return [json.dumps(tagged.to_row(), ensure_ascii=False) + "\n" for tagged in tagger.predict_spans(X)]


def predict_lines(estimator: Estimator, items: Iterable[Any], *, chunk: int = CHUNK, **options: Any) -> Iterator[str]:
    """Predict ``chunk`` inputs at a time with options of :func:`predict_chunk`; yield the lines of each chunk."""
    from graphattn.experiments._cli.text_stream import NumberedText

    numbered = (NumberedText(number, item) for number, item in enumerate(items, 1))
    for texts in iter_chunks(numbered, chunk):
        yield predict_chunk(estimator, texts, **options).content.decode()


def _format_plain(number: int, row: dict[str, Any], n_best: int) -> str:
    if "value" in row:
        return f"{row['value']}\n"
    outputs = row["outputs"]
    if n_best == 1:
        return f"{outputs[0]['text']}\n"
    return "".join(f"{number}\t{output['score']:.6f}\t{output['text']}\n" for output in outputs)
