"""What a reader does about a line or a sentence that cannot be used: it stops, or tells and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from graphattn.exceptions import DataError, UnreadableError

Skip = Callable[[DataError], None]
"""Is told what is left out, and why."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def refuse(error: DataError, skip: Skip | None) -> None:
    """Raise the error, or tell it when what is wrong may be left out."""
    if skip is None:
        error.skippable = True
        raise error
    skip(error)


def iterate_with_errors(items: Iterator[Item]) -> Iterator[Item | DataError]:
    """Items, with the error in place of one that cannot be read.

    Parameters
    ----------
    items : an iterator that can go on after an error; a generator cannot

    Raises
    ------
    UnreadableError
        when the file itself cannot be read any further
    """
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except UnreadableError:
            raise
        except DataError as error:
            yield error
        else:
            yield item


def map_with_errors(items: Iterator[Item], make: Callable[[Item], Made], skip: Skip | None) -> Iterator[Made]:
    """What is made of each item; those that cannot be read or used are refused or left out.

    Parameters
    ----------
    items : as for :func:`iterate_with_errors`
    make : makes something of an item, or raises ``DataError``
    skip : is told what is left out; None stops at the first
    """
    for made in iterate_with_errors(map(make, items)):
        if isinstance(made, DataError):
            refuse(made, skip)
        else:
            yield made
