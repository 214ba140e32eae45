"""The text classifier: labels of any kind, one or several for a text."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.model_selection import cross_val_score

from graphattn.builders import Example
from graphattn.exceptions import DataError, GraphAttnWarning, TruncationWarning
from graphattn.models import MSTransOptions, load


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["neg", "pos"], ["neg", "pos"]),
        ([0, 1], [0, 1]),
        ([7, -3], [-3, 7]),
        ([True, False], [False, True]),
        (np.array([4, 2]), [2, 4]),
        (np.array(["b", "a"]), ["a", "b"]),
        (np.array([True, False]), [False, True]),
        ([1.0, 2.0], [1.0, 2.0]),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
    ],
    ids=str,
)
def test_labels_keep_their_type(labels, classes, tiny):
    estimator = tiny("classifier", training={"epochs": 1}).fit(["a b", "c d"] * 6, list(labels) * 6)
    assert estimator.classes_.tolist() == classes
    predicted = estimator.predict(["a", "c", ""])
    assert predicted.dtype == estimator.classes_.dtype == np.asarray(classes).dtype
    assert set(predicted.tolist()) <= set(classes)
    assert all(type(label) is type(classes[0]) for label in predicted.tolist())


def test_probabilities(corpus, tiny):
    texts, labels = corpus("classifier")
    labels = [f"{label} {number % 2}" for number, label in enumerate(labels)]
    estimator = tiny("classifier").fit(texts, labels)
    chances = estimator.predict_proba(texts)
    assert chances.shape == (40, 4)
    assert chances.dtype == np.float32
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-6)
    assert estimator.predict(texts).tolist() == estimator.classes_[chances.argmax(1)].tolist()
    assert estimator.predict_proba([]).shape == (0, 4)


@pytest.mark.slow
def test_several_labels(corpus, able):
    texts, labels = corpus("multilabel", 60)
    estimator = able("multilabel")
    estimator.fit(texts, [list(several) for several in labels])
    assert estimator.classes_.tolist() == ["dull", "great", "slow"]
    predicted, chances = estimator.predict(texts), estimator.predict_proba(texts)
    assert [
        tuple(name for name, chance in zip(estimator.classes_, row, strict=True) if chance > 0.5) for row in chances
    ] == predicted
    assert estimator.evaluate(texts, labels)["exact_match"] == pytest.approx(
        100 * np.mean([sorted(own) == list(gold) for own, gold in zip(map(sorted, labels), predicted, strict=True)])
    )
    assert estimator.score(texts, labels) > 0.8
    assert () in predicted


def test_several_labels_of_examples(tiny):
    examples = [Example("a b", label=("x", "y")), Example("c", label=()), Example("d", label=("y",))] * 4
    estimator = tiny("multilabel", training={"epochs": 1}).fit(examples)
    assert estimator.classes_.tolist() == ["x", "y"]
    assert 0 <= estimator.score(examples) <= 1


def test_duplicate_labels_count_once(tiny):
    first = tiny("multilabel", training={"epochs": 1}).fit(["a", "b"] * 4, [("x", "x"), ("y",)] * 4)
    second = tiny("multilabel", training={"epochs": 1}).fit(["a", "b"] * 4, [("x",), ("y",)] * 4)
    assert np.array_equal(first.predict_proba(["a b"]), second.predict_proba(["a b"]))


def test_examples_with_one_and_with_several_labels(tiny):
    """JSON Lines and their stores can mix both."""
    mixed = [Example("a", label="x"), Example("b", label=("x", "y")), Example("c", label=())]
    lists = [Example("a", label=("x",)), *mixed[1:]]
    one, other = (tiny("multilabel", training={"epochs": 1}).fit(examples) for examples in (mixed, lists))
    assert np.array_equal(one.predict_proba(["a b"]), other.predict_proba(["a b"]))
    assert one.evaluate(mixed) == other.evaluate(lists)


@pytest.mark.parametrize("columns", [1, 3])
def test_a_matrix_with_other_columns(columns, tiny):
    texts, matrix = ["a", "b", "a b"], np.array([[1, 0], [0, 1], [1, 1]])
    estimator = tiny("multilabel", training={"epochs": 1}).fit(texts, matrix)
    with pytest.raises(DataError) as caught:
        estimator.evaluate(texts, np.ones((3, columns), int))
    assert str(caught.value) == (
        f"the matrix of the evaluation set's labels has {columns} columns, the model 2 classes. "
        "Give a column for each class, in the order of classes_."
    )
    with pytest.raises(DataError, match="the matrix of the dev set's labels"):
        estimator.fit(texts, matrix, dev=(texts, np.ones((3, columns), int)))


def test_unknown_labels_among_several(fitted):
    with pytest.raises(DataError) as caught:
        fitted("multilabel").evaluate(["a"], [("slow", "new")], unknown="error")
    assert str(caught.value) == (
        "the evaluation set has label 'new', which the training set lacks. Known: dull, great, slow."
    )


def test_sub_words(corpus, tiny):
    texts, labels = corpus("classifier")
    estimator = tiny("classifier", inputs={"level": "bpe", "vocabulary_size": 40}).fit(texts, labels)
    assert estimator.vocabulary_.level == "bpe"
    assert estimator.predict(["unheardof words", ""]).shape == (2,)


def test_several_files_of_word_vectors(corpus, tiny, vectors_file, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("other3 1 2\nfurther 3 4\n")
    texts, labels = corpus("classifier")
    estimator = tiny("classifier", inputs={"vectors": (str(vectors_file), str(more))}).fit(texts, labels)
    assert "other3" in estimator.vocabulary_
    assert "further" in estimator.vocabulary_
    assert estimator.model_.embedding.table.shape[1] == 6 + 2
    loaded = load(estimator.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict_proba(texts), estimator.predict_proba(texts))


@pytest.mark.parametrize("which", ["all", "corpus"])
@pytest.mark.parametrize("tune", [False, True])
def test_words_with_a_vector(which, tune, tiny, tmp_path):
    """Rare words are known if they have a vector, in any spelling, and words outside the corpus on request."""
    (tmp_path / "v.txt").write_text("Paris 1 2\no'clock 3 4\nelsewhere 5 6\n")
    inputs = {"vectors": str(tmp_path / "v.txt"), "vectors_words": which, "min_count": 2, "tune_vectors": tune}
    texts = ["a film", "a film", "a paris film", "o\u2019clock odd"]
    model = tiny("classifier", inputs=inputs, training={"epochs": 1}).fit(texts, ["x", "y", "x", "y"])
    vocabulary, trained = model.vocabulary_, model.model_.embedding.trained
    assert vocabulary.encode("paris o\u2019clock").min() > 1
    assert vocabulary.encode("odd").tolist() == [1]
    assert ("elsewhere" in vocabulary) is (which == "all")
    highest = max(vocabulary.encode("a film paris o\u2019clock"))
    assert trained.shape == (1 + highest if tune else 3, 2)  # with those of special tokens


def test_numbers_that_look_alike_are_one_word(tiny, tmp_path):
    (tmp_path / "v.txt").write_text("in 1 2\n1996 3 4\n2005 5 8\n")
    inputs = {"vectors": str(tmp_path / "v.txt"), "zero_digits": True, "normalize_vectors": False}
    model = tiny("classifier", inputs=inputs, training={"epochs": 1})
    model.fit(["in 1848", "in 37"] * 3, ["x", "y"] * 3)
    row = model.vocabulary_.encode("2024").item()
    assert model.vocabulary_.words[row] == "0000"
    assert model.model_.embedding.table[row - 3].tolist() == [4, 6]
    loaded = load(model.save(tmp_path / "model"))
    assert loaded.vocabulary_.encode("year 2024 99 9,9").tolist() == [1, row, loaded.vocabulary_.encode("11").item(), 1]
    np.testing.assert_array_equal(loaded.predict_proba(["in 1066"]), model.predict_proba(["in 2024"]))


@pytest.mark.parametrize("which", ["all", "corpus"])
def test_few_matching_vectors_give_a_warning(which, tiny, tmp_path):
    path = tmp_path / "v.txt"
    inputs = {"vectors": str(path), "vectors_words": which}
    texts, labels = ["a film", "a rare film"] * 2, ["x", "y"] * 2
    for content, count in (("zzz 1 2\nqqq 2 1\n", 1), ("zzz 1 2\nFilm 2 1\n", 0)):
        path.write_text(content)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tiny("classifier", inputs=inputs, training={"epochs": 1}).fit(texts, labels)
        assert [str(one.message) for one in caught if one.category is GraphAttnWarning] == [
            f"{path} has vectors for 0.0% of the words of the training set; check its language and spelling"
        ] * count


def test_heads_on_dependencies(tiny):
    from graphattn.builders import Sentence
    from graphattn.models import MSTransOptions

    options = MSTransOptions(hidden=8, heads=2, layers=1, scales=("3",), relations=("dependency:1", "group:1"))
    parsed = [Sentence(["a", "b"], heads=[2, 0], label="x"), Sentence(["b", "a"], heads=[0, 1], label="y")] * 4
    estimator = tiny("classifier", options, training={"epochs": 1}).fit(parsed)
    assert estimator.predict(parsed).shape == (8,)
    with pytest.raises(DataError) as caught:
        estimator.predict(["a b"])
    assert str(caught.value) == (
        "field 'heads': sentence 0 ('a b' ...) has no heads, but the relation 'dependency' needs them. "
        "Give parsed sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza wrote), or "
        "leave the relation out. Or parse the texts with parser=stanza."
    )


@pytest.mark.parametrize("kind", [np.str_, object])
def test_several_labels_as_an_array_of_names(corpus, tiny, kind):
    texts = corpus("multilabel", 12)[0]
    names = np.array([["a", "b"], ["b", "c"]] * 6).astype(kind)
    estimator = tiny("multilabel", training={"epochs": 1}).fit(texts, names)
    assert estimator.classes_.tolist() == ["a", "b", "c"]
    assert all(isinstance(labels, tuple) for labels in estimator.predict(texts))


@pytest.mark.slow
def test_several_labels_as_a_matrix(corpus, able, tmp_path):
    texts, labels = corpus("multilabel", 60)
    names = ["dull", "great", "never", "slow"]
    matrix = np.array([[name in several for name in names] for several in labels]).astype(int)
    estimator = able("multilabel").fit(texts, matrix)
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    predicted = estimator.predict(texts)
    assert predicted.shape == matrix.shape
    assert (predicted == (estimator.predict_proba(texts) > 0.5)).all()
    assert estimator.score(texts, matrix) == pytest.approx(
        2 * (predicted & matrix).sum() / (predicted.sum() + matrix.sum())
    )
    assert estimator.score(texts, matrix) > 0.8
    loaded = load(estimator.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(texts[:5]), predicted[:5])
    assert loaded.predict([]).shape == (0, 4)


MATRIX_FORMS = {
    "sparse": sparse.csr_matrix,
    "tensor": torch.tensor,
    "bfloat16": lambda matrix: torch.tensor(matrix, dtype=torch.bfloat16),
    "lists": np.ndarray.tolist,
    "tuples": lambda matrix: tuple(map(tuple, matrix.tolist())),
    "arrays": list,
    "tensors": lambda matrix: list(torch.tensor(matrix)),
    "truth values": lambda matrix: matrix.astype(bool).tolist(),
    "fractions": lambda matrix: matrix.astype(float).tolist(),
    "objects": lambda matrix: matrix.astype(object),
    "frame": pd.DataFrame,
    "nullable frame": lambda matrix: pd.DataFrame(matrix).astype("Int64"),
    "series": lambda matrix: pd.Series(matrix.tolist()),
    "polars series": lambda matrix: pytest.importorskip("polars").Series(matrix.tolist()),
}


@pytest.fixture(scope="module")
def of_matrix(corpus, tiny):
    """Texts, the matrix of their labels, and a model of them."""
    texts, labels = corpus("multilabel", 16)
    matrix = np.array([[name in several for name in ("dull", "great", "slow")] for several in labels]).astype(int)
    return texts, matrix, tiny("multilabel", training={"epochs": 1}).fit(texts, matrix, dev=(texts, matrix))


@pytest.mark.slow
@pytest.mark.parametrize("form", MATRIX_FORMS.values(), ids=MATRIX_FORMS)
def test_forms_of_a_matrix(form, of_matrix, tiny):
    texts, matrix, expected = of_matrix
    estimator = tiny("multilabel", training={"epochs": 1}).fit(texts, form(matrix), dev=(texts, form(matrix)))
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert np.array_equal(estimator.predict_proba(texts), expected.predict_proba(texts))
    assert estimator.history_[-1]["dev_micro_f1"] == expected.history_[-1]["dev_micro_f1"]
    for measure in ("score", "evaluate"):
        assert getattr(estimator, measure)(texts, form(matrix)) == getattr(expected, measure)(texts, matrix)
    assert str(estimator.report(texts, form(matrix))) == str(expected.report(texts, matrix))


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda columns: pytest.importorskip("polars").DataFrame(columns)], ids=["pandas", "polars"]
)
def test_columns_of_a_frame_are_found_by_name(make, of_matrix, tiny, tmp_path):
    texts, matrix, expected = of_matrix

    def to_frame(*order):
        return make({name: matrix[:, ["great", "dull", "slow"].index(name)] for name in order})

    frame, turned = to_frame("great", "dull", "slow"), to_frame("slow", "dull", "great")
    estimator = tiny("multilabel", training={"epochs": 1}).fit(texts, frame, dev=(texts, turned))
    estimator.save(tmp_path)
    estimator = load(tmp_path)
    assert estimator.classes_.tolist() == ["great", "dull", "slow"]
    assert np.array_equal(estimator.predict_proba(texts), expected.predict_proba(texts))
    assert np.array_equal(estimator.predict(texts), expected.predict(texts))
    scores = expected.evaluate(texts, matrix)
    assert estimator.history_[-1]["dev_micro_f1"] == expected.history_[-1]["dev_micro_f1"]
    assert estimator.evaluate(texts, frame) == estimator.evaluate(texts, turned) == scores
    assert estimator.evaluate(texts, matrix) == expected.evaluate(texts, frame) == scores
    sets = [tuple(name for name, flag in zip(estimator.classes_, row, strict=True) if flag) for row in matrix]
    named = tiny("multilabel", training={"epochs": 1}).fit(texts, sets)
    assert named.evaluate(texts, turned) == named.evaluate(texts, sets)
    for model in (estimator, named):
        with pytest.raises(DataError) as caught:
            model.evaluate(texts, to_frame("slow", "great"))
        assert str(caught.value) == (
            "the matrix of the evaluation set's labels has no column 'dull'. Give a column for each class."
        )


def test_further_training_adds_columns_of_a_frame(of_matrix, tiny):
    texts, matrix, _ = of_matrix
    frame = pd.DataFrame(matrix, columns=["great", "dull", "slow"])
    estimator = tiny("multilabel", training={"epochs": 1}).fit(texts, frame).set_params(warm_start=True)
    estimator.fit(texts, frame.assign(new=1)[["new", "slow", "dull", "great"]])
    assert estimator.classes_.tolist() == ["great", "dull", "slow", "new"]
    assert estimator.predict(texts)[:, 3].all()


@pytest.mark.slow
def test_examples_with_rows_of_a_matrix(of_matrix, tiny):
    texts, matrix, _ = of_matrix
    rows = [Example(text, label=tuple(map(str, row))) for text, row in zip(texts, matrix.tolist(), strict=True)]
    estimator, expected = tiny("multilabel", training={"epochs": 1}), tiny("multilabel", training={"epochs": 1})
    estimator.fit(rows)
    assert estimator.evaluate(rows) == expected.fit(texts, matrix).evaluate(texts, matrix)
    estimator.warm_start = expected.warm_start = True
    assert estimator.fit(rows).evaluate(rows) == expected.fit(texts, matrix.tolist()).evaluate(texts, matrix)
    assert estimator.classes_.tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([{0, 1}, {1, 0}] * 6, [0, 1]),
        ([[1], [0]] * 6, [0, 1]),
        ([[0, 1], [5]] * 6, [0, 1, 5]),
        ([(3, 3), (1, 0)] * 6, [0, 1, 3]),
        ([np.array([0, 1]), np.array([])] * 6, [0, 1]),
    ],
)
def test_collections_of_numbers(y, classes, tiny):
    assert tiny("multilabel", training={"epochs": 1}).fit(["a b", "c d"] * 6, y).classes_.tolist() == classes


def test_the_other_form_of_labels_than_in_training(corpus, tiny):
    """A matrix has a column for each class; collections of a model of a matrix have its columns."""
    texts, labels = corpus("multilabel", 16)
    names = ["dull", "great", "never", "slow"]
    labels[0] = ("never", *labels[0])
    matrix = np.array([[name in several for name in names] for several in labels]).astype(int)
    named, numbered = tiny("multilabel", training={"epochs": 1}), tiny("multilabel", training={"epochs": 1})
    named.fit(texts, labels, dev=(texts, matrix))
    assert named.evaluate(texts, matrix) == named.evaluate(texts, matrix.tolist()) == named.evaluate(texts, labels)
    numbered.fit(texts, matrix.tolist())
    columns = [tuple(map(names.index, several)) for several in labels]
    assert numbered.evaluate(texts, columns) == numbered.evaluate(texts, matrix)
    with pytest.raises(DataError, match="3 columns, the model 4 classes"):
        named.evaluate(texts, matrix[:, :3])


@pytest.mark.slow
def test_rows_of_two_mean_what_the_model_has_learnt(tiny):
    texts, unclear = ["a b", "c d"] * 6, [[0, 1], [1, 0]] * 6
    matrix = tiny("multilabel", training={"epochs": 1}).fit(texts, np.array(unclear))
    assert matrix.evaluate(texts, unclear) == matrix.evaluate(texts, np.array(unclear))
    matrix.warm_start = True
    assert matrix.fit(texts, unclear).predict(texts).shape == (12, 2)
    wider = tiny("multilabel", training={"epochs": 1}).fit(texts, np.eye(3, dtype=int)[[0, 1, 2] * 4])
    with pytest.raises(DataError, match="2 columns, the model 3 classes"):
        wider.evaluate(texts, unclear)
    sets = tiny("multilabel", training={"epochs": 1}).fit(texts, [(0, 1), (2,)] * 6)
    assert sets.evaluate(texts, unclear) == sets.evaluate(texts, [{0, 1}] * 12)


def test_several_labels_are_cross_validated(of_matrix, tiny):
    texts, matrix, _ = of_matrix
    scores = cross_val_score(tiny("multilabel", training={"epochs": 1}), texts, matrix, cv=2)
    assert ((scores >= 0) & (scores <= 1)).all()


ONE_HOT = np.eye(2, dtype=int)[[0, 1] * 6]
OTHER_VALUES = (
    "a matrix of labels has values other than 0 and 1. Give zeros and ones, or a tuple of class names for each text."
)
FRACTION = (
    "the label {} is a fraction, and this is classification. Labels are classes, not quantities: round them, sort them "
    "into ranges, or use str(label)."
).format


@pytest.mark.parametrize(
    ("kind", "y", "message"),
    [
        ("multilabel", ["x", ("y",)], "label 0, 'x', is not a collection. Give a tuple of class names for each text."),
        ("multilabel", [(), ()], "there are no labels; training needs at least two different ones"),
        ("multilabel", [(b"x",), ()], "the label b'x' is of type bytes. Use strings or numbers."),
        ("multilabel", np.array([[1, 2], [0, 1]]), OTHER_VALUES),
        ("multilabel", np.array([["x"], ["y"]]).astype("S"), OTHER_VALUES),
        ("multilabel", pd.DataFrame({"x": [1, None], "y": [0, 1]}, dtype="Int64"), OTHER_VALUES),
        (
            "multilabel",
            pd.DataFrame({"x": ["b", "c"]}),
            "labels are a DataFrame. Give one column of it, or for several labels to_numpy().",
        ),
        # a matrix, or collections of the classes 0 and 1
        ("multilabel", [[0, 1], [1, 0]] * 6, ""),
        ("multilabel", [(True, False), (False, True)] * 6, ""),
        ("multilabel", [*[[1, 0, 1], [0, 1, 0]] * 5, [1, 1, 0], [0, 1]], ""),
        ("multilabel", [*[[1, 0, 1], [0, 1, 0]] * 5, [1, 1, 0], [0, 1, 2]], ""),
        ("multilabel", [*[[1, 0, 1], [0, 1, 0]] * 5, [1, 1, 0], ["a"]], ""),
        ("multilabel", [{"x": 1, "y": 0}, {"x": 0, "y": 1}] * 6, ""),
        ("multilabel", [0, 1] * 6, ""),
        ("multilabel", [torch.tensor(0), torch.tensor(1)] * 6, ""),
        ("multilabel", [np.array(0), np.array(1)] * 6, ""),
        (
            "classifier",
            pd.array([1, pd.NA], dtype="Int64"),
            "label 1 is <NA>, a missing value. Leave this input out, or name its class.",
        ),
        ("classifier", [b"x", "y"], "the label b'x' is of type bytes. Use strings or numbers."),
        (
            "classifier",
            pd.DataFrame({"y": [0, 1], "z": [1, 0]}),
            "labels are a DataFrame. Give one column of it, or for several labels to_numpy().",
        ),
        *(
            ("classifier", np.array([1.0, 2.0, 1.0, fraction]), FRACTION(repr(float(fraction))))
            for fraction in (0.37, np.float32(0.5), np.float64(-1.25))
        ),
        *(
            (kind, form(ONE_HOT), "")
            for kind in ("classifier", "pair")
            for form in (np.array, np.ndarray.tolist, list, torch.tensor, lambda y: list(torch.tensor(y)), pd.DataFrame)
        ),
        ("classifier", [{0: 1}, {1: 0}] * 6, ""),
    ],
)
def test_labels_that_cannot_be_learned(kind, y, message, tiny):
    with pytest.raises(DataError) as caught:
        tiny(kind, training={"epochs": 1}).fit([("a b", "c d") if kind == "pair" else "a b"] * len(y), y)
    assert str(caught.value).startswith(message)


def test_a_matrix_of_other_texts(tiny):
    with pytest.raises(DataError, match="2 inputs but 3 labels"):
        tiny("multilabel").fit(["a", "b"], np.eye(3, dtype=int))


def test_one_class_is_enough_with_several_labels(tiny):
    estimator = tiny("multilabel", training={"epochs": 1}).fit(["a b", "c d"] * 6, [("x",), ()] * 6)
    assert estimator.classes_.tolist() == ["x"]


def test_a_fitted_model_keeps_its_multilabel_setting(corpus, tiny):
    estimator = tiny("classifier", training={"epochs": 1}).fit(*corpus("classifier", 12))
    before = estimator.predict(["good"]).tolist()
    estimator.set_params(multilabel=True)
    assert estimator.predict(["good"]).tolist() == before
    assert estimator.task_.labels.multilabel is False


@pytest.mark.parametrize("labels", [torch.tensor([0, 1] * 6), [torch.tensor(0), torch.tensor(1)] * 6])
def test_labels_as_tensors(labels, tiny):
    assert tiny("classifier", training={"epochs": 1}).fit(["a", "b"] * 6, labels).classes_.tolist() == [0, 1]


def test_relations_use_the_vector_of_each_word(tiny, tmp_path):
    (tmp_path / "v.txt").write_text("film 1 2\nplot 3 5\n")
    inputs = {"vectors": str(tmp_path / "v.txt"), "normalize_vectors": False, "tune_vectors": False}
    encoder = MSTransOptions(hidden=12, heads="window:3=1,nearest:1=2", layers=1)
    fitted = tiny("classifier", encoder, inputs=inputs, training={"epochs": 1}).fit(["film plot"] * 4, ["x", "y"] * 2)
    rows = fitted.builder_.vectors[fitted.vocabulary_.encode(["film", "plot"])]
    assert np.asarray(rows).tolist() == [[1, 2], [3, 5]]


def test_html_is_stripped_and_long_texts_are_truncated(corpus, tiny):
    texts, labels = corpus("classifier")
    marked = [f"<p>{text.replace('film', 'fi<b>lm</b>').replace(' ', '<br />')}</p>" for text in texts]
    stripped = tiny(inputs={"strip_html": True}).fit(marked, labels)
    assert stripped.history_ == tiny().fit(texts, labels).history_
    assert stripped.predict(marked).tolist() == stripped.predict(texts).tolist()
    stripped.inputs_.max_tokens_per_text = 3
    lost = [len(text.split()) - 3 for text in texts if len(text.split()) > 3]
    message = f"^{len(lost)} texts truncated to 3 tokens, which leaves out {sum(lost)}$"
    with pytest.warns(TruncationWarning, match=message):
        truncated = stripped.predict_proba(marked)
    expected = stripped.predict_proba([" ".join(text.split()[:3]) for text in texts])
    np.testing.assert_allclose(truncated, expected, atol=1e-6)


def test_one_warning_of_truncation_for_the_training_set_with_its_held_out_share(tiny):
    texts, labels = ["a b c d e", "f g h i"] * 10, ["x", "y"] * 10
    model = tiny(inputs={"max_tokens_per_text": 3}, training={"epochs": 1, "dev_fraction": 0.1})
    with pytest.warns(TruncationWarning) as caught:
        model.fit(texts, labels)
    messages = [str(warning.message) for warning in caught if isinstance(warning.message, TruncationWarning)]
    assert messages == ["20 texts of the training set truncated to 3 tokens, which leaves out 30"]


@pytest.mark.filterwarnings("error", "ignore::graphattn.exceptions.Hint")
def test_texts_without_words(tiny):
    estimator = tiny("classifier", training={"epochs": 1}).fit(["", " "] * 4, ["a", "b"] * 4)
    assert np.isfinite(estimator.predict_proba(["", "unknown"])).all()
