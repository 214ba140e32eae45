"""The spelling in which words and names are compared: composed, with straight quotes and, if asked, in lower case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from tokenizers import Regex, normalizers, pre_tokenizers

LONGEST_WORD = 1 << 17
"""Characters of the longest word. Longer ones are cut: Oniguruma gives up on millions, and the library panics."""
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_LOWER_CASE = {"i\u0307": "i", "\u03c2": "\u03c3"}
"""Replacements after lower-casing: the dot of a Turkish capital I with one, and the final sigma of a Greek word."""
_STRAIGHT = str.maketrans(_QUOTES)
_FINAL_SIGMA = re.compile(r"(?<=\w)\u03c3(?!\w)")
_LONGEST_CLUSTER = 32
"""Characters of the longest cluster whose inner boundaries are exact; no language has longer ones."""
_DIGIT = re.compile(r"\d")
_CLUSTERS = pre_tokenizers.Split(Regex(r"\X"), "isolated")


def compose(text: str) -> str:
    """Unicode's form NFC, in which canonically equivalent texts are equal."""
    return text if text.isascii() or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def straighten(text: str) -> tuple[str, Sequence[int] | None]:
    """A text composed and with straight quotes, as :func:`make_normalizer` begins, and where its characters are.

    The second value is the offset in the text for each offset in the result; None if they are equal.

    Examples
    --------
    >>> straighten("cafe\u0301s"), straighten("it\u2019s")
    (('cafés', [0, 1, 2, 3, 5, 6]), ("it's", None))
    """
    if text.isascii():
        return text, None
    composed = compose(text)
    if composed == text:
        return text.translate(_STRAIGHT), None
    clusters = _CLUSTERS.pre_tokenize_str(text)
    parts = [compose(cluster) for cluster, _ in clusters]
    if "".join(parts) != composed:  # a library knows compositions across clusters
        return text.translate(_STRAIGHT), None
    places = [0]
    for part, (cluster, (begin, _)) in zip(parts, clusters, strict=True):
        places += [begin + place for place in _align_cluster(cluster, part)]
    return composed.translate(_STRAIGHT), places


def _align_cluster(cluster: str, composed: str) -> list[int]:
    """The offset in a cluster for each offset in its composed form but the first."""
    if len(composed) == 1:
        return [len(cluster)]
    places = {}
    if len(cluster) <= _LONGEST_CLUSTER:
        prefixes = [compose(cluster[:end]) for end in range(1, len(cluster))]
        places = {len(part): end for end, part in enumerate(prefixes, 1) if composed.startswith(part)}
    places[len(composed)] = len(cluster)
    return [places.get(offset, min(offset, len(cluster))) for offset in range(1, len(composed) + 1)]


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
