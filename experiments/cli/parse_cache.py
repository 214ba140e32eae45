"""Where parses that were made before are kept unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

from graphattn.exceptions import ConfigError


def default_cache() -> Path:
    """A file in the user's cache folder, which is made."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphattn"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{folder} cannot be made ({reason}); give --parse-cache a file, or none") from error
    return folder / "parses.sqlite"
