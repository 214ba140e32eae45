"""``graphattn info``: summarize a store or a model directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import DataError

if TYPE_CHECKING:
    from graphattn.builders.store import Manifest
    from graphattn.models import Estimator

EXAMPLES = "graphattn info store\n\ngraphattn info store --check\n\ngraphattn info model\n\ngraphattn info OWNER/NAME"
_MODEL_FILES = ("config.json", "last.ckpt", "training.json")
"""Files of a model directory or the folder of a run; only loading them verifies that."""
_MAX_NAMES, _BAR_WIDTH = 20, 40
_INTACT = "all checksums match"
_BYTES_PER_EDGE, _BYTES_PER_TOKEN = 4, 12
"""An edge is an int32; a token has a position, a word and an id."""


def info(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="STORE|MODEL",
            help="A folder that graphattn build or graphattn train wrote, or a model on the Hugging Face hub.",
        ),
    ],
    batch_size: Annotated[
        int, typer.Option(min=1, help="Sentences of the batch to estimate memory for (stores).")
    ] = 32,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read every byte and compare the checksums of all files."),
    ] = False,
) -> None:
    """Summarize a store or a model.

    Of a store: counts, lengths, edges of each relation, memory of a batch. Of a model: its task, encoder, labels, size,
    non-default options, and epochs.
    """
    from graphattn.builders._paths import is_store

    if not os.path.exists(folder):
        from graphattn.models._files.hub import find_model

        folder = find_model(folder)
    if any(os.path.isfile(folder / name) for name in _MODEL_FILES):
        from graphattn.models import load
        from graphattn.models._files.saving import check_notes

        print("\n".join(_model_lines(folder, load(folder, device="cpu"))))
        if check:
            check_notes(folder)  # loading compares the others
            print(_INTACT)
    elif is_store(folder):
        _show_store(folder, batch_size, check=check)
    else:
        raise DataError(
            "is neither a store nor a model",
            path=folder,
            hint="Give a folder that graphattn build or graphattn train wrote.",
        )


def _show_store(folder: Path, batch_size: int, *, check: bool) -> None:
    from graphattn.builders.store import Store

    store = Store(folder)
    print("\n".join(_store_lines(folder, store.manifest, batch_size)))
    if check:
        damaged = store.find_damaged()
        for reason in damaged.values():
            print(f"damaged: {reason}")
        if damaged:
            counted = "1 file is" if len(damaged) == 1 else f"{len(damaged)} files are"
            hint = "Run the same graphattn build again, which keeps the others."
            raise DataError(f"{counted} damaged", path=folder, hint=hint)
        print(_INTACT)


def _store_lines(folder: Path, manifest: Manifest, batch_size: int) -> list[str]:
    size, shards = sum(shard.bytes for shard in manifest.shards), len(manifest.shards)
    count = max(manifest.sentences, 1)
    pairs = f"in {manifest.pairs:,} pairs, " if manifest.pairs else ""
    edges = [(name, f"{edges:,}", f"{edges / count:,.1f}") for name, edges in manifest.edges.items()]
    lines = [
        f"{folder}: {', '.join(manifest.corpora)}",
        f"sentences: {manifest.sentences:,} ({pairs}{manifest.parsed:,} parsed, {manifest.skipped:,} left out)",
        f"words: {manifest.words:,}",
        f"tokens: {manifest.tokens:,} ({manifest.tokens / count:.1f} a sentence, {manifest.longest:,} at most)",
        f"size: {size:,} bytes in {shards:,} shard{'s' * (shards != 1)} ({size / max(manifest.tokens, 1):.2f} a token)",
        "",
        *_histogram(manifest.lengths),
        "",
        *align_table(("relation", "edges", "a sentence"), edges),
        "",
        _batch_memory(manifest, batch_size),
    ]
    for heading, counts in (("labels", manifest.labels), ("tags", manifest.tags), ("dependencies", manifest.deprels)):
        if counts:
            lines.append(f"{heading}: {join_names([f'{name} {count:,}' for name, count in counts.items()])}")
    return lines


def _histogram(lengths: Mapping[str, int]) -> list[str]:
    largest = max(lengths.values(), default=1)
    rows = []
    for low, count in lengths.items():
        first, last = int(low), max(2 * int(low) - 1, 0)
        bar = "#" * round(_BAR_WIDTH * count / largest)
        rows.append((f"{first}" if first == last else f"{first}-{last}", f"{count:,}", bar))
    return align_table(("tokens", "sentences", ""), rows)


def _batch_memory(manifest: Manifest, batch_size: int) -> str:
    """Memory of a batch of average sentences, and of the longest ones."""
    relations, count = max(len(manifest.edges), 1), max(manifest.sentences, 1)

    def megabytes(tokens: float, edges: float) -> str:
        per_token = _BYTES_PER_TOKEN + _BYTES_PER_EDGE * relations  # each relation has a pointer for each token
        return f"{batch_size * (per_token * (tokens + 1) + _BYTES_PER_EDGE * edges) / 1e6:,.2f} MB"

    mean = megabytes(manifest.tokens / count, sum(manifest.edges.values()) / count)
    largest = megabytes(manifest.longest, manifest.most_edges)
    return f"memory of a batch's graph, {batch_size} sentences: {mean}, {largest} at most"


def _model_lines(folder: Path, estimator: Estimator) -> list[str]:
    from graphattn.models.training._optimizer import count_parameters

    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    lines = [
        f"{folder}: {estimator.task.description}, encoder {estimator.encoder_.name}",
        f"parameters: {count_parameters(estimator.model_):,} trained",
        f"size: {size:,} bytes",
        f"vocabulary: {_describe_vocabulary(estimator)}",
    ]
    labels = estimator.task_.labels
    if labels.classes:
        classes = join_names([*map(str, labels.classes)])
        lines.append(f"{labels.field.removesuffix('s')}s: {classes}")
    lines += _decision_lines(estimator)
    heads = estimator.model_.encoder.heads_along()
    if heads:
        lines.append(f"heads of all layers: {', '.join(f'{count} along {name}' for name, count in heads.items())}")
    return [*lines, "", *_option_lines(estimator), "", *_epoch_lines(estimator)]


def _decision_lines(estimator: Any) -> list[str]:
    """How a classifier was trained if that was chosen, and its temperature and thresholds where they were fitted."""
    head, lines = estimator.task_.head, []
    if "frozen" in estimator.mixture_:
        shares = [f"{name} {share:.1f}" for name, share in estimator.mixture_.items() if not name.startswith("dev_")]
        lines.append(f"chosen in training by cross-validation (% right): {join_names(shares)}")
    if head.temperature != 1:
        lines.append(f"temperature of the scores: {head.temperature:.3g}")
    if head.thresholds is not None:
        shown = [f"{name} {threshold:.3f}" for name, threshold in estimator.thresholds_.items()]
        lines.append(f"thresholds: {join_names(shown)}")
    return lines


def _describe_vocabulary(estimator: Estimator) -> str:
    from graphattn.models import InputOptions

    vocabulary, inputs = estimator.builder_.vocabulary, estimator.inputs_
    assert vocabulary is not None
    unit = "words" if vocabulary.level == "word" else "sub-words"
    files = inputs.vector_files() if isinstance(inputs, InputOptions) else ()
    vectors = ", ".join(Path(name).name for name in files)
    return f"{len(vocabulary):,} {unit}" + (f", vectors of {vectors}" if vectors else "")


def _option_lines(estimator: Estimator) -> list[str]:
    options = [
        f"  {name}: {', '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"
        for name, value in estimator.changed_options().items()
    ]
    return ["options that are not the defaults:", *options] if options else ["all options are the defaults"]


def _epoch_lines(estimator: Estimator) -> list[str]:
    """A row for each epoch, with a star at the best."""
    best = estimator.best_epoch()
    names = [name for name in estimator.history_[-1] if name != "epoch"]
    rows = []
    for row in estimator.history_:
        metrics = [f"{row[name]:.4g}" if name in row else "" for name in names]
        rows.append((str(row["epoch"]), *metrics, "*" if row is best else ""))
    header = ("epoch", *(name.replace("_", " ") for name in names), "")
    note = f"; dev metrics are those of {estimator.task.dev_search}" if estimator.task.dev_search else ""
    metrics_of_both = estimator.dev_metrics()
    has_thresholds = estimator.task_.head.thresholds is not None
    if has_thresholds and any(best.get(f"dev_{name}") != value for name, value in metrics_of_both.items()):
        value = metrics_of_both[estimator.main_metric]
        note = f"; with thresholds dev {estimator.main_metric} {value:.4g}"
    return [*align_table(header, rows), f"* has the weights that are kept{note}"]


def align_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: the first column and one without heading are left-aligned, the others right-aligned.

    Examples
    --------
    >>> print(*align_table(("epoch", "loss"), [("1", "0.7"), ("2", "0.55")]), sep="\\n")
    epoch  loss
    1       0.7
    2      0.55
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def align(row: Sequence[str]) -> str:
        cells = [
            text.rjust(width) if index and name else text.ljust(width)
            for index, (text, width, name) in enumerate(zip(row, widths, header, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return [align(header), *map(align, rows)]


def join_names(names: Sequence[str]) -> str:
    """The first twenty names, and how many more there are.

    Examples
    --------
    >>> join_names(["bad", "good"])
    'bad, good'
    >>> join_names([str(number) for number in range(22)])[-18:]
    '18, 19, and 2 more'
    """
    shown = ", ".join(names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"{shown}, and {more} more" if more > 0 else shown
