"""Floor 1: corpora become sentences, sentences become DGL graphs.

Readers, vocabularies, one file per relation, the graph builder and batching belong here. Nothing here knows of
models or training; whatever computes on graphs is on the ground floor below.
"""

from graphattn.builders.batching import BudgetBatches
from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.relations import Complete, Dependency, Membership, Order, Relation, Window, WordGroup
from graphattn.builders.sentence import Example, Sentence
from graphattn.builders.vocabulary import Vocabulary
from graphattn.builders.word_vectors import WordVectors

__all__ = [
    "BudgetBatches",
    "Complete",
    "Dependency",
    "Example",
    "Membership",
    "Order",
    "Relation",
    "Sentence",
    "TextGraphBuilder",
    "Vocabulary",
    "Window",
    "WordGroup",
    "WordVectors",
]
