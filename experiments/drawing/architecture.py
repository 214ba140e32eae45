"""The picture of docs/architecture.md: the folders of the four floors, and the path of a text through them.

``python -m graphattn.experiments.drawing.architecture OUT.svg`` draws it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from graphattn.experiments.drawing.canvas import GREY, INK, PALETTE, new_picture


@dataclass(frozen=True)
class Floor:
    """One of the four folders at the root."""

    name: str  # of the folder
    content: str  # what it is for
    rooms: dict[str, str]  # (module, or sub-folder with a slash at its end) -> what it is for


@dataclass(frozen=True)
class Step:
    """One step of a text's path."""

    floor: int  # index into :data:`FLOORS`
    name: str  # function, method or class, below the package ``graphattn``
    content: str  # what it does

    @property
    def title(self) -> str:
        """The name as a reader writes it: a method with its class, a function with its module."""
        *_, parent, name = self.name.split(".")
        return f"{parent}[...]" if name == "__getitem__" else f"{parent}.{name}"


FLOORS = (
    Floor(
        "experiments",
        "commands, pictures, measurements",
        {
            "cli/": "flags, one file per command",
            "drawing/": "graphs, arcs, matrices",
            "page/": "attention in a browser",
            "demo/": "a corpus from a grammar",
            "benchmarks/": "one harness, many peers",
            "papers/": "data sets, runs, tables",
        },
    ),
    Floor(
        "models",
        "batches to predictions",
        {
            "encoders/, pretrained/": "one file each; BERT",
            "heads/, decoders/": "labels, tags, text",
            "estimators/": "the tasks: fit, predict",
            "training/": "loop, checkpoints, metrics",
            "inspection/": "weights, attributions",
            "options, saving": "declared once, no pickle",
        },
    ),
    Floor(
        "builders",
        "texts to batches",
        {
            "readers/": "formats, errors with lines",
            "parsers/": "Stanza, spaCy",
            "relations/": "one file each",
            "store/": "corpora as Parquet files",
            "vocabulary, layout": "ids, columns",
            "graph_builder, batch": "edges of a batch",
        },
    ),
    Floor(
        "graphattn",
        "tensors and edges, no text",
        {
            "attention, tensorized": "the operators",
            "edges, scales": "one relation",
            "layers/": "attention, convolution",
            "backends/": "registry, dgl, torch",
            "backends/cpu/": "fused kernels",
            "dgl_graphs": "conversion",
        },
    ),
)
"""Each floor imports only from those to its right."""

PATH = (
    Step(0, "experiments.cli.train.train_model", "graphattn train classify reviews.tsv"),
    Step(0, "experiments.cli.training_plan.resolve_options", "flags and YAML: validated once"),
    Step(2, "builders.readers.formats.detect", "one sample: format and columns"),
    Step(2, "builders.readers.corpus.read_corpus", "texts, labels, line numbers"),
    Step(1, "models.estimators.base.Estimator.fit", "dev set, encoder and head"),
    Step(2, "builders.vocabulary.Vocabulary.train", "words or subwords get ids"),
    Step(1, "models.corpus.Corpus.encode", "all texts as columns: a Layout"),
    Step(1, "models.training.loop.train", "epochs; keeps the best dev score"),
    Step(2, "builders.batch.TextBatch", "nodes, features, Edges per relation"),
    Step(1, "models.encoders.base.Encoder.forward", "heads along relations, in layers"),
    Step(3, "attention.attend_heads", "edge softmax, weighted sums"),
    Step(1, "models.heads.Head.decide", "the label; in training, the loss"),
)
"""``graphattn predict`` enters at ``detect`` and skips ``fit``, ``Vocabulary.train`` and ``train``."""
PREDICT_ENTERS = 2

_WIDTH, _COLUMN, _GAP, _MARGIN = 12.2, 2.75, 0.25, 0.2
_HEADER, _ROOM, _STEP, _BOX = 0.78, 0.36, 0.62, 0.46


def draw_architecture(path: str | os.PathLike[str]) -> Path:
    """Draw the floors with their folders, and below them the path of one text.

    Examples
    --------
    >>> draw_architecture(getfixture("tmp_path") / "architecture.svg").name
    'architecture.svg'
    """
    top = _HEADER + _ROOM * max(len(floor.rooms) for floor in FLOORS) + 0.1
    height = 2 * _MARGIN + top + 0.55 + _STEP * len(PATH)
    with new_picture(path, _WIDTH, height) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, _WIDTH), ylim=(-height, 0))
        axes.set_axis_off()
        for number, floor in enumerate(FLOORS):
            _draw_floor(axes, floor, _left(number), -_MARGIN, top, height - _MARGIN, PALETTE[number])
        y = -_MARGIN - top - 0.3
        note = "The path of one text, from file to prediction. Each floor imports only from those to its right."
        axes.text(_MARGIN + 0.1, y, note, size=9.5, color=GREY, va="center")
        for number in range(len(PATH)):
            _draw_step(axes, number, y - 0.5)
    return Path(path)


def _left(floor: int) -> float:
    """The left edge of a floor's column."""
    return _MARGIN + 0.1 + floor * (_COLUMN + _GAP)


def _draw_floor(axes: Axes, floor: Floor, x: float, y: float, top: float, bottom: float, colour: str) -> None:
    _draw_box(axes, x, -bottom, _COLUMN, bottom + y, colour, alpha=0.05)
    _draw_box(axes, x, y - top, _COLUMN, top, colour, alpha=0.12)
    axes.text(x + 0.12, y - 0.28, f"{floor.name}/", size=14, weight="bold", color=colour, va="center")
    axes.text(x + 0.12, y - 0.56, floor.content, size=9, color=INK, va="center")
    for number, (room, content) in enumerate(floor.rooms.items()):
        line = y - _HEADER - _ROOM * number - 0.05
        axes.text(x + 0.12, line, room, size=9, family="DejaVu Sans Mono", color=INK, va="center")
        axes.text(x + 0.12, line - 0.15, content, size=7.5, color=GREY, va="center")


def _draw_step(axes: Axes, number: int, top: float) -> None:
    """Draw a step in the column of its floor, and the arrow from the step before it."""
    step = PATH[number]
    x, y = _left(step.floor) + 0.1, top - _STEP * number
    colour = PALETTE[step.floor]
    _draw_box(axes, x, y - _BOX / 2, _COLUMN - 0.2, _BOX, colour, alpha=0.16)
    axes.text(x + 0.2, y, str(number + 1), size=12, weight="bold", color=colour, ha="center", va="center")
    axes.text(x + 0.4, y + 0.09, step.title, size=8.5, family="DejaVu Sans Mono", color=INK, va="center")
    axes.text(x + 0.4, y - 0.1, step.content, size=7.5, color=GREY, va="center")
    if number == PREDICT_ENTERS:
        axes.annotate(
            "graphattn predict enters here",
            (x + _COLUMN - 0.2, y),
            (_left(3) + 0.35, y),
            size=8,
            color=INK,
            va="center",
            arrowprops={"arrowstyle": "-|>", "color": GREY},
        )
    if number:
        before = PATH[number - 1].floor
        shift = 0.3 * (step.floor - before)
        start = (_left(before) + _COLUMN / 2 + shift, y + _STEP - _BOX / 2)
        end = (_left(step.floor) + _COLUMN / 2 - shift, y + _BOX / 2)
        arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=GREY, shrinkA=0, shrinkB=0)
        axes.add_patch(arrow)


def _draw_box(axes: Axes, x: float, y: float, width: float, height: float, colour: str, *, alpha: float) -> None:
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, lw=0, alpha=alpha))


if __name__ == "__main__":
    print(draw_architecture(sys.argv[1]))
