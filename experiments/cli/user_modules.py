"""Modules of a user's own, which register relations and encoders before a command runs."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from types import FrameType

from graphattn.exceptions import ConfigError

MODULES = "GRAPHATTN_IMPORT"
"""The environment's variable that lists modules, with commas or blanks between them."""


def listed_modules() -> list[str]:
    """What the variable lists."""
    return os.environ.get(MODULES, "").replace(",", " ").split()


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
            raise ConfigError(f"there is {name!r} to import; give the module's name, as in Python: my_relations")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error
            raise ConfigError(f"there is no module {name!r} to import, neither in this folder nor installed") from error
        except (Exception, SystemExit) as error:
            raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> ConfigError:
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        places = [
            f"{frame.f_code.co_filename}, line {line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            if _is_the_users(frame)
        ]
        place = places[-1] if places else name
    return ConfigError(f"importing {name} fails in {place}: {type(error).__name__}: {error}")


def _is_the_users(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in ("graphattn", "importlib", "_frozen_importlib", "_frozen_importlib_external")
