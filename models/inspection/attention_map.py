"""The weights that heads of one layer give to the edges of one relation between two rows of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import ConfigError
from graphattn.scales import Scale
from graphattn.schema import WINDOW

SOURCE, TARGET = "source", "target"
"""Names of a translation's parts."""
Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """What some heads of one layer give to each edge of a relation; targets attend, sources are attended to.

    A text's tokens are a part of the input, as are the nodes that a relation brings along; an edge leads from one part
    to another or stays within one. So a decoder that attends to an encoder is a map from the source's part to the
    target's.

    Parameters
    ----------
    layer : counts from 0 through the whole model
    first_head : number of the first of these heads in its layer; the others follow
    relation : name of the relation that the heads look along
    source_part, target_part : names of the parts that the edges join
    sources, targets : (E,) positions in these parts; ``[CLS]`` is position 0 of a text
    weights : (E, heads); for each head the weights of the edges into one target sum to one, over all maps of the head
    features : (E, heads, F) where weights differ by feature and all were asked for; ``weights`` are then their means
    """

    layer: int
    first_head: int
    relation: str
    source_part: str
    target_part: str
    sources: Ints
    targets: Ints
    weights: Floats
    features: Floats | None = None

    @property
    def heads(self) -> range:
        """The heads' numbers in their layer."""
        return range(self.first_head, self.first_head + self.weights.shape[1])

    @property
    def scale(self) -> str | None:
        """The scale of a window, ``"3"`` or ``"N/16"``; None for other relations."""
        return scale_of(self.relation)

    def of_head(self, head: int) -> AttentionMap:
        """The same for one of the heads alone."""
        column = slice(head - self.first_head, head - self.first_head + 1)
        features = None if self.features is None else self.features[:, column]
        return replace(self, first_head=head, weights=self.weights[:, column], features=features)

    def by_head(self) -> Iterator[AttentionMap]:
        """One map for each head."""
        return map(self.of_head, self.heads)


def scale_of(relation: str) -> str | None:
    """The scale in the name of a window.

    Examples
    --------
    >>> scale_of("window:N/16"), scale_of("dependency")
    ('N/16', None)
    """
    kind, _, scale = relation.partition(":")
    if kind != WINDOW:
        return None
    try:
        return str(Scale(scale))
    except ConfigError:  # a window is composed with something else
        return None
