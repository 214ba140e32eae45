"""Recognize the texts of a store, without loading Arrow for all others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from typing_extensions import TypeIs

if TYPE_CHECKING:
    from graphattn.builders.store._store import Store


def is_stored(texts: object) -> TypeIs[Store]:
    """Whether texts are a store, or some of its texts, which are read when they are needed."""
    module = sys.modules.get("graphattn.builders.store._store")
    return module is not None and isinstance(texts, module.Store)
