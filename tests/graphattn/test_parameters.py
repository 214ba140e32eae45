"""Parameters behave like those of a scikit-learn estimator."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from graphattn.options import Parameters


def make(base):
    """The same nested class on top of either base."""

    class Part(base):
        def __init__(self, size=1, names=("a",)):
            self.size, self.names = size, names

    class Whole(base):
        def __init__(self, rate=0.5, part=None, kind=None):
            self.rate, self.part, self.kind = rate, part, kind

    return Whole, Part


BASES = [Parameters, BaseEstimator]


@pytest.mark.parametrize("deep", [True, False])
def test_parameters_equal_those_of_scikit_learn(deep):
    ours, theirs = (whole(part=part(size=3), kind=part) for whole, part in map(make, BASES))
    assert list(map(str, sorted(ours.get_params(deep)))) == sorted(theirs.get_params(deep))
    plain = {"rate", "part__size", "part__names"} if deep else {"rate"}
    assert {name: ours.get_params(deep)[name] for name in plain} == {
        name: theirs.get_params(deep)[name] for name in plain
    }


@pytest.mark.parametrize("base", BASES)
def test_setting(base):
    whole, part = make(base)
    made = whole().set_params(part=part(), part__size=7, rate=0.1)
    assert (made.rate, made.part.size, made.part.names) == (0.1, 7, ("a",))
    assert made.set_params() is made
    with pytest.raises(ValueError, match="Invalid parameter 'speed' for"):
        made.set_params(speed=1)
    with pytest.raises(ValueError, match="Invalid parameter 'speed' for"):
        made.set_params(part__speed=1)


def test_others_that_share_nested_parameters_keep_them():
    whole, part = make(Parameters)
    shared = part(size=3)
    one, other = whole(part=shared), whole(part=shared)
    one.set_params(part__size=7)
    assert (one.part.size, other.part.size, shared.size) == (7, 3, 3)


def test_nested_parameters_of_a_plain_value():
    whole, _ = make(Parameters)
    message = "^Invalid parameter 'size' for part='a name', which has no parameters.$"
    with pytest.raises(ValueError, match=message):
        whole(part="a name").set_params(part__size=1)


def test_repr_shows_non_default_parameters():
    whole, part = make(Parameters)
    assert repr(whole()) == "Whole()"
    assert repr(whole(part=part(names=("b",)), kind=np.arange(2))) == (
        "Whole(part=Part(names=('b',)), kind=array([0, 1]))"
    )


def test_clones_share_nothing():
    whole, part = make(Parameters)
    original = whole(part=part())
    copy = clone(original)
    copy.part.size = 9
    assert original.part.size == 1


def test_tags_are_those_of_a_plain_estimator_of_texts():
    ours, theirs = (get_tags(make(base)[0]()) for base in BASES)
    theirs.input_tags.one_d_array = theirs.input_tags.string = True
    assert ours == theirs
