"""The tokenizer of a pretrained model: ids against ``tokenizers``, words against the text."""

import json
import pickle
import sys

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from graphattn.builders import Sentence
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary

TEXTS = [
    "Don't stop, unbelievable!",
    "",
    "  two  spaces ",
    "caf\u00e9 \u6771\u4eac \u0000 x",
    "a <mask> b",
    "unbelievably",
]


def train(kind):
    special = ["<unk>", "<s>", "</s>", "<mask>"]
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=special, show_progress=False)
    elif "byte-level" in kind:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    if "byte-level" in kind:
        tokenizer.decoder = decoders.ByteLevel()
    if "trimmed" in kind:  # as RobertaTokenizer does
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), add_prefix_space=False)
        return tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


@pytest.fixture(params=["wordpiece", "byte-level", "byte-level, trimmed", "unigram"])
def tokenizer(request):
    return train(request.param)


def test_ids_of_raw_texts(tokenizer):
    vocabulary = PretrainedVocabulary(tokenizer)
    _, ids = vocabulary.encode_batch(TEXTS)
    expected = tokenizer.encode_batch(TEXTS, add_special_tokens=False)
    assert [row.tolist() for row in ids] == [encoding.ids for encoding in expected]
    assert vocabulary.encode(TEXTS[0]).tolist() == expected[0].ids


def test_ids_of_words_do_not_depend_on_neighbours(tokenizer):
    vocabulary = PretrainedVocabulary(tokenizer)
    words = ["Don't", "\u0000", "unbelievable", "x"]
    (sentence,), (ids,) = vocabulary.encode_batch([words])
    counts, flat = vocabulary.ids_of_words(words)
    assert ids.tolist() == flat.tolist()
    assert [sentence.word_ids.count(number) for number in range(4)] == counts.tolist()
    assert min(counts) >= 1  # a word without pieces is unknown


def test_tokens_spell_the_words(tokenizer):
    vocabulary = PretrainedVocabulary(tokenizer)
    words = ["Don't", "caf\u00e9", "unbelievable"]
    assert vocabulary.sentence(words).words == tuple(words)
    assert "".join(vocabulary.sentence(TEXTS[0]).words) == TEXTS[0].replace(" ", "")


def test_sentences_keep_their_columns(tokenizer):
    sentence = Sentence(["unbelievable", "x"], heads=[2, 0], tags=["A", "B"])
    encoded = PretrainedVocabulary(tokenizer).sentence(sentence)
    assert (encoded.heads, encoded.tags, encoded.num_words) == ((2, 0), ("A", "B"), 2)


def test_the_ids_of_the_model_are_kept(tokenizer):
    vocabulary = PretrainedVocabulary(tokenizer)
    assert vocabulary.words[:4] == ["<unk>", "<s>", "</s>", "<mask>"]
    assert len(vocabulary) == tokenizer.get_vocab_size()
    assert vocabulary.special_tokens.single.ids == ((1,), (2,))


def test_the_unknown_token_is_that_of_the_model():
    model = models.WordPiece({"<unk>": 0, "a": 1, "other": 2}, unk_token="other")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    assert PretrainedVocabulary(tokenizer).encode(["a", "\u0000", "b"]).tolist() == [1, 2, 2]


def test_padding_and_truncation_of_the_file_do_not_count(tokenizer):
    tokenizer.enable_padding(length=20)
    tokenizer.enable_truncation(3)
    assert len(PretrainedVocabulary(tokenizer).encode("a b c d e f")) > 3


def test_copies(tokenizer, tmp_path):
    vocabulary = PretrainedVocabulary(tokenizer)
    vocabulary.save(tmp_path / "tokenizer.json")
    for copy in (PretrainedVocabulary.load(tmp_path / "tokenizer.json"), pickle.loads(pickle.dumps(vocabulary))):
        assert type(copy) is PretrainedVocabulary
        assert copy.encode(TEXTS[0]).tolist() == vocabulary.encode(TEXTS[0]).tolist()


def test_lone_surrogates_are_replaced(tokenizer):
    assert PretrainedVocabulary(tokenizer).encode(json.loads('"a \\ud800"')).tolist()


def test_the_file_is_parsed_once(tokenizer):
    text, parsed = tokenizer.to_str(), []

    def count(frame, event, function):
        if event == "c_call" and function.__name__ in ("from_str", "to_str"):
            parsed.append(function.__name__)

    sys.setprofile(count)
    try:
        PretrainedVocabulary.from_json(text)
    finally:
        sys.setprofile(None)
    assert parsed == ["from_str"]
