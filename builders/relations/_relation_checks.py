"""Validate what users' relations return, so that errors name the relation. Our own relations are trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from graphattn._ragged import Ints
from graphattn.builders._batch import RelationArrays, check_edge_count
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import Relation, iterate_operands
from graphattn.exceptions import GraphAttnError, GraphError


def is_third_party(relation: Relation) -> bool:
    """Whether a relation, or one of its operands, is defined outside this library."""
    package, _, _ = __name__.partition(".")
    return any(type(operand).__module__.partition(".")[0] != package for operand in iterate_operands(relation))


def may_read_ids(relation: Relation) -> bool:
    """Whether edges may depend on token ids: always possible in a user's relation, in ours only through vectors."""
    return relation.needs_vectors or is_third_party(relation)


@contextmanager
def errors_naming(relation: Relation) -> Iterator[None]:
    """Turn errors in a user's relation into a GraphError that names it; errors of ours and MemoryError pass."""
    try:
        yield
    except (GraphAttnError, MemoryError):
        raise
    except Exception as error:
        if not is_third_party(relation):
            raise
        raise GraphError(f"relation {relation.name!r} fails with {type(error).__name__}: {error}") from error


def count_edges(relation: Relation, layout: Layout) -> Ints:
    """(B,) ``relation.num_edges(layout)``, validated for a user's relation."""
    with errors_naming(relation):
        counts = np.asarray(relation.num_edges(layout))
    if is_third_party(relation):
        _check_integers(relation.name, "num_edges", counts, len(layout))
    return counts


def check_nodes(relation: Relation, layout: Layout, nodes: Mapping[str, Ints]) -> None:
    """Check that the batch has the nodes that a user's relation joins."""
    for node_type in (relation.source, relation.target):
        if node_type not in nodes:
            raise GraphError(f"relation {relation.name!r} needs {node_type!r} nodes, but no relation adds them")
        _check_integers(relation.name, f"per_sentence of {node_type!r} nodes", nodes[node_type], len(layout))


def validate_edges(name: str, arrays: RelationArrays, sources: Ints, destinations: Ints) -> None:
    """Check that arrays are edges inside each sentence, with ascending sources.

    ``sources`` and ``destinations`` (B,) are the numbers of nodes in each sentence.
    """
    indptr, indices, count = arrays.indptr, arrays.indices, arrays.num_edges
    check_edge_count(name, count)
    _check_integers(name, "indptr", indptr, int(destinations.sum()) + 1)
    _check_integers(name, "indices", indices, count)
    if indptr[0] != 0 or indptr[-1] != count or (indptr[1:] < indptr[:-1]).any():
        raise GraphError(f"relation {name!r}: indptr must rise from 0 to the number of edges, {count}")
    for feature, values in arrays.data.items():
        if values.shape[:1] != (count,):
            raise GraphError(f"relation {name!r}: {feature!r} has shape {values.shape}; expected {count} rows")
    lowest, end = _source_limits(sources, destinations)
    degrees = np.diff(indptr)
    _check_inside(name, (indices >= np.repeat(lowest, degrees)) & (indices < np.repeat(end, degrees)))
    follows = np.ones(count, dtype=bool)  # whether an edge has the destination of the one before it
    follows[indptr[:-1][degrees > 0]] = False
    if (follows[1:] & (indices[1:] < indices[:-1])).any():
        raise GraphError(f"relation {name!r}: the sources of a destination must ascend")


def validate_bounds(
    name: str, bounds: tuple[Ints, Ints], sources: Ints, destinations: Ints
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Check that bounds are ranges inside each sentence, and convert them to int64.

    Bounds are the first source of each destination, and one past its last; ``sources`` and ``destinations`` (B,) are
    the numbers of nodes in each sentence.
    """
    for bound, values in zip(("first", "stop"), bounds, strict=True):
        _check_integers(name, bound, values, int(destinations.sum()))
    first, stop = (values.astype(np.int64) for values in bounds)
    if (first > stop).any():
        raise GraphError(f"relation {name!r}: a range stops before it begins; an empty one has first equal to stop")
    lowest, end = _source_limits(sources, destinations)
    _check_inside(name, (first == stop) | ((first >= lowest) & (stop <= end)))
    return first, stop


def _check_integers(name: str, bound: str, values: npt.NDArray[np.generic], length: int) -> None:
    if not np.issubdtype(values.dtype, np.integer) or values.shape != (length,):
        raise GraphError(
            f"relation {name!r}: {bound} has shape {values.shape} and type {values.dtype}; "
            f"expected ({length},) integers"
        )


def _source_limits(sources: Ints, destinations: Ints) -> tuple[Ints, Ints]:
    """For each destination the first source of its sentence and one past the last."""
    ends = np.cumsum(sources)
    return np.repeat(ends - sources, destinations), np.repeat(ends, destinations)


def _check_inside(name: str, is_inside: npt.NDArray[np.bool_]) -> None:
    if not is_inside.all():
        raise GraphError(
            f"relation {name!r}: an edge leads from one sentence to another; nodes are numbered over the batch, see "
            "layout.token_starts and layout.word_starts"
        )
