"""The sequence tagger: one tag for each word, in the scheme of the training set."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers import read_conll, read_word_tag
from graphattn.builders.tag_schemes import convert
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, UnknownLabelError
from graphattn.experiments._serving.requests import require_texts
from graphattn.models import load
from graphattn.models._estimators.state import make_corpus

FAST = {"epochs": 4, "learning_rate": 0.04, "dev_fraction": 0.0}


@pytest.fixture(scope="module")
def iob2_tagger(corpus, tiny):
    return tiny("crf", training=FAST).fit(*corpus("crf", 60))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU", "BMES"])
def test_predicted_tags_have_the_scheme_of_the_training_set(scheme, iob2_tagger, corpus, tiny):
    """All schemes are learnt as BIOES, so they give the same model."""
    words, iob2 = corpus("crf", 60)
    tags = [convert(own, "IOB2", scheme) for own in iob2]
    estimator = tiny("crf", training=FAST).fit(words, tags)
    assert estimator.scheme_ == scheme
    assert set(estimator.classes_) == {"O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("LOC", "ORG"))}
    expected = iob2_tagger.predict(words)
    assert estimator.predict(words) == [convert(own, "IOB2", scheme) for own in expected]
    assert estimator.evaluate(words, tags)["f1"] == iob2_tagger.evaluate(words, iob2)["f1"] > 0


def test_plain_tags(corpus, tiny):
    words, tags = corpus("tagger")
    estimator = tiny("tagger").fit(words, tags)
    assert estimator.scheme_ == "none"
    assert estimator.classes_.tolist() == ["LONG", "NAME", "SHORT"]
    assert set(estimator.evaluate(words, tags)) == {"accuracy"}
    assert "dev_accuracy" in estimator.history_[0]


def test_the_scheme_can_be_given(tiny):
    words = [["a", "b"], ["c"]] * 4
    estimator = tiny("tagger", scheme="none", training={"epochs": 1}).fit(words, [["B-X", "O"], ["I-X"]] * 4)
    assert estimator.classes_.tolist() == ["B-X", "I-X", "O"]
    assert estimator.scheme_ == "none"


@pytest.mark.parametrize("kind", ["tagger", "crf"])
def test_one_row_of_probabilities_for_each_word(kind, corpus, fitted):
    words, _ = corpus(kind)
    estimator = fitted(kind)
    rows = estimator.predict_proba(words)
    assert [row.shape for row in rows] == [(len(own), len(estimator.classes_)) for own in words]
    for row in rows:
        assert row.dtype == np.float32
        np.testing.assert_allclose(row.sum(1), 1, atol=1e-5)


@pytest.mark.slow
def test_sub_words_have_one_tag_for_each_word(corpus, able):
    words, tags = corpus("crf", 60)
    estimator = able("crf", {"level": "bpe", "vocabulary_size": 30}).fit(words, tags)
    assert max(len(s) / s.num_words for s in estimator.vocabulary_.sentences(words) if len(s)) > 2
    assert [len(own) for own in estimator.predict(words)] == [len(own) for own in words]
    assert [len(own) for own in estimator.predict([["Unheardof", "wordswordswords"], [], ["日本"]])] == [2, 0, 1]
    assert estimator.score(words, tags) > 0.8


def test_texts_are_split_into_words(fitted):
    estimator = fitted("tagger")
    assert estimator.predict(["the film was slow"]) == estimator.predict([["the", "film", "was", "slow"]])


def test_tags_of_sentences(corpus, tiny):
    words, tags = corpus("tagger")
    carried = [Sentence(own, tags=own_tags) for own, own_tags in zip(words, tags, strict=True)]
    given = tiny("tagger").fit(words, tags)
    estimator = tiny("tagger").fit(carried, dev=carried)
    assert estimator.predict(carried[:0]) == []
    assert estimator.score(carried) == estimator.score(words, tags)
    assert given.classes_.tolist() == estimator.classes_.tolist()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (
            [["a", "b"], ["c"]],
            [["X", "Y"], ["X", "Y"]],
            "field 'tags': sentence 1 of the training set has 1 words but 2 tags. Give one tag for each word.",
        ),
        ([["a"], ["b"]], [["O"], ["O"]], "all 2 tags are 'O'; training needs at least two different ones"),
        ([["a"]], [["O"], ["O"]], "1 inputs but 2 labels. Give one for each."),
        (
            [["a"], ["b"]],
            [["X"], "Y"],
            "field 'tags': the tags of input 1 are 'Y'. Give a list with one tag for each word.",
        ),
        (
            [["a"], ["b"]],
            [None, ["X"]],
            "field 'tags': the tags of input 0 are None. Give a list with one tag for each word.",
        ),
        ([["a"]], None, "input 0 has no tags. Give y, or inputs with tags."),
        ([[], []], [[], []], "there are no tags; training needs at least two different ones"),
    ],
)
def test_tags_that_cannot_be_learned(X, y, message, tiny):
    with pytest.raises(DataError) as caught:
        tiny("tagger", training={"dev_fraction": 0.0}).fit(X, y)
    assert str(caught.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("wrong", range(12))
def test_a_held_out_sentence_is_counted_in_the_users_list(wrong, tiny):
    words, tags = [["a", "b"]] * 12, [["X", "Y"]] * 12
    tags[wrong] = ["X"]
    with pytest.raises(DataError, match=f": sentence {wrong} of the training set has 2 words but 1 tags"):
        tiny("tagger", training={"dev_fraction": 0.3}).fit(words, tags)


def test_unknown_tags_at_evaluation(fitted):
    estimator = fitted("crf")
    with pytest.raises(DataError) as caught:
        estimator.evaluate([["a", "b"]], [["B-NEW", "O"]], unknown="error")
    assert str(caught.value) == (
        "the evaluation set has entities of type 'NEW', which the training set lacks. Known: LOC, ORG."
    )
    with pytest.warns(GraphAttnWarning, match="'NEW', which the training set lacks"):
        assert estimator.evaluate([["a", "b"]], [["B-NEW", "O"]], unknown="wrong")["f1"] == 0.0
    with pytest.raises(DataError, match=r"LOC, ORG\. No label here is known; unknown=wrong counts all as wrong\."):
        estimator.evaluate([["a", "b"]], [["B-NEW", "O"]])
    with pytest.warns(GraphAttnWarning, match="'NEW', which the training set lacks"):
        estimator.evaluate([["a", "b"]] * 2, [["B-NEW", "O"], ["B-LOC", "O"]])
    assert estimator.score([["a", "b"]], [["B-NEW", "O"]]) == 0.0


@pytest.mark.parametrize("unknown", ["error", "wrong"])
@pytest.mark.parametrize("tags", [["NOUN", "VERB"], ["IN", "IN"], ["O", "IN"]])
def test_tags_without_entities_cannot_be_evaluated(tags, unknown, fitted):
    with pytest.raises(DataError) as caught:
        fitted("crf").evaluate([["a", "b"]], [tags], unknown=unknown)
    assert str(caught.value) == (
        f"field 'tags': the tags of the evaluation set mark no entities: {next(t for t in tags if t != 'O')!r}. "
        "The model's tags have the scheme IOB2."
    )


def test_an_entity_longer_than_any_in_training(tiny):
    estimator = tiny("crf", training={"epochs": 1}).fit([["NATO", "was"]] * 8, [["B-ORG", "O"]] * 8)
    assert estimator.evaluate([["a", "b", "c"]], [["B-ORG", "I-ORG", "I-ORG"]])["accuracy"] >= 0


@pytest.mark.parametrize("changes", [{"class_weight": "balanced"}, {"training__label_smoothing": 0.1}])
def test_a_crf_accepts_neither_weights_nor_smoothing(changes, corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("crf").set_params(**changes).fit(*corpus("crf"))
    assert caught.value.options == (next(iter(changes)).removeprefix("training__"), "crf")


def test_class_weights_without_crf(corpus, tiny):
    words, tags = corpus("tagger")
    estimator = tiny("tagger", class_weight={"NAME": 50.0}, training={"epochs": 1}).fit(words, tags)
    assert estimator.model_.head.class_weights.tolist() == [1.0, 50.0, 1.0]
    balanced = tiny("tagger", class_weight="balanced", training={"epochs": 1, "dev_fraction": 0.0}).fit(words, tags)
    flat = [tag for own in tags for tag in own]
    expected = [len(flat) / (3 * flat.count(tag)) for tag in ("LONG", "NAME", "SHORT")]
    assert balanced.model_.head.class_weights.tolist() == pytest.approx(expected)


def test_class_weights_of_iob1_do_not_depend_on_their_order(tiny):
    words, tags = [["a", "b", "c"]] * 8, [["I-LOC", "B-LOC", "O"]] * 8
    for given in ({"B-LOC": 9.0, "I-LOC": 2.0}, {"I-LOC": 2.0, "B-LOC": 9.0}):
        estimator = tiny("tagger", class_weight=given, scheme="IOB1", training={"epochs": 1}).fit(words, tags)
        weights = dict(zip(estimator.classes_, estimator.model_.head.class_weights.tolist(), strict=True))
        assert weights == {"B-LOC": 9.0, "S-LOC": 9.0, "I-LOC": 2.0, "E-LOC": 2.0, "O": 1.0}


@pytest.mark.parametrize("name", ["a.conll", "a.pos"])
def test_invalid_tags_are_reported_with_their_line(name, tiny, tmp_path):
    path = tmp_path / name
    if name == "a.conll":
        path.write_text("a O\nb B-LOC\n\n# more\n\na O\nb I-LOC\n\n")
        line, sentences = 6, list(read_conll(path, comment="#"))
    else:
        path.write_text("a/O b/B-LOC\n\na/O b/I-LOC\n")
        line, sentences = 3, list(read_word_tag(path))
    for scheme, message in (
        ("IOB2", f"{path}, line {line}, field 'tags': in the sentence that begins here, tag 2 ('I-LOC') does not"),
        (
            "auto",
            f"field 'tags': tag 2 ('B-LOC') of the sentence at line 1 of {path} breaks IOB1 and tag 2 ('I-LOC') of the "
            f"sentence at line {line} of {path} breaks IOB2. ",
        ),
    ):
        with pytest.raises(DataError) as caught:
            tiny("tagger", scheme=scheme).fit(sentences)
        assert str(caught.value).startswith(message)
    with pytest.raises(DataError, match=r"^field 'tags': sentence 0 of the training set: tag 1 \('I-X'\)"):
        tiny("tagger", scheme="IOB2").fit(sentences, [["I-X", "O"]] * len(sentences))


BROKEN = [["a", "b", "c"]] * 2, [["O", "B-LOC", "O"], ["O", "I-LOC", "I-LOC"]]


@pytest.mark.parametrize("scheme", ["auto", "IOB2"])
def test_invalid_tags_are_reported(scheme, corpus, tiny):
    words, tags = corpus("crf")
    named = "field 'tags': sentence 1 of the {}: tag 2 ('I-LOC') does not continue a span in IOB2. "
    fix = "Correct the tags, or set repair_tags=True, which reads invalid tags as conlleval does."
    estimator = tiny("crf", scheme=scheme, training={"epochs": 1})
    with pytest.raises(DataError) as caught:
        estimator.fit(words, tags, dev=BROKEN)
    assert str(caught.value) == named.format("dev set") + fix
    estimator.fit(words, tags)
    with pytest.raises(DataError) as caught:
        estimator.evaluate(*BROKEN)
    assert str(caught.value) == named.format("evaluation set") + fix
    with pytest.raises(DataError) as caught:
        estimator.fit(BROKEN[0] * 4, BROKEN[1] * 4)
    if scheme == "IOB2":
        assert str(caught.value) == named.format("training set") + fix
    else:
        assert str(caught.value) == (
            "field 'tags': tag 2 ('B-LOC') of sequence 0 breaks IOB1 and tag 2 ('I-LOC') of sequence 1 breaks IOB2. "
            "Correct the tags, or set scheme and repair_tags=True, which reads invalid tags as conlleval does."
        )


def test_repairs_are_not_advised_for_types_that_the_model_does_not_know(corpus, tiny):
    tagger = tiny("crf", scheme="IOB2", training={"epochs": 1}).fit(*corpus("crf"))
    with pytest.raises(UnknownLabelError) as caught:
        tagger.evaluate([["a", "b"]], [["O", "I-ODOUR"]])
    assert "ODOUR" in str(caught.value)
    assert "repair_tags" not in caught.value.options


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["auto", "IOB2"])
def test_invalid_tags_can_be_repaired(scheme, corpus, tiny, tmp_path):
    words, tags = corpus("crf")
    estimator = tiny("crf", scheme=scheme, repair_tags=True, training={"epochs": 1})
    estimator.fit(words, tags, dev=BROKEN).fit(BROKEN[0] * 8, BROKEN[1] * 8)
    assert estimator.scheme_ == "IOB2"
    repaired = [["O", "B-LOC", "O"], ["O", "B-LOC", "I-LOC"]]
    right = load(estimator.save(tmp_path / "model"))
    assert right.repair_tags
    assert right.evaluate(*BROKEN) == right.evaluate(BROKEN[0], repaired)


@pytest.mark.parametrize(
    ("tag", "kind"), [(None, "NoneType"), (float("nan"), "float"), (3, "int"), (np.int64(3), "int64")]
)
def test_tags_are_strings(tag, kind, tiny):
    with pytest.raises(DataError) as caught:
        tiny("tagger").fit([["a", "b"]] * 4, [["X", "Y"]] * 2 + [["X", tag]] * 2)
    assert str(caught.value) == (
        f"field 'tags': input 2 has the tag {tag!r} of type {kind}. Tags are strings; use str(tag) for numbers."
    )


def test_an_unknown_scheme(corpus, tiny):
    with pytest.raises(ConfigError) as caught:
        tiny("tagger", scheme="IOB3").fit(*corpus("crf"))
    assert str(caught.value) == (
        "scheme is 'IOB3'; did you mean 'IOB2' or 'IOB1'? choose one of: auto, IOB1, IOB2, BIOES, BILOU, BMES, BMEWO, "
        "none"
    )


@pytest.mark.parametrize(
    ("given", "learnt"),
    [
        ({"B-ORG": 5.0, "O": 0.5}, {"B-ORG": 5.0, "S-ORG": 5.0, "O": 0.5}),
        ({"I-LOC": 3.0}, {"I-LOC": 3.0, "E-LOC": 3.0}),
    ],
)
def test_class_weights_use_the_users_tags(given, learnt, corpus, tiny):
    words, tags = corpus("crf", 16)
    tagger = tiny("tagger", class_weight=given, training={"epochs": 1}).fit(words, tags)
    assert tagger.scheme_ == "IOB2"
    weights = dict(zip(tagger.classes_.tolist(), tagger.model_.head.class_weights.tolist(), strict=True))
    assert {tag: weight for tag, weight in weights.items() if weight != 1} == learnt


def test_class_weights_of_invalid_tags(corpus, tiny):
    with pytest.raises(DataError) as caught:
        tiny("tagger", class_weight={"S-ORG": 2.0}).fit(*corpus("crf", 16))
    assert str(caught.value) == (
        "class_weight has the tag 'S-ORG', which does not exist in IOB2. Tags begin with B or I."
    )


def test_weights_of_inner_tags_of_iob1(tiny):
    words, tags = [["a", "b", "c"]] * 4, [["I-X", "I-X", "O"]] * 4
    fitted = tiny("tagger", class_weight={"I-X": 3.0}, scheme="IOB1", training={"epochs": 1}).fit(words, tags)
    weights = dict(zip(fitted.classes_, fitted.model_.head.class_weights.tolist(), strict=True))
    assert weights == {"O": 1.0, **{f"{prefix}-X": 3.0 for prefix in "BIES"}}


@pytest.fixture(scope="module")
def roles():
    """Sentences of two predicates, each twice, and the roles of the marked one."""
    sentences = []
    for first, second in product(("dogs", "cats", "birds"), ("mice", "worms")):
        words = [first, "see", second, "and", second, "hear", first]
        for predicate in (1, 5):
            tags = ["O"] * 7
            tags[predicate - 1 : predicate + 2] = ["B-A0", "B-V", "B-A1"]
            marks = [int(place == predicate) for place in range(7)]
            sentences.append(Sentence(words, tags=tags, predicates=marks))
    return sentences * 3


@pytest.mark.slow
@pytest.mark.parametrize("level", ["word", "bpe"])
def test_roles_depend_on_the_marked_predicate(level, roles, able, tmp_path):
    inputs = {"predicate_embedding": 6, "level": level}
    tagger = able("tagger", inputs=inputs).set_params(head__linear_branch=True, head__crf=True).fit(roles)
    assert tagger.score(roles) == 1.0
    assert not tagger.head_.linear_branch  # it would not see the marks
    assert tagger.model_.embedding.predicate.weight.shape == (2, 6)
    loaded = load(tagger.save(tmp_path / "model"))
    assert loaded.predict(roles) == tagger.predict(roles)
    with pytest.raises(ConfigError, match=r"^model reads the marks of predicates, and a server gets texts alone\."):
        require_texts("model", loaded)
    if level == "bpe":  # a second training takes long
        return
    alone = able("tagger", inputs=inputs).fit([replace(sentence, predicates=None) for sentence in roles])
    assert alone.model_.embedding.predicate is None
    assert alone.score(roles) < 0.8


def test_marks_belong_to_all_tokens_of_a_word(roles, tiny):
    tagger = tiny("tagger", inputs={"level": "bpe", "vocabulary_size": 30}).fit(roles)
    (layout,) = make_corpus(tagger, roles[:2]).layouts
    sentences = tagger.vocabulary_.sentences(roles[:2])
    assert any(len(sentence) > 7 for sentence in sentences)
    marks = [0, *(roles[0].predicates[word] for word in sentences[0].word_ids)]
    assert layout.features["predicate"][: len(marks)].tolist() == marks


def test_sentences_without_marks_are_an_error(roles, tiny, tmp_path):
    tagger = tiny("tagger").fit(roles)
    for inputs in ([roles[0], ["dogs", "see"]], [roles[0], replace(roles[1], predicates=None)]):
        with pytest.raises(DataError, match="sentence 1 of the data marks no predicate") as caught:
            tagger.predict(inputs)
        assert caught.value.options == ("predicate_column",)
    path = tmp_path / "a.conll"
    path.write_text("\ndogs see\n")
    with pytest.raises(DataError, match="this sentence marks no predicate") as caught:
        tagger.predict(list(read_conll(path, tag_column=None)))
    assert (caught.value.path, caught.value.line) == (str(path), 2)
    with pytest.raises(DataError, match="sentence 1 of the training set marks no predicate"):
        tiny("tagger", training={"dev_fraction": 0.0}).fit([roles[0], replace(roles[1], predicates=None)])


def test_a_model_keeps_how_its_corpus_was_read(tiny, tmp_path):
    rows = "1 _ Ada B-PER x\n2 _ sang O x\n\n"
    (tmp_path / "a.txt").write_text(rows * 8)
    (tmp_path / "b.data").write_text(rows)
    tagger = tiny("tagger", training={"epochs": 1})
    sentences, _ = tagger.read([tmp_path / "a.txt"], token_column=2, tag_column=3)
    assert tagger.fit(sentences).corpus_ == {
        "format": "conll",
        "suffix": ".txt",
        "counts": False,
        "token_column": 2,
        "tag_column": 3,
    }
    loaded = load(tagger.save(tmp_path / "model"))
    assert loaded.corpus_ == tagger.corpus_
    assert loaded.read([tmp_path / "b.data"])[0] == sentences[:1]
    assert loaded.task_.describe_reading(loaded.corpus_)["labels"] >= {"B-PER", "O"}
    assert tiny("tagger", training={"epochs": 1}).fit(sentences).corpus_ == {}
