"""Relations, one file for each family: which tokens and words of a sentence are joined by an edge.

A relation turns a :class:`~graphattn.builders._layout.Layout` into edges; it neither reads corpora nor uses DGL.
"""

from graphattn.builders._batch import Nodes, RelationArrays
from graphattn.builders.relations._base import CompoundRelation, RangeRelation, Relation
from graphattn.builders.relations._binary_partition import BinaryPartition
from graphattn.builders.relations._composition import Intersection, Reverse, Union
from graphattn.builders.relations._csc import edges_per_sentence
from graphattn.builders.relations._dependency import Dependency
from graphattn.builders.relations._links import Links
from graphattn.builders.relations._names import (
    parse_relation,
    parse_relations,
    register_relation,
)
from graphattn.builders.relations._nearest import Nearest
from graphattn.builders.relations._random_edges import Random, RandomArcs, RandomPairs, ShuffledGroup
from graphattn.builders.relations._ranges import Causal, Complete, Global, Order
from graphattn.builders.relations._relative_positions import RelativePositions
from graphattn.builders.relations._sentence_nodes import DocumentTree, SentenceNodes
from graphattn.builders.relations._star import Star
from graphattn.builders.relations._window import Dilated, Window
from graphattn.builders.relations._word_group import Membership, WordGroup

__all__ = [
    "BinaryPartition",
    "Causal",
    "Complete",
    "CompoundRelation",
    "Dependency",
    "Dilated",
    "DocumentTree",
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
    "SentenceNodes",
    "ShuffledGroup",
    "Star",
    "Union",
    "Window",
    "WordGroup",
    "edges_per_sentence",
    "parse_relation",
    "parse_relations",
    "register_relation",
]
