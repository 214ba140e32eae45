"""Corpora as lazy streams of examples and sentences, one file per format.

A reader tells what stands in a file, and where it stands wrongly; a new format is a new file and a line in
``FORMATS``. Cutting text into tokens, converting tags and building graphs do not belong here.
"""

from graphattn.builders.readers.conll import read_conll
from graphattn.builders.readers.conllu import read_conllu
from graphattn.builders.readers.corpus import FORMATS, CorpusFormat, corpus_format, read_corpus
from graphattn.builders.readers.fasttext import read_fasttext
from graphattn.builders.readers.formats import detect_format, guess_columns
from graphattn.builders.readers.labelled_lines import read_labelled_lines
from graphattn.builders.readers.parallel import read_parallel
from graphattn.builders.readers.sentences import read_sentences
from graphattn.builders.readers.table import read_table
from graphattn.builders.readers.word_tag import read_word_tag

__all__ = [
    "FORMATS",
    "CorpusFormat",
    "corpus_format",
    "detect_format",
    "guess_columns",
    "read_conll",
    "read_conllu",
    "read_corpus",
    "read_fasttext",
    "read_labelled_lines",
    "read_parallel",
    "read_sentences",
    "read_table",
    "read_word_tag",
]
