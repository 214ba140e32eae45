"""Packages that only some features need; they are imported when these features run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphattn.exceptions import MissingPackageError


def import_optional(module: str, purpose: str, extra: str) -> Any:
    """Import a module of a package that ``pip install graphattn`` does not install.

    Parameters
    ----------
    module : dotted name
    purpose : subject of the error's sentence and its verb, such as "pictures need"
    extra : the extra that installs the package

    Raises
    ------
    MissingPackageError
        when the package is not installed; the message contains the command that installs it
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{purpose} {package}, which is not installed: pip install 'graphattn[{extra}]'"
        ) from None
