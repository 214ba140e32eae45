"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from graphattn.exceptions import DataError, UnknownLabelError
from graphattn.experiments.cli.chunks import MaxTokens, Precision
from graphattn.experiments.cli.corpus_options import CorpusOptions, parser_flags, split_parser_flags
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output import check_output, model_files, open_output, unpack_single

if TYPE_CHECKING:
    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn evaluate model test.tsv\n\n"
    "graphattn evaluate model test.conll --unknown wrong --out metrics.json\n\n"
    "graphattn evaluate translator test.en test.de --compare another-translator"
)


@with_flags([*flags_of(CorpusOptions(), "Corpus"), *parser_flags()])
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS",
            help="Corpora with labels or tags, measured one by one; of a translator sources and targets.",
        ),
    ],
    given: Values,
    unknown: Annotated[
        Literal["error", "wrong"],
        typer.Option(help="Labels that the model does not know: an error, or counted as wrong."),
    ] = "error",
    compare: Annotated[
        Path | None, typer.Option(help="Another translator, or a file of its outputs: is the difference chance?")
    ] = None,
    search: Annotated[
        str, typer.Option(help="Changes of a translator's search, such as beam=8,length_penalty=1.")
    ] = "",
    longest: Annotated[
        int | None, typer.Option(min=1, help="Most sub-words of a source (translators; default: as in training).")
    ] = None,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = "32",
    out: Annotated[Path | None, typer.Option(help="Also write the metrics to this file.")] = None,
) -> None:
    """Measure a model on a corpus; prints metrics in percent as JSON."""
    from graphattn.experiments.cli.prediction_options import (
        change_search,
        load_model,
        outputs_to_compare,
        reject_unused,
    )

    if out is not None:
        check_output(out, *corpus, *model_files(model))
    parser, given = split_parser_flags(given)
    estimator = load_model(model, parser, precision=precision, max_tokens_per_text=max_tokens_per_text)
    reject_unused(model, estimator, compare=compare, search=search, longest=longest)
    change_search(estimator, search, longest)
    options = CorpusOptions(**given)
    reading = {"format": options.format, **options.reader_options()}
    reports = {}
    for name, paths in estimator.name_corpora(corpus).items():
        with _name_corpus(paths[0], estimator):
            X, y = estimator.read(paths, **reading)
            others = {} if compare is None else {str(compare): outputs_to_compare(compare, X, search, longest)}
            reports[name] = estimator.report(X, y, unknown=unknown, others=others)
    text = json.dumps(unpack_single(reports), indent=1)
    print(text)  # before the file, which may not be writable
    if out is not None:
        with open_output(out) as file:
            print(text, file=file)


@contextmanager
def _name_corpus(path: str | Path, estimator: Estimator) -> Iterator[None]:
    """Name the corpus in errors, with hints for an evaluation instead of those for training."""
    from graphattn.builders.readers import corpus_kind

    try:
        yield
    except UnknownLabelError as error:
        tagged = corpus_kind(estimator.corpus_kind).tags
        other_tags = " Give --tags or --tag-column if training read other tags." if tagged else ""
        error.path, error.hint = path, f"{error.hint}{other_tags} With --unknown wrong they count as wrong."
        raise
    except DataError as error:
        if "multilabel" in error.options:
            error.hint = "The model gives each text one label; train one with {multilabel=True} for this corpus."
        error.path = error.path or path
        raise
