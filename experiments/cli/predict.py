"""``graphattn predict``: one JSON line for each text, in order, as texts arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.experiments.cli.chunks import (
    CHUNK,
    Address,
    Chunk,
    EngineName,
    Jobs,
    Longest,
    MaxTokens,
    ModelJob,
    ModelSettings,
    Part,
    Precision,
    Search,
    Tally,
    TextError,
    apply_to_texts,
    iter_chunks,
    keep_parts,
    load_once,
    make_engine,
    stream_parts,
)
from graphattn.experiments.cli.corpus_options import CorpusOptions, parser_flags, split_parser_flags
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output import check_output, encode_line, model_files, open_output

if TYPE_CHECKING:
    from graphattn.models import Estimator

EXAMPLES = (
    'echo "a lovely film" | graphattn predict model\n\n'
    "graphattn predict model reviews.csv --text-column review --probabilities --out predictions.jsonl\n\n"
    "graphattn predict tagger sentences.txt --output spans\n\n"
    "graphattn predict translator --plain --search beam=8 < test.en > test.de"
)
_UNUSED = {"label_column", "label_separator", "tag_column", "tags"}


@with_flags([*flags_of(CorpusOptions(), "Input", without=_UNUSED), *parser_flags()])
def predict(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    given: Values,
    texts: Annotated[str, typer.Argument(help="File of texts; - for standard input.")] = "-",
    *,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of each class.")] = False,
    n_best: Annotated[
        int, typer.Option(min=1, help="Outputs for each text (translators); the beam is at least as wide.")
    ] = 1,
    search: Search = "",
    longest: Longest = None,
    output: Annotated[
        Literal["json", "spans", "conll", "html"],
        typer.Option(help="Taggers: tags as JSON or CoNLL; or entities with offsets as JSON, or in colours as HTML."),
    ] = "json",
    plain: Annotated[
        bool, typer.Option("--plain", help="Print a translator's or regressor's outputs alone, without JSON.")
    ] = False,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="Texts that are read and predicted together (default: 512; typed ones 1).")
    ] = None,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = "32",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write instead of standard output; the same command resumes.")
    ] = None,
) -> None:
    """Predict texts; prints one JSON object for each, in order.

    A plain file or standard input has one text on each line (for pairs two, with a tab between them); with
    --format words its lines are split at blanks only. Files with labels, as train and evaluate read them, work too. A
    translator prints its outputs with their scores.
    """
    from graphattn.builders.readers.samples import SAMPLE_LINES
    from graphattn.experiments.cli.prediction_options import reject_unused
    from graphattn.experiments.cli.text_stream import read_numbered_texts
    from graphattn.models.saving import read_task

    if out is not None:
        check_output(out, texts, *model_files(model))
    options = {"probabilities": probabilities, "n_best": n_best > 1, "plain": plain, "output": output != "json"}
    reject_unused(model, read_task(model), **options, search=search, longest=longest)
    parser, given = split_parser_flags(given)
    settings = ModelSettings.of(
        model,
        engine=engine,
        jobs=jobs,
        parser=tuple(parser.items()),
        search=search,
        longest=longest,
        precision=precision,
        max_tokens_per_text=max_tokens_per_text,
    )
    estimator = load_once(replace(settings, threads=None))
    if output != "json":
        estimator.format_predictions([], output)  # an error before texts are read
    chunk = chunk or (1 if texts == "-" and sys.stdin is not None and sys.stdin.isatty() else CHUNK)
    numbered = read_numbered_texts(
        texts,
        estimator.corpus_kind,
        CorpusOptions(**given),
        split=estimator.inputs_.split,
        sample_lines=min(chunk, SAMPLE_LINES),  # read no more of a slow stream than the first predictions need
    )
    choices = {"n_best": n_best, "probabilities": probabilities, "plain": plain, "output": output}
    job = ModelJob(settings, predict_chunk, choices)
    chunks, executor = iter_chunks(numbered, chunk), make_engine(engine, jobs, address)
    tally = _write_predictions(job, chunks, executor, out)
    place = 'See the rows with "error".' if _has_rows(output, plain=plain) else "Empty lines stand for them."
    tally.report(getattr(estimator.inputs_, "max_tokens_per_text", None), place)


def _write_predictions(job: ModelJob, chunks: Iterator[Chunk], executor: Any, out: Path | None) -> Tally:
    """Predict chunks to a file, resumably, or to a stream, each as soon as it is done."""
    from graphattn.builders.files import is_stream

    tally = Tally()
    if out is None or is_stream(out):
        with nullcontext(sys.stdout.buffer) if out is None else open_output(out, binary=True) as file:
            for content in tally.count(stream_parts(job, chunks, executor)):
                file.write(content)
                file.flush()
    else:
        with keep_parts(out) as parts:
            parts.compute(job, chunks, executor, "predicting")
            with open_output(out, binary=True) as file:
                file.writelines(tally.count(parts))
    return tally


def predict_chunk(
    estimator: Estimator,
    chunk: Chunk,
    *,
    n_best: int = 1,
    probabilities: bool = False,
    plain: bool = False,
    output: str = "json",
) -> Part:
    """Predict a chunk; a text that cannot be predicted has a row with its line and the error, else an empty line.

    Parameters
    ----------
    estimator : a fitted estimator
    chunk : its inputs
    n_best, probabilities : see :meth:`~graphattn.models.Estimator.predict_rows`
    plain : write outputs of a translator or regressor without JSON; several of a source with its number and scores
    output : one of the estimator's ``output_formats``
    """
    from graphattn.models.entities import HTML_HEAD

    def format_texts(inputs: list[Any], first: int) -> list[str]:
        if output != "json":
            return estimator.format_predictions(inputs, output)
        rows = estimator.predict_rows(inputs, first=first, n_best=n_best, probabilities=probabilities)
        if plain:
            return [_format_plain(number, row, n_best) for number, row in enumerate(rows, first)]
        return list(map(encode_line, rows))

    lines, bad_lines = [HTML_HEAD] if output == "html" and chunk.first == 1 else [], []
    error = ""
    for line in apply_to_texts(format_texts, chunk):
        if isinstance(line, TextError):
            bad_lines.append(line.line)
            error = error or line.message
            row = {"line": line.line, "error": line.message}
            lines.append(encode_line(row) if _has_rows(output, plain=plain) else "\n")
        else:
            lines.append(line)
    return Part("".join(lines).encode(), tuple(bad_lines), error)


def _has_rows(output: str, *, plain: bool) -> bool:
    """Whether the output is JSON."""
    return output in ("json", "spans") and not plain


def predict_lines(estimator: Estimator, items: Iterable[Any], *, chunk: int = CHUNK, **options: Any) -> Iterator[str]:
    """Predict a chunk of inputs at a time; yield the lines of each chunk.

    Parameters
    ----------
    estimator : a fitted estimator
    items : its inputs
    chunk : number of inputs that are held in memory and predicted together
    options : of :func:`predict_chunk`
    """
    from graphattn.experiments.cli.text_stream import NumberedText

    for part in iter_chunks((NumberedText(number, item) for number, item in enumerate(items, 1)), chunk):
        yield predict_chunk(estimator, part, **options).content.decode()


def _format_plain(number: int, row: dict[str, Any], n_best: int) -> str:
    if "value" in row:
        return f"{row['value']}\n"
    outputs = row["outputs"]
    if n_best == 1:
        return f"{outputs[0]['text']}\n"
    return "".join(f"{number}\t{output['score']:.6f}\t{output['text']}\n" for output in outputs)
