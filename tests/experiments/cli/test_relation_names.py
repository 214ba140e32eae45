"""Relations by name: each stands for what it says."""

import pytest

from graphattn.builders import Dependency, Window
from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.relation_names import relations_from


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
        ("window:3|random:2:7", ["window:3|random:2:7"]),
        ("star", ["star"] * 4),
    ],
)
def test_a_name_stands_for_its_relation(given, edge_types):
    (relation,) = relations_from([given])
    assert [part.name for part in relation.parts()] == edge_types


def test_the_order_stays():
    first, second = relations_from(["dependency:token", "window:3"])
    assert isinstance(first, Dependency)
    assert isinstance(second, Window)


def test_an_impossible_scale_names_its_relation():
    with pytest.raises(ConfigError, match=r"^relation 'window:4': .*even"):
        relations_from(["window:4"])
