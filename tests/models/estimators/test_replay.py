"""Old examples beside new ones, and what a model that is trained further still knows."""

import numpy as np
import pytest

from graphattn.models import (
    HeadOptions,
    SequenceTagger,
    TextClassifier,
    TextRegressor,
    TrainingOptions,
    add_old_examples,
)

OLD = [f"{word} {other}" for word in ("red", "blue") for other in "abcdefghijklmnopqrstuvwxyz"]
COLOURS = ["red"] * 26 + ["blue"] * 26


@pytest.mark.parametrize(
    ("estimator", "old", "new", "expected"),
    [
        (TextClassifier(), COLOURS, ["wet"] * 10, {"red": 20, "blue": 20, "wet": 10}),
        (TextClassifier(), COLOURS, ["wet"] * 100, {"red": 26, "blue": 26, "wet": 100}),
        (TextClassifier(multilabel=True), [(c, "colour") for c in COLOURS], [("wet",)] * 22, None),
        (TextRegressor(), [0.0] * 52, [1.0] * 5, {0.0: 5, 1.0: 5}),
    ],
)
def test_how_many_are_kept(estimator, old, new, expected):
    estimator.prepare()
    texts, labels = add_old_examples(estimator, (["a new text"] * len(new), new), (OLD, old))
    assert len(texts) == len(labels)
    if expected is None:
        assert [sum(name in label for label in labels) for name in ("red", "blue", "wet")] == [22, 22, 22]
    else:
        assert {name: labels.count(name) for name in expected} == expected
    assert add_old_examples(estimator, (["x"] * len(new), new), (OLD, old), seed=1)[0] != texts


def test_sentences_with_tags():
    words, tags = [["Oslo", "is"]] * 30, [["S", "O"]] * 30
    tagger = SequenceTagger()
    tagger.prepare()
    texts, labels = add_old_examples(tagger, (words[:4], tags[:4]), (words, tags))
    assert (len(texts), labels) == (8, tags[:8])


def test_the_linear_model_keeps_old_classes():
    """Trained further on a new class alone, it still tells the old ones apart."""
    training = TrainingOptions(epochs=0, dev_fraction=0, progress=False)
    classifier = TextClassifier(training=training, head=HeadOptions(linear_branch=True)).fit(OLD, COLOURS)
    new = [f"wet {word}" for word in ("sea", "rain", "lake", "pond")] * 3
    classifier.set_params(warm_start=True).fit(new, ["wet"] * len(new))
    assert classifier.score(OLD, COLOURS) == 1
    assert {*classifier.predict(new)} == {"wet"}
    assert np.array_equal(classifier.classes_, ["blue", "red", "wet"])


def test_scores_of_classes_without_examples_are_not_pushed_down():
    """The rows of the old classes in the last layer have no gradient."""
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, weight_decay=0.0)
    classifier = TextClassifier(training=training).fit(OLD, COLOURS)
    before = classifier.model_.head.output.bias.detach().clone()
    new = [f"{word} {letter}" for word in ("wet", "dry") for letter in "abcdefghijklmnopqrstuvwxyz"]
    classifier.set_params(warm_start=True).fit(new, ["wet"] * 26 + ["dry"] * 26)
    after, names = classifier.model_.head.output.bias.detach(), classifier.classes_.tolist()
    assert after[[names.index("blue"), names.index("red")]].tolist() == before.tolist()
    assert classifier.score(new, ["wet"] * 26 + ["dry"] * 26) > 0.9
