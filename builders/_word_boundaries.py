"""Split raw text into words: the rules, and many texts at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from itertools import chain, pairwise

import numpy as np
from tokenizers import Encoding, Regex, Tokenizer, models, pre_tokenizers
from typing_extensions import override

from graphattn.builders._blanks import WordContext
from graphattn.builders._sentence import Sentence, assign_sentence_ids
from graphattn.builders._spelling import LONGEST_WORD, straighten
from graphattn.exceptions import ConfigError, DataError

Source = str | Sequence[str] | Sentence


SPLITS = ("web", "words", "whitespace")
DEFAULT_SPLIT = SPLITS[0]
_CACHED_RUNS = 1 << 17
_CHUNK = 1024  # texts per call: an Encoding costs hundreds of bytes per word
_HINT = "Drop missing values or turn them into strings."
_BLANK_LINE = re.compile(r"\n\s*\n")  # as for Stanza's tokenizer
_SURROGATE = re.compile("[\ud800-\udfff]")

# The parts of the rules `words` and `web`, in Oniguruma's syntax. Apostrophes are straight or curly.
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}"
# Scripts that are written without blanks: those with the line breaks SA, or AK and AS (Unicode 17.0, UAX 14).
_UNSPACED = r"\p{Thai}\p{Lao}\p{Myanmar}\p{Khmer}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Ahom}" + (
    r"\p{Balinese}\p{Batak}\p{Brahmi}\p{Cham}\p{Dives_Akuru}\p{Grantha}\p{Javanese}\p{Kawi}\p{Makasar}"
)
_UNSPACED_LETTER = rf"[\p{{L}}\p{{M}}&&[{_UNSPACED}]]"
# Punctuation and symbols that are letters (ALetter) in UAX 29, such as the question mark inside Armenian words.
_LETTER_SIGNS = r"\x{2C2}-\x{2C5}\x{2D2}-\x{2D7}\x{2DE}\x{2DF}\x{2E5}-\x{2EB}\x{2ED}\x{2EF}-\x{2FF}\x{55A}-\x{55C}" + (
    r"\x{55E}\x{58A}\x{5F3}\x{A708}-\x{A716}\x{A720}\x{A721}\x{A789}\x{A78A}\x{AB5B}"
)
_TAG_CHARACTER = rf"[\p{{L}}\p{{M}}\p{{N}}{_LETTER_SIGNS}&&[^{_CJK}]]"
_CHARACTER = rf"[{_TAG_CHARACTER}&&[^{_UNSPACED_LETTER}]]"  # a character of a word
_JOINERS = r"[\x{AD}\x{200C}\x{200D}]"  # soft hyphen and joiners count inside words only
_INNER = rf"(?:{_CHARACTER}|{_JOINERS})"
_APOSTROPHE = r"['\x{2019}]"
_NOT = rf"[nN]{_APOSTROPHE}[tT](?!{_CHARACTER})"
_CLITIC = rf"{_APOSTROPHE}(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE])(?!{_CHARACTER})"
_RUN = rf"(?!{_NOT}){_CHARACTER}(?:(?!{_NOT}){_INNER})*"
# Inside words by UAX 29: MidLetter without its colons, as in col·legi, and quotes between Hebrew letters.
_MIDDLE = r"(?<=[\p{L}\p{M}])[\x{B7}\x{387}\x{55F}\x{5F4}\x{2027}](?=\p{L})|(?<=\p{Hebrew})[\x22\x{201D}](?=\p{Hebrew})"
_JOINT = rf"(?:(?<=\p{{Nd}})[.,](?=\p{{Nd}})|(?!{_CLITIC}){_APOSTROPHE}|[-\x{{2010}}\x{{2011}}]|{_MIDDLE})"
WORD_PATTERN = "|".join(
    (
        _NOT,
        _CLITIC,
        r"-[lrLR][rscRSC][bB]-",  # brackets as the Penn Treebank writes them
        rf"(?i:mr|mrs|ms|dr|jr|sr|st|vs|prof)\.(?!{_CHARACTER})",
        rf"(?:(?=\p{{L}}){_CHARACTER}\.){{2,}}",  # U.S., e.g.
        rf"{_RUN}(?:{_JOINT}{_RUN})*",
        rf"[{_CJK}]\p{{M}}*",
        rf"(?={_UNSPACED_LETTER})\X",
        r"(?=[\p{Extended_Pictographic}\p{Regional_Indicator}])\X",  # an emoji with its modifiers
        r"(\S)\1*",  # a run of one mark; so no character is lost
    )
)
_URL_CHARACTER = rf"(?:{_CHARACTER}|[-_.~:/?\#\[\]@!$&'()*+,;=%])"
_ADDRESS_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?"
_AFTER_WORD, _BEFORE_WORD = rf"(?<!{_CHARACTER})", rf"(?!{_CHARACTER})"
_TAG = rf"[\#@](?=[\p{{N}}_]{{0,63}}(?=\p{{L}}){_TAG_CHARACTER})"  # the sign of a #tag or @name
# Bounds such as {0,63} keep the search linear in the length of a text.
WEB_PATTERN = "|".join(
    (
        rf"(?i:https?://|www\.){_URL_CHARACTER}*(?:{_CHARACTER}|[-_~/\#&=%+])",  # no punctuation at the end
        rf"[A-Za-z0-9](?:[A-Za-z0-9_.+-]{{0,62}}[A-Za-z0-9_])?@{_ADDRESS_PART}(?:\.{_ADDRESS_PART}){{1,9}}",  # e-mail
        rf"(?<![\p{{L}}\p{{M}}\p{{N}}_]){_TAG}(?:(?!{_NOT})(?:{_TAG_CHARACTER}|{_JOINERS}|_))+",
        rf"[:;][-^o']?(?:\)+|\(+|\]+|\[+|[|*/\\](?![/\\])){_BEFORE_WORD}",  # :-)
        rf"{_AFTER_WORD}(?:=[-^']?[()\]\[]|[:;=xX][-^]?[dDpPoO]|</?3|\^_+\^|-_+-){_BEFORE_WORD}",  # =) :D <3 ^_^
        WORD_PATTERN,
    )
)


@cache  # its pattern is compiled, for milliseconds
def make_pre_tokenizer(split: str) -> pre_tokenizers.PreTokenizer:
    r"""Make the pre-tokenizer of a splitting rule.

    ``whitespace`` splits at white space only. ``words`` follows the Penn Treebank where it can: English clitics are
    words (``do n't``, ``it 's``); apostrophes, hyphens, and the points and commas of numbers stay inside words
    (``rock'n'roll``, ``re-imagining``, ``3,000.50``), as do ``U.S.`` and a few titles (``Mr.``). A run of one
    punctuation mark is a word (``...``), and so is each Chinese or Japanese character, each emoji, and each grapheme
    cluster of a script that is written without blanks, such as Thai. Text that was already split by this rule does not
    change. ``<br />`` counts as white space. ``web`` also keeps hashtags, mentions, URLs, e-mail
    addresses and emoticons in one piece.

    Examples
    --------
    >>> [word for word, _ in make_pre_tokenizer("words").pre_tokenize_str("I don't owe Mr. Li $3,000.50...")]
    ['I', 'do', "n't", 'owe', 'Mr.', 'Li', '$', '3,000.50', '...']
    >>> [word for word, _ in make_pre_tokenizer("web").pre_tokenize_str("#fun @li: see www.x.de/a, or a@x.de :-)")]
    ['#fun', '@li', ':', 'see', 'www.x.de/a', ',', 'or', 'a@x.de', ':-)']
    """
    if split == "whitespace":
        return pre_tokenizers.WhitespaceSplit()
    if split in ("web", "words"):
        pattern = WEB_PATTERN if split == "web" else WORD_PATTERN
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"(?i)<br ?/?>"), "removed"),
                pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
            ]
        )
    raise ConfigError(f"{{split}} is {split!r}; choose {', '.join(SPLITS[:-1])} or {SPLITS[-1]}", options=("split",))


def rule_digest(split: str) -> str:
    """Digest of a splitting rule, for caches; it changes with the rule's pattern."""
    return hashlib.blake2b(_serialize_rule(split), digest_size=8).hexdigest()


class _TextOfHtml(HTMLParser):
    """Collects text; a tag that does not format words is a blank."""

    _FORMATTING = frozenset("a abbr b big code em font i mark s small span strike strong sub sup tt u".split())
    _HIDDEN = frozenset(("script", "style"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    @override
    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in self._HIDDEN
        if tag not in self._FORMATTING:
            self.parts.append(" ")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self._HIDDEN and self._hidden > 0
        if tag not in self._FORMATTING:
            self.parts.append(" ")

    @override
    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def strip_html(text: str) -> str:
    """Remove HTML tags, comments, scripts and styles, and decode entities; other text does not change.

    Examples
    --------
    >>> strip_html("<p>A <b>g</b>ood film<br/>&amp; a play, 3 < 4")
    ' A good film & a play, 3 < 4'
    """
    if "<" not in text and "&" not in text:
        return text
    parser = _TextOfHtml()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


class WordSplitter:
    """Splits raw texts into words exactly as a tokenizer does before it looks words up.

    ``tokenizer`` is any Hugging Face tokenizer, which is not changed; one without a pre-tokenizer gets the rule
    ``words``. ``pre_tokenizer`` splits instead of the tokenizer's own one.
    """

    context: WordContext | None = None
    """Marks words with what their pieces depend on, if they do."""

    def __init__(self, tokenizer: Tokenizer, pre_tokenizer: pre_tokenizers.PreTokenizer | None = None):
        self._tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        pre_tokenizer = pre_tokenizer or tokenizer.pre_tokenizer or make_pre_tokenizer("words")
        self._tokenizer.pre_tokenizer = pre_tokenizer
        state = pre_tokenizer.__getstate__()
        self.rule: str | None = next((split for split in SPLITS if _serialize_rule(split) == state), None)
        """The name of the rule; None if it is not one of :data:`SPLITS`."""
        self._reads_spelling = self.rule not in (None, "whitespace")
        """Whether texts are split as the vocabulary spells them, so that all their forms have the same words."""
        if self.rule is None and tokenizer.normalizer is not None:
            self._tokenizer.normalizer = tokenizer.normalizer
        added = sorted(tokenizer.get_added_tokens_decoder().items())
        self._tokenizer.add_tokens([token for _, token in added if not token.special])
        self._runs: dict[str, list[str]] = {}

    @classmethod
    def by_rule(cls, split: str) -> WordSplitter:
        """The splitter of one of the rules in :data:`SPLITS`."""
        tokenizer = Tokenizer(models.WordLevel({}))
        tokenizer.pre_tokenizer = make_pre_tokenizer(split)
        return cls(tokenizer)

    def split(self, text: str) -> list[str]:
        """The words of one text."""
        return next(self.split_batch([text]))

    def split_batch(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The words of each text; the texts are split in parallel.

        Our rules do not look past white space, so what they make of a run between blanks is cached.
        """
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            is_plain = [self.rule is not None and _is_plain(text) for text in chunk]
            others = self.split_with_offsets([text for text, plain in zip(chunk, is_plain, strict=True) if not plain])
            runs = [text.split(" ") if plain else [] for text, plain in zip(chunk, is_plain, strict=True)]
            split = self._split_runs(set(chain.from_iterable(runs)))
            for text, parts, plain in zip(chunk, runs, is_plain, strict=True):
                if plain:
                    yield [word for part in parts for word in split[part]]
                elif self.context is not None:
                    yield self.context.mark(replace_surrogates(text), next(others))
                else:
                    yield [word for word, _ in next(others)]

    def _split_runs(self, runs: set[str]) -> dict[str, list[str]]:
        """Run -> its words, for at least these runs."""
        if len(self._runs) > _CACHED_RUNS:
            self._runs = {}  # another thread or iterator may still read the full one
        cache = self._runs
        new = [run for run in runs if run not in cache]
        for run, words in zip(new, self.split_with_offsets(new), strict=True):
            cache[run] = [word for word, _ in words]
        return cache

    def split_with_offsets(self, texts: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
        """The words of each text, each with the offset of its first character."""
        for start in range(0, len(texts), _CHUNK):
            chunk = list(texts[start : start + _CHUNK])
            try:
                encodings, places = self._encode(chunk)
            except (AttributeError, TypeError, UnicodeEncodeError):
                chunk = [replace_surrogates(text) for text in chunk]
                encodings, places = self._encode(chunk)
            for text, encoding, of_text in zip(chunk, encodings, places, strict=True):
                if len(text) > LONGEST_WORD:
                    yield self._split_long(text)
                    continue
                offsets = encoding.offsets
                if of_text is not None:
                    offsets = [(of_text[begin], of_text[end]) for begin, end in offsets]
                words = [(text[begin:end], begin) for begin, end in offsets]
                # a byte-level pre-tokenizer keeps white space with the word
                yield words if self.rule else [_strip(*word) for word in words if word[0].strip()]

    def _encode(self, texts: Sequence[str]) -> tuple[list[Encoding], list[Sequence[int] | None]]:
        """Encode texts, and where their characters are; those that must be cut count as empty."""
        short = ["" if len(text) > LONGEST_WORD else text for text in texts]
        places: list[Sequence[int] | None] = [None] * len(short)
        if self._reads_spelling:
            spelled = [straighten(text) for text in short]
            short, places = [text for text, _ in spelled], [of_text for _, of_text in spelled]
        return self._tokenizer.encode_batch(short, add_special_tokens=False), places

    def _split_long(self, text: str) -> list[tuple[str, int]]:
        cuts = _cut_points(text)
        pieces = self.split_with_offsets([text[begin:end] for begin, end in pairwise(cuts)])
        return [(word, begin + at) for begin, words in zip(cuts, pieces, strict=False) for word, at in words]

    def split_sources(self, sources: Sequence[Source]) -> list[Sequence[str]]:
        """The words of each source; lists and sentences keep theirs, raw texts are split in parallel."""
        check_is_batch(sources)
        words = self.split_batch([source for source in sources if isinstance(source, str)])
        return [next(words) if isinstance(source, str) else words_of(source) for source in sources]

    def sentences(self, sources: Sequence[Source]) -> list[Sentence]:
        """Sources as sentences; blank lines and punctuation divide raw texts, and punctuation lists of words."""
        paragraphs = [_BLANK_LINE.split(source) if isinstance(source, str) else [source] for source in sources]
        split = iter(self.split_sources(list(chain.from_iterable(paragraphs))))
        texts = [[next(split) for _ in parts] for parts in paragraphs]
        return [
            source
            if isinstance(source, Sentence)
            else Sentence(tuple(chain.from_iterable(words)), sentence_ids=assign_sentence_ids(*words))
            for source, words in zip(sources, texts, strict=True)
        ]


def check_is_batch(sources: object) -> None:
    """Raise DataError for one text, which a type checker accepts as a sequence of strings, a table, or no list."""
    if not isinstance(sources, Iterable):
        sources_type = type(sources).__name__
        raise DataError(f"a {sources_type} where a list of texts is expected", hint="Put one text into a list.")
    if isinstance(sources, str):
        raise DataError("one text where several are expected", hint="Put it into a list.")
    if getattr(sources, "ndim", 1) != 1:
        raise DataError(f"a {type(sources).__name__} where texts are expected", hint="Give one of its columns.")


def _is_plain(text: str) -> bool:
    """Whether a text is not long, has no white space but blanks, and no ``<br />`` with one inside."""
    is_short = isinstance(text, str) and len(text) <= LONGEST_WORD
    return is_short and text.isascii() and text.isprintable() and "<" not in text


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can contain, by U+FFFD."""
    if not isinstance(text, str):
        raise DataError(f"{text!r} where a text or a word is expected", hint=_HINT)
    return _SURROGATE.sub("\ufffd", text)


def _cut_points(text: str) -> list[int]:
    """Cut points of a long text: at most :data:`LONGEST_WORD` characters apart, before a blank if possible."""
    cuts = [0]
    while len(text) - cuts[-1] > LONGEST_WORD:
        limit = cuts[-1] + LONGEST_WORD
        cut = max(text.rfind(blank, cuts[-1] + 4, limit) for blank in " \n\t\u3000")
        cut -= 3 * text.endswith(("<br", "<BR"), 0, max(cut, 0))
        cuts.append(cut if cut > 0 else limit)
    return [*cuts, len(text)]


def words_of(source: object) -> list[str]:
    """The words of a list or a sentence."""
    if isinstance(source, Sentence):
        source = source.words
    elif isinstance(source, bytes) or not isinstance(source, Sequence | np.ndarray):
        raise DataError(f"{source!r} is neither a text nor a list of words nor a Sentence", hint=_HINT)
    return [replace_surrogates(word) for word in source]


def _strip(word: str, begin: int) -> tuple[str, int]:
    return word.strip(), begin + len(word) - len(word.lstrip())


@cache
def _serialize_rule(split: str) -> bytes:
    """A rule as tokenizers write it; its regular expressions take milliseconds to compile."""
    return make_pre_tokenizer(split).__getstate__()
