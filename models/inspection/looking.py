"""From an input to its :class:`~graphattn.models.inspection.Attention`, for estimators of every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import ConfigError
from graphattn.models.batches import Batch, Corpus
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.capture import maps_of, nodes_of, without_gradients
from graphattn.networkx_export import CLS

if TYPE_CHECKING:
    from graphattn.builders import Sentence
    from graphattn.models.estimators import TextEstimator

TEXT, PAIR = ("text",), ("first", "second")
"""Names of the parts that texts are."""


def encoded(estimator: TextEstimator, x: Any) -> tuple[Corpus, dict[str, Sentence]]:
    """One input as a corpus, and the sentences of its texts by the names of their parts."""
    columns = estimator._columns([x])
    names = TEXT if len(columns) == 1 else PAIR
    sentences = {name: estimator.vocabulary_.sentence(source) for name, (source,) in zip(names, columns, strict=True)}
    return estimator._corpus(columns), sentences


def look_at(estimator: TextEstimator, x: Any, *, features: bool = False) -> Attention:
    """The work behind ``estimator.attention``; parameters and errors are as there."""
    corpus, sentences = encoded(estimator, x)
    batch = corpus[[0]]
    found, decisions, chances = without_gradients(estimator.model_, batch, features=features)
    if not found.layers:
        raise ConfigError(f"encoder {estimator.encoder_.name!r} has no attention weights")
    per_word = estimator.model_.head.per_word
    label = estimator._decided([decisions if per_word else decisions[0]])[0]
    return Attention(
        prediction=label.item() if isinstance(label, np.generic) else label,
        probabilities=tuple(_by_class(estimator, row) for row in chances)
        if per_word
        else _by_class(estimator, chances[0]),
        tokens=nodes_of(batch.graph, _kinds(batch), {name: (CLS, *own.tokens) for name, own in sentences.items()}),
        sentences=sentences,
        maps=tuple(maps_of(found, batch.graph, estimator.model_.encoder.relations(), tuple(sentences))),
    )


def _by_class(estimator: TextEstimator, chances: npt.NDArray) -> dict[Any, float]:
    return dict(zip(estimator.classes_.tolist(), chances.tolist(), strict=True))


def _kinds(batch: Batch) -> list[str]:
    """The types of nodes that edges join."""
    return list(dict.fromkeys(end for kind in batch.graph.canonical_etypes for end in (kind[0], kind[2])))
