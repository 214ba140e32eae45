"""Where parses that were made before are kept unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """A file in the user's cache folder, which is made."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphattn"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "parses.sqlite"
