"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError, UnknownLabelError
from graphattn.experiments.cli.corpus_options import TAG, TRANSLATE, CorpusOptions, read_items
from graphattn.experiments.cli.flags import Values, as_flag, flags_of, with_flags
from graphattn.experiments.cli.output_files import check_place, files_of_model, new_file

if TYPE_CHECKING:
    from graphattn.builders import Example, Sentence
    from graphattn.builders.store import Store
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
        check_place(out, *corpus, *files_of_model(model))
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
        multilabel = getattr(estimator, "multilabel", False)
        with _telling_the_corpus(corpus[0], estimator.task):
            items = read_items(corpus[0], estimator.task, CorpusOptions(**given), multilabel=multilabel)
            figures = estimator.evaluate(items, _spelt_as_trained(items, estimator), unknown=unknown)
    text = json.dumps(figures, indent=1)
    print(text)  # first, so that a file that cannot be written costs nothing
    if out is not None:
        with new_file(out) as file:
            print(text, file=file)


def _spelt_as_trained(items: list[Example | Sentence] | Store, estimator: Any) -> list[Any] | None:
    """Labels for a model that was trained in Python on numbers, which files spell; None for all others."""
    if estimator.task == TAG or any(isinstance(name, str) for name in estimator.classes_):
        return None
    spelt: dict[Any, Any] = {}
    for name in estimator.classes_.tolist():
        spelt |= {str(name): name, json.dumps(name): name}
        if isinstance(name, float) and name.is_integer():
            spelt[str(int(name))] = name
    labels: Iterable[Any] = [item.label for item in items] if isinstance(items, list) else items.texts().column("label")
    if getattr(estimator, "multilabel", False):
        return [tuple(spelt.get(name, name) for name in names) for names in labels]
    return [spelt.get(label, label) for label in labels]


@contextmanager
def _telling_the_corpus(path: Path, task: str) -> Iterator[None]:
    """Let errors name the corpus, and give advice for measuring, not for training."""
    try:
        yield
    except UnknownLabelError as error:
        other_tags = " Give --tags or --tag-column if training read other tags." if task == TAG else ""
        error.path, error.hint = path, f"{error.hint}{other_tags} With --unknown wrong they count as wrong."
        raise
    except DataError as error:
        if "multilabel" in error.options:
            error.hint = "The model gives each text one label; train one with {multilabel=True} for this corpus."
        error.path = error.path or path
        raise


def _measured_translator(
    translator: Translator, paths: list[Path], options: CorpusOptions, compare: Path | None, **changes: Any
) -> dict[str, Any]:
    from graphattn.experiments.cli.translation_corpora import read_pairs
    from graphattn.experiments.cli.translations import measured

    columns = {"text_column": options.text_column, "second_column": options.second_column}
    return measured(translator, *read_pairs(paths, what="CORPUS", **columns), compare, **changes)
