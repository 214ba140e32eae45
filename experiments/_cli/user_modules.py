"""Import users' modules, which register relations, encoders and more, before a command runs."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from graphattn.exceptions import ConfigError, verbatim

MODULES = "GRAPHATTN_IMPORT"
"""Environment variable with modules, separated by commas or spaces."""


def import_option(*, hidden: bool = False) -> Any:
    """The flag ``--import``; a hidden one is listed by ``--help-all`` only."""
    about = (
        "Import a module that registers relations, encoders, tasks, commands or others; repeatable. The "
        f"modules in {MODULES}, separated by commas, come first."
    )
    return typer.Option("--import", metavar="MODULE", help=about, hidden=hidden)


def find_values(flag: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of a flag anywhere among unparsed arguments, up to ``--``, and the other arguments.

    Examples
    --------
    >>> find_values("--import", ["train", "classify", "--import", "mine", "a.tsv", "--import=yours"])
    (['mine', 'yours'], ['train', 'classify', 'a.tsv'])
    """
    values, others, remaining = [], [], list(arguments)
    while remaining and remaining[0] != "--":
        name, sign, value = remaining.pop(0).partition("=")
        if name == flag and (sign or remaining):
            values.append(value if sign else remaining.pop(0))
        else:
            others.append(name + sign + value)
    return values, others + remaining


_IMPORTING = ("<frozen ", str(Path(__file__).parents[2]))
_INSTALLED = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
"""Folders of modules that import others, and of installed modules."""

IMPORTED: dict[str, None] = {}
"""The modules that were imported, in order."""


def list_imported_modules() -> tuple[str, ...]:
    """The modules that were imported so far, for other processes to import."""
    return tuple(name for name in IMPORTED if name in sys.modules)


def import_modules(names: Iterable[str]) -> None:
    """Import installed modules, or modules in the working folder; errors name file and line."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that files of the folder do not shadow installed packages
    for name in names:
        if name.endswith(".py") or "/" in name or os.sep in name:
            raise ConfigError(f"--import takes the name of a module, such as my_relations, not {name!r}")
        try:
            import_module(name)
            IMPORTED[name] = None
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise ConfigError(f"importing {name} fails{verbatim(describe_failure(error))}") from error
            raise ConfigError(f"there is no module {name!r}, neither in this folder nor installed") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ConfigError(f"importing {name} fails{verbatim(describe_failure(error))}") from error


def describe_failure(error: BaseException) -> str:
    """The place in the user's code that raised an error, and the error: `` in mine.py, line 1: KeyError: 2``."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [frame for frame in frames if not frame[0].startswith(_IMPORTING)]
    user_frames = [frame for frame in theirs if not frame[0].startswith(_INSTALLED)] or theirs
    if isinstance(error, SyntaxError) and error.filename:
        user_frames = [(error.filename, error.lineno or 0)]
    where = "".join(f" in {file}" + (f", line {line}" if line else "") for file, line in user_frames[-1:])
    description = traceback.format_exception_only(error)[-1].strip()  # also if str(error) fails
    return f"{where}: {description.removeprefix(f'{type(error).__module__}.')}"
