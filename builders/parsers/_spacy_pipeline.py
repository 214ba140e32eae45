"""Parse words or raw text with a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from graphattn._optional_packages import import_optional
from graphattn.builders._sentence import Sentence
from graphattn.builders.parsers._parser import Parse, from_spacy
from graphattn.exceptions import ConfigError, verbatim


@dataclass(frozen=True)
class SpacyParser:
    """A spaCy pipeline, loaded by the first call in each process. Nothing is downloaded.

    Names of relations are those of the pipeline, in lower case; see docs/parses.md for their schemes.

    Parameters
    ----------
    model : what ``spacy.load`` takes, the name of an installed package or a folder
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``; None is the CPU

    Raises
    ------
    ConfigError
        in the methods, when spaCy or the pipeline is not installed, or the pipeline has no parser
    """

    model: str
    device: str | None = None

    @cached_property
    def name(self) -> str:
        """Names and versions of spaCy and the pipeline."""
        spacy, meta = _import_spacy(), _load(self).meta
        return f"spacy {spacy.__version__} {meta['lang']}_{meta['name']} {meta['version']} {self.model}"

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence, without changing its words or dividing it."""
        pipeline = _load(self)
        from spacy.tokens import Doc

        texts = [
            Doc(pipeline.vocab, words=list(words), sent_starts=[n == 0 for n in range(len(words))])
            for words in sentences
        ]
        return [
            Parse(
                tuple(0 if token.head.i == token.i else token.head.i + 1 for token in document),
                tuple(token.dep_.lower() for token in document),
            )
            for document in pipeline.pipe(texts)
        ]

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Tokenize raw texts into sentences and words, and parse them."""
        parsed = map(from_spacy, _load(self).pipe(texts))
        return [
            Sentence(
                text.tokens, heads=text.heads or (), deprels=text.deprels or (), sentence_ids=text.sentence_ids or ()
            )
            for text in parsed
        ]


@lru_cache(maxsize=4)
def _load(parser: SpacyParser) -> Any:
    spacy = _import_spacy()
    if parser.device is not None and parser.device != "cpu":
        spacy.require_gpu(int(parser.device.partition(":")[2] or 0))
    try:
        pipeline = spacy.load(parser.model)
    except OSError as error:
        raise ConfigError(
            f"there is no spaCy pipeline {verbatim(repr(parser.model))}. Download it where there is a network: "
            f"python -m spacy download {verbatim(parser.model)}"
        ) from error
    if "parser" not in pipeline.pipe_names:
        components = ", ".join(pipeline.pipe_names) or "nothing"
        raise ConfigError(f"the spaCy pipeline {verbatim(repr(parser.model))} has no parser: it has {components}")
    return pipeline


def _import_spacy() -> Any:
    return import_optional("spacy", "the parser needs", "spacy")
