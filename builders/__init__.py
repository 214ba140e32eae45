"""Floor 1: corpora become sentences, sentences become batches and DGL graphs.

Readers, parsers, vocabularies, relations (one file for each family), the graph builder and the store. Nothing here
knows models or training.
"""

from graphattn.builders._batching import BudgetBatches
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import strip_html
from graphattn.builders._word_vectors import WordVectors
from graphattn.builders.relations import (
    BinaryPartition,
    Causal,
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

__all__ = [
    "BinaryPartition",
    "BudgetBatches",
    "Causal",
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
    "strip_html",
]
