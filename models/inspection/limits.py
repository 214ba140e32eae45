"""Limits on the number of attention weights in memory: a long text with wide windows has billions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import ConfigError, DataError

MOST_WEIGHTS = 200_000_000
"""Weights of one input, over all layers and heads. A weight takes 8 bytes if many heads share their edges, up to 40 if
each head has its own edges: 1.6 to 8 GB."""
MOST_ROWS = 20_000_000
"""Rows of a table; building it takes 170 bytes per row: 3.4 GB."""
MOST_LINKS = 1_000_000
"""Edges of a networkx graph; saving it takes up to 3,300 bytes per edge, for GEXF: 3.3 GB."""


@contextmanager
def raised_to(most: int) -> Iterator[None]:
    """Replace :data:`MOST_WEIGHTS` by ``most`` inside the block."""
    global MOST_WEIGHTS
    before, MOST_WEIGHTS = MOST_WEIGHTS, most
    try:
        yield
    finally:
        MOST_WEIGHTS = before


def check_num_weights(count: int, graph: TextBatch) -> None:
    """Reject an input with too many weights before they are computed."""
    if count > MOST_WEIGHTS:
        raise DataError(
            f"an input of {graph.num_nodes(TOKEN):,} tokens has {count:,} attention weights; the limit is "
            f"{MOST_WEIGHTS:,}",
            hint="Shorten the text, or use a model with narrower windows or fewer heads. With enough memory, raise the "
            f"limit: `with {__name__}.raised_to(...)`.",
        )


def check_size(result: str, count: int, most: int) -> None:
    """Reject a conversion that needs much more memory than the weights do."""
    if count > most:
        raise ConfigError(
            f"a {result} of {count:,} weights takes too much memory; the limit is {most:,}. Select some of them with "
            "{layer}, {head} or {relation}",
            options=("layer", "head", "relation"),
        )
