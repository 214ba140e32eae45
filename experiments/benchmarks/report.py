"""A measurement as people read it (Markdown) and as programs do (JSON)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphattn.experiments.benchmarks.machine import circumstances, described
from graphattn.experiments.cli.output_files import new_file

Row = dict[str, Any]


@dataclass
class Report:
    """What one sub-command measured.

    Parameters
    ----------
    name : of the sub-command; files are called so
    compared : what is compared and how, in sentences
    columns : heading -> the cell of a row
    rows : the figures
    settings : what was asked for
    notes : lines below the table: targets, what follows from the figures
    left_out : lines about who did not run, and why
    picture : draws the rows into a file; None when there is nothing to draw
    """

    name: str
    compared: str
    columns: Mapping[str, Callable[[Row], str]]
    rows: list[Row]
    settings: Row
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    picture: Callable[[Sequence[Row], Path], None] | None = None
    circumstances: Row = field(default_factory=circumstances)

    def markdown(self, picture: str | None = None) -> str:
        """The table with what one must know to read it.

        Parameters
        ----------
        picture : file name of the plot beside it
        """
        parts = [f"# graphattn bench {self.name}", self.compared, described(self.circumstances) + "."]
        parts.append(
            markdown_table(list(self.columns), [[cell(row) for cell in self.columns.values()] for row in self.rows])
        )
        parts += [f"![{self.name}]({picture})"] if picture else []
        parts += ["\n".join(f"- {line}" for line in self.notes)] if self.notes else []
        parts += ["Left out:\n\n" + "\n".join(f"- {line}" for line in self.left_out)] if self.left_out else []
        return "\n\n".join(parts) + "\n"

    def json(self) -> str:
        """Everything, unrounded."""
        found = {
            "command": self.name,
            "settings": self.settings,
            "circumstances": self.circumstances,
            "rows": self.rows,
            "notes": self.notes,
            "left_out": self.left_out,
        }
        return json.dumps(found, indent=1) + "\n"

    def write(self, folder: Path) -> None:
        """Put ``NAME.md``, ``NAME.json`` and, when there is a plot, ``NAME.png`` into a folder.

        Raises
        ------
        DataError
            when a file cannot be written
        """
        with new_file(folder / f"{self.name}.json") as file:
            file.write(self.json())
        picture = f"{self.name}.png" if self.picture and self.rows else None
        if self.picture and picture:
            self.picture(self.rows, folder / picture)
        with new_file(folder / f"{self.name}.md") as file:
            file.write(self.markdown(picture))


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Examples
    --------
    >>> print(markdown_table(["who", "ms"], [["ours", "1.5"]]))
    | who | ms |
    |---|---|
    | ours | 1.5 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "|" + "|".join(cells) + "|" if n == 1 else f"| {' | '.join(cells)} |" for n, cells in enumerate(lines)
    )
