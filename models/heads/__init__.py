"""Heads: from token vectors to decisions about sentences, pairs and words. Encoders and training do not belong here."""

from graphattn.models.heads.base import Head
from graphattn.models.heads.classification import ClassificationHead, PairHead
from graphattn.models.heads.tagging import TaggingHead

__all__ = ["ClassificationHead", "Head", "PairHead", "TaggingHead"]
