"""The k nearest by cosine, against a sort of all cosines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Nearest, Sentence, TextGraphBuilder, Vocabulary, Window
from graphattn.builders.relations import _nearest as nearest
from graphattn.exceptions import ConfigError, DataError


def by_sorting(vectors, count):
    """For each row the others with the largest cosine in float64; ties go to the first."""
    vectors = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(lengths > 0, lengths, 1)[:, None]
    cosines = np.round(unit @ unit.T, 6)
    rows = []
    for row, similarities in enumerate(cosines):
        order = sorted(
            (other for other in range(len(similarities)) if other != row),
            key=lambda other: (-similarities[other], other),
        )
        rows.append(sorted(order[:count]))
    return rows


def rows_of(relation, arrays, *, cls=False):
    builder = TextGraphBuilder([relation], cls=cls)
    width = arrays[0].shape[1]
    texts = [Sentence(["x"] * len(array)) for array in arrays]
    layout = builder.layout(texts, features={"place": (arrays, np.zeros(width))})
    edges = relation.edges(layout)
    rows = np.split(edges.indices, edges.indptr[1:-1])[: layout.num_tokens]
    return [(row - start).tolist() for row, start in zip(rows, layout.bounds_of_token[0], strict=True)]


@pytest.mark.parametrize("block", [nearest.BLOCK, 64, 5])
@settings(max_examples=40)
@given(count=st.integers(1, 5), lengths=st.lists(st.integers(0, 12), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_nearest_tokens_equal_a_full_sort(block, count, lengths, seed):
    random = np.random.default_rng(seed)
    arrays = [random.integers(-2, 3, (length, 4)).astype(float) for length in lengths]  # small numbers: many ties
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "BLOCK", block)
        rows = rows_of(Nearest(count, "place"), arrays)
    assert rows == [row for array in arrays for row in by_sorting(array, count)]


def test_ties_of_repeated_words_do_not_depend_on_the_batch():
    random = np.random.default_rng(0)
    table = random.normal(size=(30, 50)).astype(np.float32)
    texts = [" ".join(f"w{word}" for word in random.integers(0, 27, 17)) for _ in range(9)]
    vocabulary = Vocabulary.train([f"w{word}" for word in range(27)])
    builder = TextGraphBuilder([Nearest(4, table)], vocabulary=vocabulary)
    for text, graph in zip(texts, [builder.text_batch([text]) for text in texts], strict=True):
        ids = graph.node_features["token"]["id"].numpy()
        sources = Edges.of(graph).sources.view(-1, 4).tolist()
        assert sources == by_sorting(table[ids], 4), text
    starts = np.arange(9) * 18
    batch = Edges.of(builder.text_batch(texts)).sources.view(9, -1).numpy() - starts[:, None]
    assert batch.tolist() == [Edges.of(builder.text_batch([text])).sources.tolist() for text in texts]


@pytest.mark.parametrize(
    ("builder", "text", "message"),
    [
        (TextGraphBuilder([Nearest(2, np.eye(9))]), ["a"], "relation 'nearest:2' needs the token feature 'id'"),
        (
            TextGraphBuilder([Nearest(2, np.eye(3))], vocabulary=Vocabulary.train(["a"])),
            "a",
            "id 3 has no vector among the 3 of relation 'nearest:2'",
        ),
    ],
)
def test_missing_vectors(builder, text, message):
    with pytest.raises(DataError) as caught:
        builder.text_batch([text])
    assert caught.value.message == message


def test_vectors_of_the_builder():
    vocabulary = Vocabulary.train(["a b c d"])
    table = np.random.default_rng(1).normal(size=(len(vocabulary), 5))
    ours = TextGraphBuilder([Nearest(2) | Window(1)], vocabulary=vocabulary, vectors=table).text_batch(["a b c d"])
    theirs = TextGraphBuilder([Nearest(2, table) | Window(1)], vocabulary=vocabulary).text_batch(["a b c d"])
    ours, theirs = Edges.of(ours), Edges.of(theirs)
    assert (ours.sources.tolist(), ours.destinations.tolist()) == (
        theirs.sources.tolist(),
        theirs.destinations.tolist(),
    )
    with pytest.raises(ConfigError) as caught:
        TextGraphBuilder([Window(1) | Nearest(2)], vocabulary=vocabulary)
    assert caught.value.options == ("vectors", "tune_vectors")
