"""Relations, one file each: which tokens and words of a sentence are joined by an edge.

Only what turns a :class:`~graphattn.builders.layout.Layout` into edges belongs here; nothing that reads corpora or
touches DGL.
"""

from graphattn.builders.relations.base import RangeRelation, Relation
from graphattn.builders.relations.complete import Complete
from graphattn.builders.relations.dependency import Dependency
from graphattn.builders.relations.membership import Membership
from graphattn.builders.relations.order import Order
from graphattn.builders.relations.window import Window
from graphattn.builders.relations.word_group import WordGroup

__all__ = ["Complete", "Dependency", "Membership", "Order", "RangeRelation", "Relation", "Window", "WordGroup"]
