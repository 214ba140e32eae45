"""Every relation has a name, and parsing the name returns the relation."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import (
    Complete,
    Dependency,
    Dilated,
    Global,
    Links,
    Nearest,
    Order,
    Random,
    RandomPairs,
    RangeRelation,
    RelativePositions,
    ShuffledGroup,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.builders.relations import parse_relation, parse_relations, register_relation
from graphattn.builders.relations._names import RELATION_NAMES
from graphattn.exceptions import ConfigError, UnregisteredError

BETWEEN_TOKENS = (
    Window(3),
    Window("N/16"),
    Window(3, as_radius=True),
    Dilated("N/4", 2),
    Global(2),
    Random(3),
    Random(3, 7),
    RandomPairs(7),
    Nearest(4),
    WordGroup(),
    ShuffledGroup(),
    Order("forward"),
    Order("backward"),
    Complete(),
    Links(),
)


class Every(RangeRelation):
    """Tokens at multiples of ``step`` attend to themselves."""

    def __init__(self, step, first=0):
        self.step, self.first = int(step), int(first)
        self.name = f"every:{step}" + f":{first}" * bool(first)

    def bounds(self, layout):
        tokens = np.arange(layout.num_tokens)
        return tokens, tokens + (layout.positions % self.step == self.first)


@pytest.fixture(autouse=True)
def built_in_names():
    """Isolate the registry from other tests."""
    with patch.dict(RELATION_NAMES):
        yield


composed = st.recursive(
    st.sampled_from(BETWEEN_TOKENS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        inner.map(lambda one: one.reverse()),
        inner.map(lambda one: one.within_words()),
        st.tuples(inner, st.integers(1, 9)).map(lambda pair: RelativePositions(*pair)),
    ),
    max_leaves=5,
)


@given(relation=composed)
def test_compositions_are_read_back(relation):
    assert repr(parse_relation(relation.spec)) == repr(relation)


@pytest.mark.parametrize(
    ("relation", "spec"),
    [
        (Dependency("token").reverse(), "reverse(dependency:token)"),
        (Window(3) | Dependency("token") & Window(5), "window:3|dependency:token&window:5"),
        ((Links("word") | Complete("word")) & Links("word"), "(links:word|all:word)&links:word"),
        (RelativePositions(Dependency("token"), 2), "relative:2(dependency:token)"),
    ],
)
def test_specs_contain_the_node_type(relation, spec):
    assert relation.spec == spec
    again = parse_relation(spec)
    assert (repr(again), again.canonical) == (repr(relation), relation.canonical)


def test_heads_are_required_by_default():
    assert parse_relation("dependency").needs_heads
    assert not parse_relation("dependency", required=False).needs_heads
    assert not parse_relation("reverse(dependency:token)|window:3", required=False).needs_heads


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" window:3|window:5 & group ", "window:3|window:5&group"),
        ("(window:3 | window:5) & group", "(window:3|window:5)&group"),
        ("((window:3))", "window:3"),
        ("within-words(window:9)", "window:9&group"),
        ("relative:4(reverse(global))", "relative:4(reverse(global:1))"),
        ("binary", "binary:1"),
        ("window:n/8", "window:N/8"),
    ],
)
def test_notation(text, expected):
    assert parse_relation(text).name == expected


def test_a_list_of_relations_may_have_numbers_of_heads():
    names = ["window:3", "window:9|global:1", "star"]
    assert [relation.name for relation in parse_relations("window:3,window:9|global,star")] == names
    assert [relation.name for relation in parse_relations(" window:3 = 4,window:9|global=2, star")] == names


def test_nodes_of_plain_dependency():
    assert parse_relation("dependency").target == "word"
    assert parse_relation("dependency", on="token").target == "token"
    assert parse_relation("dependency:word", on="token").target == "word"


def test_usages_begin_with_the_name():
    assert {entry.usage.split(":")[0].split("[")[0] for entry in RELATION_NAMES.values()} == set(RELATION_NAMES)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("windows:3", "did you mean 'window'? "), ("dependncy", "did you mean 'dependency'? "), ("not", ""), ("3", "")],
)
def test_unknown_names(name, hint):
    with pytest.raises(ConfigError) as caught:
        parse_relation(name)
    assert str(caught.value) == (
        f"there is no relation {name!r}; {hint}choose from: window:SCALE, radius:SCALE, dilated:SCALE:GAP, "
        "global[:COUNT], random:COUNT[:SEED], group, shuffled-group[:SEED], random-pairs[:SEED], random-arcs[:SEED], "
        "dependency[:token|:word], in, forward, backward, all[:token|:word], causal[:WIDTH], star, binary[:COUNT], "
        "sentence, document, nearest:COUNT, "
        "links[:token|:word]; or add your own with register_relation (on the command line with --import)"
    )
    assert isinstance(caught.value, UnregisteredError)
    assert caught.value.name == name


def test_many_brackets():
    assert parse_relation("(" * 100 + "all" + ")" * 100).name == "all"
    assert parse_relation("|".join(["(group)"] * 200)).name == "|".join(["group"] * 200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window", "relation 'window' is written as window:SCALE"),
        ("window:", "relation 'window:' is written as window:SCALE"),
        ("dependency:words", "relation 'dependency:words' is written as dependency[:token|:word]"),
        ("group:2", "relation 'group:2' is written as group"),
        ("random:three", "relation 'random:three' is written as random:COUNT[:SEED]"),
        ("random:2:", "relation 'random:2:' is written as random:COUNT[:SEED]"),
        ("", "relation '': a name is missing"),
        ("window:3|", "relation 'window:3|': a name is missing"),
        ("window:3&&group", "relation 'window:3&&group': a name is missing"),
        ("(window:3", "relation '(window:3': a bracket is not closed"),
        ("window:3)", "relation 'window:3)': unexpected ')'"),
        ("not(window:3)", "relation 'not(window:3)': unknown function 'not'; choose reverse(...), within-words(...)"),
        ("(" * 5000 + "all" + ")" * 5000, f"relation {'(' * 40!r}... has more than 100 nested brackets"),
        ("window:4", "relation 'window:4': scale 4 is even"),
        ("random:0", "relation 'random:0': count is 0; it must be at least 1"),
        ("relative:0(window:3)", "relation 'relative:0(window:3)': clip is 0; it must be at least 1"),
        ("star|window:3", "relation 'star' has several kinds of edges"),
    ],
)
def test_invalid_texts(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_relation(text)
    assert str(caught.value).startswith(message)


def test_registered_relations():
    register_relation("every:STEP[:FIRST]", Every)
    relation = parse_relation("reverse(every:3) | every:2:1 & window:3")
    assert relation.name == "reverse(every:3)|every:2:1&window:3"
    relation = parse_relation("every:2:1")
    assert (type(relation), relation.step, relation.first) == (Every, 2, 1)
    graph = TextGraphBuilder([relation], cls=False).text_batch([["a", "b", "c", "d"]])
    assert [ends.tolist() for ends in Edges.of(graph, "every:2:1").ends_by_id()] == [[1, 3], [1, 3]]
    assert RELATION_NAMES["every"].usage == "every:STEP[:FIRST]"
    for written in ("every", "every:", "every:1:2:3", "every:3:"):
        with pytest.raises(ConfigError, match=r"is written as every:STEP\[:FIRST\]$"):
            parse_relation(written)
    with pytest.raises(UnregisteredError, match=r"links\[:token\|:word\], every:STEP\[:FIRST\]; or add your own"):
        parse_relation("each:2")


def test_a_relation_can_be_registered_again():
    register_relation("every:STEP", lambda step: Every(step))
    register_relation("every[:STEP]", lambda step="5": Every(step))
    assert parse_relation("every").name == "every:5"


@pytest.mark.parametrize(
    ("usages", "message"),
    [
        (
            ["", "Every", "every:step", "every[:A]:B", "every:", "every|other", "every :STEP", "my_own"],
            "cannot register",
        ),
        (["window:STEP", "all", "reverse", "within-words", "relative:STEP"], r"relation '[a-z-]+' is built in"),
    ],
)
def test_invalid_usages(usages, message):
    for usage in usages:
        with pytest.raises(ConfigError, match=message):
            register_relation(usage, Every)


def test_names_registered_by_another_function():
    register_relation("every:STEP", Every)
    with pytest.raises(ConfigError) as caught:
        register_relation("every:STEP", RangeRelation)
    assert str(caught.value) == (
        f"relation 'every' is registered by {__name__}.Every; register "
        "graphattn.builders.relations._base.RangeRelation under another name"
    )


@pytest.mark.parametrize(
    ("usage", "make", "text", "message"),
    [
        ("each:STEP", Every, "each:3", f"{__name__}.Every, registered as each:STEP, made a relation named 'every:3'"),
        ("none", lambda: None, "none", "fails with AttributeError"),
        ("every:STEP", Every, "every:three", f"{__name__}.Every fails with ValueError: invalid literal"),
        ("wide:SCALE", lambda scale: Window(scale), "wide:4", "relation 'wide:4': scale 4 is even"),
    ],
)
def test_registered_functions_that_fail(usage, make, text, message):
    register_relation(usage, make)
    with pytest.raises(ConfigError) as caught:
        parse_relation(text)
    assert str(caught.value).startswith(f"relation {text!r}: ")
    assert message in str(caught.value)
