"""The sections of a report of ``graphattn evaluate`` besides the metrics: a class each, with its flags and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from graphattn.exceptions import ConfigError, verbatim
from graphattn.experiments._cli.loaded_models import change_thresholds
from graphattn.experiments._cli.other_predictions import name_other, predict_with_other
from graphattn.experiments._cli.output import check_output, encode_line, open_output
from graphattn.experiments._cli.tables import format_table

if TYPE_CHECKING:
    from graphattn.builders._sentence import TableRow
    from graphattn.models import Estimator
    from graphattn.models._results.reports import Report

TABLES = (".tsv", ".csv", ".jsonl")
"""Extensions of tables of mistakes and the like."""


@dataclass(frozen=True)
class ReportSection:
    """The flags of a section; each field is the value of the flag of this name."""

    def list_options(self) -> dict[str, bool]:
        """Name -> whether the flag is set."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: bool(value) or (value is not None and value == 0) for name, value in values.items()}

    def list_tables(self) -> dict[str, Path | None]:
        """Tables that are written, by their flags."""
        return {}

    def list_pictures(self) -> dict[str, Path | None]:
        """Pictures that are drawn, by their flags."""
        return {}

    def check(self) -> None:
        """Reject flags that need another one."""

    def prepare(self, estimator: Estimator) -> None:
        """Check that the model can answer, and change how it decides."""

    def answer(self, report: Report) -> None:
        """Add the answer to a report."""

    def describe(self, report: Report) -> Iterator[str]:
        """Lines of what :meth:`answer` added."""
        yield from ()

    def write(self, report: Report) -> None:
        """Write the files."""


@dataclass(frozen=True)
class ModelComparison(ReportSection):
    """Whether the difference from other models is chance."""

    compare: Sequence[Path] | None
    disagreements: Path | None

    @override
    def list_tables(self) -> dict[str, Path | None]:
        return {"disagreements": self.disagreements}

    @override
    def check(self) -> None:
        if self.disagreements is not None and not self.compare:
            raise ConfigError("{disagreements} needs another model: {compare}", options=("disagreements", "compare"))

    def predict(self, estimator: Estimator, X: Any, **settings: Any) -> dict[str, Any]:
        """Name of another model -> its predictions."""
        return {name_other(path): predict_with_other(path, estimator, X, **settings) for path in self.compare or []}

    @override
    def write(self, report: Report) -> None:
        write_rows(self.disagreements, lambda: report.disagreements)


@dataclass(frozen=True)
class Subgroups(ReportSection):
    """Whether groups of texts differ from all others."""

    by: Sequence[str] | None

    def find_groups(self, columns: Mapping[str, list[Any]], X: Any, estimator: Estimator) -> dict[str, Sequence[Any]]:
        """Column -> the value of each text."""
        return {name: _find_values(name, columns, X, estimator) for name in self.by or []}

    @override
    def describe(self, report: Report) -> Iterator[str]:
        for column, groups in report.get("by", {}).items():
            yield f"\nby {column}\n{groups}"


@dataclass(frozen=True)
class SelectivePrediction(ReportSection):
    """From which confidence on a classifier may decide alone, and with which thresholds it does."""

    min_confidence: float | None
    min_accuracy: float | None
    coverage: Path | None
    threshold: str

    @override
    def list_tables(self) -> dict[str, Path | None]:
        return {"coverage": self.coverage} if self._is_table else {}

    @override
    def list_pictures(self) -> dict[str, Path | None]:
        return {} if self._is_table else {"coverage": self.coverage}

    @property
    def _is_table(self) -> bool:
        return self.coverage is not None and self.coverage.suffix in TABLES

    @override
    def check(self) -> None:
        if self.coverage is None or self._is_table:
            return
        from graphattn.experiments.drawing._canvas import FORMATS

        if self.coverage.suffix.lower() not in FORMATS:
            *endings, last = *FORMATS, *TABLES
            raise ConfigError(
                f"{{coverage}} is {verbatim(repr(str(self.coverage)))}; the name must end in {', '.join(endings)} or "
                f"{last}",
                options=("coverage",),
            )

    @override
    def prepare(self, estimator: Estimator) -> None:
        of_confidence: dict[str, Any] = {
            "min_confidence": self.min_confidence,
            "min_accuracy": self.min_accuracy,
            "coverage": self.coverage,
        }
        if any(value is not None for value in of_confidence.values()):
            task: Any = estimator.task_
            task.require_single_labels(**of_confidence)
        if self.threshold:
            change_thresholds(estimator, self.threshold)

    @override
    def answer(self, report: Report) -> None:
        curve = report.coverage
        if curve is None:
            return
        if self.min_confidence is not None:
            report["decided"] = curve.at(self.min_confidence).to_row()
        if self.min_accuracy is not None:
            reached = curve.reach(self.min_accuracy)
            bounds = dict(zip(("low", "high"), curve.bootstrap(self.min_accuracy), strict=True))
            found = None if reached is None else {**reached.to_row(), "confidence_interval": bounds}
            report["min_accuracy"] = {"wanted": self.min_accuracy, "reached": found}
        if self.coverage is not None or self.min_confidence is not None or self.min_accuracy is not None:
            report["coverage_area"] = curve.area

    @override
    def describe(self, report: Report) -> Iterator[str]:
        if report.coverage is None:
            return
        if self.min_confidence is not None:
            yield f"from confidence {self.min_confidence:g} on {report.coverage.at(self.min_confidence)}"
        if self.min_accuracy is not None:
            found = report["min_accuracy"]["reached"]
            if found is None:
                yield f"no confidence threshold reaches {self.min_accuracy:g} % accuracy"
            else:
                bounds, confidence = found["confidence_interval"], found["min_confidence"]
                interval = f"95 % confidence interval {bounds['low']:.3f} to {bounds['high']:.3f}"
                chosen = f"{self.min_accuracy:g} % right: --min-confidence {confidence:g} ({interval})"
                yield f"{chosen}; {report.coverage.at(confidence)}"
        if "coverage_area" in report:
            yield f"area under accuracy over coverage: {report['coverage_area']:.2f}"

    @override
    def write(self, report: Report) -> None:
        if self.coverage is None or report.coverage is None:
            return
        if self._is_table:
            write_rows(self.coverage, report.coverage.to_rows)
            return
        from graphattn.experiments.drawing import draw_coverage

        draw_coverage(report.coverage, self.coverage)


@dataclass(frozen=True)
class ErrorAnalysis(ReportSection):
    """Which texts are wrong, which classes are confused, and how good the probabilities are."""

    mistakes: Path | None
    picture: Path | None
    curves: Path | None

    @override
    def list_tables(self) -> dict[str, Path | None]:
        return {"mistakes": self.mistakes}

    @override
    def list_pictures(self) -> dict[str, Path | None]:
        return {"picture": self.picture, "curves": self.curves}

    @override
    def write(self, report: Report) -> None:
        if self.picture is not None and report.outcomes is not None:
            from graphattn.experiments.drawing import draw_confusion

            draw_confusion(report.outcomes, self.picture)
        if self.curves is not None and report.probabilities is not None:
            from graphattn.experiments.drawing import draw_probability_curves

            draw_probability_curves(report.probabilities, self.curves)
        write_rows(self.mistakes, lambda: report.mistakes)


def check_files(out: Path | None, sections: Sequence[ReportSection], *, inputs: Sequence[str | Path]) -> None:
    """Reject files that cannot be written or are inputs, before the model is loaded."""
    pictures = [path for section in sections for path in section.list_pictures().values() if path is not None]
    tables = {name: path for section in sections for name, path in section.list_tables().items() if path is not None}
    for picture in pictures:
        from graphattn.experiments.drawing._canvas import check_format

        check_format(picture)
    for name, table in tables.items():
        if table.suffix not in TABLES:
            raise ConfigError(
                f"{{{name}}} is {verbatim(repr(str(table)))}; the name must end in .tsv, .csv or .jsonl",
                options=(name,),
            )
    if out is not None and out.suffix in (".csv", ".tsv", ".parquet"):
        raise ConfigError(f"{{out}} is {verbatim(out.name)}, and metrics are written as JSON", options=("out",))
    for file in filter(None, (out, *pictures, *tables.values())):
        check_output(file, *inputs)


def find_first_file(sections: Sequence[ReportSection]) -> str | None:
    """The first flag of a table or picture that is set."""
    names = (
        name
        for section in sections
        for name, path in {**section.list_tables(), **section.list_pictures()}.items()
        if path is not None
    )
    return next(names, None)


def list_columns(rows: Sequence[TableRow]) -> dict[str, list[Any]]:
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
        if "," in name:
            known = f"{known}. Repeat {{by}} for several columns"
        raise ConfigError(f"{{by}} is {verbatim(repr(name))}, which the corpus does not have; {known}", options=("by",))
    from graphattn.models._estimators.inputs import as_text

    counted = estimator.read_texts(X).columns
    return [sum(map(estimator.count_tokens, map(as_text, texts))) for texts in zip(*counted, strict=True)]


def write_rows(path: Path | None, find: Callable[[], list[dict[str, Any]]]) -> None:
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
