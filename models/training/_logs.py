"""What the folder of a run keeps of each epoch, for programs that draw curves: a CSV file, and TensorBoard's."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphattn.builders._atomic import write_text
from graphattn.models.training._tracker import fits_tensorboard

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Log(Protocol):
    """What a run needs of a log; Lightning's loggers have these methods, too."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Add a row of metrics after a step, from 0."""

    def save(self) -> None:
        """Write what was logged."""

    def finalize(self, status: str) -> None:
        """End with a status: ``"success"`` or ``"failed"``."""


class CsvLog:
    """Rows of a table; each run has a folder ``version_0``, ``version_1``, ... of its own."""

    def __init__(self, folder: Path):
        self.path = next(path for path in (folder / f"version_{n}" for n in count()) if not path.exists())
        self.rows: list[Mapping[str, float]] = []

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Add a row of metrics after a step, from 0."""
        self.rows.append({**metrics, "step": step})

    def save(self) -> None:
        """Write ``metrics.csv``."""
        text = io.StringIO()
        table = csv.DictWriter(text, sorted({name for row in self.rows for name in row}), lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / "metrics.csv", text.getvalue())

    def finalize(self, status: str) -> None:
        """Every row is written already."""


class TensorBoardLog:
    """Scalars of TensorBoard, which is imported with the first of them."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def _writer(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.folder)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Add a point to each curve after a step, from 0."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def save(self) -> None:
        """Write the points."""
        self._writer.flush()

    def finalize(self, status: str) -> None:
        """Close the file."""
        self._writer.close()


def make_logs(folder: Path) -> list[Log]:
    """The logs of a run."""
    logs: list[Log] = [CsvLog(folder / "logs" / "csv")]
    if find_spec("tensorboard") and fits_tensorboard(folder):
        logs.append(TensorBoardLog(folder / "logs" / "tensorboard"))
    return logs
