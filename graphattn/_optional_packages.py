"""Packages that only some features need; they are imported when these features run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphattn.exceptions import MissingPackageError


def import_optional(module: str, purpose: str, extra: str) -> Any:
    """Import a module of a package that ``pip install graphattn`` does not install, but one of its extras.

    ``purpose`` is the subject of the error's sentence and its verb, such as "pictures need".
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        problem = explain_import_error(error, module)
        raise MissingPackageError(f"{purpose} {package}, which {problem}: pip install 'graphattn[{extra}]'") from error


def explain_import_error(error: ImportError, module: str) -> str:
    """Whether the package of a module is not installed, or why else it cannot be imported."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0])
    return "is not installed" if is_missing else f"cannot be imported ({error})"
