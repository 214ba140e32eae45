"""The attention weights of some heads of one layer on the edges of one relation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor

from graphattn._precision import at_least_float32
from graphattn._ragged import Ints
from graphattn._scales import Scale
from graphattn._schema import WINDOW
from graphattn.exceptions import ConfigError

SOURCE, TARGET = "source", "target"
"""Names of the parts of a translation."""
Floats = npt.NDArray[np.floating]
_SHAPES = "edges", "heads", "features"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Weights of some heads of one layer on the edges of a relation; targets attend, sources are attended to.

    The input consists of parts: the tokens of each text, and other nodes that relations add. An edge connects two parts
    or two nodes of one part. A decoder that attends to an encoder is a map from the part ``source`` to ``target``.

    Parameters
    ----------
    layer : counted from 0 over the whole model
    first_head : number of the first of these heads in its layer; the others follow
    relation : name of the heads' relation
    source_part, target_part : names of the parts that the edges connect
    sources, targets : (E,) positions in these parts; ``[CLS]`` is position 0 of a text
    weights : (E, heads); for each head the weights of the edges into one target sum to one, over all maps of the head;
        to less where attention sinks take a share
    features : (E, heads, F) weights by feature, on request (MTSA); ``weights`` are their means

    Arrays may be given as tensors or lists.

    Raises
    ------
    ConfigError
        when an array has another shape, or positions are not integers
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

    def __post_init__(self) -> None:
        for name, dimensions in (("sources", 1), ("targets", 1), ("weights", 2), ("features", 3)):
            values = getattr(self, name)
            if name == "features" and values is None:
                continue
            array = _to_array(values)
            if array.ndim != dimensions or len(array) != len(self.sources):
                raise ConfigError(
                    f"{{{name}}} has shape {array.shape}; expected {', '.join(_SHAPES[:dimensions])} "
                    f"for {len(self.sources)} sources",
                    options=(name,),
                )
            if dimensions == 1 and array.dtype.kind not in "iu" and len(array):
                raise ConfigError(f"{{{name}}} are {array.dtype}; positions are integers", options=(name,))
            object.__setattr__(self, name, array)

    @property
    def heads(self) -> range:
        """Numbers of the heads in their layer."""
        return range(self.first_head, self.first_head + self.weights.shape[1])

    @property
    def scale(self) -> str | None:
        """The scale of a window, ``"3"`` or ``"N/16"``; None for other relations."""
        return scale_of(self.relation)

    def of_head(self, head: int) -> AttentionMap:
        """The map of one head."""
        column = slice(head - self.first_head, head - self.first_head + 1)
        features = None if self.features is None else self.features[:, column]
        return replace(self, first_head=head, weights=self.weights[:, column], features=features)

    def of_edges(self, edges: npt.NDArray[np.bool_]) -> AttentionMap:
        """The map of some edges, for which the mask is true."""
        features = None if self.features is None else self.features[edges]
        sources, targets, weights = self.sources[edges], self.targets[edges], self.weights[edges]
        return replace(self, sources=sources, targets=targets, weights=weights, features=features)

    def by_head(self) -> Iterator[AttentionMap]:
        """One map per head."""
        return map(self.of_head, self.heads)


def _to_array(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, Tensor):
        values = at_least_float32(values.detach().cpu()) if values.is_floating_point() else values.cpu()
    return np.asarray(values)


def scale_of(relation: str) -> str | None:
    """The scale in the name of a window relation; None for other relations.

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
    except ConfigError:  # a composition that begins with a window
        return None


def for_display(table: pd.DataFrame) -> pd.DataFrame:
    """A table without columns that say nothing: the scale, words equal to tokens, dependencies if there is none."""
    table = table.drop(columns="scale")
    if "deprel" in table and not table.deprel.any():
        table = table.drop(columns="deprel")
    if (table.source_word == table.source_token).all() and (table.target_word == table.target_token).all():
        table = table.drop(columns=["source_word", "target_word", "source_word_index", "target_word_index"])
    return table
