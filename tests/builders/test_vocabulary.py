"""Vocabularies: words, sub-words, files, training, and tokenizers of other libraries."""

import copy
import json
import pickle
import re
import tracemalloc
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from graphattn.builders import _vocabulary as vocabulary_module
from graphattn.builders._sentence import Sentence
from graphattn.builders._vocabulary import SPECIAL_TOKENS, Vocabulary
from graphattn.exceptions import ConfigError, DataError, ModelDirectoryError

CORPUS = [
    "The lower the newest, the better.",
    "Don't go lower!",
    ["New", "York", "isn't", "low"],
    Sentence(["wide", "newest", "wide"], label="x"),
]
FORMS = (
    "abeEzZ\u00e9\u00c9\u00e5\u00c5\u03c3\u03c2\u0130\u0131\ufb01\u2019\u2018\u201c\u201d'\"-._@#:;)(<>/=&0 ,1"
    "\u0301\u0308\u0327\u030a\u0338\u1100\u1161\u11a8\uac01\u304b\u304c\u3099\u0e01\u0e33\u0915\u0958\u093c\u6f22"
    "\U0001f642\u00ad\u0345\u037e\u2126\u212a\u00b7\u0387"
)
"""Letters, marks and signs that have several Unicode forms, and some that have one."""
UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def words():
    return Vocabulary.train(CORPUS)


@pytest.fixture(scope="module")
def pieces():
    return Vocabulary.train(CORPUS * 3, level="bpe", size=40)


@pytest.fixture(scope="module", params=["words", "pieces"])
def either(request):
    return request.getfixturevalue(request.param)


# sentences and ids


def test_word_level_tokens_keep_their_case(words):
    sentence = words.sentence("Don't GO…")
    assert sentence == Sentence(["Do", "n't", "GO", "…"])
    ids = words.ids(sentence.tokens)
    assert ids.dtype == np.int32
    assert ids.tolist() == [10, 11, 12, 1]


def test_word_level_normalizes_only_for_the_lookup():
    vocabulary = Vocabulary.train(['café isn\'t "so" ...'])
    assert (
        vocabulary.encode("CAFE\u0301 isn\u2019t “So” ......").tolist()
        == vocabulary.encode('café isn\'t "so" ...').tolist()
    )
    assert 1 not in vocabulary.encode("CAFE\u0301 isn\u2019t “So” ......")
    assert vocabulary.split("So......") == ["So", "......"]


def test_given_words_stay_words(words, pieces):
    assert words.sentence(["isn't", "New York", ""]).tokens == ("isn't", "New York", "")
    assert words.encode(["isn't", "New York", ""]).tolist() == [16, 1, 1]
    cut = pieces.sentence(["isn't", "New York", ""])
    assert cut.num_words == 3
    assert cut.tokens[-1] == "[UNK]"


def test_words_in_pieces_are_split_again(pieces):
    word = max("lower newest low widest".split(), key=lambda word: len(word) - len(pieces.sentence([word])))
    assert len(pieces.sentence([word])) < len(word)
    spelled = Sentence([*word, *word], word_ids=[0] * len(word) + [1] * len(word))
    assert all(pieces.sentence([letter]).tokens == (letter,) for letter in word)
    assert pieces.sentence(spelled) == pieces.sentence([word, word])


def test_word_level_joins_the_pieces_of_a_sentence(words):
    assert words.sentence(Sentence(["low", "er"], word_ids=[0, 0])) == Sentence(["lower"])


def test_bpe_splits_words(pieces):
    sentence = pieces.sentence("Lower newer 漢")
    assert sentence.words == ("lower", "newer", "漢")
    assert sentence.tokens[0] == "lower"
    assert sentence.word_ids is not None
    assert sentence.word_ids.count(1) > 1
    assert pieces.ids(sentence.tokens).tolist() == [
        pieces.words.index(token) if token in pieces else 1 for token in sentence.tokens
    ]


def test_unknown_parts_of_words_keep_their_text(pieces):
    sentence = pieces.sentence("lowest Zlowéß")
    assert "[UNK]" not in sentence.tokens
    assert sentence.words == ("lowest", "Zlowéß")
    assert (sentence.tokens[-1], pieces.ids(sentence.tokens)[-1]) == ("éß", 1)


@pytest.mark.parametrize("word", ["abc", "xyz", "a\u65e5\u672c"])
def test_unknown_parts_after_a_blank_mark_keep_their_text(word):
    """The mark of Llama's tokenizer has the same offsets as the first letter."""
    pieces = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "\u2581": 3, "a": 4}
    tokenizer = Tokenizer(models.BPE(pieces, [], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    assert Vocabulary(tokenizer).sentence([word]).tokens == ("\u2581", *word)


@pytest.mark.parametrize("text", ["\u0958", "l\u0958\u0958x\u0958", "zlow\u0958zest"])
def test_parts_of_a_normalized_character_can_be_known(text):
    """Unicode composes no letter with a nukta."""
    known = Vocabulary.train(["lowest nil \u0915"] * 3, level="bpe")
    sentence = known.sentence(text)
    assert sentence.words == (text.replace("\u0958", "\u0915\u093c"),)
    assert known.ids(sentence.tokens).tolist() == known.encode(text).tolist() == known.encode(sentence).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["word", "bpe"])
@pytest.mark.parametrize("lowercase", [True, False])
@settings(max_examples=15)
@given(texts=st.lists(st.text(FORMS, max_size=8), max_size=4))
@example(texts=["cafe\u0301", "caf\u00e9 e\u0301 E\u0301"])
@example(texts=["=\u0338\u0338 \u2260", "it\u2018s", "\u201c\u201d", "e\u0301.e\u0301."])
@example(texts=["\u1100\u1161\u0e33", "\u0958\u0e33", "\u037e;", "A\u030a\u0338\u0327\u00e5"])
def test_all_forms_have_the_ids_of_the_saved_tokenizer(level, lowercase, texts):
    """No form of a letter is read as its base letter, which the alphabet has."""
    known = Vocabulary.train(["the cafe coffee ee cab don't say no hi"] * 3, level=level, lowercase=lowercase)
    tokenizer = Tokenizer.from_str(known.to_json())
    ids = [row.tolist() for row in known.encode_batch(texts)[1]]
    assert ids == [
        [index if index > 2 else 1 for index in encoding.ids]
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
    for form in ("NFC", "NFD"):
        other = [unicodedata.normalize(form, text) for text in texts]
        assert [row.tolist() for row in known.encode_batch(other)[1]] == ids
        words = [known.split(text) for text in other]
        assert [row.tolist() for row in known.encode_batch(words)[1]] == ids
        assert list(map(letters, words)) == list(map(letters, map(str.split, other)))


def letters(words):
    return "".join(words).replace(" ", "")


@given(text=UNICODE)
def test_tokens_become_text_and_tokens_again(either, text):
    sentence = either.sentence(text)
    again = either.sentence(list(sentence.words))
    assert again.tokens == sentence.tokens
    assert either.sentence(sentence) is sentence
    if not any(character.isspace() for word in sentence.words for character in word):
        assert either.sentence(" ".join(sentence.words)).words == sentence.words


def test_annotations_of_words_are_kept(either):
    given_sentence = Sentence(
        ["Newest", "dogs", "bark"], heads=[2, 3, 0], deprels=list("abc"), label="l", tags=list("xyz")
    )
    sentence = either.sentence(given_sentence)
    assert sentence.num_words == 3
    assert (sentence.heads, sentence.deprels) == ((2, 3, 0), ("a", "b", "c"))
    assert (sentence.label, sentence.tags) == ("l", ("x", "y", "z"))


def test_text_never_has_the_ids_of_padding_and_cls():
    for level in ("word", "bpe"):
        vocabulary = Vocabulary.train(["a b"], level=level, lowercase=False, split="whitespace")
        for source in ("[PAD] [CLS] [UNK]", ["[PAD]", "[CLS]", "[UNK]"]):
            assert set(vocabulary.encode(source).tolist()) == {1}
        assert vocabulary.ids(SPECIAL_TOKENS).tolist() == [1, 1, 1]


def test_empty_texts(either):
    sentences, ids = either.encode_batch(["", " \n", [], "漢"])
    assert [len(sentence) for sentence in sentences] == [0, 0, 0, 1]
    assert [len(row) for row in ids] == [0, 0, 0, 1]
    assert ids[0].dtype == np.int32
    assert either.encode_batch([]) == ([], [])


def test_missing_text(either):
    with pytest.raises(DataError, match=r"^nan is neither a text nor a list of words nor a Sentence\. Drop missing"):
        either.sentences(["fine", float("nan")])


def test_lone_surrogates_are_unknown(either):
    for source in ("low \ud800", ["low", "\ud800"], Sentence(["low", "\ud800"])):
        ids = either.encode(source)
        assert ids[-1] == 1
        json.dumps(either.sentence(source).tokens).encode("utf-8")


def test_caches_are_bounded(monkeypatch, either):
    texts = [f"low{number} newest 漢{number}" for number in range(50)]
    expected = [either.encode(text).tolist() for text in texts]
    monkeypatch.setattr(vocabulary_module, "_CACHE_SIZE", 10)
    fresh = copy.deepcopy(either)
    assert [fresh.encode(text).tolist() for text in texts] == expected
    tracemalloc.start()
    try:
        for number in range(300):
            fresh.encode([f"low{number}" * 20])  # whose pieces take 5 kB or more
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


@given(st.lists(UNICODE, max_size=4))
def test_texts_words_and_sentences_have_the_same_tokens(words, pieces, texts):
    for vocabulary in (words, pieces):
        sentences, ids = vocabulary.encode_batch(texts)
        assert sentences == [vocabulary.sentence(text) for text in texts]
        for text, sentence, row in zip(texts, sentences, ids, strict=True):
            split = vocabulary.split(text)
            assert sentence == vocabulary.sentence(split) == vocabulary.sentence(Sentence(split))
            assert sentence.num_words == len(split)
            assert row.tolist() == vocabulary.encode(split).tolist() == vocabulary.encode(text).tolist()
            assert not {0, 2} & {*row.tolist()}


@given(st.lists(UNICODE, min_size=1, max_size=6))
def test_every_given_word_has_a_token(words, pieces, given_words):
    for vocabulary in (words, pieces):
        assert vocabulary.sentence(given_words).num_words == len(given_words)


@pytest.fixture(scope="module")
def decoded(either):
    return Vocabulary.from_json(either.to_json())


@given(st.lists(UNICODE, max_size=3))
def test_decoding_and_encoding_gives_the_same_ids(either, decoded, texts):
    assert decoded == either
    assert [ids.tolist() for ids in decoded.encode_batch(texts)[1]] == [
        ids.tolist() for ids in either.encode_batch(texts)[1]
    ]


@given(st.text("lowernwst dogthi,.'", min_size=1))
def test_pieces_spell_the_words(pieces, text):
    assert pieces.sentence(text).words == tuple(pieces.split(text))


# training


def test_most_frequent_first_ties_by_first_appearance():
    words = Vocabulary.train(CORPUS)
    assert words.words[:7] == ["[PAD]", "[UNK]", "[CLS]", "the", "lower", "newest", "wide"]
    assert words.words[7:] == [",", "better", ".", "do", "n't", "go", "!", "new", "york", "isn't", "low"]
    assert len(words) == 18
    assert "the" in words
    assert "The" not in words


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_count": 2}, ["the", "lower", "newest", "wide"]),
        ({"size": 5}, ["the", "lower"]),
        ({"size": 5, "extra_words": ["Wide", "the", "sea", "sea"]}, ["the", "lower", "wide", "sea"]),
        ({"min_count": 2, "lowercase": False}, ["lower", "the", "newest", "wide"]),
        ({"min_count": 2, "split": "whitespace"}, ["the", "wide"]),
    ],
)
def test_training_options(options, expected):
    assert Vocabulary.train(CORPUS, **options).words[3:] == expected


def test_a_corpus_can_be_a_generator():
    assert Vocabulary.train(f"w{number % 7}" for number in range(10_000)).words[3:] == [f"w{n}" for n in range(7)]


@pytest.mark.parametrize("level", ["word", "bpe"])
def test_a_corpus_can_be_a_counter(level):
    counts = Counter(word for text in CORPUS for word in Vocabulary.train([]).sentence(text).words)
    assert Vocabulary.train(counts, level=level, size=20) == Vocabulary.train(CORPUS, level=level, size=20)


def test_empty_corpus():
    for level in ("word", "bpe"):
        vocabulary = Vocabulary.train([], level=level)
        assert vocabulary.words == list(SPECIAL_TOKENS)
        assert vocabulary.encode("anything at all").tolist() == [1, 1, 1]


def test_special_tokens_in_the_corpus_are_text():
    assert Vocabulary.train([["[CLS]", "a", "[PAD]"]], lowercase=False).words == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"level": "char"}, ("level",)),
        ({"split": "none"}, ("split",)),
        ({"min_count": 0}, ("min_count",)),
        ({"size": 3}, ()),
    ],
)
def test_options_out_of_bounds(options, named):
    with pytest.raises(ConfigError) as caught:
        Vocabulary.train(CORPUS, **options)
    assert caught.value.options == named


def test_extra_words_have_no_effect_on_bpe():
    assert Vocabulary.train(CORPUS, level="bpe", extra_words=["sea"]) == Vocabulary.train(CORPUS, level="bpe")


def test_a_single_text_is_not_a_corpus():
    with pytest.raises(DataError, match="one text where several are expected"):
        Vocabulary.train("a text")


def test_bpe_respects_the_size_with_many_characters():
    han = [chr(0x4E00 + number) for number in range(300)]
    vocabulary = Vocabulary.train([han, ["xyz"] * 5], level="bpe", size=50)
    assert len(vocabulary) == 50
    assert {"x", "y", "z", *han[:44]} <= {*vocabulary.words}


@settings(max_examples=20)
@given(st.lists(st.text("abcdeé漢-'", min_size=1), min_size=1))
def test_vocabulary_covers_its_corpus(corpus):
    vocabulary = Vocabulary.train(corpus)
    _, ids = vocabulary.encode_batch(corpus)
    assert all((row > 2).all() for row in ids)
    counts = Counter(number for row in ids for number in row.tolist())
    in_order = [counts[number] for number in range(3, len(vocabulary))]
    assert in_order == sorted(in_order, reverse=True)


# files


def test_save_and_load(either, tmp_path):
    path = tmp_path / "tokenizer.json"
    either.save(path)
    assert Vocabulary.load(path) == either
    assert Vocabulary.load(str(path)).words == either.words
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_hugging_face_reads_the_file(either, tmp_path):
    either.save(tmp_path / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "Don't GO lower than “isn\u2019t” 漢字......"
    assert tokenizer.encode(text, add_special_tokens=False).ids == either.encode(text).tolist()


def test_a_failing_save_keeps_the_old_file(words, pieces, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    words.save(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vocabulary_module.os, "replace", full)
    with pytest.raises(ModelDirectoryError) as error:
        pieces.save(path)
    assert str(error.value) == (
        f"{path}: cannot be written (No space left on device). Check the folder and the space on the disk."
    )
    assert Vocabulary.load(path) == words
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_saving_into_a_missing_folder(words, tmp_path):
    with pytest.raises(ModelDirectoryError, match=r"t\.json: cannot be written \(No such file or directory\)\. Check"):
        words.save(tmp_path / "no" / "t.json")


DAMAGED = r"not a Hugging Face tokenizer \(.*\)\. Save the vocabulary again or copy the file again\."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no such file\. Give the tokenizer\.json of a model directory\."),
        (..., r"cannot be read as a tokenizer \(.*Is a directory.*\)\."),
        (b"\xff\xfe\x00", r"cannot be read as a tokenizer \(.*\)\."),
        (b"", DAMAGED),
        (b"{}", DAMAGED),
        (b'{"version": "1.0"', DAMAGED),
        (b"[1, 2]", DAMAGED),
    ],
)
def test_unreadable_files(tmp_path, content, message):
    """The content is None for a missing file and ``...`` for a folder."""
    path = tmp_path / "tokenizer.json"
    if content is ...:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelDirectoryError) as error:
        Vocabulary.load(path)
    assert re.fullmatch(f"{re.escape(str(path))}: {message}", str(error.value), re.DOTALL)


def test_special_tokens_that_a_tokenizer_lacks_are_added():
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    vocabulary = Vocabulary.from_json(tokenizer.to_str())
    assert vocabulary.words == [*SPECIAL_TOKENS, "a"]
    assert vocabulary.encode("a b [PAD]").tolist() == [3, 1, 1, 1, 1]
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_copies(either):
    assert copy.deepcopy(either) == either
    assert pickle.loads(pickle.dumps(either)).encode("low newest").tolist() == either.encode("low newest").tolist()


def test_equality_and_repr(words, pieces):
    assert words != pieces
    assert words != "words"
    assert repr(words) == "Vocabulary(18 words)"
    assert repr(pieces) == "Vocabulary(40 sub-words)"
    assert (words.level, pieces.level) == ("word", "bpe")


def test_words_are_a_copy(words):
    words.words.append("x")
    assert len(words) == len(words.words) == 18


# tokenizers of other libraries


def word_piece():
    unused = [f"[unused{number}]" for number in range(5)]
    entries = [*unused, "[SEP]", *SPECIAL_TOKENS, "the", "qui", "##ck", "don", "'", "t", "漢"]
    tokenizer = Tokenizer(models.WordPiece({word: index for index, word in enumerate(entries)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 8)])
    tokenizer.add_special_tokens(["[SEP]", *SPECIAL_TOKENS])
    tokenizer.add_tokens(["<url>"])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=7)
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=list(SPECIAL_TOKENS), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["the quick quick fox don't"], trainer)
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=40, special_tokens=list(SPECIAL_TOKENS), unk_token="[UNK]", show_progress=False
    )
    tokenizer.train_from_iterator(["the quick quick fox don't"] * 3, trainer)
    return tokenizer


def byte_level_without_special_tokens():
    """Like GPT-2's: no unknown tokens, and the only special token has another name."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(["the quick quick fox don't"], trainer)
    return tokenizer


def sentence_piece():
    """Like Llama's: marks before words, byte fallback, special tokens with other names."""
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    entries = ["<unk>", "<s>", "</s>", *fallback, "\u2581", "t", "h", "e", "\u2581t", "he", "\u2581the"]
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he")]
    tokenizer = Tokenizer(
        models.BPE({entry: i for i, entry in enumerate(entries)}, merges, unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def bare():
    return Tokenizer(models.WordLevel({"[CLS]": 0, "the": 1, "[PAD]": 2, "<unk>": 3, "[UNK]": 4}, unk_token="<unk>"))


@pytest.fixture(
    scope="module",
    params=[word_piece, byte_level, byte_level_without_special_tokens, sentence_piece, unigram, bare],
)
def foreign(request):
    return Vocabulary(request.param())


@pytest.mark.slow
@given(text=st.one_of(UNICODE, st.just("The  quick fox\tdon't 漢字 <url> [CLS] ½ \x01")))
def test_foreign_tokenizers(foreign, text):
    assert foreign.words[:3] == list(SPECIAL_TOKENS)
    split, sentence = foreign.split(text), foreign.sentence(text)
    assert sentence == foreign.sentence(split)
    assert sentence.num_words == len(split)
    ids = foreign.ids(sentence.tokens)
    assert not {0, 2} & {*ids.tolist()}
    assert ids.max(initial=0) < len(foreign)


def test_word_piece_of_another_library():
    vocabulary = Vocabulary.from_json(word_piece().to_str())
    sentence = vocabulary.sentence("The quick don't 漢字 <url>")
    assert sentence.tokens == ("the", "qui", "##ck", "don", "'", "t", "漢", "[UNK]", "<url>")
    assert sentence.word_ids == (0, 1, 1, 2, 3, 4, 5, 6, 7)
    assert vocabulary.ids(sentence.tokens).tolist() == [9, 10, 11, 12, 13, 14, 15, 1, 16]


def test_unknown_token_with_another_name():
    vocabulary = Vocabulary.from_json(bare().to_str())
    assert vocabulary.words == ["[PAD]", "[UNK]", "[CLS]", "the", "<unk>"]
    assert vocabulary.encode("the dog's").tolist() == [3, 1, 1]
    assert vocabulary.encode(["<unk>"]).tolist() == [1]


# real corpora


@pytest.mark.parametrize("name", ["sst2/train.tsv", "mtl16/books.task.train"])
def test_pre_split_corpora_hardly_change(corpora, name):
    lines = (corpora / name).read_text(encoding="utf-8", errors="replace").splitlines()
    texts = [line.partition("\t")[2] for line in lines]
    vocabulary = Vocabulary.train(texts)
    changed = Counter[str]()
    for text, split in zip(texts, vocabulary.splitter.split_batch(texts), strict=True):
        changed += Counter(text.split()) - Counter(split)
    assert sum(changed.values()) / sum(len(text.split()) for text in texts) < 0.005
    assert all((ids > 2).all() for ids in vocabulary.encode_batch(texts)[1])


def test_bpe_on_a_corpus(corpora):
    lines = (corpora / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.partition("\t")[2] for line in lines]
    vocabulary = Vocabulary.train(texts, level="bpe", size=8000)
    assert len(vocabulary) == 8000
    sentences, ids = vocabulary.encode_batch(texts)
    assert [sentence.words for sentence in sentences[:500]] == [tuple(vocabulary.split(text)) for text in texts[:500]]
    assert not any((row <= 2).any() for row in ids)


@pytest.mark.parametrize("level", ["word", "bpe"])
def test_a_word_of_millions_of_characters_is_unknown(level, capfd):
    vocabulary = Vocabulary.train(["a dog barks"] * 3, level=level)
    word = "n't" * 3_000_000
    assert vocabulary.encode([word, "dog"]).tolist() == [1, *vocabulary.encode("dog").tolist()]
    assert capfd.readouterr().err == ""


def test_another_thread_may_fill_the_cache_between_any_two_steps(monkeypatch):
    monkeypatch.setattr(vocabulary_module, "_CACHE_SIZE", 100)
    vocabulary = Vocabulary.train(["a b c d e f g h i j 0 1 2 3 4 5 6 7 8 9"] * 3, level="bpe", size=40)
    others = iter(([f"c{number}" for number in range(101)], ["c"]))

    class Words(list):
        """Tokenizes other words before each iteration, as another thread may."""

        def __iter__(self):
            vocabulary.ids_of_words(next(others))
            return super().__iter__()

    assert vocabulary.ids_of_words(Words(["a", "bad", "a1"]))[0].tolist() == [1, 3, 2]


@pytest.mark.parametrize(("words", "pieces"), [(500, 255), (2000, 300)])
def test_bpe_has_fewer_pieces_than_a_small_corpus_has_words(monkeypatch, words, pieces):
    monkeypatch.setattr(vocabulary_module, "_BPE_SIZE", 300)
    corpus = [f"{number:b}" for number in range(2**16, 2**16 + words)]
    assert len(Vocabulary.train(corpus, level="bpe")) == pieces


def test_bpe_has_every_character_of_a_small_corpus():
    corpus = [chr(0x4E00 + number) for number in range(3000)]
    assert 1 not in Vocabulary.train(corpus, level="bpe").encode("".join(corpus))
