"""The names of node types and relations that graphs of text use: one name for one thing, everywhere."""

from __future__ import annotations

from graphattn.exceptions import GraphError

TOKEN = "token"
"""Node type of the units that attend (words or sub-words; ``[CLS]`` is an ordinary token at position 0)."""
WORD = "word"
"""Node type of a group of tokens."""
RELAY = "relay"
"""Node type of the one node through which all tokens of a text exchange what they know (Star-Transformer)."""
SPAN = "span"
"""Node type of the runs of tokens that halving a text gives (BP-Transformer)."""
SENTENCE = "sentence"
"""Node type of the sentences of a text."""
DOCUMENT = "document"
"""Node type of a text as a whole."""

WINDOW = "window"
GROUP = "group"
DEPENDENCY = "dependency"
MEMBERSHIP = "in"
FORWARD = "forward"
BACKWARD = "backward"
ALL = "all"
ALL_WORDS = "all:word"

CanonicalRelation = tuple[str, str, str]


def window(scale: object) -> str:
    """Name of the window relation of one scale.

    Examples
    --------
    >>> window("N/16")
    'window:N/16'
    """
    return f"{WINDOW}:{scale}"


def find_relation(present: list[CanonicalRelation], etype: str | CanonicalRelation | None) -> CanonicalRelation:
    """The canonical edge type that a user means by a name, by a triple, or by nothing when there is only one.

    Raises
    ------
    GraphError
        naming the relations that are there
    """
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
        raise GraphError(f"the graph has {len(present)} relations ({names}); say which one with etype=")
    if matches:
        raise GraphError(f"relation {etype!r} exists between several node types; give the triple: {matches}")
    raise GraphError(f"the graph has no relation {etype!r}; it has: {names}")
