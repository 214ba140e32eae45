"""A model directory in a few lines: what it does, how large it is, how it was trained, what its options are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.experiments.cli.summaries.columns import as_columns, in_a_row
from graphattn.models.estimators import LabellingEstimator
from graphattn.models.training.loop import count_parameters

if TYPE_CHECKING:
    from graphattn.models import Estimator


def model_lines(folder: Path, estimator: Estimator) -> list[str]:
    """What a model directory holds.

    Parameters
    ----------
    folder : the directory
    estimator : what was loaded from it
    """
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    heads = estimator.model_.encoder.heads_along()
    lines = [
        f"{folder}: {estimator.description}, encoder {estimator.encoder_.name}",
        f"parameters: {count_parameters(estimator.model_):,} trained",
        f"size: {size:,} bytes",
        f"vocabulary: {_vocabulary(estimator)}",
    ]
    if isinstance(estimator, LabellingEstimator):
        classes = in_a_row([*map(str, estimator.labels_.classes)])
        lines.append(f"{estimator.label_field.removesuffix('s')}s: {classes}")
    if heads:
        lines.append(f"heads of all layers: {', '.join(f'{count} along {name}' for name, count in heads.items())}")
    return [*lines, "", *_options(estimator), "", *_history(estimator)]


def _vocabulary(estimator: Any) -> str:
    if not hasattr(estimator, "vocabulary_"):
        return f"{len(estimator.subwords_.vocabulary):,} sub-words"
    kind = "words" if estimator.inputs_.level == "word" else "sub-words"
    vectors = ", ".join(Path(name).name for name in estimator.inputs_.vector_files())
    return f"{len(estimator.vocabulary_):,} {kind}" + (f", vectors of {vectors}" if vectors else "")


def _options(estimator: Estimator) -> list[str]:
    """Those that are not the defaults, by the names that flags and files of options have."""
    changed = [f"  {name}: {_written(value)}" for name, value in estimator.non_default_options().items()]
    return ["options that are not the defaults:", *changed] if changed else ["all options are the defaults"]


def _written(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _history(estimator: Estimator) -> list[str]:
    """A row for each epoch; the one whose weights were kept has a star."""
    kept = estimator.best_epoch()
    names = [name for name in estimator.history_[-1] if name != "epoch"]
    rows = []
    for row in estimator.history_:
        figures = [f"{row[name]:.4g}" if name in row else "" for name in names]
        rows.append((str(int(row["epoch"]) + 1), *figures, "*" if row is kept else ""))
    headings = [name.replace("_", " ") for name in names]
    return [*as_columns(("epoch", *headings, ""), rows), "* has the weights that are kept"]
