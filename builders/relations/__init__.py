"""Relations, one file for each family: which tokens and words of a sentence are joined by an edge.

A relation turns a :class:`~graphattn.builders.layout.Layout` into edges; it neither reads corpora nor uses DGL.
"""

from graphattn.builders.batch import Nodes, RelationArrays
from graphattn.builders.relations.base import CompoundRelation, RangeRelation, Relation
from graphattn.builders.relations.binary_partition import BinaryPartition
from graphattn.builders.relations.composition import Intersection, Reverse, Union
from graphattn.builders.relations.csc import edges_per_sentence
from graphattn.builders.relations.dependency import Dependency
from graphattn.builders.relations.links import Links
from graphattn.builders.relations.names import (
    RELATION_NAMES,
    parse_relation,
    parse_relations,
    register_relation,
    split_heads,
)
from graphattn.builders.relations.nearest import Nearest
from graphattn.builders.relations.random_edges import Random, RandomArcs, RandomPairs, ShuffledGroup
from graphattn.builders.relations.ranges import Complete, Global, Order
from graphattn.builders.relations.relative_positions import RelativePositions
from graphattn.builders.relations.sentence_nodes import DocumentTree, SentenceNodes
from graphattn.builders.relations.star import Star
from graphattn.builders.relations.window import Dilated, Window
from graphattn.builders.relations.word_group import Membership, WordGroup

__all__ = [
    "RELATION_NAMES",
    "BinaryPartition",
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
    "split_heads",
]
