"""Batches and graphs of texts: edges, node features, counts, errors; DGL graphs equal `dgl.batch` of single ones."""

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn import Edges
from graphattn.builders import (
    Complete,
    Dependency,
    Membership,
    Order,
    RandomArcs,
    Sentence,
    TextGraphBuilder,
    Vocabulary,
    Window,
    WordGroup,
)
from graphattn.builders._graph_builder import CLS_ID
from graphattn.builders._vocabulary import SPECIAL_TOKENS
from graphattn.builders.relations._base import RangeRelation
from graphattn.exceptions import ConfigError, DataError, GraphError, UnregisteredError

SCALES = (1, 3, "N/16", "N/8", "N/4", "N")
EVERYTHING = (
    *map(Window, SCALES),
    Window("N/8", as_radius=True),
    WordGroup(),
    Dependency(),
    Dependency("token"),
    Order(),
    Complete(),
)
batches = st.lists(st.integers(0, 7), min_size=1, max_size=4)


def assert_equal_graphs(ours, theirs):
    assert ours.idtype == theirs.idtype == torch.int32
    assert set(ours.ntypes) == set(theirs.ntypes)
    assert set(ours.canonical_etypes) == set(theirs.canonical_etypes)
    assert ours.batch_size == theirs.batch_size
    for kind in ours.ntypes:
        assert ours.num_nodes(kind) == theirs.num_nodes(kind)
        assert ours.batch_num_nodes(kind).tolist() == theirs.batch_num_nodes(kind).tolist()
        assert_equal_features(ours.nodes[kind].data, theirs.nodes[kind].data)
    for relation in ours.canonical_etypes:
        for mine, other in zip(ours.edges(etype=relation), theirs.edges(etype=relation), strict=True):
            assert mine.tolist() == other.tolist()
        assert ours.batch_num_edges(relation).tolist() == theirs.batch_num_edges(relation).tolist()
        assert_equal_features(ours.edges[relation].data, theirs.edges[relation].data)


def assert_equal_features(mine, other):
    assert set(mine) == set(other)
    for name, values in mine.items():
        assert values.dtype == other[name].dtype
        assert torch.equal(values, other[name])


@pytest.mark.slow
@settings(max_examples=30)
@given(random=st.randoms(use_true_random=False), sizes=batches, cls=st.booleans())
def test_a_batch_equals_the_batch_of_single_graphs(dgl, random_sentence, random, sizes, cls):
    sentences = [random_sentence(random, size) for size in sizes]
    builder = TextGraphBuilder(EVERYTHING, cls=cls)
    assert_equal_graphs(builder.batch(sentences), dgl.batch([builder.build(sentence) for sentence in sentences]))


@pytest.mark.parametrize("cls", [False, True])
def test_extra_features_survive_batching(dgl, random_sentence, cls):
    sentences = [random_sentence(Random(seed), size) for seed, size in enumerate((4, 0, 7))]
    builder = TextGraphBuilder([Window(3), Dependency()], cls=cls)
    shapes = [np.arange(3 * len(s), dtype=np.float32).reshape(-1, 3) for s in sentences]
    known = [np.ones(len(s), dtype=bool) for s in sentences]

    def graph(numbers):
        features = {"shape": ([shapes[i] for i in numbers], -1.0), "known": ([known[i] for i in numbers], False)}
        return builder.graph(builder.layout([sentences[i] for i in numbers], features=features))

    together = graph([0, 1, 2])
    assert_equal_graphs(together, dgl.batch([graph([i]) for i in range(3)]))
    data = together.nodes["token"].data
    assert (data["shape"].dtype, data["known"].dtype) == (torch.float32, torch.bool)
    assert data["shape"][data["position"] == 0][0].tolist() == ([-1.0] * 3 if cls else [0.0, 1.0, 2.0])


def test_token_features_without_a_vocabulary():
    texts = [Sentence(["un", "known", "word"], word_ids=[0, 0, 1]), ["a"], []]
    batch = TextGraphBuilder([Window(1)]).text_batch(texts)
    data = batch.node_features["token"]
    assert {name: values.tolist() for name, values in data.items()} == {
        "position": [0, 1, 2, 3, 0, 1, 0],
        "word": [0, 1, 1, 2, 0, 1, 0],
    }
    assert {values.dtype for values in data.values()} == {torch.int32}
    assert list(batch.node_counts) == ["token"]


def test_membership_adds_word_nodes():
    batch = TextGraphBuilder([Membership()]).text_batch([Sentence(["un", "known", "word"], word_ids=[0, 0, 1]), ["a"]])
    assert batch.batch_num_nodes("word").tolist() == [3, 2]


@pytest.mark.parametrize(
    ("relations", "names"),
    [
        ([Dependency(), RandomArcs()], ["dependency", "in", "random-arcs"]),
        ([Membership(), Dependency()], ["in", "dependency"]),
    ],
)
def test_membership_is_added_once(relations, names):
    builder = TextGraphBuilder(relations)
    assert [relation.name for relation in builder.relations] == names
    batch = builder.text_batch([Sentence(["a", "b"], heads=[2, 0])])
    assert Edges.of(batch, "in").num_edges == 3


@pytest.mark.parametrize("cls", [False, True])
def test_a_vocabulary_adds_ids(cls):
    texts = ["the dog barks", "the cat sleeps", "unknown"]
    vocabulary = Vocabulary.train([text.split() for text in texts[:2]])
    builder = TextGraphBuilder([Window(3)], cls=cls, vocabulary=vocabulary)
    assert SPECIAL_TOKENS[CLS_ID] == "[CLS]"
    ids = builder.text_batch(texts).node_features["token"]["id"].tolist()
    encoded = [vocabulary.encode(text).tolist() for text in texts]
    assert ids == [i for each in encoded for i in ([CLS_ID, *each] if cls else each)]
    batch = builder.text_batch([text.split() for text in texts])
    assert batch.node_features["token"]["id"].tolist() == ids


def test_batches_of_one_layout_do_not_share_their_features():
    builder = TextGraphBuilder([Window(1)], cls=False)
    layout = builder.layout([["a", "b"]], features={"x": ([np.array([1, 2])], 0)})
    builder.text_batch(layout).node_features["token"]["x"].zero_()
    assert builder.text_batch(layout).node_features["token"]["x"].tolist() == [1, 2]


def test_sentences_without_tokens_are_kept():
    builder = TextGraphBuilder(EVERYTHING, cls=False)
    batch = builder.text_batch([Sentence([]), Sentence(["a"], heads=[0]), Sentence([])])
    assert batch.batch_num_nodes("token").tolist() == [0, 1, 0]
    assert batch.batch_num_nodes("word").tolist() == [0, 1, 0]
    nothing = builder.text_batch([])
    assert {kind: counts.tolist() for kind, counts in nothing.node_counts.items()} == {"token": [], "word": []}
    assert {edges.num_edges for edges in nothing.edges.values()} == {0}


def test_the_dgl_graph_of_no_texts(dgl):
    nothing = TextGraphBuilder(EVERYTHING, cls=False).batch([])
    assert (nothing.num_nodes(), nothing.num_edges(), nothing.batch_size) == (0, 0, 0)


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ([Window(3), Window("3")], "relation 'window:3' is given twice; each needs a name of its own"),
        ([Order(), Order("forward")], "relation 'forward' is given twice; each needs a name of its own"),
        (
            [Dependency(), Dependency("token", labels=["subject"])],
            "relation 'dependency' is given with different labels; words and tokens share them",
        ),
    ],
)
def test_invalid_sets_of_relations_are_rejected(relations, message):
    with pytest.raises(ConfigError) as caught:
        TextGraphBuilder(relations)
    assert str(caught.value) == message


def test_relations_by_name():
    relations = ["window:3", Window(5), "forward|global:2", "binary"]
    names = [relation.name for relation in TextGraphBuilder(relations).relations]
    assert names[:3] == ["window:3", "window:5", "forward|global:2"]
    assert [relation.name for relation in TextGraphBuilder(iter(relations)).relations] == names
    with pytest.raises(UnregisteredError, match="window"):
        TextGraphBuilder(["windw:3"])


@pytest.mark.parametrize(
    "relations", [Window(3), Window, [Window], None, 3, [3], [None], [["window:3"]], [{"window:3": 1}], [lambda: 0]]
)
def test_other_values_than_relations_are_rejected(relations):
    with pytest.raises(ConfigError, match=r"Window\(|relation"):
        TextGraphBuilder(relations)


@pytest.mark.parametrize("method", ["layout", "text_batch", "batch"])
@pytest.mark.parametrize("vocabulary", [None, Vocabulary.train(["a b c"])], ids=["words", "vocabulary"])
@pytest.mark.parametrize("sources", ["a b c", Sentence(["a"]), None, 3, [None], [3]])
def test_texts_are_a_list(method, vocabulary, sources):
    builder = TextGraphBuilder([Window(3)], vocabulary=vocabulary)
    with pytest.raises(DataError):
        getattr(builder, method)(sources)


@pytest.mark.parametrize("need", ["needs_heads", "takes_heads", "needs_sentences", "needs_links"])
def test_one_attribute_is_enough(need):
    """A relation reads what it asks for, without a second attribute."""

    class Reader(RangeRelation):
        name = "reader"

        def bounds(self, layout):
            read.append(layout)
            return np.arange(layout.num_tokens), np.arange(layout.num_tokens) + 1

    setattr(Reader, need, True)
    read = []
    sentence = Sentence(["a", "b"], heads=[2, 0], deprels=["nsubj", "root"], links=[(0, 1)])
    for relation in (Reader(), Reader().reverse(), Reader() | Window(3)):
        TextGraphBuilder([relation]).text_batch([sentence])
        layout = read[-1]
        if need.endswith("heads"):
            assert layout.heads.tolist() == [-1, 2, -1]  # with [CLS]
        elif need == "needs_sentences":
            assert len(layout.sentence_counts) == 1
        else:
            assert layout.links is not None


def test_a_batch_needs_no_relation():
    builder = TextGraphBuilder([])
    batch = builder.text_batch([["dogs", "bark"], ["go"]])
    assert batch.batch_num_nodes().tolist() == [3, 2]
    assert builder.num_edges(builder.layout([["dogs", "bark"], ["go"]])).tolist() == [0, 0]


def test_a_dgl_graph_needs_a_relation():
    with pytest.raises(ConfigError):
        TextGraphBuilder([]).build(["dogs", "bark"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "Dogs bark.",
            "'Dogs bark.' is a raw text. Give TextGraphBuilder(vocabulary=...) to tokenize it, or give a list of"
            " words.",
        ),
        (
            Sentence(list("abcdefg")),
            "field 'heads': sentence 0 ('a b c d e' ...) has no heads, but the relation 'dependency' needs them. Give"
            " parsed sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza wrote), or"
            " leave the relation out.",
        ),
    ],
)
def test_invalid_sources_are_rejected(source, message):
    with pytest.raises(DataError) as caught:
        TextGraphBuilder([Dependency()]).text_batch([source])
    assert str(caught.value) == message


def test_too_many_edges_are_rejected_before_they_are_built():
    builder = TextGraphBuilder([Window(1), Complete()])
    layout = builder.layout([["word"] * 60_000, ["word"]])
    assert builder.num_edges(layout).tolist() == [60_001 + 60_001**2, 2 + 2**2]
    with pytest.raises(GraphError) as caught:
        builder.text_batch(layout)
    assert str(caught.value) == (
        "relation 'all' has 3,600,120,005 edges; one graph holds up to 2,147,483,647. Use smaller batches or narrower "
        "relations. Of 2 texts the longest has 60,001 tokens"
    )


@pytest.mark.parametrize("source", [None, float("nan"), 3, ["a", None], {"a": 1}], ids=repr)
def test_sources_that_are_no_list_of_words(source):
    with pytest.raises(DataError) as caught:
        TextGraphBuilder([Window(1)]).text_batch([["a"], source])
    assert caught.value.field == "tokens"


def test_one_text_with_too_many_edges_is_not_told_to_be_a_smaller_batch():
    with pytest.raises(GraphError) as caught:
        TextGraphBuilder([Window(1), Complete()]).text_batch([["word"] * 60_000])
    message = str(caught.value)
    assert "The text has 60,001 tokens. Truncate it, cut it into shorter texts" in message
    assert "batches" not in message


def test_repr():
    builder = TextGraphBuilder([Window("N/16"), Dependency()], cls=False)
    assert repr(builder) == "TextGraphBuilder([Window('N/16'), Dependency(on='word'), Membership()], cls=False)"


class Backwards(RangeRelation):
    name = "backwards"

    def bounds(self, layout):
        here = np.arange(layout.num_tokens)
        return here + 1, here


def test_vectors_that_no_relation_needs_are_dropped():
    assert TextGraphBuilder([Window(3)], vectors=np.eye(4)).layout([["a"]]).vectors is None


def test_ids_of_the_vocabulary_override_features():
    builder = TextGraphBuilder([Window(1)], cls=False, vocabulary=Vocabulary.train([["a", "b"]]))
    layout = builder.layout([["b", "a"]], features={"id": ([np.array([7, 8])], 9)})
    assert layout.features["id"].tolist() == [4, 3]


def test_custom_relations_are_validated_without_a_batch():
    builder = TextGraphBuilder([Window(3), Backwards()], cls=False)
    layout = builder.layout([["a", "b"]])
    with pytest.raises(GraphError, match="relation 'backwards': a range stops before it begins"):
        builder.vet(layout)
