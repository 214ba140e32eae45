"""Parse with a Stanza pipeline (Qi et al. 2020), on words that are given or on raw text, online or from a folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from graphattn.builders.parsers.base import Parse, joined, parse_texts
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError

MOST_WORDS = 250
"""Words of a sentence that are parsed together; Stanza's time grows with their cube, its memory with their square."""
_AT_ONCE = 500  # sentences in one call: Stanza keeps an object for each word
_LONGEST_TOKEN = 1000  # characters; Stanza puts <UNK> for longer ones


@dataclass(frozen=True)
class StanzaParser:
    """A Stanza pipeline that is loaded where and when it is needed; nothing is ever downloaded.

    Parameters
    ----------
    language : its code
    folder : where the models lie, with ``resources.json``; None for Stanza's own folder
    package : name of the models
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``; None takes a GPU if there is one

    Raises
    ------
    ConfigError
        when Stanza is not installed or lacks the models (the message has the command that gets them), or there is no
        such device
    """

    language: str = "en"
    folder: str | None = None
    package: str = "default"
    device: str | None = None

    @cached_property
    def name(self) -> str:
        """Language, package, versions of Stanza and of the models."""
        stanza = _import_stanza()
        path = self._resources
        try:
            own = json.loads(path.read_text(encoding="utf-8"))[self.language]
        except (OSError, ValueError, KeyError, TypeError):
            raise self._no_model() from None
        digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:16]
        return f"stanza {stanza.__version__} {self.language} {self.package} {digest}"

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence; its words stay the words.

        A sentence of more than :data:`MOST_WORDS` words is parsed in pieces, each of which has a root.

        Raises
        ------
        ConfigError
            when Stanza is not installed or lacks the models, or there is no such device
        """
        starts = [range(0, len(words), MOST_WORDS) for words in sentences]
        pieces = [
            words[start : start + MOST_WORDS] for words, own in zip(sentences, starts, strict=True) for start in own
        ]
        trees = self._trees(pieces)
        return [joined([(start, next(trees)) for start in own]) for own in starts]

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Raw texts cut into sentences and words by Stanza, and parsed.

        Of a multi-word token (``didn't``) the words are its parts (``did``, ``n't``).

        Raises
        ------
        ConfigError
            when Stanza is not installed or lacks the models, or there is no such device
        """
        pipeline = self._pipeline(given_words=False)
        import stanza

        words: list[tuple[str, ...]] = []
        ids: list[tuple[int, ...]] = []
        for start in range(0, len(texts), _AT_ONCE):
            for document in pipeline([stanza.Document([], text=text) for text in texts[start : start + _AT_ONCE]]):
                words.append(tuple(word.text for sentence in document.sentences for word in sentence.words))
                ids.append(tuple(n for n, sentence in enumerate(document.sentences) for _ in sentence.words))
        parses = parse_texts(self, words, ids)
        return [
            Sentence(own, heads=parse.heads, deprels=parse.deprels, sentence_ids=numbers)
            for own, numbers, parse in zip(words, ids, parses, strict=True)
        ]

    def _trees(self, pieces: Sequence[Sequence[str]]) -> Iterator[Parse]:
        """The tree of each piece of at least one word."""
        pipeline = self._pipeline(given_words=True)
        for start in range(0, len(pieces), _AT_ONCE):
            own = pieces[start : start + _AT_ONCE]
            document = pipeline([[_visible(word) for word in words] for words in own])
            for _, parsed in zip(own, document.sentences, strict=True):
                yield _parse_of(parsed)

    @property
    def _resources(self) -> Path:
        if self.folder is not None:
            return Path(self.folder) / "resources.json"
        from stanza.resources.common import DEFAULT_MODEL_DIR

        return Path(DEFAULT_MODEL_DIR) / "resources.json"

    def _pipeline(self, *, given_words: bool) -> Any:
        _import_stanza()
        _check_device(self.device)
        try:
            return _loaded(self, given_words)
        except (OSError, ValueError, KeyError) as error:
            raise self._no_model() from error

    def _no_model(self) -> ConfigError:
        folder = str(self._resources.parent)
        where = "" if self.folder is None else f", model_dir={folder!r}"
        package = "" if self.package == "default" else f", package={self.package!r}"
        return ConfigError(
            f"there is no Stanza model {self.package!r} for {self.language!r} in {folder}. "
            f'Download it where there is a network: python -c "import stanza; '
            f'stanza.download({self.language!r}{package}{where})"'
        )


@lru_cache(maxsize=4)
def _loaded(parser: StanzaParser, given_words: bool) -> Any:
    import stanza

    options: dict[str, Any] = {} if parser.folder is None else {"dir": os.fspath(parser.folder)}
    return stanza.Pipeline(
        lang=parser.language,
        package=parser.package,
        processors="tokenize,pos,lemma,depparse" if given_words else "tokenize",
        download_method=None,
        tokenize_pretokenized=given_words,
        tokenize_max_seqlen=_LONGEST_TOKEN,
        device=parser.device,
        verbose=False,
        **options,
    )


def _import_stanza() -> Any:
    try:
        import stanza
    except ImportError:
        raise ConfigError("the parser needs Stanza, which is not installed: pip install 'graphattn[stanza]'") from None
    return stanza


def _check_device(device: str | None) -> None:
    """Refuse a device that is not there."""
    if device is None:
        return
    import torch

    try:
        wanted = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"the parser's device is {device!r}; give 'cpu', 'cuda' or 'cuda:1'") from None
    count = torch.cuda.device_count()
    if wanted.type == "cuda" and (wanted.index or 0) >= count:
        raise ConfigError(
            f"the parser's device is {device!r}, and PyTorch sees {count} GPUs here; give 'cpu', or none at all"
        )


def _visible(word: str) -> str:
    """A word that Stanza takes as one: it has none without visible characters, and reads a blank as a boundary."""
    return "_".join(word.split()) or "_"


def _parse_of(parsed: Any) -> Parse:
    return Parse(tuple(word.head for word in parsed.words), tuple(word.deprel for word in parsed.words))
