"""Checks of what users' own relations give, so that a slip is told by the relation's name and not met in a kernel.

Relations of the library are not looked at again: their tests do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.exceptions import GraphAttnError, GraphError
from graphattn.schema import TOKEN, WORD

if TYPE_CHECKING:
    from graphattn.builders.relations.base import Relation


def is_third_party(relation: Relation) -> bool:
    """Whether a relation, or one that it is composed of, is defined outside this library."""
    own = type(relation).__module__.partition(".")[0] != __name__.partition(".")[0]
    return own or any(map(is_third_party, relation.operands()))


@contextmanager
def errors_naming(relation: Relation) -> Iterator[None]:
    """What goes wrong in the code of a user's relation becomes an error that names it.

    Raises
    ------
    GraphError
        instead of any error but ours and that of too little memory
    """
    try:
        yield
    except (GraphAttnError, MemoryError):
        raise
    except Exception as error:
        if not is_third_party(relation):
            raise
        raise GraphError(f"relation {relation.name!r} fails with {type(error).__name__}: {error}") from error


def validated_edges(relation: Relation, layout: Layout, nodes: Mapping[str, Ints]) -> RelationArrays:
    """The edges of a user's relation, if they are edges.

    Parameters
    ----------
    relation : whose class is not the library's
    layout : the batch
    nodes : node type -> (B,) how many each sentence has

    Raises
    ------
    GraphError
        naming the relation, when its own code fails, or gives anything else than edges inside each sentence, by
        destination, with ascending sources
    """
    name = relation.name
    with errors_naming(relation):
        arrays = relation.edges(layout)
    if not isinstance(arrays, RelationArrays):
        raise GraphError(f"relation {name!r}: edges gives {type(arrays).__name__}; expected RelationArrays")
    for part in ("indptr", "indices", "per_sentence"):
        _check_integers(name, part, getattr(arrays, part))
    sources, destinations = (nodes[kind].astype(np.int64) for kind in (relation.source, relation.target))
    _check_arrays(name, arrays, int(sources.sum()), int(destinations.sum()))
    ends = np.cumsum(destinations)
    counted = arrays.indptr[ends] - arrays.indptr[ends - destinations]
    if not np.array_equal(arrays.per_sentence, counted):
        raise GraphError(f"relation {name!r}: per_sentence is not the number of edges that arrive in each sentence")
    _check_sources(name, arrays, sources, destinations)
    return arrays


def check_nodes(relation: Relation, layout: Layout, nodes: Mapping[str, Ints]) -> None:
    """Raise when the nodes that a user's relation joins are missing, or not counted for each text.

    Raises
    ------
    GraphError
        naming the relation
    """
    missing = {relation.source, relation.target} - nodes.keys()
    if missing:
        raise GraphError(f"relation {relation.name!r} has {missing.pop()!r} nodes, which no relation brings")
    for kind in (relation.source, relation.target):
        _check_integers(relation.name, f"per_sentence of {kind!r} nodes", nodes[kind])
        if len(nodes[kind]) != len(layout):
            raise GraphError(f"relation {relation.name!r}: the numbers of {kind!r} nodes are not one for each sentence")


def validated_counts(relation: Relation, layout: Layout) -> Ints:
    """(B,) edges of each sentence as a relation counts them, if a user's relation gives such counts.

    Raises
    ------
    GraphError
        naming the relation
    """
    with errors_naming(relation):
        counts = np.asarray(relation.num_edges(layout))
    if is_third_party(relation):
        _check_integers(relation.name, "num_edges", counts)
        if counts.shape != (len(layout),):
            raise GraphError(
                f"relation {relation.name!r}: num_edges has shape {counts.shape}; expected ({len(layout)},), one for "
                "each sentence"
            )
    return counts


def vetted_bounds(
    relation: Relation, bounds: Any, layout: Layout, nodes: Mapping[str, Ints] | None = None
) -> tuple[Ints, Ints]:
    """The bounds that a user's relation gives, if they are ranges, one for each destination.

    Raises
    ------
    GraphError
        naming the relation
    """
    name = relation.name
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise GraphError(f"relation {name!r}: bounds gives {type(bounds).__name__}; expected two arrays, (first, stop)")
    if nodes is None:
        brought = {kind: own.per_sentence for kind, own in relation.nodes(layout).items()}
        nodes = {TOKEN: layout.lengths, WORD: layout.word_counts, **brought}
    expected = nodes.get(relation.target)
    if expected is None:
        raise GraphError(f"relation {name!r} leads to {relation.target!r} nodes, which its nodes() does not give")
    for part, values in zip(("first", "stop"), bounds, strict=True):
        _check_integers(name, part, values)
        if values.shape != (expected.sum(),):
            raise GraphError(
                f"relation {name!r}: {part} has shape {values.shape}; expected ({expected.sum()},), one for each "
                "destination"
            )
    first, stop = (values.astype(np.int64, copy=False) for values in bounds)
    if (first > stop).any():
        raise GraphError(f"relation {name!r}: a range stops before it begins; an empty one has first equal to stop")
    if relation.source in nodes:
        lowest, end = _own_sources(nodes[relation.source], expected)
        _refuse_crossing(name, (first == stop) | ((first >= lowest) & (stop <= end)))
    return first, stop


def _check_integers(name: str, part: str, values: Any) -> None:
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise GraphError(f"relation {name!r}: {part} must be a NumPy array of integers in one dimension")


def _own_sources(sources: Ints, destinations: Ints) -> tuple[Ints, Ints]:
    """For each destination the first source of its sentence and the one after the last."""
    ends = np.cumsum(sources)
    return np.repeat(ends - sources, destinations), np.repeat(ends, destinations)


def _refuse_crossing(name: str, inside: npt.NDArray[np.bool_]) -> None:
    if not inside.all():
        raise GraphError(
            f"relation {name!r}: an edge leads from one sentence of the batch to another; numbers of nodes count over "
            "the batch, see layout.token_starts and layout.word_starts"
        )


def _check_arrays(name: str, arrays: RelationArrays, num_sources: int, num_destinations: int) -> None:
    check_edge_count(name, arrays.num_edges)
    indptr, count = arrays.indptr, arrays.num_edges
    if indptr.shape != (num_destinations + 1,):
        raise GraphError(f"relation {name!r}: indptr has shape {indptr.shape}; expected ({num_destinations + 1},)")
    if indptr[0] != 0 or indptr[-1] != count or (indptr[1:] < indptr[:-1]).any():
        raise GraphError(f"relation {name!r}: indptr must rise from 0 to the number of edges, {count}")
    if count and not 0 <= arrays.indices.min() <= arrays.indices.max() < num_sources:
        raise GraphError(f"relation {name!r}: indices must be from 0 to {num_sources - 1}, the source nodes")
    for feature, values in arrays.data.items():
        if not isinstance(values, np.ndarray):
            raise GraphError(f"relation {name!r}: {feature!r} must be a NumPy array")
        if values.shape[:1] != (count,):
            raise GraphError(
                f"relation {name!r}: {feature!r} has shape {values.shape}; expected one row per edge, {count}"
            )


def _check_sources(name: str, arrays: RelationArrays, sources: Ints, destinations: Ints) -> None:
    lowest, end = _own_sources(sources, destinations)
    degrees = np.diff(arrays.indptr)
    _refuse_crossing(name, (arrays.indices >= np.repeat(lowest, degrees)) & (arrays.indices < np.repeat(end, degrees)))
    follows = np.ones(len(arrays.indices), dtype=bool)
    follows[arrays.indptr[:-1][degrees > 0]] = False
    if (follows[1:] & (arrays.indices[1:] < arrays.indices[:-1])).any():
        raise GraphError(f"relation {name!r}: the sources of a destination must ascend")
