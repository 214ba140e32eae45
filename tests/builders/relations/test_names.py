"""Every relation has a name, and every name is read as its relation."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    Dilated,
    DocumentTree,
    Global,
    Links,
    Membership,
    Nearest,
    Order,
    Random,
    RandomArcs,
    RandomPairs,
    RangeRelation,
    RelativePositions,
    SentenceNodes,
    ShuffledGroup,
    Star,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.builders.relations import RELATION_NAMES, names, parse_relation, register_relation
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
OTHERS = (
    Dependency(),
    RandomArcs(3),
    Membership(),
    Complete("word"),
    Star(),
    BinaryPartition(2),
    SentenceNodes(),
    DocumentTree(),
)


class Every(RangeRelation):
    """Tokens whose place is a multiple of something see themselves."""

    def __init__(self, step, first=0):
        self.step, self.first = int(step), int(first)
        self.name = f"every:{step}" + f":{first}" * bool(first)

    def bounds(self, layout):
        tokens = np.arange(layout.num_tokens)
        return tokens, tokens + (layout.positions % self.step == self.first)


@pytest.fixture(autouse=True)
def only_the_package():
    """Neither do examples elsewhere add to the names here, nor these tests to others."""
    with patch.dict(names._REGISTERED, names._OF_THE_PACKAGE, clear=True):
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


@given(relation=st.one_of(composed, st.sampled_from(OTHERS)))
def test_the_name_of_a_relation_is_read_as_the_relation(relation):
    assert repr(parse_relation(relation.spec)) == repr(relation)


@pytest.mark.parametrize(
    ("relation", "spec"),
    [
        (Dependency("token"), "dependency:token"),
        (Links("word"), "links:word"),
        (Dependency("token").reverse(), "reverse(dependency:token)"),
        (Window(3) | Dependency("token") & Window(5), "window:3|dependency:token&window:5"),
        ((Links("word") | Complete("word")) & Links("word"), "(links:word|all:word)&links:word"),
        (RelativePositions(Dependency("token"), 2), "relative:2(dependency:token)"),
    ],
)
def test_a_spelling_says_which_nodes_are_joined(relation, spec):
    assert relation.spec == spec
    again = parse_relation(spec)
    assert (repr(again), again.canonical) == (repr(relation), relation.canonical)


def test_heads_may_be_left_open():
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
def test_how_names_are_written(text, expected):
    assert parse_relation(text).name == expected


def test_nodes_that_dependency_and_links_join():
    assert parse_relation("dependency").target == "word"
    assert parse_relation("dependency", on="token").target == "token"
    assert parse_relation("dependency:word", on="token").target == "word"
    assert [parse_relation(name).target for name in ("links", "links:word")] == ["token", "word"]


def test_every_usage_is_a_name():
    assert {entry.usage.split(":")[0].split("[")[0] for entry in RELATION_NAMES.values()} == set(RELATION_NAMES)


@pytest.mark.parametrize("name", ["windows:3", "windows", "not", "3"])
def test_names_that_are_none(name):
    with pytest.raises(ConfigError) as caught:
        parse_relation(name)
    assert str(caught.value) == (
        f"there is no relation {name!r}; choose from: window:SCALE, radius:SCALE, dilated:SCALE:GAP, global[:COUNT], "
        "random:COUNT[:SEED], group, shuffled-group[:SEED], random-pairs[:SEED], random-arcs[:SEED], "
        "dependency[:token|:word], in, forward, backward, all[:token|:word], star, binary[:COUNT], sentence, document, "
        "nearest:COUNT, links[:token|:word]; or register_relation one of your own (on the command line with --import)"
    )
    assert isinstance(caught.value, UnregisteredError)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("window", "window:SCALE"),
        ("window:", "window:SCALE"),
        ("dependency:words", "dependency[:token|:word]"),
        ("group:2", "group"),
        ("random:three", "random:COUNT[:SEED]"),
        ("random:2:", "random:COUNT[:SEED]"),
        ("in:1", "in"),
    ],
)
def test_parameters_that_do_not_fit(name, usage):
    with pytest.raises(ConfigError) as caught:
        parse_relation(name)
    assert str(caught.value) == f"relation {name!r} is written as {usage}"


def test_brackets_within_each_other_and_side_by_side():
    assert parse_relation("(" * 100 + "all" + ")" * 100).name == "all"
    assert parse_relation("|".join(["(group)"] * 200)).name == "|".join(["group"] * 200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "relation '': a name is missing"),
        ("window:3|", "relation 'window:3|': a name is missing"),
        ("window:3&&group", "relation 'window:3&&group': a name is missing"),
        ("(window:3", "relation '(window:3': a bracket is not closed"),
        ("window:3)", "relation 'window:3)': ')' is not expected"),
        (
            "not(window:3)",
            "relation 'not(window:3)': there is no 'not' of a relation; choose from: reverse(...), within-words(...), "
            "relative:CLIP(...)",
        ),
        (
            "(" * 5000 + "all" + ")" * 5000,
            f"relation {'(' * 40!r}... has more than 100 brackets within each other",
        ),
        (
            "window:4",
            "relation 'window:4': scale 4 is even; a window has the same reach on both sides: use 5",
        ),
        ("random:0", "relation 'random:0': random:0 has no edges; give at least 1"),
        (
            "star|window:3",
            "relation 'star' has several kinds of edges and cannot be composed; compose its parts()",
        ),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_relation(text)
    assert str(caught.value) == message


def test_relations_of_a_user_have_names_too():
    register_relation("every:STEP[:FIRST]", Every)
    relation = parse_relation("reverse(every:3) | every:2:1 & window:3")
    assert relation.name == "reverse(every:3)|every:2:1&window:3"
    one = parse_relation("every:2:1")
    assert (type(one), one.step, one.first) == (Every, 2, 1)
    graph = TextGraphBuilder([one], cls=False).build(["a", "b", "c", "d"])
    assert [ends.tolist() for ends in graph.edges(etype="every:2:1")] == [[1, 3], [1, 3]]
    assert RELATION_NAMES["every"].usage == "every:STEP[:FIRST]"
    for written in ("every", "every:", "every:1:2:3", "every:3:"):
        with pytest.raises(ConfigError, match=r"is written as every:STEP\[:FIRST\]$"):
            parse_relation(written)
    with pytest.raises(UnregisteredError, match=r"links\[:token\|:word\], every:STEP\[:FIRST\]; or register_relation"):
        parse_relation("each:2")


def test_a_relation_may_be_registered_again():
    register_relation("every:STEP", lambda step: Every(step))
    register_relation("every[:STEP]", lambda step="5": Every(step))
    assert parse_relation("every").name == "every:5"


@pytest.mark.parametrize(
    "usage", ["", "Every", "every:step", "every[:A]:B", "every:", "every|other", "every :STEP", "my_own"]
)
def test_usages_that_cannot_be_read(usage):
    with pytest.raises(ConfigError) as caught:
        register_relation(usage, Every)
    assert str(caught.value) == (
        f"relation {usage!r} cannot be registered; write it as name, name:PARAMETER or name[:PARAMETER], the name in "
        "small letters, digits and hyphens, parameters in capitals"
    )


@pytest.mark.parametrize("name", ["window", "all", "reverse", "within-words", "relative"])
def test_names_that_are_taken(name):
    with pytest.raises(ConfigError) as caught:
        register_relation(f"{name}:STEP", Every)
    assert str(caught.value) == f"relation {name!r} is the package's; register yours under another name"


def test_what_is_registered_must_make_relations_that_are_called_so():
    register_relation("each:STEP", Every)
    with pytest.raises(ConfigError) as caught:
        parse_relation("each:3")
    assert str(caught.value) == (
        "relation 'each:3': what is registered as each:STEP made Every(), whose name is 'every:3'"
    )
    register_relation("none", lambda: None)
    with pytest.raises(ConfigError) as caught:
        parse_relation("none")
    assert str(caught.value) == "relation 'none': what is registered as none made None, whose name is None"
    register_relation("every:STEP", Every)
    with pytest.raises(ConfigError) as caught:
        parse_relation("every:three")
    assert str(caught.value) == (
        f"relation 'every:three': {__name__}.Every fails with ValueError: invalid literal for int() with base 10: "
        "'three'"
    )


def test_what_makes_no_relations_is_not_registered():
    with pytest.raises(ConfigError) as caught:
        register_relation("every", 3)
    assert str(caught.value) == "relation 'every': 3 makes no relations; give a class or a function"


def test_another_place_does_not_replace_a_relation():
    register_relation("every:STEP", Every)
    with pytest.raises(ConfigError) as caught:
        register_relation("every:STEP", RangeRelation)
    assert str(caught.value) == (
        f"relation 'every' is registered already, by {__name__}.Every; register "
        "graphattn.builders.relations.base.RangeRelation under another name"
    )


def test_what_a_relation_of_a_user_refuses_is_told_in_its_own_words():
    register_relation("wide:SCALE", lambda scale: Window(scale))
    with pytest.raises(ConfigError) as caught:
        parse_relation("wide:4")
    assert str(caught.value) == ("relation 'wide:4': scale 4 is even; a window has the same reach on both sides: use 5")
