"""Hints appear when they help, and not otherwise."""

import warnings

import numpy as np
import pytest

from graphattn.builders import Sentence
from graphattn.exceptions import Hint
from graphattn.models import SearchOptions
from graphattn.models.training._hints import (
    hint_at_alike_classes,
    hint_at_dotless_i,
    hint_at_empty_inputs,
    hint_at_empty_texts,
    hint_at_forgotten_classes,
    hint_at_invisible_ends,
    hint_at_joined_names,
    hint_at_lists,
    hint_at_loss,
    hint_at_marks,
    hint_at_misspelt_entities,
    hint_at_quantities,
    hint_at_single_class,
    hint_at_single_labels,
    hint_at_vectors,
)


@pytest.mark.parametrize(("examples", "given"), [(500, True), (9_999, True), (10_000, False)])
def test_few_examples(examples, given):
    hint = hint_at_vectors(examples)
    assert (hint is not None) is given
    if given:
        assert str(hint).startswith(f"{examples:,} examples are few to learn word vectors from")
        shown = hint.render("--{}".format)
        assert 0 < shown.index("--pretrained OWNER/NAME") < shown.index("--vectors FILE, from GloVe")


@pytest.mark.parametrize(
    ("gold", "predicted", "given"),
    [
        ("ab" * 20, "a" * 40, True),
        ("ab" * 20, "a" * 38 + "bb", True),
        ("ab" * 20, "a" * 35 + "b" * 5, False),  # 88 %
        ("ab" * 20, "ab" * 20, False),
        ("a" * 40, "a" * 40, False),  # the dev set has no other class
        ("a" * 39 + "b", "a" * 40, True),
        ("a" * 38 + "bb", "a" * 38 + "bb", False),  # rare, and found
        ("ab" * 5, "a" * 10, False),  # chance
    ],
)
def test_a_single_class(gold, predicted, given):
    assert (hint_at_single_class(gold, predicted) is not None) is given
    with_vectors = hint_at_single_class(gold, predicted, has_vectors=True)
    assert with_vectors is None or "add word vectors" not in str(with_vectors)


QUARTERS = [str(number / 4) for number in range(30)]


@pytest.mark.parametrize(
    ("find", "values", "given"),
    [
        (hint_at_quantities, QUARTERS, True),
        (hint_at_quantities, [str(number) for number in range(30)], False),
        (hint_at_quantities, ["0.5", "1", "1.5"], False),
        (hint_at_quantities, [*QUARTERS, "none"], False),
        (hint_at_single_labels, [f"the film was {number}" for number in range(20)], True),
        (hint_at_single_labels, [*range(11), *"a" * 9], True),
        (hint_at_single_labels, [*range(10), *"a" * 10], True),
        (hint_at_single_labels, ["Urteil", *"ab" * 10], True),
        (hint_at_single_labels, ["Urteil", *"ab" * 9], False),
        (hint_at_single_labels, range(19), False),
        (hint_at_single_labels, "ab" * 20, False),
        (hint_at_alike_classes, ["Yes", "no", "yes"], True),
        (hint_at_alike_classes, ["very good", "Very  good", "no"], True),
        (hint_at_alike_classes, ["very good", "verygood"], True),
        (hint_at_alike_classes, ["a", "a ", "b"], True),
        (hint_at_alike_classes, ["1", "10", "x"], False),
        (hint_at_alike_classes, ["1", "+1.0"], True),
        (hint_at_alike_classes, [1, 1.0, 0], False),
        (hint_at_alike_classes, ["1", "01", "1e0", "a", "A", "nan", "inf"], False),
        (hint_at_misspelt_entities, ["PER-B", "PER-I", "O"], True),
        (hint_at_misspelt_entities, ["B_PER", "O"], True),
        (hint_at_misspelt_entities, ["B_PER", "E-X"], False),
        (hint_at_misspelt_entities, ["b-per", "nn", "O"], False),
        (hint_at_empty_texts, [" "] * 3 + ["a text"] * 27, False),
        (hint_at_empty_texts, [" "] * 4 + ["a text"] * 26, True),
        (hint_at_empty_texts, [" "] * 30, True),
        (hint_at_empty_texts, [" "] * 5 + ["a text"] * 5, False),
    ],
)
def test_numbers_as_classes_labels_that_occur_once_and_empty_texts(find, values, given):
    assert (find(values) is not None) is given


@pytest.mark.parametrize(("label", "given"), [("Urteil", False), ("Sentiment", True)])
def test_names_of_columns_among_labels(label, given):
    assert ("names of columns" in str(hint_at_single_labels([label, *"ab" * 10]))) is given


@pytest.mark.parametrize("hidden", ["\ufeff", "\u200b", "\u200e", "\u2060", "\u00ad", "\x7f", "\u3164"])
def test_classes_with_invisible_ends(hidden):
    for name in (hidden, f"pos{hidden}", f"{hidden}pos"):
        assert ascii(name) in str(hint_at_invisible_ends(["neg", "pos", name]))
    assert hint_at_invisible_ends(["neg", f"po{hidden}s", 1, True]) is None


def test_classes_that_are_emoji_are_visible():
    assert hint_at_invisible_ends(["\u2764\ufe0f", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u0928\u094d"]) is None


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ((["a", "b"], ["", "c"]), "1 of 2 second texts is empty"),
        ((["a", ""], [" ", " "]), "1 of 2 first texts and 2 of 2 second texts are empty"),
        (([["a"], []], [Sentence(["a"]), Sentence([])]), "1 of 2 first texts and 1 of 2 second texts"),
        ((["a", "."], ["b", "c"]), None),
        ((["a", ""],), "1 of 2 texts is empty"),
        ((["a"] * 9 + [""],), None),
    ],
)
def test_empty_texts(columns, found):
    hint = hint_at_empty_inputs(columns)
    assert (hint is None) if found is None else (found in str(hint))


@pytest.mark.parametrize(
    ("losses", "given"),
    [
        ([0.7, 0.7, 0.7], True),
        ([0.7, 0.9, 1.2], True),
        ([0.7, 0.695, 0.71], True),
        ([0.7, 0.6, 0.9], False),
        ([0.7, 0.7], False),  # too early to say
        ([0.01, 0.01, 0.01], False),  # nothing left to learn
    ],
)
def test_a_loss_that_does_not_go_down(losses, given):
    assert (hint_at_loss([{"train_loss": loss} for loss in losses], 0.1) is not None) is given


def hints_of(fit, *arguments, **keywords):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*arguments, **keywords)
    return [str(warning.message) for warning in caught if warning.category is Hint]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "multilabel", "tagger", "translator"])
def test_fit_hints_at_a_model_that_learns_nothing(kind, corpus, tiny, monkeypatch):
    """With a tiny learning rate all predictions are alike, or empty, and the loss stays."""
    X, y = corpus(kind, 40)
    training = {"epochs": 3, "learning_rate": 1e-9, "average": 0.0, "dev_fraction": 0.0}
    more = {"search": SearchOptions(min_length=0, max_length=1)} if kind == "translator" else {}
    estimator = tiny(kind, training=training, **more)

    class Constant(estimator.task):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            self.head.predict_dev_set = lambda model, corpus: _constant_decisions(kind, y, corpus)

    class Learner(type(estimator)):
        task = Constant

    hints = hints_of(Learner(**estimator.get_params(deep=False)).fit, X, y, dev=(X, y))
    assert len(hints) == 2
    assert hints[0].startswith("the loss has not gone down (")
    assert ("outputs for the dev set are empty" if kind == "translator" else "of the predictions on the dev") in hints[
        1
    ]


def _constant_decisions(kind, labels, data):
    if kind == "translator":
        return [""] * len(data)
    if kind == "tagger":
        return [np.zeros(len(tags), int) for tags in labels]
    return [np.zeros(3, int) if kind == "multilabel" else np.int64(0)] * len(data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_fit_gives_no_hint_if_the_model_learns(kind, corpus, able):
    X, y = corpus(kind)
    assert hints_of(able(kind).fit, X, y, dev=(X, y)) == []


@pytest.mark.parametrize(
    ("words", "divided"),
    [
        (["\u0131ş\u0131k", "IŞIK", "Iş\u0131k", "k\u0131z", "KIZ", "ve"], 3),
        (["\u0131ş\u0131k", "Iş\u0131k", *map(str, range(100))], 0),  # a name in texts of another language
        (["k\u0131z\u0131", "Isparta", "ISPARTA", "In", "in", "I"], 0),
        (["it", "It", "I"], 0),
    ],
)
def test_turkish_words_with_a_capital_i(words, divided):
    hint = hint_at_dotless_i(dict.fromkeys(words))
    assert (hint is not None) is bool(divided)
    if divided:
        assert str(hint).startswith(
            f"{divided} words with a capital I, such as 'IŞIK', are not known as those with \u0131"
        )
        assert str(hint).endswith("sed 's/İ/i/g; s/I/\u0131/g'")


def test_turkish_texts_whose_case_is_kept_have_no_hint(tiny):
    texts, labels = ["\u0131ş\u0131k ve k\u0131z", "IŞIK VE KIZ"] * 6, ["a", "b"] * 6
    assert hints_of(tiny(training={"epochs": 1}, inputs={"lowercase": False}).fit, texts, labels) == []


@pytest.mark.parametrize(
    ("classes", "given"),
    [(["['x', 'y']", "['z']"], True), (["x", "{'choices': ['x']}"], True), (["[UNK]", "(none)", "[x, y]", 3], False)],
)
def test_lists_of_labels(classes, given):
    hint = hint_at_lists([*classes, classes[0]], classes)
    assert (hint is not None) is given
    assert hint is None or hint.options == ("multilabel",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "inputs", "labels", "message"),
    [
        ("classifier", ["good", "bad"] * 10, [f"film {n}" for n in range(20)], "20 of 20 labels occur only once"),
        ("classifier", ["a", "b", "c"] * 2, ["pos", "pos\u200b", "neg"] * 2, r"1 of 3 classes .*'pos\\u200b'"),
        ("pair", [("a", ""), ("b", "c")] * 2, ["a", "b"] * 2, "2 of 4 second texts are empty"),
        ("pair regressor", [("a", ""), ("b", "c")] * 2, [0.0, 1.0] * 2, "2 of 4 second texts are empty"),
        ("classifier", ["a"] * 30, [f"{number}.5" for number in range(30)], "the labels are 30 different numbers"),
        ("classifier", ["a b", "c d"] * 6, ["['x', 'y']", "z"] * 6, "6 of 12 labels are lists"),
        ("classifier", ["a", "b", "c"] * 3, ["1", "1.0", "2"] * 3, r"labels '1' \(3\) and '1.0' \(3\) are different"),
        ("tagger", [["Ada", "ran"]] * 3, [["b-per", "o"]] * 3, "tags such as 'b-per' are read as plain tags"),
        ("classifier", ["\u0131ş\u0131k ve k\u0131z", "IŞIK VE KIZ"] * 6, ["a", "b"] * 6, "2 words with a capital I"),
    ],
)
def test_hints_of_training(kind, inputs, labels, message, tiny):
    with pytest.warns(Hint, match=message):
        tiny(kind, training={"epochs": 1, "dev_fraction": 0.0}).fit(inputs, labels)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("classifier", ["-", "x", "y", "x"] * 3, "3 of 12 labels are '-'"),
        ("classifier", [0, 1, 2, -1] * 3, "3 of 12 labels are -1"),
        ("pair", ["n/a", "x", "NULL", "x"] * 3, "3 of 12 labels are 'n/a' and 3 of 12 labels are 'NULL'"),
        ("multilabel", [("?",), ("x", "y"), (), ("x",)] * 3, "3 of 12 labels are '\\?'"),
        ("tagger", [["-100", "A"], ["B", "A"]] * 6, "6 of 24 tags are '-100'"),
    ],
)
def test_marks_of_no_label_are_told(kind, labels, message, tiny):
    texts = {"pair": [("a", "b")] * 12, "tagger": [["a", "b"]] * 12}.get(kind, ["a b"] * 12)
    with pytest.warns(Hint, match=message) as caught:
        tiny(kind, training={"epochs": 1}).fit(texts, labels)
    assert ("drop_label",) in [warning.message.options for warning in caught]
    assert hint_at_marks(["x", "y"]) is None


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (["bug", "login", "bug;login"], "';'"),
        (["bug", "login", "login | bug"], "'|'"),
        (["bug", "login", "bug;other"], None),
        (["either/or", "either", "or"], None),
        ([1, 2, 12], None),
    ],
)
def test_names_of_several_labels(labels, separator):
    hint = hint_at_joined_names(labels * 3, set(labels))
    assert (hint is not None) is (separator is not None)
    if hint is not None:
        assert str(hint).startswith(f"3 of 9 labels, such as {labels[2]!r}")
        assert f"--label-separator={separator}" in hint.render("--{}".format).replace(
            "label_separator", "label-separator"
        )


def test_classes_to_be_forgotten():
    assert hint_at_forgotten_classes(["a", "b", np.str_("c")], ["a", "c"]) is None
    hint = hint_at_forgotten_classes(["a", "d"], ["a", "b", "c"])
    assert str(hint).startswith(
        "2 of the 3 classes that the model knows have no example in the training set ('b', 'c')"
    )
