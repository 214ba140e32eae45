"""Where words begin and end in raw text: the splitting rules, and cutting many texts at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

Source = str | Sequence[str] | Sentence
SPLITS = ("words", "whitespace")
_CHUNK = 1024  # texts in Rust at a time: an Encoding costs some hundred bytes for each word
_SURROGATE = re.compile("[\ud800-\udfff]")

# The parts of the rule `words`, in Oniguruma's syntax. Both the straight and the curly apostrophe count.
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}"
_CHARACTER = rf"[\p{{L}}\p{{M}}\p{{N}}&&[^{_CJK}]]"  # what a word consists of
_INNER = rf"(?:{_CHARACTER}|[\x{{AD}}\x{{200C}}\x{{200D}}])"  # soft hyphen and joiners live inside words only
_APOSTROPHE = r"['\x{2019}]"
_NOT = rf"[nN]{_APOSTROPHE}[tT](?!{_CHARACTER})"
_CLITIC = rf"{_APOSTROPHE}(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE])(?!{_CHARACTER})"
_RUN = rf"(?!{_NOT}){_CHARACTER}(?:(?!{_NOT}){_INNER})*"
_JOINT = rf"(?:(?<=\p{{Nd}})[.,](?=\p{{Nd}})|(?!{_CLITIC}){_APOSTROPHE}|[-\x{{2010}}\x{{2011}}])"
WORD_PATTERN = "|".join(
    (
        _NOT,
        _CLITIC,
        r"-[lrLR][rscRSC][bB]-",  # brackets as the Penn Treebank writes them
        rf"(?i:mr|mrs|ms|dr|jr|sr|st|vs|prof)\.(?!{_CHARACTER})",
        rf"(?:(?=\p{{L}}){_CHARACTER}\.){{2,}}",  # U.S., e.g.
        rf"{_RUN}(?:{_JOINT}{_RUN})*",
        rf"[{_CJK}]\p{{M}}*",
        r"(?=[\p{Extended_Pictographic}\p{Regional_Indicator}])\X",  # an emoji with its modifiers
        r"(\S)\1*",  # a run of one mark; and nothing is ever lost
    )
)


def pre_tokenizer(split: str) -> pre_tokenizers.PreTokenizer:
    r"""The pre-tokenizer of one of the two splitting rules.

    ``whitespace`` cuts at white space only. ``words`` follows the Penn Treebank where it can: English clitics
    come off (``do n't``, ``it 's``), inner apostrophes, hyphens and the points and commas of numbers stay
    (``rock'n'roll``, ``re-imagining``, ``3,000.50``), so do ``U.S.`` and a few titles (``Mr.``); a run of one
    punctuation mark is a word (``...``), a Chinese or Japanese character and an emoji are words of their own.
    Text split in this way before comes out unchanged. ``<br />`` counts as white space.

    Examples
    --------
    >>> [word for word, _ in pre_tokenizer("words").pre_tokenize_str("I don't owe Mr. Li $3,000.50...")]
    ['I', 'do', "n't", 'owe', 'Mr.', 'Li', '$', '3,000.50', '...']
    """
    if split == "whitespace":
        return pre_tokenizers.WhitespaceSplit()
    if split == "words":
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"(?i)<br ?/?>"), "removed"),
                pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True),
            ]
        )
    raise ConfigError(f"split is {split!r}. Choose one of {', '.join(SPLITS)}.")


class WordSplitter:
    """Cuts raw texts into words exactly as a tokenizer does before it looks words up.

    Parameters
    ----------
    tokenizer : any Hugging Face tokenizer; one without a pre-tokenizer is given the rule ``words``
    """

    def __init__(self, tokenizer: Tokenizer):
        config = json.loads(tokenizer.to_str())
        if config["pre_tokenizer"] is None:
            config["pre_tokenizer"] = _as_json(pre_tokenizer("words"))
        ours = {split: _as_json(pre_tokenizer(split)) for split in SPLITS}
        self.rule: str | None = next((split for split, own in ours.items() if own == config["pre_tokenizer"]), None)
        """The name of the rule; None for one that is not ours."""
        self._is_ours = self.rule is not None
        if self._is_ours:
            # our rules read text as it stands; so offsets are exact where a normalizer would merge characters
            config["normalizer"] = None
        config.update(post_processor=None, decoder=None, truncation=None, padding=None)
        config["added_tokens"] = [token for token in config["added_tokens"] if not token["special"]]
        config["model"] = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
        self._tokenizer = Tokenizer.from_str(json.dumps(config))

    @classmethod
    def by_rule(cls, split: str) -> WordSplitter:
        """The splitter of one of our two rules."""
        return cls(_empty_tokenizer(pre_tokenizer(split)))

    def split(self, text: str) -> list[str]:
        """The words of one text, as they stand in it."""
        return next(self.split_batch([text]))

    def split_batch(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The words of each text; many texts are cut in parallel."""
        return ([word for word, _ in placed] for placed in self.placed_batch(texts))

    def placed_batch(self, texts: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
        """The words of each text, each with the character at which it begins."""
        for start in range(0, len(texts), _CHUNK):
            chunk = list(texts[start : start + _CHUNK])
            try:
                encodings = self._tokenizer.encode_batch(chunk, add_special_tokens=False)
            except (TypeError, UnicodeEncodeError):
                chunk = [clean(text) for text in chunk]
                encodings = self._tokenizer.encode_batch(chunk, add_special_tokens=False)
            for text, encoding in zip(chunk, encodings, strict=True):
                words = [(text[begin:end], begin) for begin, end in encoding.offsets]
                # a byte-level pre-tokenizer keeps white space with the word
                yield words if self._is_ours else [_stripped(*word) for word in words if word[0].strip()]

    def words_of(self, sources: Sequence[Source]) -> list[Sequence[str]]:
        """The words of each source; lists and sentences keep theirs, raw texts are cut together.

        Raises
        ------
        DataError
            when a source is none of these
        """
        if isinstance(sources, str):
            raise DataError("one text is given where many are expected", hint="Put it into a list.")
        cut = self.split_batch([source for source in sources if isinstance(source, str)])
        return [next(cut) if isinstance(source, str) else _given_words(source) for source in sources]


def _stripped(word: str, begin: int) -> tuple[str, int]:
    return word.strip(), begin + len(word) - len(word.lstrip())


def clean(text: str) -> str:
    """Text with half characters (lone surrogates, which JSON can smuggle in) replaced by U+FFFD.

    Raises
    ------
    DataError
        when it is not a text at all
    """
    if not isinstance(text, str):
        raise DataError(
            f"{text!r} ({type(text).__name__}) stands where a text or a word must be",
            hint="Drop missing values or turn them into strings.",
        )
    return _SURROGATE.sub("\ufffd", text)


def _given_words(source: object) -> list[str]:
    if isinstance(source, Sentence):
        return [clean(word) for word in source.words]
    if isinstance(source, bytes) or not isinstance(source, Sequence | np.ndarray):
        raise DataError(
            f"{source!r} ({type(source).__name__}) is neither a text nor a list of words nor a Sentence",
            hint="Drop missing values or turn them into strings.",
        )
    return [clean(word) for word in source]


def _empty_tokenizer(rule: pre_tokenizers.PreTokenizer) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = rule
    return tokenizer


def _as_json(rule: pre_tokenizers.PreTokenizer) -> dict[str, Any]:
    return json.loads(_empty_tokenizer(rule).to_str())["pre_tokenizer"]
