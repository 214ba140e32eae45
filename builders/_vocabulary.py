"""Vocabularies: from text to words, tokens and ids, on top of Hugging Face tokenizers; and how to train them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, pairwise, product
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers, trainers

from graphattn._validation import require_choice, require_range
from graphattn.builders._atomic import atomic_file, write_text
from graphattn.builders._blanks import find_context, is_marked, set_mark, split_at_blanks, unmark
from graphattn.builders._regular_files import NAMES, UnsuitableFileError, read_text
from graphattn.builders._sentence import Sentence
from graphattn.builders._special_tokens import SpecialTokens
from graphattn.builders._spelling import LONGEST_WORD, compose, make_normalizer
from graphattn.builders._word_boundaries import (
    DEFAULT_SPLIT,
    Source,
    WordSplitter,
    check_is_batch,
    make_pre_tokenizer,
    replace_surrogates,
)
from graphattn.exceptions import ConfigError, ModelDirectoryError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]")
UNKNOWN = "[UNK]"
_UNKNOWN_ID = SPECIAL_TOKENS.index(UNKNOWN)
_CACHE_SIZE = 1 << 18  # words whose tokens are cached; bounds the memory for endless streams
_BPE_SIZE = 8000  # at most
_COUNT_CHUNK = 4096  # texts counted at a time
_LINE = 10_000  # words per line for the BPE trainer

Ids = npt.NDArray[np.int32]


class Vocabulary:
    """A wrapper around a Hugging Face ``tokenizers.Tokenizer``: text -> words -> tokens -> ids.

    Ids 0, 1 and 2 are always ``[PAD]``, ``[UNK]`` and ``[CLS]`` (:data:`SPECIAL_TOKENS`), whatever their ids in the
    tokenizer. Text never gets the ids 0 and 2, not even the text ``[CLS]``.

    Tokens of a word do not depend on its neighbours, so raw text, its list of words and its :class:`Sentence` have the
    same tokens. Every word has at least one token. An unknown token keeps its text and has the id of ``[UNK]``, so the
    tokens of a word spell the word; only white space inside a word (``10 000``) is lost.

    Parameters
    ----------
    tokenizer : any; missing special tokens are added. :meth:`train` and :meth:`load` create one

    Examples
    --------
    >>> vocabulary = Vocabulary.train(["Dogs don't bark.", "Dogs sleep."])
    >>> vocabulary.sentence("Cats don't bark!").tokens
    ('Cats', 'do', "n't", 'bark', '!')
    >>> vocabulary.encode("Cats don't bark!").tolist()
    [1, 5, 6, 7, 1]
    """

    special_tokens: SpecialTokens | None = None
    """Special tokens around the texts of a pretrained model."""
    unknown_id: int = _UNKNOWN_ID
    reads_blanks = True
    """Whether words keep the white space before them if their pieces depend on it."""
    splitter: WordSplitter
    """Splits raw text into words."""

    def __init__(self, tokenizer: Tokenizer):
        self._read(Tokenizer.from_str(tokenizer.to_str()))

    def _read(self, tokenizer: Tokenizer) -> None:
        """Use a tokenizer, which changes."""
        reads_blanks = self.reads_blanks and not _is_of_earlier_version(tokenizer)
        self._tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._number_tokens()
        model, self._lowercase = tokenizer.model, _detect_lowercase(tokenizer.normalizer)
        self._has_whole_words = isinstance(model, models.WordLevel)
        unknown = getattr(model, "unk_token", None)
        self._not_words = {*SPECIAL_TOKENS, *([unknown] if unknown in self._ids else [])}
        """Tokens whose ids no text gets."""
        self._has_plain_pieces = isinstance(model, models.BPE) and not (
            model.continuing_subword_prefix or model.end_of_word_suffix or model.byte_fallback
        )
        self.splitter = WordSplitter(tokenizer)
        if reads_blanks and not self._has_whole_words and (tokenizer.pre_tokenizer is None or not self.splitter.rule):
            self._find_context()
        self._clear_caches()

    def _find_context(self) -> None:
        """Read words with the white space before them if the pieces of a text depend on it."""
        splitters = [self.splitter, WordSplitter(self._tokenizer, split_at_blanks())]
        if self._tokenizer.pre_tokenizer is None:
            splitters.reverse()
        number, context = find_context(self._tokenizer, [splitter.split_with_offsets for splitter in splitters])
        self.splitter = splitters[number]
        if context is not None:
            self.splitter.context = context
            set_mark(self._tokenizer)

    def _number_tokens(self) -> None:
        """Give all tokens an id, special ones the first."""
        self._tokenizer.add_special_tokens(
            [token for token in SPECIAL_TOKENS if self._tokenizer.token_to_id(token) is None]
        )
        by_id = sorted(self._tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
        self._words = [*SPECIAL_TOKENS, *(word for word, _ in by_id if word not in SPECIAL_TOKENS)]
        self._ids = {word: index for index, word in enumerate(self._words)}

    @classmethod
    def train(
        cls,
        corpus: Iterable[Source] | Counter[str],
        *,
        level: Literal["word", "bpe"] = "word",
        split: str = DEFAULT_SPLIT,
        lowercase: bool = True,
        zero_digits: bool = False,
        min_count: int = 1,
        size: int | None = None,
        extra_words: Iterable[str] = (),
    ) -> Vocabulary:
        """Train a vocabulary; the result is deterministic.

        Parameters
        ----------
        corpus : raw texts, lists of words, or sentences, read once; or a ``Counter`` of words in the order of their
            first appearance
        level : ``word`` keeps whole words, sorted by frequency, then by first appearance; ``bpe`` splits words into
            frequent pieces (byte pair encoding)
        split : rule for raw text, see :func:`~graphattn.builders._word_boundaries.make_pre_tokenizer`
        lowercase : look words up in lower case; word-level tokens keep their case
        zero_digits : look words up with 0 for each digit
        min_count : minimum frequency of words (``bpe``: of pairs of pieces)
        size : maximum number of entries, special tokens included; by default unlimited for ``word``; for
            ``bpe`` the characters and half as many pieces as there are words, but not more than 8000
        extra_words : added after the corpus' words, in addition to ``size``; ``word`` only

        Raises
        ------
        ConfigError
            if an option is out of bounds
        DataError
            if an item of the corpus is not a text, a list of words, or a sentence
        """
        check_options(level, min_count, size)
        counts = count_words(corpus, WordSplitter.by_rule(split))
        normalizer = make_normalizer(level, lowercase, zero_digits)
        if level == "bpe":
            return cls._wrap(_train_bpe(counts, normalizer, split, min_count, size))
        return cls._wrap(_train_word_level(counts, normalizer, split, min_count, size, extra_words))

    def with_words(self, words: Iterable[str]) -> Vocabulary:
        """A word-level vocabulary with the same rules and these entries after the special tokens.

        Examples
        --------
        >>> vocabulary = Vocabulary.train(["a dog"])
        >>> vocabulary.with_words([*vocabulary.words, "cat"]).words
        ['[PAD]', '[UNK]', '[CLS]', 'a', 'dog', 'cat']
        """
        config = json.loads(self.to_json())
        entries = dict.fromkeys((*SPECIAL_TOKENS, *words))
        config["model"]["vocab"] = {word: index for index, word in enumerate(entries)}
        return Vocabulary.from_json(json.dumps(config))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read any ``tokenizer.json``.

        Raises
        ------
        ModelDirectoryError
            if the file is missing or is not a tokenizer
        """
        try:
            text = read_text(path, NAMES)
        except FileNotFoundError:
            raise ModelDirectoryError(
                f"{os.fspath(path)}: no such file. Give the tokenizer.json of a model directory."
            ) from None
        except UnsuitableFileError as error:
            raise ModelDirectoryError(f"{os.fspath(path)} cannot be read as a tokenizer ({error.strerror})") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ModelDirectoryError(f"{os.fspath(path)}: cannot be read as a tokenizer ({error}).") from None
        try:
            return cls.from_json(text)
        except ModelDirectoryError as error:
            raise ModelDirectoryError(f"{os.fspath(path)}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the output of :meth:`to_json`.

        Raises
        ------
        ModelDirectoryError
            if the text is not a tokenizer
        """
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # tokenizers raises plain Exception
            raise ModelDirectoryError(
                f"not a Hugging Face tokenizer ({error}). Save the vocabulary again or copy the file again."
            ) from None
        return cls._wrap(tokenizer)

    @classmethod
    def _wrap(cls, tokenizer: Tokenizer) -> Self:
        """A vocabulary that uses, and changes, this tokenizer itself, not a copy."""
        vocabulary = cls.__new__(cls)
        vocabulary._read(tokenizer)
        return vocabulary

    def to_json(self) -> str:
        """The tokenizer in Hugging Face's format."""
        return self._tokenizer.to_str()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``tokenizer.json`` atomically.

        Raises
        ------
        ModelDirectoryError
            if the file cannot be written
        """
        try:
            with atomic_file(path, sync=True) as temporary:
                write_text(temporary, self.to_json())
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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {'words' if self._has_whole_words else 'sub-words'})"

    @property
    def words(self) -> list[str]:
        """The entries by id, special tokens first."""
        return list(self._words)

    @property
    def level(self) -> str:
        """``word`` if tokens are whole words, else ``bpe``."""
        return "word" if self._has_whole_words else "bpe"

    def split(self, text: str) -> list[str]:
        """The words of a raw text, case kept.

        Examples
        --------
        >>> Vocabulary.train([]).split("It's 3,000.50 in the U.S.!!")
        ['It', "'s", '3,000.50', 'in', 'the', 'U.S.', '!!']
        """
        return self.splitter.split(text)

    def sentence(self, source: Source) -> Sentence:
        """Tokenize a source; heads, tags and label of a sentence are kept.

        Parameters
        ----------
        source : raw text, words, or a sentence
        """
        return self.sentences([source])[0]

    def sentences(self, sources: Sequence[Source]) -> list[Sentence]:
        """:meth:`sentence` for each source; raw texts are split in parallel."""
        words = self.splitter.split_sources(sources)
        if self._has_whole_words:
            return [with_tokens(source, tokens, None) for source, tokens in zip(sources, words, strict=True)]
        pieces = self._split_words(words)
        return [self._split_into_pieces(*pair, pieces) for pair in zip(sources, words, strict=True)]

    def ids(self, tokens: Sequence[str]) -> Ids:
        """The id of each token of a :meth:`sentence`; 1 if unknown. ``[CLS]`` is not added."""
        ids: list[int | None]
        if self._has_whole_words:
            ids = list(map(self._cached_ids.get, tokens))
            if None in ids:
                ids = [self._look_up_word(token) for token in tokens]
        else:
            ids = [self._token_ids.get(token, _UNKNOWN_ID) for token in tokens]
        return np.array(ids, dtype=np.int32)

    def encode(self, source: Source) -> Ids:
        """The ids of one source's tokens."""
        return self.encode_batch([source])[1][0]

    def spelling(self, word: str) -> str:
        """The normalized form in which a word is looked up."""
        if len(word) > LONGEST_WORD:
            return word  # in no vocabulary, and too long for the library
        if self._lowercase is not None and word.isascii() and word.isalnum():
            return word.lower() if self._lowercase else word
        normalizer = self._tokenizer.normalizer
        return word if normalizer is None else normalizer.normalize_str(replace_surrogates(word))

    def ids_of_words(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        """The number of tokens of each word, and the concatenated ids of all these tokens."""
        if self._has_whole_words:
            return np.ones(len(words), np.int32), self.ids(words)
        pieces_of = self._split_words([words])
        pieces = [pieces_of[word] for word in words]
        counts = np.fromiter(map(len, pieces), np.int32, len(pieces))
        return counts, self.ids(list(chain.from_iterable(pieces)))

    def encode_batch(self, sources: Sequence[Source]) -> tuple[list[Sentence], list[Ids]]:
        """Sentences and the ids of their tokens, for many sources at once."""
        sentences = self.sentences(sources)
        return sentences, [self.ids(sentence.tokens) for sentence in sentences]

    def _clear_caches(self) -> None:
        self._token_ids = {**self._ids, **dict.fromkeys(self._not_words, _UNKNOWN_ID)}
        self._cached_ids: dict[str, int] = dict.fromkeys(self._not_words, _UNKNOWN_ID)
        self._pieces: dict[str, tuple[str, ...]] = {UNKNOWN: (UNKNOWN,)}

    def _look_up_word(self, word: str) -> int:
        index = self._cached_ids.get(word)
        if index is None:
            if len(self._cached_ids) >= _CACHE_SIZE:
                self._clear_caches()
            index = self._token_ids.get(self.spelling(word), _UNKNOWN_ID)
            self._cached_ids[word] = index
        return index

    def _split_words(self, sentences: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """Word -> its pieces, for at least the words of these sentences."""
        if len(self._pieces) >= _CACHE_SIZE:
            self._clear_caches()
        cache = self._pieces  # another thread may clear the caches
        new = [word for word in dict.fromkeys(chain.from_iterable(sentences)) if word not in cache]
        cache.update((word, (word,)) for word in new if len(word) > LONGEST_WORD)
        new = [word for word in new if word not in cache]
        context = self.splitter.context
        texts = new if context is None else list(map(unmark, new))
        encodings = (context.encoder if context else self._tokenizer).encode_batch(
            [[text] for text in texts], is_pretokenized=True, add_special_tokens=False
        )
        for word, text, encoding in zip(new, texts, encodings, strict=True):
            cache[word] = self._name_pieces(text, encoding)
        return cache

    def _name_pieces(self, word: str, encoding: Encoding) -> tuple[str, ...]:
        """The pieces of a word; an unknown piece becomes the part of the word it covers, if pieces are such parts."""
        if not self._has_plain_pieces:
            return tuple(encoding.tokens) or (UNKNOWN,)
        if UNKNOWN not in encoding.tokens:
            return tuple(encoding.tokens) or (word or UNKNOWN,)
        if (composed := compose(word)) != word and self.spelling(composed) == self.spelling(word):
            # offsets in a decomposed word leave out the accents
            word = composed
            encoding = self._tokenizer.encode([word], is_pretokenized=True, add_special_tokens=False)
        pieces = list(zip(encoding.tokens, encoding.offsets, strict=True))
        parts = tuple(word[begin:end] if piece == UNKNOWN else piece for piece, (begin, end) in pieces)
        overlap = any(begin < end for (_, (_, end)), (_, (begin, _)) in pairwise(pieces))
        known = [piece == UNKNOWN and part in self._token_ids for (piece, _), part in zip(pieces, parts, strict=True)]
        if overlap or any(known):  # normalization changed characters, of which only some parts may be known
            parts = _fill_unknown(encoding.tokens, self.spelling(word)) or tuple(
                UNKNOWN if is_known else part for is_known, part in zip(known, parts, strict=True)
            )
        return parts

    def _split_into_pieces(
        self, source: Source, words: Sequence[str], pieces_of: Mapping[str, tuple[str, ...]]
    ) -> Sentence:
        if (
            not (self._has_plain_pieces and self.splitter.rule)  # else pieces spell the words, which are split again
            and isinstance(source, Sentence)
            and source.word_ids is not None
            and all(map(self._ids.__contains__, source.tokens))
        ):
            return source  # tokenized by this vocabulary
        pieces = [pieces_of[word] for word in words]
        word_ids = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces]).tolist()
        return with_tokens(source, tuple(chain.from_iterable(pieces)), word_ids)


def count_words(corpus: Iterable[Source] | Counter[str], splitter: WordSplitter) -> Counter[str]:
    """Count the words of a corpus, in the order of first appearance; a ``Counter`` is returned as it is."""
    if isinstance(corpus, Counter):
        return corpus
    check_is_batch(corpus)
    counts: Counter[str] = Counter()
    sources = iter(corpus)
    while chunk := list(islice(sources, _COUNT_CHUNK)):
        counts.update(chain.from_iterable(splitter.split_sources(chunk)))
    return counts


def check_options(level: str, min_count: int, size: int | None) -> None:
    """Check the options of :meth:`Vocabulary.train`."""
    require_choice("level", level, ("word", "bpe"))
    require_range("min_count", min_count, min=1)
    if size is not None and size <= len(SPECIAL_TOKENS):
        raise ConfigError(
            f"vocabulary size is {size}; it must be above {len(SPECIAL_TOKENS)}, the number of special tokens"
        )


def _is_of_earlier_version(tokenizer: Tokenizer) -> bool:
    """Whether a version that read words without their blanks wrote this tokenizer: it added our special tokens last."""
    ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    size = tokenizer.get_vocab_size()
    return ids == list(range(size - len(SPECIAL_TOKENS), size)) and not is_marked(tokenizer)


@cache
def _serialize_normalizers() -> dict[bytes, bool]:
    """Our normalizers as the library writes them -> whether they lower case."""
    choices = product(("word", "bpe"), (True, False))
    return {make_normalizer(level, lowercase).__getstate__(): lowercase for level, lowercase in choices}


def _detect_lowercase(normalizer: normalizers.Normalizer | None) -> bool | None:
    """Whether a normalizer of ours lowers case; None if it is not ours.

    Our normalizers change nothing else in ASCII letters and digits, so such words need not go through Rust.
    """
    return None if normalizer is None else _serialize_normalizers().get(normalizer.__getstate__())


def _train_word_level(
    counts: Counter[str],
    normalizer: normalizers.Normalizer,
    split: str,
    min_count: int,
    size: int | None,
    extra_words: Iterable[str],
) -> Tokenizer:
    normalized = _normalize_counts(counts, normalizer)
    kept = [word for word, count in normalized.most_common() if count >= min_count and word not in SPECIAL_TOKENS]
    kept = kept[: None if size is None else size - len(SPECIAL_TOKENS)]
    entries = dict.fromkeys((*SPECIAL_TOKENS, *kept, *map(normalizer.normalize_str, extra_words)))
    model = models.WordLevel({word: index for index, word in enumerate(entries)}, unk_token=UNKNOWN)
    return _assemble(model, normalizer, split)


def _train_bpe(
    counts: Counter[str], normalizer: normalizers.Normalizer, split: str, min_count: int, size: int | None
) -> Tokenizer:
    words = _normalize_counts(counts, normalizer)
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    if size is None:  # more pieces would be whole words that occur once, above all in small corpora
        size = min(_BPE_SIZE, len(SPECIAL_TOKENS) + len(characters) + len(words) // 2)
    # the trainer would choose at random among equally rare characters
    alphabet = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = alphabet[: size - len(SPECIAL_TOKENS)]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    learner = Tokenizer(models.BPE(unk_token=UNKNOWN))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_iterate_lines(words), trainer)
    # a copy of the model, without registered special tokens: "[CLS]" in a text is text
    trained = json.loads(learner.to_str())["model"]
    merges = [tuple(pair) for pair in trained["merges"]]
    model = models.BPE(trained["vocab"], merges, unk_token=UNKNOWN, fuse_unk=True)
    return _assemble(model, normalizer, split)


def _normalize_counts(counts: Counter[str], normalizer: normalizers.Normalizer) -> Counter[str]:
    normalized: Counter[str] = Counter()
    for word, count in counts.items():
        normalized[normalizer.normalize_str(word)] += count
    return normalized


def _assemble(model: models.Model, normalizer: normalizers.Normalizer, split: str) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = make_pre_tokenizer(split)
    return tokenizer


def _iterate_lines(words: Counter[str]) -> Iterator[str]:
    for word, count in words.items():
        for start in range(0, count, _LINE):
            yield " ".join([word] * min(_LINE, count - start))


def _fill_unknown(pieces: Sequence[str], word: str) -> tuple[str, ...]:
    """Replace unknown pieces by the text between the known ones; empty if the pieces do not spell the word."""
    filled, at = [], 0
    for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
        if piece == UNKNOWN:
            end = len(word) if following is None else at + 1 if following == UNKNOWN else word.find(following, at)
            piece = word[at : max(end, at)]
        if not piece or not word.startswith(piece, at):
            return ()
        filled.append(piece)
        at += len(piece)
    return tuple(filled) if at == len(word) else ()


def with_tokens(source: Source, tokens: Sequence[str], word_ids: Sequence[int] | None) -> Sentence:
    """A source as a sentence with these tokens."""
    tokens, word_ids = tuple(tokens), None if word_ids is None else tuple(word_ids)
    if not isinstance(source, Sentence):
        return Sentence.of_tokens(tokens, word_ids)
    is_same = (source.tokens, source.word_ids) == (tokens, word_ids)
    return source if is_same else source.with_tokens(tokens, word_ids)
