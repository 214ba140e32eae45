"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from graphattn.exceptions import ConfigError, DataError, UnknownLabelError
from graphattn.experiments.cli.corpus_options import TAG, CorpusOptions
from graphattn.experiments.cli.flags import Values, flags_of, with_flags
from graphattn.experiments.cli.output_files import check_place, files_of_model, new_file

if TYPE_CHECKING:
    from graphattn.models import Estimator

EXAMPLES = (
    "graphattn evaluate model test.tsv\n\n"
    "graphattn evaluate model test.conll --unknown wrong --out metrics.json\n\n"
    "graphattn evaluate translator test.en test.de --compare another-translator"
)


@with_flags(flags_of(CorpusOptions(), "Corpus"))
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    corpus: Annotated[
        list[Path],
        typer.Argument(metavar="CORPUS", help="Corpus with labels or tags; of a translator sources and targets."),
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
    out: Annotated[Path | None, typer.Option(help="Also write the metrics to this file.")] = None,
) -> None:
    """Measure a model on a corpus; prints metrics in percent as JSON."""
    from graphattn.models import Translator, load

    if out is not None:
        check_place(out, *corpus, *files_of_model(model))
    estimator = load(model)
    options = CorpusOptions(**given)
    reading = {"format": options.format, **options.reader_options()}
    if isinstance(estimator, Translator):
        from graphattn.experiments.cli.translations import measured

        figures = measured(estimator, *estimator.read(corpus, **reading), compare, search=search, longest=longest)
    elif compare is not None or search or longest or len(corpus) > 1:
        raise ConfigError(
            f"--compare, --search, --longest and a second corpus are for translators; {model} is for {estimator.task!r}"
        )
    else:
        with _naming_corpus(corpus[0], estimator):
            figures = estimator.evaluate(*estimator.read(corpus, **reading), unknown=unknown)
    text = json.dumps(figures, indent=1)
    print(text)  # first, so that a file that cannot be written costs nothing
    if out is not None:
        with new_file(out) as file:
            print(text, file=file)


@contextmanager
def _naming_corpus(path: Path, estimator: Estimator) -> Iterator[None]:
    """Name the corpus in errors, with advice for measuring instead of training."""
    try:
        yield
    except UnknownLabelError as error:
        tags = estimator.corpus_kind == TAG
        other_tags = " Give --tags or --tag-column if training read other tags." if tags else ""
        error.path, error.hint = path, f"{error.hint}{other_tags} With --unknown wrong they count as wrong."
        raise
    except DataError as error:
        if "multilabel" in error.options:
            error.hint = "The model gives each text one label; train one with {multilabel=True} for this corpus."
        error.path = error.path or path
        raise
