"""Progress bars on standard error, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


def shown(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Pass items on, with a bar that counts them when somebody watches.

    Parameters
    ----------
    items : anything iterable
    description : what is being done
    total : how many there are, when that is known
    """
    yield from track(
        items, description, total, console=Console(stderr=True), disable=sys.stderr is None or not sys.stderr.isatty()
    )
