"""Modules of a user's own, which register relations and encoders before a command runs."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module

from graphattn.exceptions import ConfigError


def import_modules(names: Iterable[str]) -> None:
    """Import modules that are installed or lie in the working folder, for what they register.

    Parameters
    ----------
    names : such as ``my_relations`` or ``project.relations``

    Raises
    ------
    ConfigError
        when there is no such module, or it fails: with its error, file and line
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # behind what is installed, which a file of the folder must not replace
    for name in names:
        if name.endswith(".py") or "/" in name or os.sep in name:
            raise ConfigError(f"--import is {name!r}; give the module's name, as in Python: my_relations")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error
            raise ConfigError(f"--import: there is no module {name!r} in this folder, and none is installed") from error
        except Exception as error:
            raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> ConfigError:
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
        place = f"{own[-1].filename}, line {own[-1].lineno}" if own else name
    return ConfigError(f"--import {name} fails in {place}: {type(error).__name__}: {error}")


def _is_own(file: str) -> bool:
    return not file.startswith("<") and file != __file__ and f"{os.sep}importlib{os.sep}" not in file
