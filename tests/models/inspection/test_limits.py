"""Limits on the number of attention weights."""

import pytest

from graphattn.exceptions import ConfigError, DataError
from graphattn.models import (
    InputOptions,
    MTSAOptions,
    TextClassifier,
    TrainingOptions,
)
from graphattn.models.inspection import limits, summarise
from graphattn.models.inspection.attributions import gradient_times_weight

TEXT = "the longest dogs bark loudly today"


def limit_pattern(tokens, count, most):
    return f"{tokens:,} tokens has {count:,} attention weights; the limit is {most:,}"


@pytest.mark.parametrize("ask", ["attention", "gradients"])
def test_weights_are_counted_before_they_are_computed(ask, fitted_estimator, monkeypatch):
    estimator, x = fitted_estimator
    look = estimator.attention if ask == "attention" else lambda x: gradient_times_weight(estimator, x)
    attention = estimator.attention(x)
    count, tokens = attention.num_weights, sum(len(attention.tokens[text]) for text in attention.sentences)
    assert count == len(attention.table())
    with limits.raised_to(count):
        look(x)
    monkeypatch.setattr(type(estimator.model_), "forward", None)  # nothing runs
    with limits.raised_to(count - 1), pytest.raises(DataError, match=limit_pattern(tokens, count, count - 1)):
        look(x)


def test_weights_by_feature_are_counted():
    options = MTSAOptions(hidden=6, layers=1, heads=2)
    model = TextClassifier(
        options, inputs=InputOptions(embedding=6, cls=True), training=TrainingOptions(epochs=1, dev_fraction=0)
    )
    model.fit([TEXT, "dogs"] * 2, ["a", "b"] * 2)
    count = 42  # 7 tokens; one head attends to earlier tokens, another to later ones
    with limits.raised_to(count * 7):  # six features and their mean
        model.attention(TEXT, features=True)
    with limits.raised_to(count):
        model.attention(TEXT)
        with pytest.raises(DataError, match=limit_pattern(7, 7 * count, count)):
            model.attention(TEXT, features=True)


def test_a_limit_is_raised_temporarily(classifier, sentences):
    count = classifier.attention(sentences[0]).num_weights
    with limits.raised_to(count - 1):
        with limits.raised_to(count):
            assert classifier.attention(sentences[0]).num_weights == count
        with pytest.raises(DataError, match="the limit is"), limits.raised_to(count - 2):
            classifier.attention(sentences[0])
        with pytest.raises(DataError, match=f"the limit is {count - 1:,}"):  # also after an error
            classifier.attention(sentences[0])


@pytest.fixture(scope="module")
def translator(translators):
    return translators("umst")


def test_a_translators_heads_on_the_source_are_counted(translator, source):
    attention = translator.attention(source, "ein hund")
    count, tokens = attention.num_weights, len(attention.tokens["source"])
    with limits.raised_to(count):
        translator.attention(source, "ein hund")
    with limits.raised_to(count - 1), pytest.raises(DataError, match=limit_pattern(tokens, count, count - 1)):
        translator.attention(source, "ein hund")


@pytest.mark.slow
def test_the_limit_of_a_summary_is_per_text(classifier, translator, source, sentences):
    for model, corpus, options in (
        (classifier, sentences, {}),
        (translator, [source, source], {"targets": ["ein hund sieht", "ein hund"]}),
    ):
        many = {name: references * 10 for name, references in options.items()}
        expected = summarise(model, corpus * 10, **many).entropy()
        largest = max(model.attention(*one).num_weights for one in zip(corpus, *options.values(), strict=True))
        with limits.raised_to(largest):
            actual = summarise(model, corpus * 10, **many).entropy()
        assert actual.entropy.to_numpy() == pytest.approx(expected.entropy.to_numpy(), abs=1e-5)
        message = f"has {largest:,} attention weights; the limit is {largest - 1:,}"
        with limits.raised_to(largest - 1), pytest.raises(DataError, match=message):
            summarise(model, corpus, **options)


@pytest.mark.parametrize(
    ("what", "limit", "make"),
    [
        ("table", "MOST_ROWS", lambda attention, path: attention.table()),
        ("table", "MOST_ROWS", lambda attention, path: attention.save(path / "a.csv")),
        ("file", "MOST_ROWS", lambda attention, path: attention.to_page()),
        ("networkx graph", "MOST_LINKS", lambda attention, path: attention.graph()),
        ("networkx graph", "MOST_LINKS", lambda attention, path: attention.save(path / "a.json")),
    ],
)
def test_limits_of_outputs_that_need_more_memory(what, limit, make, classifier, sentences, monkeypatch, tmp_path):
    attention = classifier.attention(sentences[1])
    count = attention.num_weights
    monkeypatch.setattr(limits, limit, count)
    make(attention, tmp_path)
    monkeypatch.setattr(limits, limit, count - 1)
    with pytest.raises(ConfigError) as caught:
        make(attention, tmp_path)
    assert str(caught.value).startswith(f"a {what} of {count} weights")
    assert caught.value.options == ("layer", "head", "relation")
    make(attention.only(layer=1), tmp_path)
    assert len(attention.top(3)) == 3
    attention.to_page(arrays=True)
