"""Parsers, which compute dependency trees: Stanza, spaCy, a cache of parses, and conversion from spaCy.

The relation ``dependency`` makes edges of the trees. Readers read trees from CoNLL-U and JSON Lines without a parser.
"""

from graphattn.builders.parsers._cache import CachedParser, make_parser
from graphattn.builders.parsers._parser import Parse, Parser, from_spacy
from graphattn.builders.parsers._spacy_pipeline import SpacyParser
from graphattn.builders.parsers._stanza_pipeline import StanzaParser

__all__ = ["CachedParser", "Parse", "Parser", "SpacyParser", "StanzaParser", "from_spacy", "make_parser"]
