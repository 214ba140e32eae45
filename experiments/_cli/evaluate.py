"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError, UnknownLabelError, verbatim
from graphattn.experiments._cli.corpus_options import CorpusOptions, name_corpora, parser_flags
from graphattn.experiments._cli.flags import Device, Longest, MaxTokens, Precision, SearchChanges, Values, with_flags
from graphattn.experiments._cli.loaded_models import change_search, load_model, reject_unused
from graphattn.experiments._cli.output import (
    check_output,
    encode_line,
    model_files,
    name_files,
    open_output,
    unpack_single,
)
from graphattn.experiments._cli.tables import format_table
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.models import Estimator
    from graphattn.models._results.reports import Report

EXAMPLES = (
    "graphattn evaluate model test.tsv --picture confusion.png --curves curves.png --mistakes mistakes.tsv\n\n"
    "graphattn evaluate model test.conll --unknown error --out metrics.json\n\n"
    "graphattn evaluate translator test.en,test.de --compare another-translator"
)


@with_flags(flag_values=list_options(CorpusOptions, "Corpus"), parser=parser_flags())
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS",
            help="Corpora with labels or tags, measured one by one; of a translator SOURCE,TARGET or SOURCE TARGET.",
        ),
    ],
    flag_values: Values,
    parser: Values,
    *,
    unknown: Annotated[
        Literal["wrong", "error"] | None,
        typer.Option(
            help="Labels that the model does not know: counted as wrong, or an error (default: an error if it knows "
            "none of the corpus)."
        ),
    ] = None,
    repair_tags: Annotated[
        bool, typer.Option("--repair-tags", help="Taggers: read invalid gold tags as conlleval does.")
    ] = False,
    compare: Annotated[
        Path | None, typer.Option(help="Another translator, or a file of its outputs: is the difference chance?")
    ] = None,
    bleu_tokenizer: Annotated[
        str, typer.Option(help="sacrebleu's tokenizer for BLEU (default: that of the training).")
    ] = "",
    search: SearchChanges = "",
    longest: Longest = None,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Also write the metrics to this file, with the scores of each class.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the confusion matrix (.png, .svg, .pdf): of classes, entities or tags.")
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(help="Draw reliability and precision-recall curves of a classifier (.png, .svg, .pdf)."),
    ] = None,
    mistakes: Annotated[
        Path | None,
        typer.Option(
            help="Write what is wrong (.tsv, .csv, .jsonl), most confident first: texts with the gold and predicted "
            "label; of taggers each place where entities or tags differ."
        ),
    ] = None,
    card: Annotated[
        bool, typer.Option("--card", help="Also write the results into the model card, README.md of the model.")
    ] = False,
) -> None:
    """Measure a model on a corpus.

    Prints metrics in percent as JSON to standard output, and a table of the scores of each class to standard error.
    """
    from graphattn.models._files.saving import CARD

    _check_files(
        out, (picture, curves), mistakes, inputs=[*corpus, *",".join(map(str, corpus)).split(","), *model_files(model)]
    )
    estimator = load_model(model, parser, precision=precision, device=device, max_tokens_per_text=max_tokens_per_text)
    options = {"compare": compare, "bleu_tokenizer": bleu_tokenizer, "search": search, "longest": longest}
    options |= {"picture": picture, "curves": curves, "mistakes": mistakes}
    reject_unused(model, estimator, **options, repair_tags=repair_tags)
    if card:
        check_output(model / CARD)
    if repair_tags:
        estimator.set_params(repair_tags=True)
    corpora = name_corpora(estimator.task, corpus)
    details = [name for name in ("picture", "curves", "mistakes") if options[name]]
    if len(corpora) > 1 and details:
        raise ConfigError(f"{{{details[0]}}} is of one corpus; give one", options=details)
    change_search(estimator, search, longest)
    if bleu_tokenizer:
        estimator.set_params(training__bleu_tokenizer=bleu_tokenizer).training.validate()
    reading = CorpusOptions(**flag_values).reading
    training = estimator.task_.describe_reading(estimator.corpus_).get("training", {})
    reading |= {
        name: flag_values[name] for name in (flag_values.keys() & training.keys()) - reading.keys()
    }  # a default is meant
    reports: dict[str, Report] = {}
    for name, paths in corpora.items():
        with _name_corpus(paths[0], estimator):
            X, y = estimator.read(paths, **reading)
            others = {} if compare is None else {str(compare): _read_outputs(compare, X, device, search, longest)}
            reports[name] = estimator.report(X, y, unknown=unknown, others=others)
    _write_reports(reports, out)
    _write_details(next(iter(reports.values())), picture, curves, mistakes)
    if card:
        with open_output(model / CARD) as file:  # text of the user in it stays
            file.write(estimator.make_card({name_files(paths): reports[name] for name, paths in corpora.items()}))


def _check_files(
    out: Path | None, pictures: Sequence[Path | None], mistakes: Path | None, *, inputs: Sequence[str | Path]
) -> None:
    """Reject files that cannot be written or are inputs, before the model is loaded."""
    for picture in filter(None, pictures):
        from graphattn.experiments.drawing._canvas import check_format

        check_format(picture)
    if mistakes is not None and mistakes.suffix not in (".tsv", ".csv", ".jsonl"):
        raise ConfigError(
            f"{{mistakes}} is {verbatim(repr(str(mistakes)))}; the name must end in .tsv, .csv or .jsonl",
            options=("mistakes",),
        )
    for file in filter(None, (out, *pictures, mistakes)):
        check_output(file, *inputs)


def _read_outputs(path: Path, sources: Sequence[Any], device: str, changes: str, longest: int | None) -> Sequence[str]:
    """The outputs of another translator for the sources, or those in a file, one on each line."""
    from graphattn.builders._text_lines import read_numbered_lines
    from graphattn.models import load

    if path.is_dir():
        translator = load(path, device=device)
        if "compare" not in translator.task.prediction_options:
            raise ConfigError(f"{path} {translator.task.description}; give --compare a translator or a file of outputs")
        change_search(translator, changes, longest)
        return [str(output) for output in translator.predict(sources)]
    outputs = [line for _, line in read_numbered_lines(path)]
    if len(outputs) != len(sources):
        raise DataError(f"{len(outputs)} outputs for {len(sources)} sources", path=path, hint="Give one on each line.")
    return outputs


def _write_reports(reports: Mapping[str, Report], out: Path | None) -> None:
    """Print metrics as JSON and tables, and write the complete JSON."""
    print(json.dumps(unpack_single({name: report.summary for name, report in reports.items()}), indent=1), flush=True)
    for name, report in reports.items():
        print(f"{name}\n{report}\n" if len(reports) > 1 else report, file=sys.stderr)
    if out is not None:
        with open_output(out) as file:
            print(json.dumps(unpack_single(reports), indent=1), file=file)


def _write_details(report: Report, picture: Path | None, curves: Path | None, mistakes: Path | None) -> None:
    """Write the confusion matrix, the curves and the mistakes."""
    if picture is not None and report.outcomes is not None:
        from graphattn.experiments.drawing import draw_confusion

        draw_confusion(report.outcomes, picture)
    if curves is not None and report.probabilities is not None:
        from graphattn.experiments.drawing import draw_probability_curves

        draw_probability_curves(report.probabilities, curves)
    if mistakes is None:
        return
    with open_output(mistakes) as file:
        if mistakes.suffix == ".jsonl":
            file.writelines(map(encode_line, report.mistakes))
            return
        rows = report.mistakes
        header = list(rows[0]) if rows else ["text", "gold", "predicted", "confidence"]
        file.write(format_table([header, *(list(row.values()) for row in rows)], mistakes.suffix))


@contextmanager
def _name_corpus(path: str | Path, estimator: Estimator) -> Iterator[None]:
    """Name the corpus in errors, with hints for an evaluation instead of those for training."""
    from graphattn.builders.readers._formats import corpus_kind

    try:
        yield
    except UnknownLabelError as error:
        tagged = corpus_kind(estimator.task.corpus_kind).tags
        other_tags = " Give --tags or --tag-column if training read other tags." if tagged else ""
        error.path, error.hint = path, f"{error.hint}{other_tags}"
        if "unknown" not in error.options:
            error.hint += " Without --unknown error they count as wrong."
        raise
    except DataError as error:
        if "multilabel" in error.options:
            error.hint = "The model gives each text one label; train one with {multilabel=True} for this corpus."
        error.path = error.path or path
        raise
