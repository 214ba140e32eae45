"""Experiment trackers: options, metrics of each epoch, reports and pictures of a run, through Lightning's loggers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typing_extensions import override

from graphattn._optional_packages import import_optional
from graphattn._validation import require_choice
from graphattn.builders._atomic import write_text
from graphattn.exceptions import ConfigError, printable
from graphattn.models._results.reports import Report
from graphattn.models.training._callback import Callback

TRACKERS = ("csv", "tensorboard", "wandb", "mlflow", "trackio")
"""Each but the first is the name of its package, and of the extra that installs it."""
PROJECT = "graphattn"
_REFUSED = re.compile(r"[^A-Za-z0-9_. -]")
"""Characters that MLflow refuses in names, and the slash."""


class Tracker(Callback):
    """Send a run to an experiment tracker: options, metrics of each epoch and, with :meth:`log_report`, reports.

    Pass it to ``fit`` as a callback. Trackers are configured by their environment variables, such as
    ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME``, ``WANDB_PROJECT`` or ``WANDB_MODE=offline``.

    Parameters
    ----------
    tracker : ``"csv"``, ``"tensorboard"``, ``"wandb"``, ``"mlflow"`` or ``"trackio"``
    options : the run's hyper-parameters, such as ``estimator.get_params()``
    folder : where ``csv`` and ``tensorboard`` write
    name : of the run; chosen by the tracker when None

    Raises
    ------
    ConfigError
        for an unknown tracker, or one that cannot be reached
    MissingPackageError
        when the tracker's package is not installed
    """

    def __init__(
        self,
        tracker: str,
        options: Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] = "logs",
        name: str | None = None,
    ):
        require_choice("logger", tracker, TRACKERS)
        self.tracker = tracker
        self._package: Any = None if tracker == "csv" else import_optional(tracker, "this logger needs", tracker)
        try:
            self.logger: Any = _make_logger(tracker, self._package, Path(folder), name)
            self.logger.log_hyperparams({key: printable(str(value)) for key, value in options.items()})
        except Exception as error:  # each tracker has its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"the logger {tracker} cannot start a run: {reason}") from error
        self._step = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_package": None}  # other processes log metrics only

    @override
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        trainer.loggers = [*trainer.loggers, self.logger]

    @override
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._step = trainer.global_step

    def log_epoch(self, metrics: Mapping[str, float]) -> None:
        """Log the metrics of the only epoch of a model that is trained without Lightning."""
        self._step = 1
        self.logger.log_metrics(plain_names(metrics), self._step)
        self.logger.save()

    def log_report(self, report: Report, name: str = "test") -> None:
        """Log the metrics of an evaluation with the F1 of each class, and its table as a text.

        Parameters
        ----------
        report : what ``estimator.report(X, y)`` returns
        name : of the corpus
        """
        metrics = {key: value for key, value in report.items() if isinstance(value, (int, float))}
        metrics |= {f"f1_{key}": row["f1"] for key, row in report.get("classes", {}).items()}
        self.logger.log_metrics(plain_names({f"{name}_{key}": value for key, value in metrics.items()}), self._step)
        self.log_text(f"{name}_report.txt", str(report))

    def log_text(self, name: str, text: str) -> None:
        """Log a text.

        Parameters
        ----------
        name : of the text, as that of a file
        text : its content
        """
        logger = self.logger
        if self.tracker == "csv":
            write_text(Path(logger.log_dir, name), text + "\n")
        elif self.tracker == "tensorboard":
            logger.experiment.add_text(name, f"```\n{printable(text)}\n```", self._step)
        elif self.tracker == "mlflow":
            logger.experiment.log_text(logger.run_id, text, name)
        elif self.tracker == "wandb":
            logger.experiment.log({name: self._package.Html(f"<pre>{escape(text)}</pre>")})
        else:
            logger.log({name: logger.trackio.Markdown(f"```\n{text}\n```")})
        logger.save()

    def log_picture(self, name: str, figure: Any) -> None:
        """Log a picture.

        Parameters
        ----------
        name : of the picture, as that of a file
        figure : Matplotlib's
        """
        logger = self.logger
        if self.tracker == "csv":
            figure.savefig(Path(logger.log_dir, name))
        elif self.tracker == "tensorboard":
            logger.experiment.add_figure(name, figure, self._step)
        elif self.tracker == "mlflow":
            logger.experiment.log_figure(logger.run_id, figure, name)
        elif self.tracker == "wandb":
            logger.experiment.log({name: self._package.Image(figure)})
        else:
            with TemporaryDirectory() as folder:
                figure.savefig(Path(folder, name))
                logger.log({name: logger.trackio.Image(str(Path(folder, name)))})

    def finish(self) -> None:
        """End the run."""
        if self.tracker == "trackio":
            self.logger.trackio.finish()
        elif self.tracker == "wandb":
            self.logger.experiment.finish()
        else:
            self.logger.finalize("success")


def plain_names(values: Mapping[str, float]) -> dict[str, float]:
    """Values by names of letters, digits and ``_-. `` only, which all trackers accept and which stay different.

    Examples
    --------
    >>> plain_names({"f1_C++": 1.0, "f1_C#": 2.0, "f1_C__": 3.0})
    {'f1_C__': 1.0, 'f1_C_': 2.0, 'f1_C___2': 3.0}
    """
    plain: dict[str, float] = {}
    for name, value in values.items():
        base = unique = _REFUSED.sub("_", name)
        number = 2
        while unique in plain:
            unique, number = f"{base}_{number}", number + 1
        plain[unique] = value
    return plain


def fits_tensorboard(folder: Path) -> bool:
    """Whether TensorBoard can write to a folder: its name is UTF-8."""
    return printable(os.path.abspath(folder)) == os.path.abspath(folder)


def _make_logger(tracker: str, package: Any, folder: Path, name: str | None) -> Any:
    from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger

    if tracker == "csv":
        return CSVLogger(folder, "csv")
    if tracker == "tensorboard":
        if not fits_tensorboard(folder):
            raise ConfigError("tensorboard writes to no folder whose name is not UTF-8; choose another one, or csv")
        return TensorBoardLogger(str(folder.parent), folder.name, "tensorboard")
    if tracker == "wandb":
        return WandbLogger(name, project=os.environ.get("WANDB_PROJECT", PROJECT), save_dir=folder)
    if tracker == "trackio":
        from graphattn.models.training._trackio import TrackioLogger

        return TrackioLogger(package, PROJECT, name)
    uri = package.get_tracking_uri()  # MLflow's own default, unlike Lightning's
    return MLFlowLogger(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT), name, uri)
