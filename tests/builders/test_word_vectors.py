"""Word vectors: files, the parsed copy, look-up, concatenation, and embedding tables."""

import gzip
import lzma
import os
import time
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._spelling import make_normalizer
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import WordSplitter, replace_surrogates
from graphattn.builders._word_vector_files import BLOCK
from graphattn.builders._word_vectors import WordVectors
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning

HINT = "Each line is a word and its numbers, separated by spaces; a first line with two counts is allowed."
GENSIM = (
    "If these are binary word2vec vectors, convert them with gensim: "
    'KeyedVectors.load_word2vec_format(OLD, binary=True).save_word2vec_format("vectors.txt").'
)
SPELLING = "Check that language and spelling of corpus and vectors agree."
GLOVE = "the 0.5 -1.25 2e-1\ncat 1 2 3\nÉté -.5 +1. 0\n"
MANY = "".join(f"w{row} 1 2\n" for row in range(BLOCK + 1))
BINARY = b"2 3\na " + np.zeros(3, dtype=np.float32).tobytes() + b"\nb " + bytes(12)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.delenv("GRAPHATTN_CACHE", raising=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the parsed copies."""
    monkeypatch.setenv("GRAPHATTN_CACHE", str(tmp_path / "new" / "cache"))
    return tmp_path / "new" / "cache"


@pytest.fixture
def write(tmp_path):
    def write(text, name="vectors.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return write


# reading


def check_glove(vectors):
    assert vectors.words == ["the", "cat", "Été"]
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(
        vectors.matrix, np.array([[0.5, -1.25, 0.2], [1, 2, 3], [-0.5, 1, 0]], dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GLOVE, "glove.txt"),
        ("3 3\n" + GLOVE, "header.txt"),
        ("3 3 \r\n" + GLOVE.replace("\n", " \r\n"), "windows_and_trailing_spaces.txt"),
        (GLOVE.replace(" ", "\t"), "tabs.txt"),
        (GLOVE.replace(" ", "  "), "two_spaces.txt"),
        (GLOVE.replace("cat", " cat"), "indented.txt"),
        (GLOVE.rstrip("\n"), "no_last_newline.txt"),
        ("3 3\n" + GLOVE + "\n \n\r\n   ", "blank_lines_at_the_end.txt"),
        ("\ufeff" + GLOVE, "byte_order_mark.txt"),
        (lzma.compress(GLOVE.encode()), "v.txt.xz"),
        (gzip.compress(GLOVE.encode(), mtime=0), "v.txt.gz"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_formats(write, text, name):
    check_glove(WordVectors.read(write(text, name)))


def test_words_with_spaces_and_unusual_words(write):
    vectors = WordVectors.read(write("a 1 2\n. . . 3 4\nnan 5 6\n\u00a0 7 8\n\u2028x 9 10\n1 11 12\n"))
    assert vectors.words == ["a", ". . .", "nan", "\u00a0", "\u2028x", "1"]
    assert vectors.matrix[:, 0].tolist() == [1, 3, 5, 7, 9, 11]
    vectors = WordVectors.read(write("b .5 1\nwindows 10 0.5 0.25\nWorld War 2 1 0.5\n"))
    assert vectors.words == ["b", "windows 10", "World War 2"]


def test_the_first_vector_of_a_repeated_word_is_used(write):
    vectors = WordVectors.read(write("a 1 2\nb 3 4\na 5 6\n"))
    assert vectors.words == ["a", "b"]
    assert vectors.matrix.tolist() == [[1, 2], [3, 4]]


def test_only_keeps_words_and_their_lower_case(write):
    path = write("3 1\nparis 1\nParis 2\nrome 3\n")
    assert WordVectors.read(path, only=["Paris", "Oslo"]).words == ["paris", "Paris"]
    assert WordVectors.read(path, only={"paris"}).words == ["paris"]


def test_limit(write, cache):
    path = write("3 1\na 1\nb 2\nc not-read\n")
    assert WordVectors.read(path, limit=2).words == ["a", "b"]
    assert WordVectors.read(write(GLOVE), limit=99).words == ["the", "cat", "Été"]
    assert not cache.exists()
    with pytest.raises(ConfigError) as caught:
        WordVectors.read(path, limit=0)
    assert caught.value.options == ("limit",)


@given(
    matrix=st.integers(1, 4).flatmap(
        lambda dim: st.lists(
            st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=dim, max_size=dim), min_size=1
        )
    ),
    header=st.booleans(),
)
def test_numbers_are_read_exactly(tmp_path_factory, matrix, header):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    lines = [f"word{row} " + " ".join(map(repr, values)) for row, values in enumerate(matrix)]
    first = [f"{len(matrix)} {len(matrix[0])}"] if header else []
    path.write_text("\n".join([*first, *lines]), encoding="utf-8")
    np.testing.assert_array_equal(WordVectors.read(path).matrix, np.array(matrix, dtype=np.float32))


def test_more_vectors_than_one_block(write):
    rows = BLOCK * 2 + 5
    vectors = WordVectors.read(write("".join(f"w{row} {row} {-row}\n" for row in range(rows))))
    np.testing.assert_array_equal(vectors.matrix[:, 0], np.arange(rows))
    assert vectors.words[-1] == f"w{rows - 1}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 3\n", f", line 2: 1 numbers after 'b', expected 2. {HINT}"),
        ("a 1 2\n\nb 3 4\n", f", line 2: 0 numbers after '', expected 2. {HINT}"),
        ("a 1 2\nb 0.5 0.5 0.5\n", f", line 2: 3 numbers after 'b', expected 2. {HINT}"),
        ("a 1 2\nb 4 5 6\n", f", line 2: 3 numbers after 'b', expected 2. {HINT}"),
        ("a 1 2\nb 1e-05 5 6\n", f", line 2: 3 numbers after 'b', expected 2. {HINT}"),
        ("a 1. 2.\nb 1. 2. 3.\n", f", line 2: 3 numbers after 'b', expected 2. {HINT}"),
        ("a 1 2\n b 0.5 5 6\n", f", line 2: 3 numbers after 'b', expected 2. {HINT}"),
        ("a 1 2\nb 3\nc 4 5.0 6\n", f", line 2: 1 numbers after 'b', expected 2. {HINT}"),  # the total is right
        ("2 3\na 1 2\nb 1 2 3\n", f", line 2: 2 numbers after 'a', expected 3. {HINT}"),
        ("a 1 2\nb 3 x4\n", f", line 2: 'x4' is not a number. {HINT}"),
        (MANY + "b 1 c\n", f", line {BLOCK + 2}: 'c' is not a number. {HINT}"),
        ("a 1,5 2\nb 3 4\n", f", line 1: '1,5' is not a number. {HINT}"),
        ("label text\n0 hello there\n", f", line 1: 'text' is not a number. {HINT}"),
        ("hello\n", f", line 1: no numbers after the first word. {HINT}"),
        ("a 1 2\nb nan 4\n", ", line 2: 'nan' is not a finite float32. Remove the line."),
        ("a 1 2\nb 3 1e60\n", ", line 2: '1e60' is not a finite float32. Remove the line."),
        ("a 1 2\n\n\nb 3 4\n", f", line 2: 0 numbers after '', expected 2. {HINT}"),
        ("\n", f", line 1: no numbers after the first word. {HINT}"),
        ("3 2\na 1 2\nb 3 4", ": ends after 2 of 3 vectors. Copy or download the file again."),
        ("2 0\na\nb\n", f", line 1: 0 numbers per word. {HINT}"),
        ("0 2\n", f": holds no vectors. {SPELLING}"),
        ("", ": is empty. Give a file with at least one line."),
        (BINARY, f", line 2: holds a NUL byte, so it is binary. {GENSIM}"),
        (b"2 1\na \xc3\x28\xa0\xa1\n", f", line 2: byte 0xc3 at column 3 is not UTF-8. {GENSIM}"),
    ],
)
def test_broken_files(write, text, message):
    path = write(text, "vectors.BIN" if isinstance(text, bytes) else "vectors.txt")
    with pytest.raises(DataError) as error:
        WordVectors.read(path)
    assert str(error.value) == f"{path}{message}"


def test_no_word_in_common(write):
    path = write(GLOVE)
    with pytest.raises(DataError) as error:
        WordVectors.read(path, only=["dog"])
    assert str(error.value) == f"{path}: none of the requested words has a vector. {SPELLING}"


@pytest.mark.parametrize(
    ("declared", "cause"), [(1, ""), (3, "; if it was copied or downloaded, compare its size")], ids=["fewer", "more"]
)
def test_another_number_of_vectors_than_the_header_declares(write, declared, cause):
    """gensim also counts repeated words, and writes only the first of them."""
    path = write(f"{declared} 2\na 1 2\nb 3 4\n")
    with pytest.warns(GraphAttnWarning) as caught:
        assert WordVectors.read(path).words == ["a", "b"]
    assert [str(warning.message) for warning in caught if warning.category is GraphAttnWarning] == [
        f"{path}: the header declares {declared} vectors; read all 2{cause}"
    ]


# the parsed copy


def test_the_copy_of_an_unchanged_file_is_read(write, cache):
    path, time_of_change = write("a 1\n"), (10**18, 10**18)
    os.utime(path, ns=time_of_change)
    assert WordVectors.read(path).matrix.tolist() == [[1]]
    assert [copy.suffix for copy in cache.iterdir()] == [".safetensors"]
    os.utime(write("b 2\n"), ns=time_of_change)
    assert WordVectors.read(path).words == WordVectors.read(path, only=["a"]).words == ["a"]
    write("b 2\n")
    assert WordVectors.read(path).words == ["b"]


def test_a_file_without_vectors_has_no_copy(write, cache):
    path = write("0 3\n")
    for _ in range(2):
        with pytest.raises(DataError, match="holds no vectors"):
            WordVectors.read(path)


def test_damaged_copy_and_unusable_folder(write, cache, monkeypatch):
    path = write(GLOVE)
    WordVectors.read(path)
    (copy,) = cache.iterdir()
    flipped = bytearray(copy.read_bytes())
    flipped[flipped.index(np.float32([1, 2, 3]).tobytes())] ^= 1
    for damaged in (b"damaged", flipped):
        copy.write_bytes(damaged)
        check_glove(WordVectors.read(path))
    monkeypatch.setenv("GRAPHATTN_CACHE", str(path))  # a file
    check_glove(WordVectors.read(path))


def test_vectors_of_the_cache_do_not_follow_its_file(write, cache):
    path = write(GLOVE)
    WordVectors.read(path)
    (copy,) = cache.iterdir()
    vectors = WordVectors.read(path)
    copy.write_bytes(bytes(copy.stat().st_size))
    check_glove(vectors)
    copy.unlink()
    os.mkfifo(copy)
    check_glove(WordVectors.read(path))


# use


@pytest.fixture(scope="module")
def vectors():
    spread = np.random.default_rng(0).normal([0.0, 5.0, -1.0], [1.0, 0.1, 0.0], size=(500, 3))
    return WordVectors([f"w{row}" for row in range(500)], spread)


def test_lookup_and_coverage(vectors):
    assert (len(vectors), vectors.dim) == (500, 3)
    assert [word in vectors for word in ("w1", "W1", "x", 1)] == [True, True, False, False]
    assert repr(vectors) == "WordVectors(500 words, 3 dimensions)"
    assert vectors.coverage({"w1": 6, "W2": 2, "x": 1, "y": 1}) == (0.5, 0.8)
    assert vectors.coverage({}) == (0.0, 0.0)


def test_table_has_the_vectors_of_known_words(vectors):
    vocabulary = Vocabulary.train(["w3 W3 x w1"], lowercase=False)
    table = vectors.table(vocabulary, seed=1)
    assert table.shape == (7, 3)
    assert table.dtype == np.float32
    assert table[0].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(table[[3, 4, 6]], vectors.matrix[[3, 3, 1]])
    assert not np.array_equal(table[1], table[2])


def test_exact_words_have_priority_over_other_spellings():
    vectors = WordVectors(["us", "US"], np.array([[1.0], [2.0]]))
    vocabulary = Vocabulary.train(["US us Us"], lowercase=False)
    assert vectors.table(vocabulary, seed=0)[3:].tolist() == [[2], [1], [1]]
    vectors = WordVectors(["Paris", "paris"], np.array([[1.0], [2.0]])).with_spelling(str.lower)
    assert vectors.table(Vocabulary.train(["paris"]), seed=0)[-1].tolist() == [2.0]


def test_words_are_looked_up_in_the_spelling_of_the_vocabulary():
    """In lower case, with straight quotes; the exact word first, then the first of several spellings."""
    vectors = WordVectors(["Paris", "PARIS", "us", "US", "\u2019t"], np.arange(1.0, 6.0)[:, None])
    vocabulary = Vocabulary.train([["paris", "us", "'t"]])
    assert vocabulary.words[3:] == ["paris", "us", "'t"]
    assert vectors.table(vocabulary, seed=0)[3:].tolist() == [[1], [3], [5]]
    sets = [vectors.with_spelling(vocabulary.spelling), WordVectors(["paris"], np.array([[7.0]]))]
    both = WordVectors.concatenate(sets, normalize=False)
    assert both.table(vocabulary, seed=0)[3].tolist() == [1, 7]
    assert "paris" not in vectors  # the original does not change


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize(
    ("in_file", "in_text"),
    [
        ("κόσμος", "ΚΌΣΜΟΣ"),
        ("izmir", "İZMİR"),
        ("e\u0301te\u0301", "Été"),
        ("été", "E\u0301te\u0301"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ],
)
def test_a_word_and_its_vector_may_differ_in_case_and_unicode_form(write, in_file, in_text, lowercase):
    path = write(f"{in_file} 1\nb 2\n")
    vocabulary = Vocabulary.train([[in_text]], lowercase=lowercase)
    for vectors in (WordVectors.read(path), WordVectors.read(path, only=[in_text])):
        assert in_text in vectors
        assert vectors.table(vocabulary, seed=0)[3].tolist() == [1]


@pytest.mark.parametrize("lowercase", [True, False])
def test_spelling_equals_the_normalizer(lowercase):
    vocabulary, rule = Vocabulary.train([["a"]], lowercase=lowercase), make_normalizer("word", lowercase)

    @given(st.text(min_size=1, max_size=6))
    def check(word):
        assert vocabulary.spelling(word) == rule.normalize_str(replace_surrogates(word))

    check()


def test_unknown_words_have_the_deviation_of_the_vectors(vectors):
    vocabulary = Vocabulary.train([f"unknown{number}" for number in range(4000)])
    drawn = vectors.table(vocabulary, seed=3)[3:]
    np.testing.assert_allclose(drawn.mean(axis=0), vectors.matrix.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(drawn.std(axis=0), vectors.matrix.std(axis=0), rtol=0.05, atol=1e-6)
    assert len(np.unique(drawn, axis=0)) == 4000
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.06


def test_draws_depend_only_on_seed_and_word(vectors):
    one = Vocabulary.train(["alpha beta gamma w1"])
    other = Vocabulary.train(["w9 gamma gamma alpha"])
    first, second = vectors.table(one, seed=7), vectors.table(other, seed=7)
    for word in ("alpha", "gamma", "[UNK]", "[CLS]"):
        np.testing.assert_array_equal(first[one.words.index(word)], second[other.words.index(word)])
    np.testing.assert_array_equal(first, vectors.table(one, seed=7))
    assert not np.array_equal(first[3], vectors.table(one, seed=8)[3])


def test_concatenation(vectors):
    """Each block is the look-up in its set, or the mean of the set, scaled to unit deviation."""
    draw = np.random.default_rng(0).normal
    sets = [WordVectors(["a", "B", "c"], draw(1, 5, (3, 2))), WordVectors(["b", "d"], draw(0, 0.1, (2, 3)))]
    for normalize in (True, False):
        both = WordVectors.concatenate(sets, normalize=normalize)
        assert both.words == ["a", "B", "c", "b", "d"]
        spreads = [part.matrix.std() if normalize else 1 for part in sets]
        first = [sets[0].matrix[0], sets[0].matrix[1], sets[0].matrix[2], *2 * [sets[0].matrix.mean(0)]]
        mean = sets[1].matrix.mean(0)
        second = [mean, sets[1].matrix[0], mean, sets[1].matrix[0], sets[1].matrix[1]]
        expected = np.hstack([np.stack(first) / spreads[0], np.stack(second) / spreads[1]])
        np.testing.assert_allclose(both.matrix, expected, rtol=1e-6)
    assert WordVectors.concatenate([vectors]) is vectors
    alike, other = (WordVectors(["a", "b"], np.array(rows)) for rows in ([[3.0], [3.0]], [[1.0], [2.0]]))
    assert np.isfinite(WordVectors.concatenate([alike, other]).matrix).all()


@pytest.mark.parametrize(
    ("words", "matrix", "message"),
    [
        (["a"], np.zeros((2, 3)), "1 words and a matrix of shape (2, 3). Give one row for each word."),
        (["a"], np.zeros(3), "1 words and a matrix of shape (3,). Give one row for each word."),
        ([], np.zeros((0, 3)), "there are no word vectors"),
        (["a", "a"], np.zeros((2, 3)), "a word has several vectors. Keep one of them."),
        (["a", "b"], np.array([[1.0, 2], [np.nan, 3]]), "the vector of 'b' is not finite. Leave the word out."),
    ],
)
def test_words_and_matrix_must_match(words, matrix, message):
    with pytest.raises(DataError) as error:
        WordVectors(words, matrix)
    assert str(error.value) == message


# real files


@pytest.mark.parametrize(
    ("name", "dim", "some"),
    [
        ("embeddings_trained/w2v_sg_300d.txt.xz", 300, "the"),
        ("embeddings_trained/fasttext_sg_300d.txt.xz", 300, "n't"),
        ("embeddings_glove_twitter_25d/glove.twitter.27B.25d.subset.txt.xz", 25, "the"),
        ("embeddings_word2vec_googlenews_300d/GoogleNews.300d.subset.txt.xz", 300, "Good"),
    ],
)
def test_real_vectors(corpora, name, dim, some):
    vectors = WordVectors.read(corpora / name, limit=2000)
    assert vectors.matrix.shape == (2000, dim)
    assert some in vectors
    with lzma.open(corpora / name, "rt", encoding="utf-8") as lines:
        last = [line for line, _ in zip(lines, range(2000 + ("trained" in name)), strict=False)][-1].split()
    assert vectors.words[-1] == last[0]
    np.testing.assert_array_equal(vectors.matrix[-1], np.array(last[1:], dtype=np.float32))


def test_a_whole_file_is_read_quickly_and_agrees_with_splitting(corpora):
    start = time.process_time()
    vectors = WordVectors.read(corpora / "embeddings_trained" / "w2v_cbow_50d.txt.xz")
    assert time.process_time() - start < 10  # takes about 1; the rest is for slow machines
    assert vectors.matrix.shape == (53_888, 50)
    for name in ("sst2/train.tsv", "mtl16/books.task.train", "mtl16/apparel.task.test"):
        lines = (corpora / name).read_text(encoding="utf-8", errors="replace").splitlines()
        words = WordSplitter.by_rule("web").split_batch([line.partition("\t")[2] for line in lines])
        assert vectors.coverage(Counter(chain.from_iterable(words)))[1] >= 0.97


def test_unit_length(vectors):
    unit = vectors.with_unit_length()
    assert unit.words == vectors.words
    expected = vectors.matrix / np.sqrt((vectors.matrix**2).sum(axis=1))[:, None]
    np.testing.assert_allclose(unit.matrix, expected, rtol=1e-6)
    assert WordVectors(["a", "b"], np.array([[0.0], [2.0]])).with_unit_length().matrix.tolist() == [[0], [1]]


def test_numbers_that_look_alike_share_the_mean_of_their_vectors():
    words = ["1996", "in", "h1n1", "2005", "h5n1", "7", "-3.5"]
    matrix = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    merged = WordVectors(words, matrix).with_zero_digits(["1848", "3,000", "12-4", "b2b", "unknown"])
    expected = {
        "0000": matrix[[0, 3]].mean(axis=0),
        "in": matrix[1],
        "h0n0": matrix[[2, 4]].mean(axis=0),
        "0": matrix[5],
        "-0.0": matrix[6],
        "0,000": matrix[[0, 3, 5, 6]].mean(axis=0),
        "00-0": matrix[[0, 3, 5, 6]].mean(axis=0),
    }
    assert merged.words == list(expected)
    np.testing.assert_allclose(merged.matrix, list(expected.values()), rtol=1e-5)
    without = WordVectors(["in", "h1n1"], matrix[:2]).with_zero_digits(["1848"])
    assert without.words == ["in", "h0n0"]
