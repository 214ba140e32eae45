"""Tokenizers whose pieces depend on the white space before a word: the same pieces as on the whole text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders._blanks import JOINER
from graphattn.builders._vocabulary import SPECIAL_TOKENS

TEXTS = ["The quick fox isn't 12345 here, it's (not) a dog!\n\nYes  no\tx.", "a dog and the quick fox"] * 5
ALPHABET = pre_tokenizers.ByteLevel.alphabet()
LLAMA = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def train(pre_tokenizer, *, normalizer=None, unigram=False):
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if unigram:
        trainer = trainers.UnigramTrainer(vocab_size=60, unk_token="<u>", special_tokens=["<u>"], show_progress=False)
    else:
        trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=ALPHABET, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def with_bytes(normalizer, pre_tokenizer):
    """Like Llama's and Gemma's tokenizers: blanks are replaced, unknown characters are bytes."""
    fallback = ["<u>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<u>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=fallback, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    return tokenizer


def make_byte_level(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


TOKENIZERS = {
    "gpt2": lambda: train(make_byte_level()),
    "roberta": lambda: train(make_byte_level(add_prefix_space=True)),
    "qwen": lambda: train(
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), "isolated"), make_byte_level(use_regex=False)]),
        normalizer=normalizers.NFC(),
    ),
    "llama": lambda: with_bytes(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None
    ),
    "llama, not legacy": lambda: with_bytes(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "gemma": lambda: with_bytes(normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous")),
    **{
        f"metaspace {scheme}": lambda scheme=scheme: train(
            pre_tokenizers.Metaspace(prepend_scheme=scheme), unigram=True
        )
        for scheme in ("always", "first", "never")
    },
    "t5": lambda: train(
        pre_tokenizers.Metaspace(),
        normalizer=normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), "\u2581")]
        ),
        unigram=True,
    ),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


@pytest.fixture(scope="module")
def vocabulary(tokenizer):
    return Vocabulary(tokenizer)


def encode(vocabulary, tokenizer, text):
    """The tokenizer's ids of a text, as the vocabulary numbers them."""
    ids = {word: index for index, word in enumerate(vocabulary.words)}
    tokens = map(tokenizer.id_to_token, tokenizer.encode(text, add_special_tokens=False).ids)
    return [ids[token] for token in tokens]


@settings(max_examples=12)
@given(text=st.text("abT'., \n1\t\u00e9(dog", min_size=1).filter(str.strip))
@example(text="The quick fox isn't here, it's (not) a dog.")
@example(text=" so  it is,\n\n x ")
@example(text=f"{JOINER}a {JOINER}b")
def test_pieces_are_those_of_the_text(vocabulary, tokenizer, text):
    ids = vocabulary.encode(text).tolist()
    if not {"<u>"} & {*tokenizer.encode(text, add_special_tokens=False).tokens} and JOINER not in text:
        assert [index for index in ids if index != 1] == [
            index for index in encode(vocabulary, tokenizer, text) if vocabulary.words[index] != "<u>"
        ]
    split = vocabulary.split(text)
    assert vocabulary.encode(split).tolist() == vocabulary.encode(Sentence(split)).tolist() == ids
    assert vocabulary.sentence(text).num_words == len(split)
    assert "".join(word.removeprefix(JOINER) for word in split).replace(" ", "") == text.replace(" ", "")


def test_each_piece_belongs_to_its_word(vocabulary):
    sentence = vocabulary.sentence("the quick fox")
    assert sentence.num_words == 3
    assert [word.lstrip("\u2581\u0120") for word in sentence.words] == ["the", "quick", "fox"]


def test_words_of_a_list_have_a_blank_before_them(vocabulary, tokenizer):
    first = len(encode(vocabulary, tokenizer, "a"))
    expected = encode(vocabulary, tokenizer, "a dog and the fox")[first:]
    assert vocabulary.encode(["dog", "and", "the", "fox"]).tolist() == expected


def test_saving_keeps_the_pieces(vocabulary, tmp_path):
    text = "The quick fox isn't  here, x."
    again = Vocabulary.from_json(vocabulary.to_json())
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert again == loaded == vocabulary
    for other in (again, loaded):
        assert other.sentence(text) == vocabulary.sentence(text)


def test_a_vocabulary_of_an_earlier_version_encodes_as_it_did():
    """It cut words without their blanks."""
    tokenizer = TOKENIZERS["gpt2"]()
    earlier = Tokenizer.from_str(tokenizer.to_str())
    earlier.add_special_tokens(list(SPECIAL_TOKENS))
    vocabulary = Vocabulary.from_json(earlier.to_str())
    assert vocabulary.to_json() == earlier.to_str()
    assert vocabulary.split("The fox isn't") == ["The", "fox", "isn", "'t"]
    assert not any("\u0120" in token for token in vocabulary.sentence("The quick fox isn't").tokens)
    assert vocabulary.encode("the fox").tolist() == vocabulary.encode(["the", "fox"]).tolist()


@pytest.mark.parametrize("split", ["web", "words", "whitespace"])
def test_our_own_rules_mark_no_words(split):
    vocabulary = Vocabulary.train(TEXTS, level="bpe", split=split)
    assert vocabulary.splitter.context is None
    assert JOINER not in "".join(vocabulary.split("The fox isn't here,  x"))


def test_graphs_have_these_pieces():
    tokenizer = TOKENIZERS["gpt2"]()
    vocabulary = Vocabulary(tokenizer)
    layout = TextGraphBuilder([], cls=False, vocabulary=vocabulary).layout(["The quick fox isn't here"])
    assert layout.features["id"].tolist() == encode(vocabulary, tokenizer, "The quick fox isn't here")
