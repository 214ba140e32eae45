"""Names of node types and relations, and how a relation is found by name."""

import pytest

from graphattn import _schema as schema
from graphattn.exceptions import GraphError

WINDOW = ("token", "window:3", "token")
WORDS = ("word", "dependency", "word")
TOKENS = ("token", "dependency", "token")


@pytest.mark.parametrize(
    ("present", "etype", "found"),
    [
        ([WINDOW, WORDS], "window:3", WINDOW),
        ([WINDOW, WORDS], WORDS, WORDS),
        ([WINDOW], None, WINDOW),
        ([WORDS, TOKENS], TOKENS, TOKENS),
    ],
)
def test_find_relation(present, etype, found):
    assert schema.find_relation(present, etype) == found


@pytest.mark.parametrize(
    ("present", "etype", "message"),
    [
        ([WINDOW, WORDS], "window:5", "the graph has no relation 'window:5'; it has: dependency, window:3"),
        ([WINDOW], WORDS, "the graph has no relation ('word', 'dependency', 'word'); it has: window:3"),
        ([WINDOW, WORDS], None, "the graph has 2 relations (dependency, window:3); give etype=, or heads by relation"),
        ([], None, "the graph has 0 relations (none); give etype=, or heads by relation"),
        ([], "in", "the graph has no relation 'in'; it has: none"),
        (
            [WORDS, TOKENS],
            "dependency",
            "relation 'dependency' exists between several node types; give the triple: "
            "[('word', 'dependency', 'word'), ('token', 'dependency', 'token')]",
        ),
    ],
)
def test_missing_or_ambiguous_relations(present, etype, message):
    with pytest.raises(GraphError) as caught:
        schema.find_relation(present, etype)
    assert str(caught.value) == message
