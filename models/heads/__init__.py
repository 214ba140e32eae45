"""Heads: from token vectors to decisions about sentences, pairs and words."""

from graphattn.models.heads.classification import (
    ClassificationHead,
    Head,
    PairHead,
    PairRegressionHead,
    RegressionHead,
)
from graphattn.models.heads.tagging import TaggingHead

__all__ = ["ClassificationHead", "Head", "PairHead", "PairRegressionHead", "RegressionHead", "TaggingHead"]
