"""Heads: from token vectors to decisions about sentences, pairs and words."""

from graphattn.models.heads._classification import (
    ClassificationHead,
    Head,
    PairHead,
    PairRegressionHead,
    RegressionHead,
)
from graphattn.models.heads._tagging import TaggingHead

__all__ = ["ClassificationHead", "Head", "PairHead", "PairRegressionHead", "RegressionHead", "TaggingHead"]
