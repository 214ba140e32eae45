"""Every error a user can cause, each a subclass of :class:`GraphAttnError`."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Collection
from typing import Any

from typing_extensions import override

_NO_PLACEHOLDER = "{\N{WORD JOINER}"
_SURROGATE = re.compile("[\ud800-\udfff]")


def fill_in(template: str, options: Collection[str], spell: Callable[[str], str] = str) -> str:
    """Replace ``{name}`` and ``{name=value}`` in a message by the option as ``spell`` writes it; other braces stay.

    Examples
    --------
    >>> fill_in("{hidden} is not a multiple of {heads}", ["hidden", "heads"], lambda name: f"--{name}")
    '--hidden is not a multiple of --heads'
    """
    if options:
        names = "|".join(map(re.escape, options))
        template = re.sub(rf"\{{((?:{names})(?:=[^{{}}]+)?)\}}", lambda match: spell(match[1]), template)
    return template.replace(_NO_PLACEHOLDER, "{")


def printable(text: str) -> str:
    r"""A text that UTF-8 can encode: bytes of a file name that are not UTF-8, and half surrogates, as backslashes.

    Examples
    --------
    >>> print(printable("caf\udce9.tsv"), printable("\ud83d"))
    caf\xe9.tsv \ud83d
    """
    return _SURROGATE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number < 0xDD00 else f"\\u{number:04x}"


def verbatim(text: object) -> str:
    """A user's text within a message: its braces are no placeholders for :func:`fill_in`.

    Examples
    --------
    >>> fill_in(f"no column {verbatim(repr('{text}'))}; set {{text}}", ["text"], lambda name: f"--{name}")
    "no column '{text}'; set --text"
    """
    return str(text).replace("{", _NO_PLACEHOLDER)


class _OptionMessage(Exception):
    """A message with options as ``{name}`` or ``{name=value}``, which Python and the command line spell differently."""

    def __init__(self, template: str = "", *, options: Collection[str] = ()):
        self.template, self.options = template, tuple(options)
        super().__init__(template)

    @override
    def __str__(self) -> str:
        return self.render()

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        # pickle the attributes: subclasses make ``args``, the message, from other arguments
        return type(self).__new__, (type(self), *self.args), vars(self)

    def rename_option(self, name: str, new_name: str) -> None:
        """Name another option, for a caller whose option has the value that the message is about."""
        self.template = self.template.replace(f"{{{name}}}", f"{{{new_name}}}")
        self.options = tuple(new_name if option == name else option for option in self.options)

    def render(self, spell: Callable[[str], str] = str) -> str:
        """The message, with options as ``spell`` writes them."""
        return printable(fill_in(self.template, self.options, spell))


class GraphAttnError(_OptionMessage):
    """Base of all errors that users can cause; the command line prints them without a traceback.

    Examples
    --------
    >>> error = ConfigError("{hidden} is not a multiple of {heads}", options=("hidden", "heads"))
    >>> print(error)
    hidden is not a multiple of heads
    >>> print(error.render(lambda name: f"--{name}"))
    --hidden is not a multiple of --heads
    """


class DataError(GraphAttnError):
    """A corpus or a sentence is not valid.

    Parameters
    ----------
    message : what was expected and what was found, without a full stop
    path : the file
    line : its 1-based line
    field : column or field name
    hint : how to fix it, a full sentence
    alternative : another fix, a full sentence, which does not help where labels are required
    options : names of options that ``message``, ``hint`` and ``alternative`` contain as ``{name}`` or ``{name=value}``

    Attributes
    ----------
    skippable : whether a reader may skip the item on request
    content : what is known of an item that a reader cannot read: the text of its line, or its fields
    row : all fields of its row, a ``TableRow``, if it is one of a table

    Examples
    --------
    >>> hint = "Name the column with {tag_column}."
    >>> error = DataError("no tag in column 4", path="train.conll", line=7, hint=hint, options=("tag_column",))
    >>> print(error)
    train.conll, line 7: no tag in column 4. Name the column with tag_column.
    >>> print(error.render(lambda name: "--tag-column"))
    train.conll, line 7: no tag in column 4. Name the column with --tag-column.
    """

    skippable = False
    content: Any = None
    row: Any = None

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
        alternative: str | None = None,
        options: Collection[str] = (),
    ):
        self.message, self.path, self.line, self.field = message, path, line, field
        self.hint, self.alternative = hint, alternative
        super().__init__(message, options=options)

    @property
    def problem(self) -> str:
        """The message, with the names of options in Python."""
        return fill_in(self.message, self.options)

    @override
    def render(self, spell: Callable[[str], str] = str) -> str:
        parts = [] if self.path is None else [os.fspath(self.path)]
        parts += [] if self.line is None else [f"line {self.line}"]
        parts += [] if self.field is None else [f"field {self.field!r}"]
        text = f"{self.message}. {self.hint}" if self.hint else self.message
        text = f"{text} {self.alternative}" if self.alternative else text
        text = fill_in(text, self.options, spell)
        return printable(f"{', '.join(parts)}: {text}" if parts else text)


class UnreadableError(DataError):
    """The rest of a file cannot be read: the disk fails, or the archive is damaged."""


class UnknownLabelError(DataError):
    """A label or tag is not in the model's training set.

    Attributes
    ----------
    count : number of such labels
    total : number of all labels
    """

    count = total = 0


class GraphError(GraphAttnError):
    """A graph lacks a relation, or tensors do not fit the graph."""


class EdgeCountError(GraphError):
    """A relation has more edges than one graph can number.

    Parameters
    ----------
    problem : what is wrong, without a full stop
    advice : what to do; None if the caller knows better
    """

    def __init__(self, problem: str, advice: str | None = None):
        super().__init__(f"{problem}. {advice}" if advice else problem)
        self.problem = problem


class ConfigError(GraphAttnError):
    """Options contradict each other or have invalid values."""


class UnregisteredError(ConfigError):
    """A name is unknown; the user's own code may have to register it.

    Parameters
    ----------
    message : the complete message
    name : the unknown name
    """

    def __init__(self, message: str, name: str):
        self.name = name
        super().__init__(message)


class RunFolderError(ConfigError):
    """The folder of a training run cannot be used.

    Parameters
    ----------
    problem : what is wrong, without a full stop
    advice : what to do, which the message appends to the problem
    options : names of options in both
    is_busy : whether another process uses the folder
    is_other : whether the folder has a run with other options or data
    """

    def __init__(
        self, problem: str, advice: str, *, options: Collection[str], is_busy: bool = False, is_other: bool = False
    ):
        super().__init__(f"{problem}{advice}", options=options)
        self.problem, self.is_busy, self.is_other = fill_in(problem, options), is_busy, is_other


class MissingPackageError(ConfigError):
    """A feature needs a package that is not installed."""


class DeviceMemoryError(GraphAttnError):
    """The memory of a GPU is too small for a batch; the message says which one, and what to lower."""


class BackendError(GraphAttnError):
    """A backend does not exist or does not support the inputs."""


class DoubleBackwardError(GraphAttnError, RuntimeError):
    """A gradient of attention was differentiated; attention has first-order gradients only."""


class ModelDirectoryError(GraphAttnError):
    """A model directory is missing, incomplete, corrupted, or of another format version."""


class NotFittedError(GraphAttnError):
    """An estimator was used before ``fit`` or ``load``."""


class BuildError(GraphAttnError):
    """A store cannot be built, for a reason outside the corpus; finished shards are kept."""


class TrainingError(GraphAttnError):
    """Training cannot continue; the message says what to change."""


class DivergenceError(TrainingError):
    """Loss, weights or outputs are not finite; after training, the model has the weights of the best epoch, if any."""


class GraphAttnWarning(_OptionMessage, UserWarning):
    """The result may differ from what the user expects; the message says how, and how to change it."""


class TruncationWarning(GraphAttnWarning):
    """Texts were truncated.

    Parameters
    ----------
    count : number of these texts
    limit : tokens that were kept of each
    tokens : number of tokens that were left out
    where : the user's data, such as ``"dev set"``
    noun : ``"text"``, or ``"pair"`` for pairs with one limit
    hint : how to keep them, a full sentence
    options : names of options that ``hint`` contains as ``{name}`` or ``{name=value}``
    """

    def __init__(
        self,
        count: int,
        limit: int,
        tokens: int,
        where: str = "",
        *,
        noun: str = "text",
        hint: str = "",
        options: Collection[str] = (),
    ):
        self.count, self.tokens = count, tokens
        texts = f"{noun}{'s' * (count != 1)}{f' of the {where}' if where else ''}"
        message = f"{count:,} {texts} truncated to {limit:,} token{'s' * (limit != 1)}, which leaves out {tokens:,}"
        super().__init__(f"{message}. {hint}" if hint else message, options=options)


class Hint(GraphAttnWarning):
    """The result is probably bad, or a file was read in a way to know about; the message says what may help."""


def warn_caller(warning: Warning | str) -> None:
    """Warn at the line that called this package, however deep; Python 3.12 has ``skip_file_prefixes`` for this."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OUR_FRAMES:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


_OUR_FRAMES = ("graphattn", "contextlib", "functools", "torch", "lightning")
"""Packages whose frames may lie between a warning and the user: ours, and those that call our context managers, cached
properties, decorated functions, modules and callbacks."""
