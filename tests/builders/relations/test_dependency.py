"""Dependency arcs, undirected, with self-loops: between words, or between all tokens of two words."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Dependency, Sentence, TextGraphBuilder
from graphattn.builders._layout import Layout, warn_of_missing_heads
from graphattn.builders.relations._dependency import UNIVERSAL_RELATIONS
from graphattn.exceptions import DataError, GraphAttnWarning, GraphError

LABELS = ("obj", "nsubj")
IDS = {"self": 0, "": 1, "?": 1, "obj": 2, "nsubj": 3, "nsubj:pass": 3}


@pytest.mark.parametrize("on", ["word", "token"])
@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), cls=st.booleans())
def test_arcs_equal_the_table(assert_agrees, sentences_of_many_lengths, on, random, cls):
    expected, arrays = assert_agrees(Dependency(on, labels=LABELS), sentences_of_many_lengths(random), cls)
    assert arrays.data["label"].tolist() == [IDS[name] for _, _, name, _ in expected]
    assert arrays.data["direction"].tolist() == [direction for *_, direction in expected]
    assert {name: values.dtype for name, values in arrays.data.items()} == {"label": np.int32, "direction": np.int8}


def test_a_small_tree(assert_agrees):
    sentence = Sentence(["Dogs", "bark", "loudly"], heads=[2, 0, 2], deprels=["nsubj", "root", "advmod"])
    relation = Dependency()
    _, arrays = assert_agrees(relation, [sentence], cls=False)
    assert arrays.indptr.tolist() == [0, 2, 5, 7]
    assert arrays.indices.tolist() == [0, 1, 0, 1, 2, 1, 2]
    nsubj, advmod = relation.deprel_id("nsubj"), relation.deprel_id("advmod")
    assert arrays.data["label"].tolist() == [0, nsubj, nsubj, 0, advmod, advmod, 0]
    assert arrays.data["direction"].tolist() == [0, 1, 2, 0, 2, 1, 0]  # 1: from the head, 2: from the dependent


def test_cls_has_a_self_loop_between_tokens(assert_agrees):
    sentence = Sentence(["un", "known", "word"], word_ids=[0, 0, 1], heads=[2, 0])
    edges, _ = assert_agrees(Dependency("token"), [sentence], cls=True)
    assert [edge[:2] for edge in edges if edge[0] == 0] == [(0, 0)]
    assert [source for target, source, *_ in edges if target == 3] == [1, 2, 3]


def test_arcs_are_symmetric_and_unique(random_sentence):
    layout = Layout.of([random_sentence(Random(seed), 30) for seed in range(5)], with_cls=True, deprel_id=len)
    for on in ("word", "token"):
        arrays = Dependency(on).edges(layout)
        targets = np.repeat(np.arange(len(arrays.indptr) - 1), np.diff(arrays.indptr))
        pairs = set(zip(targets.tolist(), arrays.indices.tolist(), strict=True))
        assert len(pairs) == len(targets)
        assert pairs == {(source, target) for target, source in pairs}


def test_universal_dependencies_has_37_relations():
    assert len(UNIVERSAL_RELATIONS) == len(set(UNIVERSAL_RELATIONS)) == 37
    ids = [Dependency().deprel_id(name) for name in UNIVERSAL_RELATIONS]
    assert ids == list(range(2, 39))


@pytest.mark.parametrize(
    ("name", "label"), [("obj", 2), ("obj:agent", 2), ("nsubj", 3), ("nsubj:pass", 4), ("x", 1), ("", 1), (":", 1)]
)
def test_sub_types_map_to_their_relation_unless_listed(name, label):
    assert Dependency(labels=("obj", "nsubj", "nsubj:pass")).deprel_id(name) == label


def test_membership_is_added_between_words():
    assert [part.canonical for part in Dependency().parts()] == [
        ("word", "dependency", "word"),
        ("token", "in", "word"),
    ]
    assert [part.canonical for part in Dependency("token").parts()] == [("token", "dependency", "token")]
    assert repr(Dependency("token")) == "Dependency(on='token')"


def test_too_many_edges_are_rejected_before_they_are_built():
    sizes = np.array([50_000])  # one word of 50,000 tokens: 2.5e9 edges, 20 GB of indices
    layout = Layout(sizes, np.array([1]), np.zeros(50_000, np.int64), np.array([-1]), np.array([0]))
    with pytest.raises(GraphError) as caught:
        Dependency("token").edges(layout)
    assert str(caught.value) == (
        "relation 'dependency' has 2,500,000,000 edges; one graph holds up to 2,147,483,647. "
        "Use smaller batches or narrower relations"
    )


def test_a_text_without_a_parse_has_self_loops_and_one_warning(recwarn):
    warn_of_missing_heads.cache_clear()
    parsed = Sentence(["un", "known", "word"], word_ids=[0, 0, 1], heads=[2, 0])
    builder = TextGraphBuilder([Dependency(required=False)])
    graph = builder.text_batch([Sentence(["a", "b"]), parsed, Sentence([]), Sentence(["c"])])
    arcs = list(zip(*(ends.tolist() for ends in Edges.of(graph, "dependency").ends_by_id()), strict=True))
    assert sorted(set(arcs) - {(word, word) for word in range(9)}) == [(4, 5), (5, 4)]
    assert len(arcs) == 9 + 2
    assert Edges.of(builder.text_batch([["d"]]), "dependency").num_edges == 2
    (warning,) = recwarn.list
    assert warning.category is GraphAttnWarning
    assert str(warning.message) == (
        "some texts have no parse, so their words have no dependency arcs. Give parsed sentences (CoNLL-U, a "
        "store built with a parser), or a parser (--parser stanza)"
    )


def test_texts_with_a_parse_and_empty_ones_give_no_warning(recwarn):
    warn_of_missing_heads.cache_clear()
    TextGraphBuilder([Dependency(required=False)]).text_batch([Sentence(["a"], heads=[0]), Sentence([])])
    assert not recwarn.list


def test_one_relation_that_requires_parses_suffices():
    builder = TextGraphBuilder([Dependency(required=False), Dependency("token")])
    with pytest.raises(DataError, match="has no heads, but the relation 'dependency' needs them"):
        builder.text_batch([["a"]])


def test_labels_of_any_scheme_come_from_the_training_sentences():
    sentences = [Sentence(["a", "b"], heads=[0, 1], deprels=["root", "pobj"]), Sentence(["a"])]
    relation = Dependency.of(sentences, "token", required=False)
    assert (relation.labels, relation.target, relation.needs_heads) == (("pobj", "root"), "token", False)
    assert [relation.deprel_id(name) for name in ("pobj", "root", "obj")] == [2, 3, 1]
