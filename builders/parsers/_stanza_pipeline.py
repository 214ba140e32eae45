"""Parse words or raw text with a Stanza pipeline (Qi et al. 2020)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from graphattn._optional_packages import import_optional
from graphattn.builders._sentence import Sentence
from graphattn.builders.parsers._parser import Parse, concatenate, parse_texts
from graphattn.exceptions import ConfigError, Hint, warn_caller

MAX_WORDS = 250
"""Longest part of a sentence to parse at once; Stanza's time grows with the cube of it, its memory with the square."""
_BATCH = 500  # sentences in one call: Stanza keeps an object for each word
_MAX_CHARACTERS = 1000  # of a token; Stanza reads longer ones as <UNK>


@dataclass(frozen=True)
class StanzaParser:
    """A Stanza pipeline, loaded by the first call in each process. Nothing is downloaded.

    Parameters
    ----------
    language : its code
    folder : of the models and ``resources.json``; None for Stanza's own folder
    package : name of the models
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``; None takes a GPU if there is one

    Raises
    ------
    ConfigError
        in the methods, when Stanza is not installed or lacks the models (the message has the command that downloads
        them), or the device does not exist
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
            resources = json.loads(path.read_text(encoding="utf-8"))[self.language]
        except (OSError, ValueError, KeyError, TypeError):
            raise self._missing_model_error() from None
        if self.language != "en" and self.package == "default":
            _name_package(self.language, resources)
        digest = hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
        return f"stanza {stanza.__version__} {self.language} {self.package} {digest}"

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence; one of more than :data:`MAX_WORDS` words is parsed in parts, each with a root."""
        starts = [range(0, len(words), MAX_WORDS) for words in sentences]
        parts = (words[at : at + MAX_WORDS] for words, offsets in zip(sentences, starts, strict=True) for at in offsets)
        trees = self._parse_parts(list(parts))
        return [concatenate([(at, next(trees)) for at in offsets]) for offsets in starts]

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Tokenize raw texts and parse them; a multi-word token (``didn't``) becomes its parts (``did``, ``n't``)."""
        pipeline = self._pipeline(given_words=False)
        import stanza

        words: list[tuple[str, ...]] = []
        ids: list[tuple[int, ...]] = []
        for start in range(0, len(texts), _BATCH):
            for document in pipeline([stanza.Document([], text=text) for text in texts[start : start + _BATCH]]):
                words.append(tuple(word.text for sentence in document.sentences for word in sentence.words))
                ids.append(tuple(n for n, sentence in enumerate(document.sentences) for _ in sentence.words))
        parses = parse_texts(self, words, ids)
        return [
            Sentence(tokens, heads=parse.heads, deprels=parse.deprels, sentence_ids=numbers)
            for tokens, numbers, parse in zip(words, ids, parses, strict=True)
        ]

    def _parse_parts(self, parts: Sequence[Sequence[str]]) -> Iterator[Parse]:
        pipeline = self._pipeline(given_words=True)
        for start in range(0, len(parts), _BATCH):
            batch = parts[start : start + _BATCH]
            document = pipeline([[_printable(word) for word in words] for words in batch])
            for _, tree in zip(batch, document.sentences, strict=True):
                yield Parse(tuple(word.head for word in tree.words), tuple(word.deprel for word in tree.words))

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
            return _load(self, given_words)
        except (OSError, ValueError, KeyError) as error:
            raise self._missing_model_error() from error

    def _missing_model_error(self) -> ConfigError:
        folder = str(self._resources.parent)
        where = "" if self.folder is None else f", model_dir={folder!r}"
        package = "" if self.package == "default" else f", package={self.package!r}"
        return ConfigError(
            f"there is no Stanza model {self.package!r} for {self.language!r} in {folder}. "
            f'Download it where there is a network: python -c "import stanza; '
            f'stanza.download({self.language!r}{package}{where})"'
        )


@lru_cache
def _hint_at_package(language: str, package: str) -> None:
    """Say once which models parse another language."""
    problem = f"Stanza's default package for {language} parses with {package}; {{parser_package}} chooses another one"
    warn_caller(Hint(problem, options=("parser_package",)))


def _name_package(language: str, resources: Any) -> None:
    """Say which package the default one stands for, if the resources name it."""
    default = resources.get("packages", {}).get("default", {}) if isinstance(resources, dict) else {}
    if isinstance(default, dict) and "depparse" in default:
        _hint_at_package(language, str(default["depparse"]))


@lru_cache(maxsize=4)
def _load(parser: StanzaParser, given_words: bool) -> Any:
    import stanza

    options: dict[str, Any] = {} if parser.folder is None else {"dir": os.fspath(parser.folder)}
    return stanza.Pipeline(
        lang=parser.language,
        package=parser.package,
        processors="tokenize,pos,lemma,depparse" if given_words else "tokenize",
        download_method=None,
        tokenize_pretokenized=given_words,
        tokenize_max_seqlen=_MAX_CHARACTERS,
        device=parser.device,
        verbose=False,
        **options,
    )


def _import_stanza() -> Any:
    return import_optional("stanza", "the parser needs", "stanza")


def _check_device(device: str | None) -> None:
    """Reject a device that does not exist."""
    if device is None:
        return
    import torch

    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"the parser's device is {device!r}; give 'cpu', 'cuda' or 'cuda:1'") from None
    count = torch.cuda.device_count()
    if parsed.type == "cuda" and (parsed.index or 0) >= count:
        raise ConfigError(
            f"the parser's device is {device!r}, and PyTorch sees {count} GPUs here; give 'cpu', or none at all"
        )


def _printable(word: str) -> str:
    """Stanza drops words without visible characters and splits words at blanks."""
    return "_".join(word.split()) or "_"
