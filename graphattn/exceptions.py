"""Every error a user can cause, each a subclass of :class:`GraphAttnError`."""

from __future__ import annotations

import os
from collections.abc import Collection


class GraphAttnError(Exception):
    """Base of all errors raised on purpose by GraphAttn; the command line prints it without a traceback."""


class DataError(GraphAttnError):
    """Something in a corpus or in a sentence is not as it must be.

    Parameters
    ----------
    message : what was expected and what came, without a full stop
    path : file the problem stands in
    line : its 1-based line
    field : column or field name
    hint : the way out, a full sentence

    Attributes
    ----------
    skippable : whether those who read a corpus may go on without what is wrong, when they are told to

    Examples
    --------
    >>> print(DataError("no tag in column 4", path="train.conll", line=7, hint="Name the column with --tag-column."))
    train.conll, line 7: no tag in column 4. Name the column with --tag-column.
    """

    skippable = False

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ):
        self.message, self.path, self.line, self.field, self.hint = message, path, line, field, hint
        place = ", ".join(
            part
            for part in (
                os.fspath(path) if path is not None else "",
                f"line {line}" if line is not None else "",
                f"field {field!r}" if field is not None else "",
            )
            if part
        )
        text = f"{place}: {message}" if place else message
        super().__init__(f"{text}. {hint}" if hint else text)


class UnreadableError(DataError):
    """A file cannot be read any further: the disk fails, or the archive is damaged."""


class UnknownLabelError(DataError):
    """A label or tag that the training set lacks stands where the model's own are expected."""


class GraphError(GraphAttnError):
    """A graph lacks a relation, or tensors do not fit the graph."""


class EdgeCountError(GraphError):
    """A relation has more edges than one graph can number."""


class ConfigError(GraphAttnError):
    """Options contradict each other or have impossible values; the message names the option and the way out."""


class UnregisteredError(ConfigError):
    """A name stands for nothing that is known here; it may be one that a program registers.

    Parameters
    ----------
    message : the whole message
    name : what is not known
    """

    def __init__(self, message: str, name: str):
        self.name = name
        super().__init__(message)


class UnusedOptionError(ConfigError):
    """A format of corpora has no use for some of the options that were given.

    Parameters
    ----------
    format : the format
    names : the options
    known : those that it has
    """

    def __init__(self, format: str, names: Collection[str], known: Collection[str]):
        self.format, self.names = format, sorted(names)
        listed, others = (", ".join(map(repr, sorted(some))) or "none" for some in (names, known))
        super().__init__(f"format {format!r} has no option {listed}. Its options are {others}.")


class BackendError(GraphAttnError):
    """The named backend does not exist or cannot run what was asked."""


class DoubleBackwardError(GraphAttnError, RuntimeError):
    """A second derivative through attention was asked for; attention has first-order gradients only."""


class ModelDirectoryError(GraphAttnError):
    """A model directory is missing, incomplete, corrupted, or of another format version."""


class NotFittedError(GraphAttnError):
    """An estimator was used before ``fit`` or ``load``."""


class BuildError(GraphAttnError):
    """The building of a store cannot go on, for a reason that is not in the corpus; what is done is kept."""


class TrainingError(GraphAttnError):
    """Training cannot go on (a loss that is not finite, say); the message says what to change."""


class DivergenceError(TrainingError):
    """Loss or weights are not finite; the model has the weights of the best epoch so far, if one has ended."""


class GraphAttnWarning(UserWarning):
    """Something went another way than a user may think; the message says which and how to have it otherwise."""
