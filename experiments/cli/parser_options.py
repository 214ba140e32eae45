"""The parser of a command: its flags, and where parses are cached."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError

if TYPE_CHECKING:
    from graphattn.builders.parsers import Parser

NONE = "none"


def _option(default: Any, help: str, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class ParserOptions:
    """The parser of sentences without heads, its models and its device.

    This module does not import PyTorch, so that ``--help`` is quick.
    """

    parser: str = _option(NONE, "parser of sentences without heads", (NONE, "stanza"))
    parser_model: str | None = _option(None, "folder of the parser's models; its own folder when not given")
    parser_language: str = _option("en", "language of the parser's models")
    parser_device: str | None = _option(None, "cpu, cuda or cuda:1; a GPU if there is one when not given")
    parser_cuts: bool = _option(False, "let the parser split raw texts into sentences and words")
    parse_cache: str = _option("auto", "file that caches parses, or none; auto: one in the user's cache folder")

    @property
    def device(self) -> str | None:
        """Where the parser works: None for a GPU if there is one; ``"cpu"`` without a parser."""
        return "cpu" if self.parser == NONE else self.parser_device

    def create_parser(self) -> Parser | None:
        """The parser, which loads its models when it is used; None for no parser."""
        if self.parser == NONE:
            return None
        from graphattn.builders.parsers import CachedParser, StanzaParser

        parser = StanzaParser(self.parser_language, self.parser_model, device=self.parser_device)
        if self.parse_cache == NONE:
            return parser
        return CachedParser(parser, default_cache() if self.parse_cache == "auto" else Path(self.parse_cache))


def default_cache() -> Path:
    """A file in the user's cache folder, which is created."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphattn"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{folder} cannot be created ({reason}); set {{parse_cache}} to a file, or to none",
            options=("parse_cache",),
        ) from error
    return folder / "parses.sqlite"
