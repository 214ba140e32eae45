"""Learning a tokenizer from the words of a corpus: counted words, or byte pair encoding."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, product

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from graphattn.builders.word_boundaries import Source, WordSplitter, pre_tokenizer
from graphattn.exceptions import ConfigError, DataError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]")
UNKNOWN = "[UNK]"
_BPE_SIZE = 8000
_TEXTS = 4096  # texts counted at a time
_LINE = 10_000  # words handed to the BPE trainer at a time


def normalizer(level: str, lowercase: bool) -> normalizers.Normalizer:
    """Composed characters and straight quotes; at word level a run of marks cut to three; lower case if asked."""
    steps: list[normalizers.Normalizer] = [
        normalizers.NFC(),
        normalizers.Replace(Regex(r"[\x{2018}\x{2019}]"), "'"),
        normalizers.Replace(Regex(r"[\x{201C}\x{201D}]"), '"'),
    ]
    if level == "word":
        steps.append(normalizers.Replace(Regex(r"([^\p{L}\p{M}\p{N}\s])\1\1\K\1+"), ""))
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


def lowers_case(rule: object) -> bool | None:
    """Whether a normalizer, as in ``tokenizer.json``, is one of ours that lowers case; None if it is another's.

    Ours leave Latin letters and digits alone but for that, which is quick to do without it.
    """
    for level, lowercase in product(("word", "bpe"), (True, False)):
        if json.loads(normalizer(level, lowercase).__getstate__()) == rule:
            return lowercase
    return None


def count_words(corpus: Iterable[Source] | Counter[str], splitter: WordSplitter) -> Counter[str]:
    """How often each word stands in the corpus, in the order of first appearance; as given if counted already."""
    if isinstance(corpus, Counter):
        return corpus
    if isinstance(corpus, str):
        raise DataError("one text is given where a corpus is expected", hint="Put it into a list.")
    counts: Counter[str] = Counter()
    sources = iter(corpus)
    while chunk := list(islice(sources, _TEXTS)):
        counts.update(chain.from_iterable(splitter.words_of(chunk)))
    return counts


def train_word_level(
    counts: Counter[str], *, split: str, lowercase: bool, min_count: int, size: int | None, extra_words: Iterable[str]
) -> Tokenizer:
    """A tokenizer that looks whole words up, the most frequent first, ties by first appearance."""
    rule = normalizer("word", lowercase)
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        seen[rule.normalize_str(word)] += count
    kept = [word for word, count in seen.most_common() if count >= min_count and word not in SPECIAL_TOKENS]
    kept = kept[: None if size is None else size - len(SPECIAL_TOKENS)]
    known = dict.fromkeys((*SPECIAL_TOKENS, *kept, *map(rule.normalize_str, extra_words)))
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(known)}, unk_token=UNKNOWN))
    return _assemble(tokenizer, rule, split)


def train_bpe(counts: Counter[str], *, split: str, lowercase: bool, min_count: int, size: int | None) -> Tokenizer:
    """A tokenizer that cuts words into frequent pieces (byte pair encoding), ``size`` entries at most."""
    size = _BPE_SIZE if size is None else size
    rule = normalizer("bpe", lowercase)
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words[rule.normalize_str(word)] += count
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    # the trainer would choose among equally rare characters by chance
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
    learner.train_from_iterator(_repeated(words), trainer)
    # a model without registered special tokens: "[CLS]" in a text is text
    tokenizer = Tokenizer(_copy_of(learner))
    return _assemble(tokenizer, rule, split)


def _assemble(tokenizer: Tokenizer, rule: normalizers.Normalizer, split: str) -> Tokenizer:
    tokenizer.normalizer = rule
    tokenizer.pre_tokenizer = pre_tokenizer(split)
    return tokenizer


def _repeated(words: Counter[str]) -> Iterator[str]:
    for word, count in words.items():
        for start in range(0, count, _LINE):
            yield " ".join([word] * min(_LINE, count - start))


def _copy_of(learner: Tokenizer) -> models.BPE:
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    return models.BPE(model["vocab"], merges, unk_token=UNKNOWN, fuse_unk=True)


def check_options(level: str, min_count: int, size: int | None, has_extra_words: bool) -> None:
    """Refuse impossible options of a vocabulary.

    Raises
    ------
    ConfigError
        naming the option
    """
    if level not in ("word", "bpe"):
        raise ConfigError(f"{{level}} is {level!r}. Choose word or bpe.", options=("level",))
    if min_count < 1:
        raise ConfigError(f"{{min_count}} is {min_count}. Give 1 to keep every word, or more.", options=("min_count",))
    if size is not None and size <= len(SPECIAL_TOKENS):
        raise ConfigError(
            f"size of the vocabulary is {size}. Give more than {len(SPECIAL_TOKENS)}, the number of special tokens."
        )
    if level == "bpe" and has_extra_words:
        raise ConfigError("extra_words are given with level 'bpe', which has no whole words. Use level 'word'.")
