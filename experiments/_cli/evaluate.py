"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError, Hint, UnknownLabelError, verbatim
from graphattn.experiments._cli.corpus_options import CorpusOptions, name_corpora, parser_flags
from graphattn.experiments._cli.flags import (
    Device,
    Longest,
    MaxTokens,
    Precision,
    SearchChanges,
    Threshold,
    Values,
    with_flags,
)
from graphattn.experiments._cli.loaded_models import change_search, change_thresholds, load_model, reject_unused
from graphattn.experiments._cli.other_predictions import name_other, predict_with_other
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
    from graphattn.builders._sentence import TableRow
    from graphattn.models import Coverage, Estimator
    from graphattn.models._results.reports import Report

TABLES = (".tsv", ".csv", ".jsonl")
"""Extensions of tables of mistakes and the like."""
EXAMPLES = (
    "graphattn evaluate model test.tsv --picture confusion.png --curves curves.png --mistakes mistakes.tsv\n\n"
    "graphattn evaluate model test.conll --unknown error --out metrics.json\n\n"
    "graphattn evaluate model test.tsv --compare another-model --disagreements differ.tsv --by source --by length\n\n"
    "graphattn evaluate model dev.tsv --min-accuracy 95 --coverage coverage.png\n\n"
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
        list[Path] | None,
        typer.Option(
            help="Another model, or a file of its predictions (a table of predict, or one on each line): is the "
            "difference chance? May be repeated."
        ),
    ] = None,
    disagreements: Annotated[
        Path | None,
        typer.Option(help="Write the texts that the compared models predict differently (.tsv, .csv, .jsonl)."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Metrics of groups of texts: the values of a column of the corpus, or length, in tokens; groups that "
            "differ from all other texts are marked. May be repeated.",
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="How many texts are decided from this confidence on, and how many right (classifiers)."
        ),
    ] = None,
    min_accuracy: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=100,
            help="The least confidence from which on this percentage is right (classifiers); choose it on a dev set.",
        ),
    ] = None,
    coverage: Annotated[
        Path | None,
        typer.Option(
            help="Draw or write (.png, .svg, .pdf, .tsv, .csv, .jsonl) the accuracy of the most confident predictions "
            "for each share of the texts (classifiers)."
        ),
    ] = None,
    threshold: Threshold = "",
    mistakes: Annotated[
        Path | None,
        typer.Option(
            help="Write what is wrong (.tsv, .csv, .jsonl), most confident first: all columns of the corpus with the "
            "gold and predicted label; of taggers each place where entities or tags differ."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the confusion matrix (.png, .svg, .pdf): of classes, entities or tags.")
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(help="Draw reliability and precision-recall curves of a classifier (.png, .svg, .pdf)."),
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
    card: Annotated[
        bool, typer.Option("--card", help="Also write the results into the model card, README.md of the model.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="The metrics as JSON alone: no tables or hints.")] = False,
) -> None:
    """Measure a model on a corpus.

    Prints metrics in percent as JSON to standard output, and a table of the scores of each class to standard error.
    """
    from graphattn.models._files.saving import CARD

    if quiet:
        warnings.simplefilter("ignore", Hint)
    tables, pictures = {"disagreements": disagreements, "mistakes": mistakes}, [picture, curves]
    if coverage is not None and coverage.suffix in TABLES:
        tables["coverage"] = coverage
    else:
        pictures.append(coverage)
    read: list[str | Path] = [*corpus, *",".join(map(str, corpus)).split(","), *(compare or []), *model_files(model)]
    _check_files(out, pictures, tables, inputs=read)
    if disagreements is not None and not compare:
        raise ConfigError("{disagreements} needs another model: {compare}", options=("disagreements", "compare"))
    estimator = load_model(model, parser, precision=precision, device=device, max_tokens_per_text=max_tokens_per_text)
    options: dict[str, Any] = {
        "compare": compare,
        "by": by,
        "bleu_tokenizer": bleu_tokenizer,
        "search": search,
        "longest": longest,
    }
    options |= {**tables, "picture": picture, "curves": curves}
    of_confidence: dict[str, Any] = {
        "min_confidence": min_confidence,
        "min_accuracy": min_accuracy,
        "coverage": coverage,
    }
    options |= {**{name: value is not None for name, value in of_confidence.items()}, "threshold": threshold}
    reject_unused(model, estimator, **options, repair_tags=repair_tags)
    if any(options[name] for name in of_confidence):
        task: Any = estimator.task_
        task.require_single_labels(**of_confidence)
    if threshold:
        change_thresholds(estimator, threshold)
    if card:
        if threshold:
            raise ConfigError(
                "{card} has results of the saved model; leave {threshold} out", options=("card", "threshold")
            )
        check_output(model / CARD)
    if repair_tags:
        estimator.set_params(repair_tags=True)
    corpora = name_corpora(estimator.task, corpus)
    details = [name for name in (*tables, "picture", "curves", "coverage") if options[name]]
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
    settings: dict[str, Any] = {"device": device, "prepare": partial(change_search, changes=search, longest=longest)}
    reports: dict[str, Report] = {}
    for name, paths in corpora.items():
        with _name_corpus(paths[0], estimator):
            rows: list[TableRow] = []
            X, y = estimator.read(paths, **reading, keep_row=rows.append)
            columns = _list_columns(rows) if len(rows) == len(X) else {}
            groups = {column: _find_values(column, columns, X, estimator) for column in by or []}
            others = {name_other(path): predict_with_other(path, estimator, X, **settings) for path in compare or []}
            reports[name] = estimator.report(X, y, unknown=unknown, others=others, columns=columns or None)
            _add_decided(reports[name], **of_confidence)
            if groups:
                reports[name]["by"] = {column: reports[name].by(values) for column, values in groups.items()}
    _write_reports(reports, out, quiet=quiet)
    report = next(iter(reports.values()))
    _draw_details(report, picture, curves)
    _write_rows(mistakes, lambda: report.mistakes)
    _write_rows(disagreements, lambda: report.disagreements)
    if coverage is not None and report.coverage is not None:
        _write_coverage(coverage, report.coverage)
    if card:
        with open_output(model / CARD) as file:  # text of the user in it stays
            file.write(estimator.make_card({name_files(paths): reports[name] for name, paths in corpora.items()}))


def _check_files(
    out: Path | None,
    pictures: Sequence[Path | None],
    tables: Mapping[str, Path | None],
    *,
    inputs: Sequence[str | Path],
) -> None:
    """Reject files that cannot be written or are inputs, before the model is loaded."""
    for picture in filter(None, pictures):
        from graphattn.experiments.drawing._canvas import check_format

        check_format(picture)
    for name, table in tables.items():
        if table is not None and table.suffix not in TABLES:
            raise ConfigError(
                f"{{{name}}} is {verbatim(repr(str(table)))}; the name must end in .tsv, .csv or .jsonl",
                options=(name,),
            )
    for file in filter(None, (out, *pictures, *tables.values())):
        check_output(file, *inputs)


def _add_decided(
    report: Report, *, min_confidence: float | None, min_accuracy: float | None, coverage: Path | None
) -> None:
    """Add how many texts are decided from a confidence on, and from which one on a percentage is right."""
    if report.coverage is None:
        return
    if min_confidence is not None:
        report["decided"] = report.coverage.at(min_confidence).to_row()
    if min_accuracy is not None:
        reached = report.coverage.reach(min_accuracy)
        bounds = dict(zip(("low", "high"), report.coverage.bootstrap(min_accuracy), strict=True))
        found = None if reached is None else {**reached.to_row(), "confidence_interval": bounds}
        report["min_accuracy"] = {"wanted": min_accuracy, "reached": found}
    if coverage is not None or min_confidence is not None or min_accuracy is not None:
        report["coverage_area"] = report.coverage.area


def _describe_decided(report: Report) -> Iterator[str]:
    """Lines of what :func:`_add_decided` added."""
    if report.coverage is None:
        return
    if "decided" in report:
        confidence = report["decided"]["min_confidence"]
        yield f"from confidence {confidence:g} on {report.coverage.at(confidence)}"
    if "min_accuracy" in report:
        wanted, found = report["min_accuracy"]["wanted"], report["min_accuracy"]["reached"]
        if found is None:
            yield f"no confidence is high enough for {wanted:g} % right ones"
        else:
            bounds, confidence = found["confidence_interval"], found["min_confidence"]
            interval = f"95 % confidence interval {bounds['low']:.3f} to {bounds['high']:.3f}"
            chosen = f"{wanted:g} % right: --min-confidence {confidence:g} ({interval})"
            yield f"{chosen}; {report.coverage.at(confidence)}"
    if "coverage_area" in report:
        yield f"area under accuracy over coverage: {report['coverage_area']:.2f}"


def _list_columns(rows: Sequence[TableRow]) -> dict[str, list[Any]]:
    """Column -> the field of each row; None where a JSON record lacks it."""
    records = [dict(zip(row.names, row.cells, strict=True)) for row in rows]
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _find_values(name: str, columns: Mapping[str, list[Any]], X: Sequence[Any], estimator: Estimator) -> Sequence[Any]:
    """The value of each text in a column of the corpus, or its number of tokens."""
    if name in columns:
        return columns[name]
    if name != "length":
        known = f"its columns are {', '.join([*map(repr, columns), 'length'])}" if columns else "there is only length"
        raise ConfigError(f"{{by}} is {verbatim(repr(name))}, which the corpus does not have; {known}", options=("by",))
    from graphattn.models._estimators.inputs import as_text

    counted = estimator.read_texts(X).columns
    return [sum(map(estimator.count_tokens, map(as_text, texts))) for texts in zip(*counted, strict=True)]


def _write_reports(reports: Mapping[str, Report], out: Path | None, *, quiet: bool) -> None:
    """Print metrics as JSON and tables, and write the complete JSON."""
    print(json.dumps(unpack_single({name: report.summary for name, report in reports.items()}), indent=1), flush=True)
    for name, report in ({} if quiet else reports).items():
        tables = [f"\nby {column}\n{groups}" for column, groups in report.get("by", {}).items()]
        text = "\n".join([str(report), *_describe_decided(report), *tables])
        print(f"{name}\n{text}\n" if len(reports) > 1 else text, file=sys.stderr)
    if out is not None:
        with open_output(out) as file:
            print(json.dumps(unpack_single(reports), indent=1), file=file)


def _draw_details(report: Report, picture: Path | None, curves: Path | None) -> None:
    """Draw the confusion matrix and the curves."""
    if picture is not None and report.outcomes is not None:
        from graphattn.experiments.drawing import draw_confusion

        draw_confusion(report.outcomes, picture)
    if curves is not None and report.probabilities is not None:
        from graphattn.experiments.drawing import draw_probability_curves

        draw_probability_curves(report.probabilities, curves)


def _write_coverage(path: Path, coverage: Coverage) -> None:
    """Write the curve as a table, or draw it."""
    if path.suffix in TABLES:
        _write_rows(path, coverage.to_rows)
        return
    from graphattn.experiments.drawing import draw_coverage

    draw_coverage(coverage, path)


def _write_rows(path: Path | None, find: Callable[[], list[dict[str, Any]]]) -> None:
    """Write rows as a table, or as JSON Lines."""
    if path is None:
        return
    rows = find()
    with open_output(path) as file:
        if path.suffix == ".jsonl":
            file.writelines(map(encode_line, rows))
            return
        header = list(dict.fromkeys(name for row in rows for name in row))
        header = header or ["text", "gold", "predicted", "confidence"]
        file.write(format_table([header, *(list(map(row.get, header)) for row in rows)], path.suffix))


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
