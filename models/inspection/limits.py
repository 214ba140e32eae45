"""How many weights are kept at once: those of a long text along wide windows fill any memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphattn.builders.batch import TextBatch
from graphattn.exceptions import ConfigError, DataError
from graphattn.schema import TOKEN

MOST_WEIGHTS = 200_000_000
"""Weights of one input, over all layers and heads. One takes 8 bytes where many heads share their edges, and up to 40
where each head has edges of its own: 1.6 to 8 GB."""
MOST_ROWS = 20_000_000
"""Rows of a table, which take 150 bytes each while it is made: 3 GB."""
MOST_LINKS = 1_000_000
"""Edges of a networkx graph, which take 1,300 bytes each while they are saved as GraphML: 1.3 GB."""


@contextmanager
def raised_to(most: int) -> Iterator[None]:
    """Keep up to so many weights of one input, as long as the block lasts.

    Parameters
    ----------
    most : in the place of :data:`MOST_WEIGHTS`
    """
    global MOST_WEIGHTS
    before, MOST_WEIGHTS = MOST_WEIGHTS, most
    try:
        yield
    finally:
        MOST_WEIGHTS = before


def refuse_many_weights(count: int, graph: TextBatch) -> None:
    """Refuse an input whose weights are too many, before they are made.

    Parameters
    ----------
    count : of the weights
    graph : of the input

    Raises
    ------
    DataError
        when there are more than :data:`MOST_WEIGHTS`
    """
    if count > MOST_WEIGHTS:
        raise DataError(
            f"an input of {graph.num_nodes(TOKEN):,} tokens has {count:,} attention weights; "
            f"up to {MOST_WEIGHTS:,} are kept at once",
            hint="Cut the text, or take a model with narrower windows or fewer heads; where memory allows for more, "
            f"ask inside `with {__name__}.raised_to(...)`.",
        )


def refuse_large(what: str, count: int, most: int) -> None:
    """Refuse to turn many weights into something that takes much more memory than they do.

    Parameters
    ----------
    what : is made of them
    count : of the weights
    most : how many there may be

    Raises
    ------
    ConfigError
        when there are more
    """
    if count > most:
        raise ConfigError(
            f"a {what} of {count:,} weights takes too much memory; it may have up to {most:,}. Choose a layer, a head "
            "or a relation: only(layer=..., head=..., relation=...), on the command line --layer, --head, --relation"
        )
