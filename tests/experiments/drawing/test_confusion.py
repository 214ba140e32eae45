"""The picture of a confusion matrix."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing import draw_confusion
from graphattn.models._results.reports import Outcomes


def test_every_count_and_name_is_drawn(read_texts):
    counts = {("bad", "bad"): 12, ("bad", "$good_1$"): 3, ("$good_1$", "$good_1$"): 1234, (None, "bad"): 7}
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    outcomes = Outcomes.of([(0, *pair) for pair in pairs], 1, ["bad", "$good_1$"])
    texts = read_texts(draw_confusion(outcomes))
    assert {"12", "3", "1,234", "7", "bad", "$good_1$", "(none)", "gold", "predicted"} <= set(texts)
    assert texts.count("bad") == 2


def test_too_many_classes_are_rejected():
    names = [str(number) for number in range(70)]
    with pytest.raises(ConfigError, match="70 classes do not fit"):
        draw_confusion(Outcomes.of([(0, name, name) for name in names], 1, names))
