"""``graphattn predict``: one JSON line for each text, in order, as texts arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.corpus_options import CorpusOptions
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output_files import check_place, encode_line, files_of_model, new_file

if TYPE_CHECKING:
    from graphattn.models import TextEstimator

EXAMPLES = (
    'echo "a lovely film" | graphattn predict model\n\n'
    "graphattn predict model reviews.csv --text-column review --probabilities --out predictions.jsonl\n\n"
    "graphattn predict tagger sentences.txt --format words\n\n"
    "graphattn predict translator --plain --search beam=8 < test.en > test.de"
)
CHUNK = 512
"""Default number of texts that are read and predicted together."""
_UNUSED = {"label_column", "label_separator", "tag_column", "tags"}


@with_flags(flags_of(CorpusOptions(), "Input", without=_UNUSED))
def predict(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    given: Values,
    texts: Annotated[str, typer.Argument(help="File of texts; - for standard input.")] = "-",
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
    from graphattn.experiments.cli.text_stream import SAMPLE_LINES, read_texts
    from graphattn.models import Translator, load
    from graphattn.models.estimators import LabellingEstimator

    if out is not None:
        check_place(out, texts, *files_of_model(model))
    estimator = load(model)
    chunk = chunk or (1 if texts == "-" and sys.stdin is not None and sys.stdin.isatty() else CHUNK)
    options = CorpusOptions(**given)
    sample_lines = min(chunk, SAMPLE_LINES)  # of a slow stream no more than the first predictions need
    items = read_texts(texts, estimator.corpus_kind, options, split=estimator.inputs_.split, sample_lines=sample_lines)
    if isinstance(estimator, Translator):
        from graphattn.experiments.cli.translations import change, translated_lines

        if probabilities:
            raise ConfigError("--probabilities is for classes and tags; a translator gives scores, see --n-best")
        change(estimator, search, longest)
        lines = translated_lines(estimator, items, count=n_best, plain=plain, chunk=chunk)
    elif n_best > 1 or search or longest or plain:
        raise ConfigError(
            f"--n-best, --search, --longest and --plain are for translators; {model} is for {estimator.task!r}"
        )
    else:
        assert isinstance(estimator, LabellingEstimator)
        lines = predicted_lines(estimator, items, probabilities=probabilities, chunk=chunk)
    if out is None:
        for line in lines:
            print(line, end="", flush=True)
        return
    with new_file(out) as file:
        file.writelines(lines)


def predicted_lines(
    estimator: TextEstimator, items: Iterable[Any], *, probabilities: bool = False, chunk: int = CHUNK
) -> Iterator[str]:
    """JSON lines of predictions, a chunk at a time.

    Parameters
    ----------
    estimator : a fitted estimator
    items : its inputs
    probabilities : add the probability of each class
    chunk : inputs that are held in memory and predicted together
    """
    remaining = iter(items)
    while part := list(islice(remaining, chunk)):
        shares: Sequence[Any] = [None] * len(part)
        if probabilities:
            labels, shares = estimator.predict_with_probabilities(part)
        else:
            labels = estimator.predict(part)
        rows = [estimator.format_row(*row) for row in zip(part, labels, shares, strict=True)]
        yield "".join(encode_line(row) for row in rows)
