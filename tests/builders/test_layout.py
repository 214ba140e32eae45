"""The columns of a batch, with and without ``[CLS]``, and selections of sentences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Sentence
from graphattn.builders._layout import Layout, concatenate
from graphattn.exceptions import DataError

COLUMNS = ("lengths", "word_counts", "word_ids", "heads", "deprels")
PLACES = ("token_starts", "word_starts", "sentence_of_token", "sentence_of_word", "positions", "word_of_token")
batches = st.lists(st.integers(0, 6), max_size=5)

SUBWORDS = Sentence(["un", "known", "word"], word_ids=[0, 0, 1], heads=[2, 0], deprels=["det", "root"])
PLAIN = Sentence(["a", "b"], heads=[0, 1])
EMPTY = Sentence([])


def ids(name):
    return {"det": 7, "root": 8}.get(name, 1)


def values(layout):
    return {name: None if (v := getattr(layout, name)) is None else v.tolist() for name in (*COLUMNS, *PLACES)}


def test_cls_is_a_separate_token_and_word():
    layout = Layout.of([SUBWORDS, EMPTY, PLAIN], with_cls=True, deprel_id=ids)
    assert values(layout) == {
        "lengths": [4, 1, 3],
        "word_counts": [3, 1, 3],
        "word_ids": [0, 1, 1, 2, 0, 0, 1, 2],
        "heads": [-1, 2, -1, -1, -1, -1, 1],
        "deprels": [0, 7, 8, 0, 0, 1, 1],
        "token_starts": [0, 4, 5],
        "word_starts": [0, 3, 4],
        "sentence_of_token": [0, 0, 0, 0, 1, 2, 2, 2],
        "sentence_of_word": [0, 0, 0, 1, 2, 2, 2],
        "positions": [0, 1, 2, 3, 0, 0, 1, 2],
        "word_of_token": [0, 1, 1, 2, 3, 4, 5, 6],
    }
    assert [bound.tolist() for bound in layout.word_bounds] == [[0, 1, 3, 4, 5, 6, 7], [1, 3, 4, 5, 6, 7, 8]]


def test_dependencies_are_read_only_if_requested():
    layout = Layout.of([SUBWORDS, Sentence(["no", "heads"])], with_cls=True)
    assert layout.heads is None
    assert layout.deprels is None


def test_a_sentence_without_heads_is_reported_with_its_line():
    sentence = Sentence(["a", "b"], origin=("trees.conllu", 7))
    with pytest.raises(DataError) as caught:
        Layout.of([PLAIN, sentence], with_cls=False, deprel_id=ids)
    assert str(caught.value).startswith("trees.conllu, line 7, field 'heads': sentence ('a b' ...) has no heads, but")


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.bool_])
def test_features_keep_their_type_and_rows(dtype):
    arrays = [np.array([[1, 0], [0, 1], [1, 1]], dtype), np.empty((0, 2), dtype), np.array([[0, 0], [0, 1]], dtype)]
    feature = {"shape": (arrays, 0)}
    plain = Layout.of([SUBWORDS, EMPTY, PLAIN], with_cls=False, features=feature).features["shape"]
    assert plain.dtype == dtype
    assert plain.tolist() == np.concatenate(arrays).tolist()
    with_cls = Layout.of([SUBWORDS, EMPTY, PLAIN], with_cls=True, features=feature).features["shape"]
    assert with_cls.dtype == dtype
    assert with_cls.tolist() == [row for array in arrays for row in ([0, 0], *array.tolist())]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros(3)], "field 'x': 1 arrays for 2 sentences. Give one for each."),
        (
            [np.zeros(3), np.zeros(3)],
            "field 'x': 3 values for the 2 tokens of sentence 1. Give one for each token, without [CLS].",
        ),
    ],
)
def test_features_of_the_wrong_length_are_rejected(arrays, message):
    with pytest.raises(DataError) as caught:
        Layout.of([SUBWORDS, PLAIN], with_cls=True, features={"x": (arrays, 0)})
    assert str(caught.value) == message


@settings(max_examples=50)
@given(random=st.randoms(use_true_random=False), sizes=batches, cls=st.booleans(), data=st.data())
def test_take_equals_flattening_the_selection(random_sentence, random, sizes, cls, data):
    sentences = [random_sentence(random, size) for size in sizes]
    columns = [np.array([random.random() for _ in s.tokens]) for s in sentences]
    layout = Layout.of(sentences, with_cls=cls, deprel_id=len, features={"x": (columns, -1.0)})
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1)) if sizes else st.just([]))
    taken = layout.take(chosen)
    direct = Layout.of(
        [sentences[i] for i in chosen],
        with_cls=cls,
        deprel_id=len,
        features={"x": ([columns[i] for i in chosen], -1.0)},
    )
    assert values(taken) == values(direct)
    assert taken.features["x"].tolist() == direct.features["x"].tolist()


def test_take_without_dependencies():
    layout = Layout.of([PLAIN, SUBWORDS], with_cls=True).take(np.array([1]))
    assert (layout.heads, layout.deprels, layout.word_ids.tolist()) == (None, None, [0, 1, 1, 2])


@settings(max_examples=50)
@given(random=st.randoms(use_true_random=False), sizes=batches, cls=st.booleans())
def test_every_column_equals_a_loop_over_sentences(random_sentence, random, sizes, cls):
    sentences = [random_sentence(random, size) for size in sizes]
    layout = Layout.of(sentences, with_cls=cls, deprel_id=len)
    tokens, words = [], []
    for number, sentence in enumerate(sentences):
        start = len(words)
        word_ids = list(range(len(sentence)) if sentence.word_ids is None else sentence.word_ids)
        word_ids = [0, *(word + 1 for word in word_ids)] if cls else word_ids
        tokens += [(number, position, word, start + word) for position, word in enumerate(word_ids)]
        names = sentence.deprels or ("",) * sentence.num_words
        arcs = [(head - 1 + cls if head else -1, len(name)) for head, name in zip(sentence.heads, names, strict=True)]
        words += [(number, *arc) for arc in ([(-1, 0), *arcs] if cls else arcs)]
    own_columns = (layout.sentence_of_token, layout.positions, layout.word_ids, layout.word_of_token)
    assert list(zip(*(column.tolist() for column in own_columns), strict=True)) == tokens
    own_columns = (layout.sentence_of_word, layout.heads, layout.deprels)
    assert list(zip(*(column.tolist() for column in own_columns), strict=True)) == words


TEXTS = [
    Sentence(["un", "known", "."], word_ids=[0, 0, 1], heads=[2, 0], deprels=["det", "root"], links=[(0, 1)]),
    Sentence(["a", ".", "b"], heads=[0, 1, 1], sentence_ids=[0, 0, 1], links=[(2, 0), (0, 0)]),
    Sentence(["c"], heads=[0], links=[]),
]


def flat(texts, vectors, **options):
    columns = {"x": ([np.arange(len(text)) for text in texts], -1)}
    options = {"deprel_id": len, "with_sentences": True, "with_links": True, **options}
    return Layout.of(texts, with_cls=True, vectors=vectors, features=columns, **options)


def test_concatenated_layouts_equal_the_layout_of_all_texts():
    vectors = np.eye(3)
    concatenated, expected = concatenate([flat(TEXTS[:2], vectors), flat(TEXTS[2:], vectors)]), flat(TEXTS, vectors)
    for name in COLUMNS:
        assert getattr(concatenated, name).tolist() == getattr(expected, name).tolist()
    for name in ("offsets", "values"):
        assert getattr(concatenated.links, name).tolist() == getattr(expected.links, name).tolist()
    assert concatenated.features["x"].tolist() == expected.features["x"].tolist()
    assert concatenated.vectors is vectors


def test_concatenated_layouts_have_the_common_columns():
    concatenated = concatenate([flat(TEXTS[:2], None), flat(TEXTS[2:], None, deprel_id=None, with_sentences=False)])
    assert (concatenated.heads, concatenated.deprels, concatenated.sentence_ids) == (None, None, None)
    assert concatenated.lengths.tolist() == [4, 4, 2]


def test_a_selection_shares_the_vectors():
    vectors = np.eye(3)
    assert flat(TEXTS, vectors).take([2]).vectors is vectors


@pytest.mark.parametrize("with_cls", [True, False])
def test_a_truncated_layout_is_that_of_truncated_sentences(with_cls):
    tokens, words = list("abcdefg"), [0, 0, 1, 2, 2, 3, 4]
    sentence = Sentence(
        tokens,
        words,
        heads=[2, 0, 5, 1, 2],
        deprels=list("pqrst"),
        sentence_ids=[0, 0, 1, 1, 1],
        links=[(0, 1), (4, 0)],
        features={"x": list("vwxyz")},
    )
    of_words = {"heads": [2, 0, 0], "deprels": list("pqr"), "sentence_ids": [0, 0, 1], "features": {"x": list("vwx")}}
    cut = Sentence(tokens[:4], words[:4], **of_words, links=[(0, 1)])
    short = Sentence(["x"], heads=[0], deprels=["p"], links=[])
    assert (sentence.truncate(4), short.truncate(4)) == (cut, short)
    features = {"id": ([np.arange(7), np.arange(1)], 9)}
    settings = {"with_cls": with_cls, "deprel_id": ord, "with_sentences": True, "with_links": True}
    whole = Layout.of([sentence, short], **settings, features=features).truncate(4 + with_cls)
    expected = Layout.of([cut, short], **settings, features={"id": ([np.arange(4), np.arange(1)], 9)})
    for name in ("lengths", "word_counts", "word_ids", "heads", "deprels", "sentence_ids"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(expected, name), name)
    np.testing.assert_array_equal(whole.features["id"], expected.features["id"])
    for name in ("offsets", "values"):
        np.testing.assert_array_equal(getattr(whole.links, name), getattr(expected.links, name), name)
