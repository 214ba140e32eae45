"""Corpora as lazy streams of examples and sentences, one module per family of formats.

A reader yields what a file contains; tokenization, tag schemes and graphs are elsewhere. It raises DataError for what
is wrong in the file, with its line, and ConfigError for an invalid option. A new format is a reader and a call of
:func:`register_reader`.
"""

from graphattn.builders._text_lines import read_numbered_lines
from graphattn.builders.readers._conllu import read_conllu, read_conllup
from graphattn.builders.readers._fasttext import read_fasttext
from graphattn.builders.readers._formats import (
    DetectedFormat,
    detect,
    register_reader,
)
from graphattn.builders.readers._read_corpus import read_corpus, read_parallel
from graphattn.builders.readers._sentences import read_sentences
from graphattn.builders.readers._spans import read_spans
from graphattn.builders.readers._table import read_labelled_lines, read_table
from graphattn.builders.readers._tagged import read_conll, read_word_tag
from graphattn.builders.readers._webanno import read_webanno
from graphattn.builders.readers._word_table import read_word_table

__all__ = [
    "DetectedFormat",
    "detect",
    "read_conll",
    "read_conllu",
    "read_conllup",
    "read_corpus",
    "read_fasttext",
    "read_labelled_lines",
    "read_numbered_lines",
    "read_parallel",
    "read_sentences",
    "read_spans",
    "read_table",
    "read_webanno",
    "read_word_table",
    "read_word_tag",
    "register_reader",
]
