"""Model cards: the ``README.md`` of a model directory, which the Hugging Face hub shows."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from graphattn import __version__
from graphattn.exceptions import printable
from graphattn.models._estimators.inspectable import FittedModel
from graphattn.models._results.reports import Report, format_metric, format_rows
from graphattn.models._results.significance import LEVEL

_PIPELINES = {
    "classify": "text-classification",
    "pair": "text-classification",
    "tag": "token-classification",
    "translate": "translation",
}
"""Kind of corpus -> the hub's name of the task."""
OF_THIS_MACHINE: Mapping[str, Any] = {"run_dir": None, "progress": True, "device": "auto"}
"""Training options that are not saved with a model, and what is written instead: a folder and the terminal."""
_OPTIONS, _DECISIONS, _RESULTS = "## Options that differ from the defaults", "## Decisions", "## Results on "
_HELP = "\n\nMODEL is this directory, or its name on the Hugging Face hub."
_LOAD = 'graphattn.load("MODEL")'
_HEADING = re.compile(r"^## ", re.MULTILINE)


def format_card(
    model: FittedModel,
    options: Mapping[str, Any],
    *,
    examples: Mapping[str, int],
    files: Mapping[str, Sequence[str | Path]],
    dev: Report | None,
) -> str:
    """The card of a fitted model.

    ``options`` are those that differ from the defaults; ``examples`` and ``files`` are the sizes and the files of the
    ``training`` and ``dev`` set; ``dev`` is the report on the latter.
    """
    from graphattn.models.training._optimizer import count_parameters

    encoder, task = model.encoder_name, model.task_
    lines = [
        f"---\n{_format_metadata(model, options.get('pretrained'))}---",
        f"# {type(model).__name__}, {encoder}",
        f"A GraphAttn model that {task.description}: a text is a graph, and the encoder `{encoder}` attends along its "
        f"edges. {count_parameters(model.model_):,} parameters are trained.",
    ]
    if classes := task.labels.classes:
        lines.append(f"{task.labels.field.capitalize().removesuffix('s')}s: {', '.join(map(_code, classes))}")
    lines += ["## Use", _format_usage(task)]
    if examples:
        rows = [(name, _name_files(name, files), f"{size:,}") for name, size in examples.items()]
        lines += ["## Data", _format_table(("set", "files", "examples"), rows)]
    shown = {name: _hide_folder(value) for name, value in options.items() if name not in OF_THIS_MACHINE}
    lines += [_OPTIONS, "\n".join(f"- `{name}`: {_code(value)}" for name, value in shown.items()) or "None."]
    versions = {"GraphAttn": __version__, "PyTorch": torch.__version__, "Python": platform.python_version()}
    lines += ["## Versions", ", ".join(f"{name} {version}" for name, version in versions.items())]
    card = set_decisions("\n\n".join(lines) + "\n", model)
    return card if dev is None else add_results(card, "the dev set", dev)


def _format_metadata(model: FittedModel, pretrained: str | None) -> str:
    """The front matter, as the hub reads it."""
    metadata: dict[str, Any] = {"library_name": "graphattn", "pipeline_tag": _PIPELINES.get(model.task.corpus_kind)}
    metadata["tags"] = ["graphattn", model.task.name, model.encoder_name]
    if pretrained and not os.path.exists(pretrained) and not os.path.isabs(pretrained):
        metadata["base_model"] = str(pretrained)  # its name on the hub
    return yaml.safe_dump({name: value for name, value in metadata.items() if value}, sort_keys=False)


def _format_usage(task: Any) -> str:
    x = '("a text", "another text")' if task.texts_per_input == 2 else '"a text"'
    python = f"```python\nimport graphattn\n\nmodel = {_LOAD}\nprint(model.predict([{x}]))\n```"
    return python + _HELP


def set_name(card: str, name: str) -> str:
    """Load the model by its name on the hub in the example of a card."""
    return card.replace(_LOAD, f'graphattn.load("{name}")').replace(_HELP, "")


def add_results(card: str, name: str, report: Report) -> str:
    """Add the results on a test set, or replace those of the same name; other text stays as it is."""
    return _set_section(card, f"{_RESULTS}{_plain(name)}", _format_report(report), before=(_OPTIONS,))


def set_decisions(card: str, model: FittedModel) -> str:
    """Describe the temperature and the thresholds of a classifier, or replace their description."""
    description = _describe_decisions(model.task_)
    return card if not description else _set_section(card, _DECISIONS, description, before=(_RESULTS, _OPTIONS))


def _set_section(card: str, heading: str, text: str, *, before: Sequence[str]) -> str:
    """Replace a section, or add it before the first that begins like one of these headings."""
    section = f"{heading}\n\n{text}\n\n"
    start = card.find(f"{heading}\n")
    if start < 0:
        start = end = next((place for each in before if (place := card.find(each)) >= 0), -1)
        if start < 0:
            return f"{card.rstrip()}\n\n{section.rstrip()}\n"
    else:
        following = _HEADING.search(card, start + 1)
        end = len(card) if following is None else following.start()
    return f"{card[:start]}{section}{card[end:]}".rstrip() + "\n"


def _describe_decisions(task: Any) -> str:
    """What turns the scores of a classifier into probabilities and classes; empty if nothing is fitted or changed."""
    temperature, thresholds, changed = task.head.temperature, task.head.thresholds, task.head.changed_thresholds
    parts = []
    if temperature != 1:
        parts.append(f"Scores are divided by a temperature of {temperature:.3f}, which is part of the weights.")
    if thresholds is not None:
        rows = [(_plain(name), f"{share:.3f}") for name, share in zip(task.labels.classes, thresholds, strict=True)]
        parts.append("A class is predicted if its probability is above its threshold:")
        parts.append(_format_table(("class", "threshold"), rows))
    elif changed:
        multilabel = task.labels.multilabel
        predicted = "Classes with a probability above 0.5 are" if multilabel else "The more probable class is"
        parts.append(f"{predicted} predicted.")
    if changed:
        parts.append("This was set after training; results on the dev set are with what training chose.")
    return "\n\n".join(parts)


def _format_report(report: Report) -> str:
    """Metrics, and the table of classes or ranges."""
    bounds = report.get("confidence_interval")
    intervals = {report.main_metric: f"{bounds['low']:.2f} to {bounds['high']:.2f}"} if bounds else {}
    rows = [
        (name.replace("_", " "), format_metric(name, value), intervals.get(name, ""))
        for name, value in report.metrics.items()
    ]
    tables = [_format_table(("metric", "value", f"{100 * LEVEL:.0f} % confidence interval"), rows)]
    for heading in ("classes", "ranges"):
        scores: Mapping[str, Mapping[str, float]] = report.get(heading) or {}
        if scores:
            columns = list(next(iter(scores.values())))
            formatted = format_rows(list(scores.values()))
            cells = [[_plain(name), *row] for name, row in zip(scores, formatted, strict=True)]
            tables.append(_format_table([heading, *columns], cells))
    return "\n\n".join(tables)


def _format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name_files(name: str, files: Mapping[str, Sequence[str | Path]]) -> str:
    if name == "dev" and "training" in files and "dev" not in files:
        return "held out of the training set"
    return ", ".join(_code(Path(file).name) for file in files.get(name, ()))


def _hide_folder(value: Any) -> Any:
    """Leave the folder out of a path of this machine."""
    if isinstance(value, list | tuple):
        return ", ".join(str(_hide_folder(each)) for each in value)
    if isinstance(value, str | Path) and (os.path.isabs(value) or os.path.exists(value)):
        return Path(value).name
    if isinstance(value, str) and "," in value:
        return _hide_folder(value.split(","))
    return value


def _plain(text: object) -> str:
    """A text within a heading or a cell of a table."""
    return re.sub(r"([|\\`*_<>\[\]])", r"\\\1", " ".join(printable(str(text)).split()))


def _code(text: object) -> str:
    """A text as code; Markdown interprets nothing in it."""
    shown = " ".join(printable(str(text)).split()).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{ticks} {shown} {ticks}" if len(ticks) > 1 else f"`{shown}`"
