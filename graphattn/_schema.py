"""Names of the node types and relations of text graphs."""

from __future__ import annotations

from graphattn.exceptions import GraphError

TOKEN = "token"
"""Node type of the units that attend: words or sub-words; ``[CLS]`` is an ordinary token at position 0."""
WORD = "word"
"""Node type of words, which are groups of tokens."""
RELAY = "relay"
"""Node type of the single node that connects all tokens of a text (Star-Transformer)."""
SPAN = "span"
"""Node type of the token spans from recursive halving of a text (BP-Transformer)."""
SENTENCE = "sentence"
"""Node type of the sentences of a text."""
DOCUMENT = "document"
"""Node type of whole texts."""

WINDOW = "window"
GROUP = "group"
DEPENDENCY = "dependency"
MEMBERSHIP = "in"
FORWARD = "forward"
BACKWARD = "backward"
ALL = "all"
CAUSAL = "causal"
ALL_WORDS = "all:word"

ONLY = "only"
"""Stands for the only relation of a graph in a layer's heads, whatever its name is."""

CanonicalRelation = tuple[str, str, str]

NAMELESS = (ONLY, "to", "_E")
"""What relations without a name are called here, in PyTorch Geometric and in DGL."""


def window(scale: object) -> str:
    """Name of the window relation of one scale.

    Examples
    --------
    >>> window("N/16")
    'window:N/16'
    """
    return f"{WINDOW}:{scale}"


def is_nameless(present: list[CanonicalRelation]) -> bool:
    """Whether the relations are a single one without a name, for which any name stands."""
    return len(present) == 1 and present[0][1] in NAMELESS


def find_node_type(present: list[str], node_type: str) -> str:
    """The name of a node type in a graph; in DGL's graphs without types, tokens are called ``_N``."""
    return "_N" if node_type == TOKEN and present == ["_N"] else node_type


def find_relation(present: list[CanonicalRelation], etype: str | CanonicalRelation | None) -> CanonicalRelation:
    """The canonical edge type for a name, a triple, or None when there is only one relation."""
    etype = None if etype == ONLY or (is_nameless(present) and isinstance(etype, str)) else etype
    if isinstance(etype, tuple):
        matches = [relation for relation in present if relation == etype]
    elif etype is None:
        matches = present
    else:
        matches = [relation for relation in present if relation[1] == etype]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(sorted({relation[1] for relation in present})) or "none"
    if etype is None:
        raise GraphError(f"the graph has {len(present)} relations ({names}); give etype=, or heads by relation")
    if matches:
        raise GraphError(f"relation {etype!r} exists between several node types; give the triple: {matches}")
    raise GraphError(f"the graph has no relation {etype!r}; it has: {names}")
