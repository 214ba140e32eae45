"""``graphattn evaluate``: metrics of a model on a corpus, as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graphattn.exceptions import ConfigError, DataError, Hint, UnknownLabelError
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
from graphattn.experiments._cli.loaded_models import change_search, load_model, reject_unused
from graphattn.experiments._cli.output import (
    check_output,
    model_files,
    name_files,
    open_output,
    unpack_single,
)
from graphattn.experiments._cli.report_sections import (
    ErrorAnalysis,
    ModelComparison,
    ReportSection,
    SelectivePrediction,
    Subgroups,
    check_files,
    find_first_file,
    list_columns,
)
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.builders._sentence import TableRow
    from graphattn.models import Estimator
    from graphattn.models._results.reports import Report

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
            min=0, max=1, help="Coverage and accuracy of the predictions with at least this confidence (classifiers)."
        ),
    ] = None,
    min_accuracy: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=100,
            help="Find the lowest confidence threshold that reaches this accuracy, such as 95 percent (classifiers); "
            "choose it on a dev set.",
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
    if quiet:
        warnings.simplefilter("ignore", Hint)
    better, groups = ModelComparison(compare, disagreements), Subgroups(by)
    decisions = SelectivePrediction(min_confidence, min_accuracy, coverage, threshold)
    sections = [better, decisions, groups, ErrorAnalysis(mistakes, picture, curves)]
    read: list[str | Path] = [*corpus, *",".join(map(str, corpus)).split(","), *(compare or []), *model_files(model)]
    for section in sections:
        section.check()
    check_files(out, sections, inputs=read)
    estimator = load_model(model, parser, precision=precision, device=device, max_tokens_per_text=max_tokens_per_text)
    options = {name: is_set for section in sections for name, is_set in section.list_options().items()}
    of_task: dict[str, Any] = {"bleu_tokenizer": bleu_tokenizer, "search": search, "longest": longest}
    reject_unused(model, estimator, **options, **of_task, repair_tags=repair_tags)
    for section in sections:
        section.prepare(estimator)
    if card:
        _check_card(model, threshold)
    corpora = name_corpora(estimator.task, corpus)
    if len(corpora) > 1 and (name := find_first_file(sections)):
        raise ConfigError(f"{{{name}}} is of one corpus; give one", options=(name,))
    _change_model(estimator, repair_tags=repair_tags, **of_task)
    training = estimator.task_.describe_reading(estimator.corpus_).get("training", {})
    reading = CorpusOptions(**flag_values).reading(training)
    settings: dict[str, Any] = {"device": device, "prepare": partial(change_search, changes=search, longest=longest)}
    reports: dict[str, Report] = {}
    for name, paths in corpora.items():
        with _name_corpus(paths[0], estimator):
            rows: list[TableRow] = []
            X, y = estimator.read(paths, **reading, keep_row=rows.append)
            columns = list_columns(rows) if len(rows) == len(X) else {}
            values = groups.find_groups(columns, X, estimator)
            others = better.predict(estimator, X, **settings)
            report = reports[name] = estimator.report(X, y, unknown=unknown, others=others, columns=columns or None)
            decisions.answer(report)
            if values:
                report["by"] = {column: report.by(of_texts) for column, of_texts in values.items()}
    _write_reports(reports, sections, out, quiet=quiet)
    for section in sections:
        section.write(next(iter(reports.values())))
    if card:
        _write_card(estimator, model, {name_files(paths): reports[name] for name, paths in corpora.items()})


def _change_model(estimator: Any, *, repair_tags: bool, bleu_tokenizer: str, search: str, longest: int | None) -> None:
    """Change how a tagger reads tags, and how a translator searches and is measured."""
    if repair_tags:
        estimator.set_params(repair_tags=True)
    change_search(estimator, search, longest)
    if bleu_tokenizer:
        estimator.set_params(training__bleu_tokenizer=bleu_tokenizer).training.validate()


def _check_card(model: Path, threshold: str) -> None:
    """Reject a card that cannot be written, or results of other thresholds in it."""
    from graphattn.models._files.saving import CARD

    if threshold:
        raise ConfigError("{card} has results of the saved model; leave {threshold} out", options=("card", "threshold"))
    check_output(model / CARD)


def _write_card(estimator: Estimator, model: Path, results: Mapping[str, Report]) -> None:
    """Add results to the model card; text of the user in it stays."""
    from graphattn.models._files.saving import CARD

    with open_output(model / CARD) as file:
        file.write(estimator.make_card(results))


def _write_reports(
    reports: Mapping[str, Report], sections: Sequence[ReportSection], out: Path | None, *, quiet: bool
) -> None:
    """Print metrics as JSON and tables, and write the complete JSON."""
    print(json.dumps(unpack_single({name: report.summary for name, report in reports.items()}), indent=1), flush=True)
    for name, report in ({} if quiet else reports).items():
        answers = [line for section in sections for line in section.describe(report)]
        text = "\n".join([str(report), *answers])
        print(f"{name}\n{text}\n" if len(reports) > 1 else text, file=sys.stderr)
    if out is not None:
        with open_output(out) as file:
            print(json.dumps(unpack_single(reports), indent=1), file=file)


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
