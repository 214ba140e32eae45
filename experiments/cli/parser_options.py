"""Which parser a command uses: its flags, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.flags import as_flag
from graphattn.experiments.cli.parse_cache import default_cache

if TYPE_CHECKING:
    from graphattn.builders.parsers import Parser

NONE = "none"


def _option(default: Any, help: str, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class ParserOptions:
    """Who parses sentences without heads, with which models, and where.

    This module loads no PyTorch, so that the flags of a command can be listed quickly.
    """

    parser: str = _option(NONE, "who parses sentences without heads", (NONE, "stanza"))
    parser_model: str | None = _option(None, "folder of the parser's models; its own folder when not given")
    parser_language: str = _option("en", "language of the parser's models")
    parser_device: str | None = _option(None, "cpu, cuda or cuda:1; a GPU if there is one when not given")
    parser_cuts: bool = _option(False, "let the parser cut raw texts into sentences and words")
    parse_cache: str = _option("auto", "file of parses made before, or none; auto: one in the user's cache folder")

    @property
    def device(self) -> str | None:
        """Where the parser works; None for a GPU if there is one, and ``"cpu"`` when there is no parser."""
        return "cpu" if self.parser == NONE else self.parser_device

    def made(self) -> Parser | None:
        """The parser, which loads its models when it is needed; None when there is none.

        Raises
        ------
        ConfigError
            when there is none, but options of one are given
        """
        if self.parser == NONE:
            self._refuse_useless()
            return None
        from graphattn.builders.parsers import CachedParser, StanzaParser

        parser = StanzaParser(self.parser_language, self.parser_model, device=self.parser_device)
        if self.parse_cache == NONE:
            return parser
        return CachedParser(parser, default_cache() if self.parse_cache == "auto" else Path(self.parse_cache))

    def _refuse_useless(self) -> None:
        for name in ("parser_model", "parser_language", "parser_cuts"):  # a device may be set for every command
            if getattr(self, name) != getattr(type(self), name):
                raise ConfigError(f"{as_flag(name)} is of no use without a parser; give --parser, or leave it out")
