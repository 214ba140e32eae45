"""Dependency arcs, undirected, with self-loops: between words, or between all tokens of two words."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import Dependency, RelativePositions, Sentence, TextGraphBuilder
from graphattn.builders._layout import warn_of_missing_heads
from graphattn.builders.relations._dependency import UNIVERSAL_RELATIONS
from graphattn.exceptions import DataError, GraphAttnWarning

LABELS = ("obj", "nsubj")
IDS = {"self": 0, "": 1, "?": 1, "obj": 2, "nsubj": 3, "nsubj:pass": 3}


def arcs_of(relation, sentence, *, cls=False):
    """(destination, source, label, direction) of each edge of a text."""
    graph = TextGraphBuilder([relation], cls=cls).text_batch([sentence])
    sources, targets = Edges.of(graph, relation.name).ends_by_id()
    features = graph.edge_features[relation.canonical]
    return torch.stack([targets, sources, features["label"], features["direction"]], 1).tolist()


@pytest.mark.parametrize("on", ["word", "token"])
@settings(max_examples=40)
@given(random=st.randoms(use_true_random=False), size=st.sampled_from([0, 1, 4, 9]), cls=st.booleans())
def test_arcs_equal_the_table(random_sentence, edge_table, on, random, size, cls):
    relation, sentence = Dependency(on, labels=LABELS), random_sentence(random, size)
    table = edge_table(relation.canonical, sentence, cls)
    expected = [[target, source, IDS[name], direction] for target, source, name, direction in table]
    assert arcs_of(relation, sentence, cls=cls) == expected
    ends = {(target, source) for target, source, *_ in expected}
    assert ends == {(source, target) for target, source in ends}


def test_kinds_of_edges_are_labels_with_directions():
    relation = Dependency("token", labels=LABELS)
    sentence = Sentence(["dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    features = TextGraphBuilder([relation], cls=False).text_batch([sentence]).edge_features[relation.canonical]
    kinds = relation.edge_kinds(features)
    assert kinds.tolist() == [2 * 0, 2 * 3, 2 * 3 + 1, 2 * 0]
    assert relation.num_kinds == 2 * 4
    wider = RelativePositions(relation, 2)
    assert (wider.num_kinds, wider.edge_kinds(features).tolist()) == (8, kinds.tolist())


def test_a_small_tree():
    sentence = Sentence(["Dogs", "bark", "loudly"], heads=[2, 0, 2], deprels=["nsubj", "root", "advmod"])
    nsubj, advmod = (Dependency().deprel_id(name) for name in ("nsubj", "advmod"))
    assert arcs_of(Dependency(), sentence) == [
        [0, 0, 0, 0],
        [0, 1, nsubj, 1],  # from the head
        [1, 0, nsubj, 2],  # from the dependent
        [1, 1, 0, 0],
        [1, 2, advmod, 2],
        [2, 1, advmod, 1],
        [2, 2, 0, 0],
    ]


def test_types_of_edge_features():
    graph = TextGraphBuilder([Dependency()]).text_batch([Sentence(["a"], heads=[0])])
    features = graph.edge_features[Dependency().canonical]
    assert {name: values.dtype for name, values in features.items()} == {
        "label": torch.int32, "direction": torch.int8
    }  # fmt: skip


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
        "some texts have no parse, so their words have no dependency arcs. Give parsed sentences (CoNLL-U, or "
        "a store that graphattn build --parser stanza wrote)"
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
