"""Custom relations, counting of edges, and the bounds of parameters."""

import numpy as np
import pytest

from graphattn import attend
from graphattn._edges import Edges
from graphattn._ragged import Ragged
from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    Dilated,
    Global,
    Links,
    Nearest,
    Order,
    Random,
    RandomArcs,
    RandomPairs,
    RelativePositions,
    Sentence,
    ShuffledGroup,
    TextGraphBuilder,
    Window,
)
from graphattn.builders._batch import RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations import RangeRelation, Relation
from graphattn.builders.relations import _base as base
from graphattn.exceptions import ConfigError, EdgeCountError


class Repeated(Relation):
    """From earlier tokens with the same first letter: irregular, with an edge feature."""

    name = "repeated"

    def edges(self, layout):
        letters = layout.features["letter"]
        pairs = [
            (target, source)
            for target in range(layout.num_tokens)
            for source in range(layout.token_starts[layout.sentence_of_token[target]], target)
            if letters[source] == letters[target]
        ]
        targets, sources = np.array(pairs, np.int64).reshape(-1, 2).T
        indptr = np.searchsorted(targets, np.arange(layout.num_tokens + 1))
        return RelationArrays(indptr, sources, {"distance": targets - sources})


class Previous(RangeRelation):
    """Every token attends to the previous one."""

    name = "previous"

    def bounds(self, layout):
        here = np.arange(layout.num_tokens)
        return np.maximum(here - 1, layout.bounds_of_token[0]), here


def letters(*texts):
    return {"letter": ([np.array([ord(word[0]) for word in text.split()], np.int32) for text in texts], 0)}


def test_custom_relation():
    texts = ["big bad bear", "a", "can a cat count"]
    builder = TextGraphBuilder([Repeated(), Window(3)])
    layout = builder.layout([Sentence(text.split()) for text in texts], features=letters(*texts))
    graph = builder.text_batch(layout)
    sources, targets = Edges.of(graph, "repeated").ends_by_id()
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == [
        (1, 2),
        (1, 3),
        (2, 3),
        (7, 9),
        (7, 10),
        (9, 10),
    ]
    relation = "token", "repeated", "token"
    assert graph.edge_features[relation]["distance"].tolist() == [1, 2, 1, 2, 3, 1]
    assert graph.batch_num_edges(relation).tolist() == [3, 0, 3]
    assert Repeated().num_edges(layout).tolist() == [3, 0, 3]
    assert repr(Repeated()) == "Repeated()"


def test_custom_range_relation():
    graph = TextGraphBuilder([Previous()], cls=False).text_batch([["a", "b", "c"], [], ["d", "e"]])
    sources, targets = Edges.of(graph, "previous").ends_by_id()
    assert (sources.tolist(), targets.tolist()) == ([0, 1, 3], [1, 2, 4])
    assert graph.batch_num_edges(("token", "previous", "token")).tolist() == [2, 0, 1]
    values = graph.node_features["token"]["position"].double().view(-1, 1, 1)
    assert attend(graph, values, values, values, etype="previous").flatten().tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("limit", [1, 10, 40, 1 << 40])
def test_edges_are_counted_for_a_few_texts_at_a_time(monkeypatch, limit):
    texts = ["big bad bear", "a", "", "can a cat count", "an apple"]
    layout = TextGraphBuilder([Repeated()]).layout([Sentence(text.split()) for text in texts], features=letters(*texts))
    whole = [3, 0, 0, 3, 1]
    monkeypatch.setattr(base, "COUNT_CHUNK", limit)
    parts = []

    class Recorded(Repeated):
        def edges(self, layout):
            parts.append(layout)
            return super().edges(layout)

    assert Recorded().num_edges(layout).tolist() == whole
    assert sum(map(len, parts)) == len(texts)
    assert (len(parts) == 1) == (limit > 1000)
    counts = [(part.lengths**2).sum() for part in parts]
    assert all(count < 2 * limit or len(part) == 1 for count, part in zip(counts, parts, strict=True))


@pytest.mark.parametrize(
    ("relation", "words", "edges"),
    [
        (Complete(), 50_000, "2,500,000,000"),
        (RandomPairs(), 50_000, "2,500,000,000"),
        (Random(50_000), 50_000, "2,500,000,000"),
        (Nearest(50_000, "place"), 50_000, "2,499,950,000"),
        (Dilated("N", 1), 60_000, "2,700,030,000"),
        (BinaryPartition(20_000).parts()[1], 100_000, "2,799,940,000"),
        (Dependency("token"), 1, "2,500,000,000"),
        (Links(), 1, "2,500,000,000"),
    ],
)
def test_too_many_edges_are_rejected_before_they_are_built(relation, words, edges):
    """A word alone has 50,000 tokens."""
    tokens = max(words, 50_000)
    layout = Layout(
        np.array([tokens]),
        np.array([words]),
        np.minimum(np.arange(tokens), words - 1),
        heads=np.full(words, -1),
        deprels=np.zeros(words, np.int64),
        links=Ragged(np.array([[0, 0]]), np.array([0, 1])),
        features={"place": np.ones((tokens, 1))},
    )
    with pytest.raises(EdgeCountError) as caught:
        relation.edges(layout)
    assert str(caught.value) == (
        f"relation {relation.name!r} has {edges} edges; one graph holds up to 2,147,483,647. "
        "Use smaller batches or narrower relations"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Global(0), "count is 0; it must be at least 1"),
        (lambda: Random(0), "count is 0; it must be at least 1"),
        (lambda: BinaryPartition(0), "count is 0; it must be at least 1"),
        (lambda: Nearest(0), "count is 0; it must be at least 1"),
        (lambda: Dilated(5, 0), "dilation is 0; it must be at least 1"),
        (lambda: RelativePositions(Window(3), 0), "clip is 0; it must be at least 1"),
        (lambda: Random(3, -1), "seed is -1; it must be at least 0"),
        (lambda: RandomPairs(-1), "seed is -1; it must be at least 0"),
        (lambda: RandomArcs(-1), "seed is -1; it must be at least 0"),
        (lambda: ShuffledGroup(-1), "seed is -1; it must be at least 0"),
        (lambda: Order("sideways"), "direction is 'sideways'; choose 'forward' or 'backward' or 'both'"),
        (lambda: Complete("sentence"), "on is 'sentence'; choose 'token' or 'word'"),
        (lambda: Links("sentence"), "on is 'sentence'; choose 'token' or 'word'"),
        (lambda: Dependency("sentence"), "on is 'sentence'; choose 'word' or 'token'"),
    ],
)
def test_parameters_out_of_bounds(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message
