"""Where dependency heads come from: a Stanza pipeline, a spaCy document, and parses that were made before.

A parser turns words into heads and names of relations. Which edges are made of them is said by the relation
``dependency``; CoNLL-U and head lists need no parser, they are read by readers.
"""

from graphattn.builders.parsers.base import Parse, Parser
from graphattn.builders.parsers.cache import CachedParser
from graphattn.builders.parsers.spacy_documents import from_spacy
from graphattn.builders.parsers.stanza_pipeline import StanzaParser

__all__ = ["CachedParser", "Parse", "Parser", "StanzaParser", "from_spacy"]
