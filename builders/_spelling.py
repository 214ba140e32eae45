"""The spelling in which words and names are compared: composed, with straight quotes and, if asked, in lower case."""

from __future__ import annotations

import re
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

from graphattn.builders._word_boundaries import LONGEST_WORD

_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_LOWER_CASE = {"i\u0307": "i", "\u03c2": "\u03c3"}
"""Replacements after lower-casing: the dot of a Turkish capital I with one, and the final sigma of a Greek word."""
_FINAL_SIGMA = re.compile(r"(?<=\w)\u03c3(?!\w)")
_DIGIT = re.compile(r"\d")
_CLUSTERS = pre_tokenizers.Split(Regex(r"\X"), "isolated")


def compose(text: str) -> str:
    """Unicode's form NFC, in which canonically equivalent texts are equal."""
    return text if text.isascii() or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def spell(word: str, *, lowercase: bool) -> str:
    """The spelling in which words are compared, equal to :func:`make_normalizer` at the level ``bpe``.

    Examples
    --------
    >>> [spell(word, lowercase=True) for word in ("ΚΌΣΜΟΣ", "κόσμος", "İzmir", "Don’t")]
    ['κόσμοσ', 'κόσμοσ', 'izmir', "don't"]
    """
    if word.isascii():
        return word.lower() if lowercase else word
    word = compose(word)
    for quote, straight in _QUOTES.items():
        word = word.replace(quote, straight)
    if lowercase:
        word = word.lower()
        for former, latter in _LOWER_CASE.items():
            word = word.replace(former, latter)
        word = compose(word)
    return word


def zero_digits(word: str) -> str:
    """The word with each digit replaced by 0 (Collobert et al. 2011)."""
    return word if word.isalpha() else _DIGIT.sub("0", word)


def make_normalizer(level: str, lowercase: bool, zero_digits: bool = False) -> normalizers.Normalizer:
    """The spelling of a vocabulary's words; at word level runs of one mark are shortened to three."""
    steps: list[normalizers.Normalizer] = [
        normalizers.NFC(),
        normalizers.Replace(Regex(r"[\x{2018}\x{2019}]"), "'"),
        normalizers.Replace(Regex(r"[\x{201C}\x{201D}]"), '"'),
    ]
    if level == "word":
        steps.append(normalizers.Replace(Regex(r"([^\p{L}\p{M}\p{N}\s])\1\1\K\1+"), ""))
    if zero_digits:
        steps.append(normalizers.Replace(Regex(r"\p{Nd}"), "0"))
    if lowercase:
        steps.append(normalizers.Lowercase())
        steps += [normalizers.Replace(former, latter) for former, latter in _LOWER_CASE.items()]
        steps.append(normalizers.NFC())
    return normalizers.Sequence(steps)


def restore_final_sigma(text: str) -> str:
    """Write the sigma at the end of each word as Greek does.

    Examples
    --------
    >>> restore_final_sigma("ο κόσμοσ, σ.")
    'ο κόσμος, σ.'
    """
    return text if text.isascii() else _FINAL_SIGMA.sub("\u03c2", text)


def split_clusters(word: str) -> list[str]:
    """The characters as readers see them: each with its marks, or the jamo of a syllable.

    Examples
    --------
    >>> split_clusters("Adẹ́")
    ['A', 'd', 'ẹ́']
    """
    if word.isascii() or len(word) > LONGEST_WORD:
        return list(word)
    return [cluster for cluster, _ in _CLUSTERS.pre_tokenize_str(word)]
