"""Metrics of groups of texts, against the metrics of each group alone."""

import math

import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.models._results.groups import split_groups


def test_a_group_has_the_metrics_of_its_texts(fitted, corpus):
    texts, labels = corpus("classifier")
    classifier = fitted("classifier")
    sources = ["web" if number % 3 else "mail" for number in range(len(texts))]
    groups = classifier.report(texts, labels).by(sources)
    assert list(groups) == ["web", "mail"]
    for name, row in groups.items():
        chosen = [number for number, source in enumerate(sources) if source == name]
        own = classifier.report([texts[n] for n in chosen], [labels[n] for n in chosen])
        assert {metric: row[metric] for metric in ("accuracy", "macro_f1")} == pytest.approx(
            {metric: own[metric] for metric in ("accuracy", "macro_f1")}
        )
        assert (row["low"], row["high"]) == (own["confidence_interval"]["low"], own["confidence_interval"]["high"])
        assert row["support"] == len(chosen)
    assert str(groups).splitlines()[0].split() == ["accuracy", "95", "%", "interval", "support"]


def test_each_input_has_a_value(fitted, corpus):
    texts, labels = corpus("classifier", 8)
    with pytest.raises(DataError, match="8 inputs but 7 values to group them by"):
        fitted("classifier").report(texts, labels).by(["web"] * 7)
    with pytest.raises(DataError, match="8 inputs but 1 values of the column 'source'"):
        fitted("classifier").report(texts, labels, columns={"source": ["web"]})


def test_values_of_any_type_make_groups():
    groups = split_groups([1, "x", True, None, "", math.nan, "x"])
    assert {name: numbers.tolist() for name, numbers in groups.items()} == {
        "x": [1, 6],
        "1": [0],
        "true": [2],
        "(none)": [3, 4, 5],
    }
    numbers = [str(number) for number in range(100)]
    assert [len(inside) for inside in split_groups(numbers).values()] == [20] * 5
    with pytest.raises(ConfigError) as raised:
        split_groups([f"a{number}" for number in range(51)])
    assert raised.value.options == ("by",)
