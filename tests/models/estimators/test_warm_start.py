"""A fit that continues from a trained model: its weights, new labels and words, options that must stay."""

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint
from graphattn.models import HeadOptions, LabelSet, SequenceTagger, TextClassifier, TrainingOptions, load
from graphattn.models._estimators.state import make_corpus

STILL = {"epochs": 1, "learning_rate": 1e-30, "dev_fraction": 0.0, "weight_decay": 0.0}
KINDS = ("classifier", "multilabel", "pair", "tagger", "crf", "translator")


def scores(estimator, X):
    """Scores of the old classes by name, for each item."""
    data = make_corpus(estimator, X)
    with torch.inference_mode():
        rows = estimator.model_(data[list(range(len(data)))])
    return {name: rows[:, number] for number, name in enumerate(estimator.classes_.tolist())}


def continued(estimator, folder, **changes):
    """The saved and loaded estimator, about to continue without changing any weight."""
    return load(estimator.save(folder)).set_params(
        warm_start=True, **{f"training__{name}": value for name, value in {**STILL, **changes}.items()}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_it_continues_from_the_weights(kind, corpus, fitted, tmp_path, same_weights, figures):
    encoder = "transformer" if kind == "translator" else "ms-trans"
    X, y = corpus(kind)
    before = fitted(kind, encoder)
    after = continued(before, tmp_path).fit(X, y)
    assert same_weights(before, after)
    for one, other in zip(figures(before, X), figures(after, X), strict=True):
        assert np.array_equal(one, other)
    assert len(after.history_) == 1
    moved = continued(before, tmp_path, learning_rate=0.01).fit(X, y)
    assert not same_weights(before, moved)


def test_without_a_fitted_model_it_is_a_normal_fit(corpus, tiny, same_weights):
    assert same_weights(
        tiny("classifier", warm_start=True).fit(*corpus("classifier")), tiny("classifier").fit(*corpus("classifier"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "multilabel", "pair", "tagger", "crf"])
def test_new_labels(kind, corpus, fitted, tmp_path):
    """Old labels that do not occur are kept; scores of old classes do not change."""
    X, y = corpus(kind)
    before = fitted(kind)
    new = {"classifier": "again", "pair": "again", "multilabel": ("again",)}
    tags = {"tagger": "AGAIN", "crf": "B-AGAIN"}
    labels = [
        new[kind] if kind in new else [tags[kind], *["LONG" if kind == "tagger" else "O"] * (len(own) - 1)][: len(own)]
        for own in y
    ]
    after = continued(before, tmp_path).fit(X, labels)
    added = {"classifier": ["again"], "tagger": ["AGAIN"], "crf": ["B-AGAIN", "E-AGAIN", "I-AGAIN", "S-AGAIN"]}
    assert after.classes_.tolist() == sorted([*before.classes_.tolist(), *added.get(kind, ["again"])])
    ours, theirs = scores(after, X), scores(before, X)
    for name, column in theirs.items():
        torch.testing.assert_close(ours[name], column, rtol=0, atol=1e-6)
    if kind == "crf":
        places = [after.classes_.tolist().index(name) for name in before.classes_.tolist()]
        transitions = after.model_.head.crf.transitions[places][:, places]
        assert torch.equal(transitions, before.model_.head.crf.transitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head", [{}, {"head_hidden": 5}, {"linear_branch": True}], ids=["linear", "hidden", "linear branch"]
)
def test_the_same_labels_in_another_order(head, corpus, tiny, tmp_path):
    """Classes are in the order of a frame's columns, and sorted after training on tuples."""
    texts, labels = corpus("multilabel")
    names = ["slow", "great", "dull"]
    frame = pd.DataFrame([[int(name in several) for name in names] for several in labels], columns=names)
    before = tiny("multilabel", head=head, training={"epochs": 1}).fit(texts, frame)
    assert before.classes_.tolist() == names
    for y in (labels, frame[["dull", "slow", "great"]]):
        after = continued(before, tmp_path, precision="32").fit(texts, y)
        old, new = ({name: model.predict_proba(texts)[:, number] for number, name in enumerate(model.classes_)}
                    for model in (before, after))  # fmt: skip
        if not head.get("linear_branch"):  # which is fitted again
            assert all(np.array_equal(old[name], new[name]) for name in names)
        of_layers = [
            dict(zip(model.classes_.tolist(), model.model_.head.output.weight.tolist(), strict=True))
            for model in (before, after)
        ]
        assert (of_layers[0] == of_layers[1]) == (not head.get("linear_branch"))
    assert [name for name, _ in sorted(old.items())] == sorted(names)


@pytest.mark.parametrize("kind", ["tagger", "crf"])
def test_tags_in_another_order(kind, corpus, tiny, fitted, tmp_path):
    """As in a model of an older version, or of a task of one's own."""
    X, y = corpus(kind)
    before = fitted(kind)
    folder = before.save(tmp_path / "turned")
    turned = load(folder)
    order = list(range(len(turned.classes_)))[::-1]
    labels = turned.task_.labels
    labels.label_set = LabelSet([labels.classes[number] for number in order])
    for name, weight in turned.model_.head.named_parameters():
        if name.startswith(("classify.1", "crf")):
            weight.data = weight.data[order][:, order] if name == "crf.transitions" else weight.data[order]
    turned.set_params(warm_start=True, **{f"training__{name}": value for name, value in STILL.items()})
    assert turned.predict(X) == before.predict(X)
    after = turned.fit(X, y)
    assert after.classes_.tolist() == before.classes_.tolist()
    ours, theirs = scores(after, X), scores(before, X)
    assert all(torch.equal(ours[name], column) for name, column in theirs.items())
    if kind == "crf":
        assert torch.equal(after.model_.head.crf.transitions, before.model_.head.crf.transitions)


def test_heads_of_the_same_relations_in_another_order_are_other_heads(corpus, tiny):
    texts, labels = corpus("classifier")
    encoder = {"heads": {"window:3": 2, "binary:1": 1}}
    estimator = tiny("classifier", warm_start=True).set_params(**{f"encoder__{n}": v for n, v in encoder.items()})
    estimator.fit(texts, labels)
    with pytest.raises(ConfigError) as caught:
        estimator.set_params(encoder__heads={"binary:1": 1, "window:3": 2}).fit(texts, labels)
    assert caught.value.options == ("heads",)


def test_marks_of_predicates_are_those_of_the_model(corpus, tiny):
    words, tags = corpus("tagger")
    words, tags = zip(*((one, other) for one, other in zip(words, tags, strict=True) if one), strict=True)
    marked = [Sentence(list(each), predicates=[1] + [0] * (len(each) - 1)) for each in words]
    tagger = tiny("tagger", warm_start=True, training={"epochs": 1}).fit(marked, tags)
    with pytest.raises(DataError, match="marks no predicate"):
        tagger.fit(words, tags)
    tagger = tiny("tagger", warm_start=True, training={"epochs": 1}).fit(words, tags)
    assert not tagger.fit(marked, tags).text_inputs_.predicates


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "multilabel", "crf"])
def test_a_hint_names_classes_without_examples(kind, corpus, fitted, tmp_path):
    X, y = corpus(kind)
    kept = {"classifier": "good", "multilabel": ("dull",)}
    y = [kept.get(kind, ["O"] * len(label)) for label in y]
    names = {
        "classifier": "1 of the 2 .*'bad'",
        "multilabel": "2 of the 3 .*'great', 'slow'",
        "crf": "2 of the 2 .*'LOC', 'ORG'",
    }
    with pytest.warns(Hint, match=names[kind]):
        continued(fitted(kind), tmp_path).fit(X, y)


def vectors_of(estimator):
    embedding = estimator.model_.embedding
    rows = torch.cat([embedding.trained.detach(), embedding.table])
    return dict(zip(estimator.vocabulary_.words, rows, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [{}, {"vectors": True}, {"vectors": True, "tune_vectors": True}], ids=str)
def test_new_words(inputs, corpus, tiny, tmp_path, vectors_file):
    texts, labels = corpus("classifier")
    inputs = {**inputs, **({"vectors": str(vectors_file)} if inputs else {})}
    before = tiny("classifier", inputs=inputs, training={"epochs": 1}).fit(texts, labels)
    after = continued(before, tmp_path).fit([f"{text} zebra other3" for text in texts], labels)
    old, new = vectors_of(before), vectors_of(after)
    assert "zebra" not in old
    assert {*new} == {*old, "zebra", "other3"}
    assert all(torch.equal(new[word], vector) for word, vector in old.items())
    assert np.array_equal(after.predict_proba(texts), before.predict_proba(texts))
    trained = after.vocabulary_.words[: len(after.model_.embedding.trained)]
    if not inputs:
        assert len(trained) == len(new)
    elif "tune_vectors" in inputs:
        assert {"zebra", "other3"} <= {*trained} < {*new}
    else:
        assert trained == ["[PAD]", "[UNK]", "[CLS]"]
    again = load(after.save(tmp_path / "again"))
    assert np.array_equal(again.predict_proba(["a zebra"]), after.predict_proba(["a zebra"]))


def test_sub_words_stay(corpus, tiny, tmp_path):
    texts, labels = corpus("classifier")
    before = tiny("classifier", inputs={"level": "bpe", "vocabulary_size": 40}, training={"epochs": 1}).fit(
        texts, labels
    )
    after = continued(before, tmp_path).fit([f"{text} zebra" for text in texts], labels)
    assert after.vocabulary_ == before.vocabulary_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder__layers": 3}, "layers is 3, but the model to continue from has 2; "),
        ({"encoder__alpha": 0.0}, "alpha is 0.0, but the model to continue from has 1.0; "),
        ({"encoder": "bilstm"}, "encoder is 'bilstm', but the model to continue from has 'ms-trans'; "),
        ({"inputs__lowercase": False}, "lowercase is False, but the model to continue from has True; "),
        ({"head__pooling": "mean"}, "pooling is 'mean', but the model to continue from has 'cls+max'; "),
    ],
    ids=str,
)
def test_options_that_describe_the_model_must_stay(changes, message, corpus, tiny, figures):
    texts, labels = corpus("classifier")
    estimator = tiny("classifier", warm_start=True).fit(texts, labels)
    before = figures(estimator, texts)
    with pytest.raises(ConfigError) as caught:
        estimator.set_params(**changes).fit(texts, labels)
    assert str(caught.value) == f"{message}leave it out, or train from scratch"
    assert all(map(np.array_equal, figures(estimator, texts), before))


def test_other_options_may_change(corpus, tiny):
    estimator = tiny("classifier", warm_start=True).fit(*corpus("classifier"))
    changes = {
        "encoder__dropout": 0.0,
        "inputs__word_dropout": 0.3,
        "head__head_dropout": 0.1,
        "class_weight": "balanced",
    }
    estimator.set_params(training__epochs=1, training__batch_size=4, **changes).fit(*corpus("classifier"))
    assert estimator.encoder_.dropout == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "before", "after", "lost"),
    [
        ("classifier", {"tune_threshold": "f1"}, {"y": ["a", "b", "c"]}, "tune_threshold"),
        ("classifier", {"tune_threshold": "f1"}, {"y": ["bad", "good"], "count": 4}, "tune_threshold"),
        ("multilabel", {"tune_threshold": "f1"}, {"y": [("dull",), ("slow",)], "count": 4}, "tune_threshold"),
        ("classifier", {"training": {"epochs": 1, "metric": "macro_f1"}}, {"training__dev_fraction": 0.0}, "metric"),
    ],
)
def test_options_that_no_longer_fit_are_dropped(kind, before, after, lost, corpus, tiny, tmp_path):
    X, y = corpus(kind)
    before = {"training": {"epochs": 1}, "head": {"linear_branch": False}, **before}
    estimator = load(tiny(kind, **before).fit(X, y).save(tmp_path / "model"))
    new, count = after.pop("y", None), after.pop("count", len(X))
    labels = y if new is None else (new * len(X))[:count]
    estimator.set_params(warm_start=True, **after)
    with pytest.warns(GraphAttnWarning, match="of the model to continue from is dropped: ") as caught:
        estimator.fit(X[:count], labels)
    assert [warning.message.options for warning in caught if "dropped" in str(warning.message)] == [(lost,)]
    card = estimator.make_card()
    assert lost not in card
    load(estimator.save(tmp_path / "again"))
    if lost == "tune_threshold":  # which the user asks for now
        with pytest.raises((ConfigError, DataError)):
            estimator.set_params(tune_threshold="accuracy").fit(X[:count], labels)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(None, "balanced"), ("balanced", None)])
def test_class_weights_leave_the_crf_as_it_is(before, after, corpus, tiny):
    X, y = corpus("tagger")
    arguments = tiny("tagger", training={"epochs": 1}).get_params(deep=False)
    tagger = SequenceTagger(**{**arguments, "head": HeadOptions(), "class_weight": before, "warm_start": True})
    assert tagger.fit(X, y).head_.crf == (before is None)
    tagger.set_params(class_weight=after)
    if before is not None:
        assert not tagger.fit(X, y).head_.crf
        return
    with pytest.raises(ConfigError) as caught:
        tagger.fit(X, y)
    assert "class_weight" in caught.value.options
    assert "label_smoothing" not in str(caught.value)


def test_another_preset_leaves_the_model_as_it_is(corpus, figures):
    X, y = corpus("classifier")
    classifier = TextClassifier(training=TrainingOptions(epochs=1, progress=False))
    classifier.set_params(encoder__hidden=12, encoder__heads=3, encoder__layers=1).fit(X, y)
    assert classifier.set_params(warm_start=True, preset="paper").fit(X, y).inputs_.tune_vectors


def test_tags_are_converted_to_the_models_scheme(fitted, tmp_path):
    tagger = continued(fitted("crf"), tmp_path)
    tagger.fit([["Oslo", "and", "New", "York"]] * 4, [["S-LOC", "O", "B-LOC", "E-LOC"]] * 4)
    assert tagger.scheme_ == "IOB2"
    assert tagger.predict([["NATO"]])[0][0][:2] in ("B-", "O")


def test_labels_of_another_type_are_rejected(corpus, fitted, tmp_path):
    with pytest.raises(DataError, match="labels of several types"):
        continued(fitted("classifier"), tmp_path).fit(corpus("classifier")[0], [1, 2] * 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "translator"])
def test_a_killed_run_resumes_with_identical_results(kind, corpus, fitted, tmp_path, killed_at, same_weights):
    before = fitted(kind, "transformer")
    X, y = corpus(kind)
    training = {"epochs": 3, "learning_rate": 0.01}
    undisturbed = continued(before, tmp_path / "model", **training).fit(X, y)
    training |= {"run_dir": str(tmp_path / "run"), "logs": False}
    with killed_at(1, 1):
        continued(before, tmp_path / "model", **training).fit(X, y)
    resumed = continued(before, tmp_path / "model", **training).fit(X, y)
    assert same_weights(resumed, undisturbed)
    assert resumed.history_ == undisturbed.history_
    with pytest.raises(ConfigError, match=r"with other data \(initial weights\) is in "):
        continued(undisturbed, tmp_path / "other", **training).fit(X, y)
