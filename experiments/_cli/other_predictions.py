"""Predictions of another model, to compare with: those that it makes, or those in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphattn.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from graphattn.models import Estimator

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_RESERVED = frozenset({"model", "text", "second", "gold", "predicted"})


def name_other(path: Path) -> str:
    """What results call another model; a name that they use otherwise begins with ``./``."""
    return f"./{path}" if str(path) in _RESERVED else str(path)


def predict_with_other(
    path: Path, model: Estimator, inputs: Sequence[Any], *, device: str, prepare: Callable[[Estimator], None]
) -> Sequence[Any]:
    """The predictions for inputs of another model of the same task, or those in a file.

    Parameters
    ----------
    path : a model directory; a table, of which the column ``predicted_label`` or ``label`` is read (of other tasks
        ``labels``, ``tags``, ``value`` or ``output``); a CoNLL file of tags; or a file with a prediction on each line
    model : the model to compare with
    prepare : changes the other model before it predicts
    """
    from graphattn.models import load

    if path.is_dir():
        other = load(path, device=device)
        if other.task.name != model.task.name:
            problem = f"{path} {other.task.description}; give --compare a model that {model.task.description}"
            raise ConfigError(f"{problem}, or a file of predictions")
        missing = [
            column.name for column in other.task_.known_columns.cells if column not in model.task_.known_columns.cells
        ]
        if missing:
            problem = f"{path} reads columns beside the text that this model does not: {', '.join(missing)}"
            raise ConfigError(f"{problem}; evaluate {path}, and give --compare this model")
        prepare(other)
        predicted: Sequence[Any] = other.predict(inputs)
        return predicted
    read = list(_read_predictions(path, model))
    if len(read) != len(inputs):
        if model.task.source_and_target_files:
            raise DataError(f"{len(read)} outputs for {len(inputs)} sources", path=path, hint="Give one on each line.")
        raise DataError(f"{len(read)} predictions for {len(inputs)} texts", path=path, hint=_SAME_CORPUS)
    for item, row in zip(inputs, read, strict=True):
        text = getattr(item, "text", item)
        if row.text is not None and isinstance(text, str) and row.text.strip() != text.strip():
            problem = f"the prediction is of {row.text[:40]!r}, the text is {text[:40]!r}"
            raise DataError(problem, path=path, line=row.line, hint=_SAME_CORPUS)
    return [row.prediction for row in read]


_SAME_CORPUS = "Give those of the same corpus in its order, as graphattn predict writes them."


class _Row(NamedTuple):
    prediction: Any
    line: int
    text: str | None = None


def _read_predictions(path: Path, model: Estimator) -> Iterator[_Row]:
    from graphattn.builders._text_lines import open_text, read_numbered_lines, split_suffix
    from graphattn.builders.readers import read_conll
    from graphattn.builders.readers._fields import parse_object
    from graphattn.builders.readers._table import read_header

    field, suffix = model.task_.labels.predicted_field, split_suffix(path)[0]
    columns = model.task_.known_columns.text or ("text",)
    text = columns[0] if len(columns) == 1 else None  # several are joined in texts
    separator = model.corpus_.get("label_separator")
    if suffix == ".conll":
        for number, sentence in enumerate(read_conll(path), 1):
            yield _Row(list(getattr(sentence, "tags", None) or ()), number)
    elif suffix in _DELIMITERS:
        with open_text(path) as lines:
            names, rows = read_header(lines, _DELIMITERS[suffix], quoted=True if suffix == ".csv" else None)
            name = _find_column(names, field, path)
            for line, row in rows:
                cells = dict(zip(names, row, strict=False))
                if row:
                    prediction = _parse_cell(cells.get(name, ""), field, separator, path, line)
                    yield _Row(prediction, line, cells.get(text or ""))
    elif suffix in _JSON:
        with open_text(path) as lines:
            for content in lines:
                record = parse_object(content)
                of_text = record.get(text or "")
                prediction = record[_find_column(record, field, path, lines.line)]
                yield _Row(prediction, lines.line, of_text if isinstance(of_text, str) else None)
    else:
        for line, content in read_numbered_lines(path):
            yield _Row(_parse_cell(content, field, separator, path, line), line)


def _find_column(names: Any, field: str, path: Path, line: int | None = None) -> str:
    """The column of predictions; next to gold labels or other predictions of the same name it has more prefixes."""
    if columns := [name for name in names if re.fullmatch(f"(predicted_)*{field}", name)]:
        return str(max(columns, key=len))
    hint = "Give a table that graphattn predict wrote, or a file with a prediction on each line."
    raise DataError(f"there is no column predicted_{field} or {field}", path=path, line=line, hint=hint)


def _parse_cell(cell: str, field: str, separator: str | None, path: Path, line: int) -> Any:
    """A prediction in a field of a table: a list of labels or of tags is JSON, or has separators."""
    if field not in ("labels", "tags"):
        return cell
    if not cell.lstrip().startswith("["):
        return [name.strip() for name in cell.split(separator or ("," if field == "labels" else None)) if name.strip()]
    try:
        return json.loads(cell)
    except json.JSONDecodeError as error:
        raise DataError(f"{cell[:40]!r} is no list of JSON", path=path, line=line, field=field) from error
