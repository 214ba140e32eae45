"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from graphattn.experiments.corpus_options import CorpusOptions, read_items
from graphattn.experiments.option_flags import Values, flags_of, with_flags
from graphattn.experiments.output_files import new_file

EXAMPLES = "graphattn evaluate model test.tsv\n\ngraphattn evaluate model test.conll --unknown wrong --out metrics.json"


@with_flags(flags_of(CorpusOptions(), "Corpus"))
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    corpus: Annotated[Path, typer.Argument(help="Corpus with labels or tags.")],
    given: Values,
    unknown: Annotated[
        Literal["error", "wrong"],
        typer.Option(help="Labels that the model does not know: an error, or counted as wrong."),
    ] = "error",
    out: Annotated[Path | None, typer.Option(help="Also write the metrics to this file.")] = None,
) -> None:
    """Measure a model on a corpus; prints metrics in percent as JSON."""
    from graphattn.models import TextClassifier, load

    estimator = load(model)
    multilabel = isinstance(estimator, TextClassifier) and estimator.multilabel
    items = read_items(corpus, estimator.task, CorpusOptions(**given), multilabel=multilabel)
    text = json.dumps(estimator.evaluate(items, unknown=unknown), indent=1)
    if out is not None:
        with new_file(out) as file:
            print(text, file=file)
    print(text)
