"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError
from graphattn.experiments.corpus_options import TRANSLATE, CorpusOptions, is_store, read_items, refuse_for_store
from graphattn.experiments.option_flags import Values, as_flag, flags_of, with_flags
from graphattn.experiments.output_files import check_place, new_file

if TYPE_CHECKING:
    from graphattn.models import Translator

EXAMPLES = (
    "graphattn evaluate model test.tsv\n\n"
    "graphattn evaluate model test.conll --unknown wrong --out metrics.json\n\n"
    "graphattn evaluate translator test.en test.de --compare another-translator"
)


_OF_PAIRS = ("text_column", "second_column")


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
    from graphattn.models import load

    if out is not None:
        check_place(out)
    estimator = load(model)
    if estimator.task == TRANSLATE:
        useless = ["unknown"] * (unknown != "error") + [name for name in given if name not in _OF_PAIRS]
        if useless:
            raise ConfigError(f"{as_flag(useless[0])} is of no use for a translator; leave it out")
        changes = {"search": search, "longest": longest}
        figures = _measured_translator(estimator, corpus, CorpusOptions(**given), compare, **changes)
    elif compare is not None or search or longest or len(corpus) > 1:
        raise ConfigError(
            f"--compare, --search, --longest and a second corpus are for translators; {model} is for {estimator.task!r}"
        )
    else:
        if is_store(corpus[0]):
            refuse_for_store(given, corpus[0])
        multilabel = getattr(estimator, "multilabel", False)
        items = read_items(corpus[0], estimator.task, CorpusOptions(**given), multilabel=multilabel)
        figures = estimator.evaluate(items, unknown=unknown)
    text = json.dumps(figures, indent=1)
    print(text)  # first, so that a file that cannot be written costs nothing
    if out is not None:
        with new_file(out) as file:
            print(text, file=file)


def _measured_translator(
    translator: Translator, paths: list[Path], options: CorpusOptions, compare: Path | None, **changes: Any
) -> dict[str, Any]:
    from graphattn.experiments.translation_corpora import read_pairs
    from graphattn.experiments.translations import measured

    columns = {"text_column": options.text_column, "second_column": options.second_column}
    return measured(translator, *read_pairs(paths, what="CORPUS", **columns), compare, **changes)
