"""From text to words, tokens and ids and back, on top of a Hugging Face tokenizer."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from tokenizers import Encoding, Tokenizer

from graphattn.builders.files import atomic_file
from graphattn.builders.sentence import Sentence
from graphattn.builders.vocabulary_training import (
    SPECIAL_TOKENS,
    UNKNOWN,
    check_options,
    count_words,
    lowers_case,
    train_bpe,
    train_word_level,
)
from graphattn.builders.word_boundaries import Source, WordSplitter, clean
from graphattn.exceptions import ModelDirectoryError

_UNKNOWN_ID = 1
_REMEMBERED = 1 << 20  # words whose tokens are kept, so that a stream of any length fits into memory


class Vocabulary:
    """A wrapper around a Hugging Face ``tokenizers.Tokenizer``: text -> words -> tokens -> ids.

    Ids 0, 1 and 2 are those of ``[PAD]``, ``[UNK]`` and ``[CLS]`` (:data:`SPECIAL_TOKENS`), whatever numbers
    the tokenizer itself gives them. Text never yields the ids 0 and 2, not even the text ``[CLS]``.

    A word is cut into its tokens without regard to its neighbours, so raw text, its list of words and a
    :class:`Sentence` give the same tokens. Every word has at least one token. A token that is not in the vocabulary
    keeps its text and has the id of ``[UNK]``, so tokens can be put together to the words they came from; but
    for blanks inside a word (``10 000``), at which pieces are cut.

    Parameters
    ----------
    tokenizer : any; special tokens that it lacks are added. Use :meth:`train` or :meth:`load` to get one

    Examples
    --------
    >>> vocabulary = Vocabulary.train(["Dogs don't bark.", "Dogs sleep."])
    >>> vocabulary.sentence("Cats don't bark!").tokens
    ('Cats', 'do', "n't", 'bark', '!')
    >>> vocabulary.encode("Cats don't bark!").tolist()
    [1, 5, 6, 7, 1]
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.add_special_tokens(
            [token for token in SPECIAL_TOKENS if self._tokenizer.token_to_id(token) is None]
        )
        by_id = sorted(self._tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
        self._words = [*SPECIAL_TOKENS, *(word for word, _ in by_id if word not in SPECIAL_TOKENS)]
        self._ids = {word: index for index, word in enumerate(self._words)}
        parts = json.loads(self._tokenizer.to_str())
        model, self._lowers_case = parts["model"], lowers_case(parts["normalizer"])
        self._whole_words = model["type"] == "WordLevel"
        self._not_words = {*SPECIAL_TOKENS, model.get("unk_token")} & {*self._words}  # ids no text must yield
        self._pieces_are_parts = model["type"] == "BPE" and not (
            model.get("continuing_subword_prefix") or model.get("end_of_word_suffix") or model.get("byte_fallback")
        )
        self._splitter = WordSplitter(self._tokenizer)
        self._forget()

    @classmethod
    def train(
        cls,
        corpus: Iterable[Source] | Counter[str],
        *,
        level: Literal["word", "bpe"] = "word",
        split: Literal["words", "whitespace"] = "words",
        lowercase: bool = True,
        min_count: int = 1,
        size: int | None = None,
        extra_words: Iterable[str] = (),
    ) -> Vocabulary:
        """Learn a vocabulary; the same corpus and options always give the same one.

        Parameters
        ----------
        corpus : raw texts, lists of words, or sentences; may be a generator, is read once. Or its words as a
            ``Counter``, in the order of their first appearance
        level : ``word`` keeps whole words, the most frequent first, ties by first appearance;
            ``bpe`` cuts words into frequent pieces
        split : rule that cuts raw text, see :func:`~graphattn.builders.word_boundaries.pre_tokenizer`
        lowercase : look words up in lower case; a sentence of words keeps its case all the same
        min_count : words (``bpe``: pairs of pieces) seen less often are left out
        size : most entries, special tokens included; None: no limit at word level, 8000 for ``bpe``
        extra_words : appended behind the corpus' own, beyond ``size``; word level only

        Raises
        ------
        ConfigError
            when an option is impossible
        DataError
            when something in the corpus is not a text, a list of words, or a sentence
        """
        extra_words = list(extra_words)
        check_options(level, min_count, size, bool(extra_words))
        counts = count_words(corpus, WordSplitter.by_rule(split))
        if level == "bpe":
            tokenizer = train_bpe(counts, split=split, lowercase=lowercase, min_count=min_count, size=size)
        else:
            tokenizer = train_word_level(
                counts, split=split, lowercase=lowercase, min_count=min_count, size=size, extra_words=extra_words
            )
        return cls(tokenizer)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a ``tokenizer.json``, ours or any other.

        Raises
        ------
        ModelDirectoryError
            when the file is missing or is not a tokenizer
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ModelDirectoryError(
                f"{os.fspath(path)}: no such file. Give the tokenizer.json of a model directory."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ModelDirectoryError(f"{os.fspath(path)}: cannot be read as a tokenizer ({error}).") from None
        try:
            return cls.from_json(text)
        except ModelDirectoryError as error:
            raise ModelDirectoryError(f"{os.fspath(path)}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """The vocabulary that :meth:`to_json` wrote.

        Raises
        ------
        ModelDirectoryError
            when the text is not a tokenizer
        """
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # tokenizers raises plain Exception
            raise ModelDirectoryError(
                f"not a Hugging Face tokenizer ({error}). Save the vocabulary again or copy the file anew."
            ) from None
        return cls(tokenizer)

    def to_json(self) -> str:
        """The tokenizer with all settings, as Hugging Face writes it."""
        return self._tokenizer.to_str()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``tokenizer.json``; a kill on the way leaves an older file as it was.

        Raises
        ------
        ModelDirectoryError
            when the file cannot be written
        """
        try:
            with atomic_file(path) as temporary:
                temporary.write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise ModelDirectoryError(
                f"{os.fspath(path)}: cannot be written ({error.strerror}). Check the folder and the space on the disk."
            ) from error

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple:
        return Vocabulary.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {'words' if self._whole_words else 'sub-words'})"

    @property
    def words(self) -> list[str]:
        """The entries in the order of their ids, special tokens first."""
        return list(self._words)

    @property
    def level(self) -> str:
        """``word`` when tokens are whole words, else ``bpe``."""
        return "word" if self._whole_words else "bpe"

    @property
    def splitter(self) -> WordSplitter:
        """Its rule of where words begin and end."""
        return self._splitter

    def split(self, text: str) -> list[str]:
        """The words of a raw text as they stand in it, case kept.

        Examples
        --------
        >>> Vocabulary.train([]).split("It's 3,000.50 in the U.S.!!")
        ['It', "'s", '3,000.50', 'in', 'the', 'U.S.', '!!']
        """
        return self._splitter.split(text)

    def sentence(self, source: Source) -> Sentence:
        """Source cut into this vocabulary's tokens; heads, tags and label of a given sentence are kept.

        Parameters
        ----------
        source : raw text; or words, which stay words as they are; or a sentence
        """
        return self.sentences([source])[0]

    def sentences(self, sources: Sequence[Source]) -> list[Sentence]:
        """:meth:`sentence` for each source; raw texts are cut in parallel."""
        words = self._splitter.words_of(sources)
        if self._whole_words:
            return [_rebuilt(source, tokens, None) for source, tokens in zip(sources, words, strict=True)]
        self._learn_pieces(words)
        return [self._in_pieces(source, own) for source, own in zip(sources, words, strict=True)]

    def ids(self, tokens: Sequence[str]) -> np.ndarray:
        """The id of each token of a :meth:`sentence`, int32; 1 for what is unknown. ``[CLS]`` is not added."""
        if self._whole_words:
            found: list[int | None] = list(map(self._looked_up.get, tokens))
            if None in found:
                found = [self._word_id(token) for token in tokens]
        else:
            found = [self._token_ids.get(token, _UNKNOWN_ID) for token in tokens]
        return np.array(found, dtype=np.int32)

    def encode(self, source: Source) -> np.ndarray:
        """The ids of one source's tokens."""
        return self.ids(self.sentence(source).tokens)

    def spelling(self, word: str) -> str:
        """A word as it is looked up: with composed characters and straight quotes, in lower case if asked."""
        if self._lowers_case is not None and word.isascii() and word.isalnum():
            return word.lower() if self._lowers_case else word
        rule = self._tokenizer.normalizer
        return word if rule is None else rule.normalize_str(clean(word))

    def ids_of_words(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Into how many tokens each word is cut, and the ids of all these tokens, one word after the other; int32."""
        if self._whole_words:
            return np.ones(len(words), np.int32), self.ids(words)
        self._learn_pieces([words])
        pieces = [self._pieces[word] for word in words]
        counts = np.fromiter(map(len, pieces), np.int32, len(pieces))
        return counts, self.ids(list(chain.from_iterable(pieces)))

    def encode_batch(self, sources: Sequence[Source]) -> tuple[list[Sentence], list[np.ndarray]]:
        """Sentences and the ids of their tokens, for many sources at once."""
        sentences = self.sentences(sources)
        return sentences, [self.ids(sentence.tokens) for sentence in sentences]

    def _forget(self) -> None:
        self._token_ids = {**self._ids, **dict.fromkeys(self._not_words, _UNKNOWN_ID)}
        self._looked_up: dict[str, int] = dict.fromkeys(self._not_words, _UNKNOWN_ID)
        self._pieces: dict[str, tuple[str, ...]] = {UNKNOWN: (UNKNOWN,)}

    def _word_id(self, word: str) -> int:
        found = self._looked_up.get(word)
        if found is None:
            if len(self._looked_up) >= _REMEMBERED:
                self._forget()
            found = self._token_ids.get(self.spelling(word), _UNKNOWN_ID)
            self._looked_up[word] = found
        return found

    def _learn_pieces(self, sentences: Sequence[Sequence[str]]) -> None:
        if len(self._pieces) >= _REMEMBERED:
            self._forget()
        new = [word for word in dict.fromkeys(chain.from_iterable(sentences)) if word not in self._pieces]
        encodings = self._tokenizer.encode_batch(
            [[word] for word in new], is_pretokenized=True, add_special_tokens=False
        )
        for word, encoding in zip(new, encodings, strict=True):
            self._pieces[word] = self._named_pieces(word, encoding)

    def _named_pieces(self, word: str, encoding: Encoding) -> tuple[str, ...]:
        """The pieces of a word; where pieces are parts of words, an unknown one is the part it stands for."""
        if not self._pieces_are_parts:
            return tuple(encoding.tokens) or (UNKNOWN,)
        pieces = list(zip(encoding.tokens, encoding.offsets, strict=True))
        parts = tuple(word[begin:end] if piece == UNKNOWN else piece for piece, (begin, end) in pieces)
        if UNKNOWN in encoding.tokens and any(begin < end for (_, (_, end)), (_, (begin, _)) in pairwise(pieces)):
            parts = _spelt(encoding.tokens, self.spelling(word)) or parts  # of one character a part may be known
        return parts or (word or UNKNOWN,)

    def _in_pieces(self, source: Source, words: Sequence[str]) -> Sentence:
        if (
            not (self._pieces_are_parts and self._splitter.rule)  # else words are what their pieces spell: cut anew
            and isinstance(source, Sentence)
            and source.word_ids is not None
            and all(map(self._ids.__contains__, source.tokens))
        ):
            return source  # cut by this vocabulary before
        pieces = [self._pieces[word] for word in words]
        word_ids = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces]).tolist()
        return _rebuilt(source, tuple(chain.from_iterable(pieces)), word_ids)


def _spelt(pieces: Sequence[str], word: str) -> tuple[str, ...]:
    """Pieces whose unknown ones are what stands between the known ones in the word; none if the word has others."""
    named, at = [], 0
    for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
        if piece == UNKNOWN:
            end = len(word) if after is None else at + 1 if after == UNKNOWN else word.find(after, at)
            piece = word[at : max(end, at)]
        if not piece or not word.startswith(piece, at):
            return ()
        named.append(piece)
        at += len(piece)
    return tuple(named) if at == len(word) else ()


def _rebuilt(source: Source, tokens: Sequence[str], word_ids: Sequence[int] | None) -> Sentence:
    if isinstance(source, Sentence):
        own_ids = None if word_ids is None else tuple(word_ids)
        if (source.tokens, source.word_ids) == (tuple(tokens), own_ids):
            return source
        return source.with_tokens(tokens, word_ids)
    return Sentence(tuple(tokens), None if word_ids is None else tuple(word_ids))
