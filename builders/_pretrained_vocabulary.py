"""The tokenizer of a pretrained model: its pieces, its ids, its special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
from tokenizers import Encoding, Tokenizer, pre_tokenizers
from typing_extensions import override

from graphattn.builders._blanks import iterate_steps
from graphattn.builders._sentence import Sentence
from graphattn.builders._special_tokens import SpecialTokens
from graphattn.builders._vocabulary import UNKNOWN, Ids, Vocabulary, with_tokens
from graphattn.builders._word_boundaries import Source, check_is_batch, replace_surrogates, words_of


class PretrainedVocabulary(Vocabulary):
    """A vocabulary with the ids of a pretrained model.

    Raw texts get the pieces that the model was trained on; batches add the special tokens. Tokens are the parts of the
    text that the pieces cover, so the tokens of a word spell it.

    ``tokenizer`` is the model's; it is changed so that it neither truncates nor pads. ``special_tokens`` surround a
    text.
    """

    special_tokens: SpecialTokens
    reads_blanks = False
    truncates_left = False
    """Whether the directory says that long texts lose their beginnings."""

    def __init__(self, tokenizer: Tokenizer):
        self._read(tokenizer)  # without a copy, which takes as long as reading one

    @override
    def _read(self, tokenizer: Tokenizer) -> None:
        super()._read(tokenizer)
        self._of_texts, self._of_words = _make_encoders(tokenizer)
        self.special_tokens = SpecialTokens.of(tokenizer)
        names = (getattr(tokenizer.model, "unk_token", None), UNKNOWN, "<unk>")
        self.unknown_id = next((self._ids[name] for name in names if name in self._ids), 0)

    @override
    def _number_tokens(self) -> None:
        self._ids = self._tokenizer.get_vocab(with_added_tokens=True)
        self._words = [""] * (1 + max(self._ids.values()))
        for word, index in self._ids.items():
            self._words[index] = word

    @override
    def sentences(self, sources: Sequence[Source]) -> list[Sentence]:
        return self.encode_batch(sources)[0]

    @override
    def ids_of_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        pieces = [encoding.ids or [self.unknown_id] for encoding in self._encode_words([[word] for word in words])]
        counts = np.fromiter(map(len, pieces), np.int32, len(pieces))
        return counts, np.array([index for ids in pieces for index in ids], np.int32)

    @override
    def encode_batch(self, sources: Sequence[Source]) -> tuple[list[Sentence], list[Ids]]:
        check_is_batch(sources)
        texts = [replace_surrogates(source) for source in sources if isinstance(source, str)]
        words = [
            [replace_surrogates(word) for word in words_of(source)] for source in sources if not isinstance(source, str)
        ]
        of_texts = map(_read_text, texts, self._of_texts.encode_batch(texts, add_special_tokens=False))
        of_words = map(self._read_words, words, self._encode_words(words))
        sentences, ids = [], []
        for source in sources:
            tokens, word_ids, numbers = next(of_texts if isinstance(source, str) else of_words)
            sentences.append(with_tokens(source, tokens, word_ids))
            ids.append(np.array(numbers, np.int32))
        return sentences, ids

    def add_special_tokens(self, parts: Sequence[Sentence]) -> Sentence:
        """A text, or both texts of a pair, with the special tokens that batches add, each as a word."""
        tokens: list[str] = []
        word_ids: list[int] = []
        heads: list[int] = []
        deprels: list[str] = []
        for part, ids in zip([None, *parts], self.special_tokens.template(len(parts)).ids, strict=True):
            start = len(heads)
            if part is not None:
                count = part.num_words
                tokens += part.tokens
                word_ids += [start + word for word in part.word_ids or range(len(part))]
                heads += [start + head if head else 0 for head in part.heads or (0,) * count]
                deprels += part.deprels or ("dep",) * count
            for index in ids:
                tokens.append(self._words[index])
                word_ids.append(len(heads))
                heads.append(0)
                deprels.append("")
        if all(part.heads is None for part in parts):
            return Sentence(tokens, word_ids)
        return Sentence(tokens, word_ids, heads=heads, deprels=deprels)

    def _encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        return self._of_words.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)

    def _read_words(self, words: Sequence[str], encoding: Encoding) -> tuple[list[str], list[int], list[int]]:
        """Tokens, word of each token, ids; a word without pieces, such as a control character, is unknown."""
        tokens: list[str] = []
        word_ids: list[int] = []
        ids: list[int] = []
        pieces = zip(encoding.word_ids, encoding.offsets, encoding.ids, strict=True)
        following = next(pieces, None)
        for number, word in enumerate(words):
            end, count = 0, len(ids)
            while following is not None and following[0] == number:
                _, (begin, stop), index = following
                tokens.append(word[max(begin, end) : stop])
                ids.append(index)
                end, following = max(end, stop), next(pieces, None)
            if len(ids) == count:
                tokens.append(word)
                ids.append(self.unknown_id)
            word_ids += [number] * (len(ids) - count)
        return tokens, word_ids, ids


def _read_text(text: str, encoding: Encoding) -> tuple[list[str], list[int], list[int]]:
    """Tokens, word of each token, ids."""
    tokens: list[str] = []
    word_ids: list[int] = []
    last, end = -1, 0
    for word, (begin, stop) in zip(encoding.word_ids, encoding.offsets, strict=True):
        is_new = word is None or word != last
        tokens.append(text[max(begin, end) : stop].strip())
        word_ids.append(word_ids[-1] + is_new if word_ids else 0)
        last, end = -1 if word is None else word, max(end, stop)
    return tokens, word_ids, encoding.ids


def _make_encoders(tokenizer: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of texts and of lists of words; a byte-level one marks each word as the beginning of a word.

    Neither has a post-processor: one that trims offsets would take the first letter of a word for the blank before it.
    """
    of_texts, of_words = _copy_steps(tokenizer), _copy_steps(tokenizer)
    of_words.pre_tokenizer = deepcopy(tokenizer.pre_tokenizer)  # copies share their steps
    steps = [step for step in iterate_steps(of_words.pre_tokenizer) if isinstance(step, pre_tokenizers.ByteLevel)]
    for step in steps:
        step.add_prefix_space = True
    return of_texts, of_words if steps else of_texts


def _copy_steps(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer with the same model, normalizer, pre-tokenizer and added tokens; without parsing the model again."""
    copy = Tokenizer(tokenizer.model)
    copy.normalizer, copy.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    copy.add_tokens([token for _, token in sorted(tokenizer.get_added_tokens_decoder().items())])
    return copy
