"""Relations by name: each stands for what it says."""

import pytest

from graphattn.builders import Dependency, Window
from graphattn.exceptions import ConfigError
from graphattn.experiments.relation_names import relations_from


@pytest.mark.parametrize(
    ("given", "edge_types"),
    [
        ("window:N/16", ["window:N/16"]),
        ("radius:3", ["radius:3"]),
        ("group", ["group"]),
        ("dependency", ["dependency", "in"]),
        ("dependency:token", ["dependency"]),
        ("in", ["in"]),
        ("forward", ["forward"]),
        ("backward", ["backward"]),
        ("all", ["all"]),
    ],
)
def test_a_name_stands_for_its_relation(given, edge_types):
    (relation,) = relations_from([given])
    assert [part.name for part in relation.parts()] == edge_types


def test_the_order_stays():
    first, second = relations_from(["dependency:token", "window:3"])
    assert isinstance(first, Dependency)
    assert isinstance(second, Window)


@pytest.mark.parametrize("name", ["windows:3", "window", "window:", "", "dependency:words", "group:2"])
def test_other_names_are_refused(name):
    with pytest.raises(ConfigError) as error:
        relations_from([name])
    assert str(error.value) == (
        f"there is no relation {name!r}; choose from: window:SCALE, radius:SCALE, group, dependency, "
        "dependency:token, in, forward, backward, all"
    )


def test_an_impossible_scale_names_its_relation():
    with pytest.raises(ConfigError, match=r"^relation 'window:4': .*even"):
        relations_from(["window:4"])
