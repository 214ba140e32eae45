"""The demo: a generated corpus, its graphs, two models, a prediction and pictures."""

from graphattn.experiments.demo._grammar import generate

__all__ = ["generate"]
