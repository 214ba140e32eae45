"""Draw docs/images/architecture.svg and write the table of docs/architecture.md: ``python docs/draw_architecture.py``.

The file of each concept and the sub-folders of each floor are read from the code.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from graphattn.experiments.drawing._canvas import GREY, INK, PALETTE, new_picture

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "architecture.md", ROOT / "docs" / "images" / "architecture.svg"
TABLE = re.compile(r"(?<=<!-- concepts -->\n).*?(?=<!-- end of concepts -->)", re.DOTALL)


@dataclass(frozen=True)
class Concept:
    """One of the concepts that a reader must know, and its step on the path of a text."""

    name: str
    place: str  # floor/name of its class
    contract: str
    step: str  # on the path; lines of at most 20 letters

    def find_file(self) -> str:
        """The file of its class below the root."""
        floor, name = self.place.split("/")
        files = [path for path in sorted((ROOT / floor).rglob("*.py")) if not has_link(path)]
        pattern = re.compile(rf"^class {name}\b", re.MULTILINE)
        files = [path for path in files if pattern.search(path.read_text(encoding="utf-8"))]
        return min(files, key=lambda path: len(path.parts)).relative_to(ROOT).as_posix()


CONCEPTS = (
    Concept(
        "Options",
        "graphattn/Options",
        "dataclass fields, readable without PyTorch, that give validation, flags, YAML and the saved JSON",
        "flags and YAML,\nvalidated once",
    ),
    Concept(
        "Inputs",
        "models/TextInputs",
        "texts to a `Corpus`, its batches to rows of numbers; owns tokenizer, vocabulary, embedding, and their files",
        "texts get ids,\nby words or pieces",
    ),
    Concept(
        "Ragged",
        "graphattn/Ragged",
        "values and offsets; the only array of variable length",
        "values and offsets",
    ),
    Concept(
        "Layout",
        "builders/Layout",
        "token ids, lengths and links of many texts as flat columns",
        "a corpus or batch\nas flat columns",
    ),
    Concept(
        "Relation",
        "builders/Relation",
        "a rule that makes `Edges` from a `Layout`, without a loop over texts",
        "a rule makes edges",
    ),
    Concept(
        "Edges",
        "graphattn/Edges",
        "one relation in CSC form, or as ranges, with the plans that backends cache on it",
        "attend: softmax per\nnode, weighted sums",
    ),
    Concept(
        "Encoder",
        "models/Encoder",
        "rows of nodes and edges to rows of nodes; a paper is one file",
        "heads along relations,\nin layers",
    ),
    Concept(
        "Task",
        "models/Task",
        "its labels (targets, metrics, reports), head, rows of output, and explanations",
        "a loss, or labels",
    ),
)
FLOORS = {
    "experiments": "commands, pictures, measurements",
    "models": "batches to predictions",
    "builders": "texts to batches",
    "graphattn": "tensors and edges, no text",
}
"""Folder -> what it is for; each imports only from those below it."""
_LANE, _LEFT, _COLUMN, _BOX, _MARGIN = 1.15, 3.1, 1.5, 0.72, 0.15


def has_link(path: Path) -> bool:
    """Whether a file is below one of the links inside ``graphattn/``."""
    return any(parent.is_symlink() for parent in path.parents if parent != ROOT and ROOT in parent.parents)


def list_rooms(floor: str) -> list[str]:
    """The sub-folders of a floor."""
    packages = (ROOT / floor).glob("*/__init__.py")
    return sorted(f"{path.parent.name}/" for path in packages if not has_link(path))


def find_concepts() -> list[tuple[Concept, str]]:
    """The concepts with their files."""
    return [(concept, concept.find_file()) for concept in CONCEPTS]


def format_table(concepts: list[tuple[Concept, str]]) -> str:
    """The table of docs/architecture.md."""
    rows = [f"| {concept.name} | {concept.contract} | `{file}` |\n" for concept, file in concepts]
    return "| concept | its whole contract | file |\n|---|---|---|\n" + "".join(rows)


def draw_picture(concepts: list[tuple[Concept, str]], path: Path) -> None:
    """Draw a lane for each floor, and in the lanes the path of one text through the concepts."""
    width = _LEFT + _COLUMN * (len(concepts) + 1) - 0.5
    height = _LANE * len(FLOORS) + 2 * _MARGIN
    with new_picture(path, width, height) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(-height, 0))
        axes.set_axis_off()
        colours = dict(zip(FLOORS, PALETTE, strict=False))
        for number, (floor, content) in enumerate(FLOORS.items()):
            y = -_MARGIN - number * _LANE
            _draw_box(axes, _MARGIN, y - _LANE + 0.06, width - 2 * _MARGIN, _LANE - 0.06, colours[floor], 0.07)
            axes.text(_MARGIN + 0.12, y - 0.22, f"{floor}/", size=13, weight="bold", color=colours[floor], va="center")
            axes.text(_MARGIN + 0.12, y - 0.46, content, size=8.5, color=INK, va="center")
            for line, rooms in enumerate(textwrap.wrap(" ".join(list_rooms(floor)), 34)):  # beside the path
                axes.text(_MARGIN + 0.12, y - 0.64 - 0.14 * line, rooms, size=7.5, color=GREY, va="center")
        centres = [(_MARGIN + _LEFT - 0.45, _find_lane("experiments"))]
        _write(axes, *centres[0], "a file,\na command", INK)
        for number, (concept, file) in enumerate(concepts, 1):
            floor = file.partition("/")[0]
            centres.append((centres[0][0] + _COLUMN * number - 0.35, _find_lane(floor)))
            x, y = centres[-1]
            _draw_box(axes, x - 0.64, y - _BOX / 2, 1.28, _BOX, colours[floor], 0.2)
            axes.text(x, y + 0.2, f"{number} {concept.name}", size=10, weight="bold", color=colours[floor], ha="center")
            _write(axes, x, y - 0.06, concept.step, INK)
        centres.append((centres[-1][0] + 1.15, _find_lane("experiments")))
        _write(axes, *centres[-1], "a row\nof output", INK)
        for start, end in pairwise(centres):
            arrow = {"arrowstyle": "-|>", "mutation_scale": 10, "color": GREY, "shrinkA": 0, "shrinkB": 0}
            axes.add_patch(FancyArrowPatch(*_find_sides(start, end), **arrow))


def _find_lane(floor: str) -> float:
    """The middle of a floor's lane."""
    return -_MARGIN - _LANE * (list(FLOORS).index(floor) + 0.5) - 0.03


def _find_sides(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    """Where an arrow leaves a box and where it meets the next one."""
    if start[1] == end[1]:
        return (start[0] + 0.64, start[1]), (end[0] - 0.64, end[1])
    shift = _BOX / 2 if end[1] > start[1] else -_BOX / 2
    return (start[0] + 0.35, start[1] + shift), (end[0] - 0.35, end[1] - shift)


def _write(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.text(x, y, text, size=7.5, color=colour, ha="center", va="center", linespacing=1.15)


def _draw_box(axes: Axes, x: float, y: float, width: float, height: float, colour: str, alpha: float) -> None:
    style = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, lw=0, alpha=alpha))


def main() -> None:
    """Draw the picture and write the table."""
    concepts = find_concepts()
    draw_picture(concepts, PICTURE)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: format_table(concepts), page), encoding="utf-8")


if __name__ == "__main__":
    main()
