"""Floor 1: corpora become sentences, sentences become DGL graphs.

Readers, vocabularies, one file per relation, the graph builder and batching belong here. Nothing here knows of
models or training; whatever computes on graphs is on the ground floor below.
"""

from graphattn.builders.batching import BudgetBatches
from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.relations import (
    BinaryPartition,
    Complete,
    CompoundRelation,
    Dependency,
    Dilated,
    DocumentTree,
    Global,
    Intersection,
    Links,
    Membership,
    Nearest,
    Nodes,
    Order,
    Random,
    RandomArcs,
    RandomPairs,
    RangeRelation,
    Relation,
    RelationArrays,
    RelativePositions,
    Reverse,
    SentenceNodes,
    ShuffledGroup,
    Star,
    Union,
    Window,
    WordGroup,
    edges_per_sentence,
)
from graphattn.builders.sentence import Example, Sentence
from graphattn.builders.vocabulary import Vocabulary
from graphattn.builders.word_vectors import WordVectors

__all__ = [
    "BinaryPartition",
    "BudgetBatches",
    "Complete",
    "CompoundRelation",
    "Dependency",
    "Dilated",
    "DocumentTree",
    "Example",
    "Global",
    "Intersection",
    "Links",
    "Membership",
    "Nearest",
    "Nodes",
    "Order",
    "Random",
    "RandomArcs",
    "RandomPairs",
    "RangeRelation",
    "Relation",
    "RelationArrays",
    "RelativePositions",
    "Reverse",
    "Sentence",
    "SentenceNodes",
    "ShuffledGroup",
    "Star",
    "TextGraphBuilder",
    "Union",
    "Vocabulary",
    "Window",
    "WordGroup",
    "WordVectors",
    "edges_per_sentence",
]
