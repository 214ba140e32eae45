"""A logger for trackio."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from typing_extensions import override


class TrackioLogger(Logger):
    """Lightning has none for trackio."""

    def __init__(self, trackio: Any, project: str, name: str | None):
        super().__init__()
        self.trackio, self._project, self._name = trackio, project, name

    @property
    @override
    def name(self) -> str:
        return self._project

    @property
    @override
    def version(self) -> str | None:
        return self._name

    @override
    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **options: Any) -> None:
        self.trackio.init(self._project, name=self._name, config=params, embed=False)

    @override
    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.log({name: float(value) for name, value in metrics.items()}, step)

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        """Log values of any type."""
        self.trackio.log(values, step)
