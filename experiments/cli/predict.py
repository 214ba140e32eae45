"""``graphattn predict``: one JSON line for each text, in order, as texts arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
CHUNK = 512
"""Default number of texts that are read and predicted together."""
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
    search: Annotated[
        str, typer.Option(help="Changes of a translator's search, such as beam=8,length_penalty=1.")
    ] = "",
    longest: Annotated[
        int | None, typer.Option(min=1, help="Most sub-words of a source (translators; default: as in training).")
    ] = None,
    output: Annotated[
        Literal["json", "spans", "conll", "html"],
        typer.Option(help="Taggers: tags as JSON or CoNLL; or entities with offsets as JSON, or in colours as HTML."),
    ] = "json",
    plain: Annotated[bool, typer.Option("--plain", help="Print a translator's outputs alone, without JSON.")] = False,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="Texts that are read and predicted together (default: 512; typed ones 1).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write instead of standard output.")] = None,
) -> None:
    """Predict texts; prints one JSON object for each, in order.

    A plain file or standard input has one text on each line (for pairs two, with a tab between them); with
    --format words its lines are split at blanks only. Files with labels, as train and evaluate read them, work too. A
    translator prints its outputs with their scores.
    """
    from graphattn.builders.readers.samples import SAMPLE_LINES
    from graphattn.experiments.cli.prediction_options import change_search, load_model, reject_unused
    from graphattn.experiments.cli.text_stream import read_texts

    if out is not None:
        check_output(out, texts, *model_files(model))
    parser, given = split_parser_flags(given)
    estimator = load_model(model, parser)
    options = {"probabilities": probabilities, "n_best": n_best > 1, "plain": plain, "output": output != "json"}
    reject_unused(model, estimator, **options, search=search, longest=longest)
    if output != "json":
        estimator.format_predictions([], output)  # an error before texts are read
    change_search(estimator, search, longest)
    chunk = chunk or (1 if texts == "-" and sys.stdin is not None and sys.stdin.isatty() else CHUNK)
    items = read_texts(
        texts,
        estimator.corpus_kind,
        CorpusOptions(**given),
        split=estimator.inputs_.split,
        sample_lines=min(chunk, SAMPLE_LINES),  # read no more of a slow stream than the first predictions need
    )
    lines = predict_lines(
        estimator, items, n_best=n_best, probabilities=probabilities, plain=plain, chunk=chunk, output=output
    )
    if out is None:
        for line in lines:
            print(line, end="", flush=True)
        return
    with open_output(out) as file:
        file.writelines(lines)


def predict_lines(
    estimator: Estimator,
    items: Iterable[Any],
    *,
    n_best: int = 1,
    probabilities: bool = False,
    plain: bool = False,
    chunk: int = CHUNK,
    output: str = "json",
) -> Iterator[str]:
    """Predict a chunk of inputs at a time; yield the lines of each chunk.

    Parameters
    ----------
    estimator : a fitted estimator
    items : its inputs
    n_best, probabilities : see :meth:`~graphattn.models.Estimator.predict_rows`
    plain : write a translator's outputs without JSON; several of a source with its number and their scores
    chunk : number of inputs that are held in memory and predicted together
    output : one of the estimator's ``output_formats``
    """
    from graphattn.models.entities import HTML_HEAD

    remaining, first = iter(items), 1
    if output == "html":
        yield HTML_HEAD
    while part := list(islice(remaining, chunk)):
        if output != "json":
            yield "".join(estimator.format_predictions(part, output))
            continue
        rows = estimator.predict_rows(part, first=first, n_best=n_best, probabilities=probabilities)
        if plain:
            yield "".join(_format_plain(number, row["outputs"], n_best) for number, row in enumerate(rows, first))
        else:
            yield "".join(map(encode_line, rows))
        first += len(part)


def _format_plain(number: int, outputs: list[dict[str, Any]], n_best: int) -> str:
    if n_best == 1:
        return f"{outputs[0]['text']}\n"
    return "".join(f"{number}\t{output['score']:.6f}\t{output['text']}\n" for output in outputs)
