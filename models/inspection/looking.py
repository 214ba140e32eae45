"""From an input to its :class:`~graphattn.models.inspection.Attention`, for estimators of every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphattn.exceptions import ConfigError
from graphattn.models.corpus import Batch, Corpus
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.capture import ForwardCapture, attention_maps, kinds_joined, nodes_of, run_once
from graphattn.networkx_graphs import CLS

if TYPE_CHECKING:
    from graphattn.builders import Sentence

TEXT, PAIR = ("text",), ("first", "second")
"""Names of the parts that texts are."""


def encoded(estimator: Any, x: Any) -> tuple[Corpus, dict[str, Sentence]]:
    """One input as a corpus, and the sentences of its texts by the names of their parts."""
    own = estimator.encode_input(x)
    return own.corpus, own.sentences


def look_at(estimator: Any, x: Any, *, features: bool = False) -> Attention:
    """The work behind ``estimator.attention``; parameters and errors are as there."""
    corpus, sentences = encoded(estimator, x)
    batch = corpus[[0]]
    with torch.inference_mode():
        found = run_once(estimator.model_, batch, features=features)
        return attention_of(estimator, found, batch, sentences)


def attention_of(estimator: Any, found: ForwardCapture, batch: Batch, sentences: dict[str, Sentence]) -> Attention:
    """What a pass over one input shows.

    Raises
    ------
    ConfigError
        when the encoder has no attention weights
    """
    if not found.layers:
        raise ConfigError(f"encoder {estimator.encoder_.name!r} has no attention weights")
    head, graph = estimator.model_.head, batch.graph
    decisions, chances = (of(found.scores.detach(), graph).cpu().numpy() for of in (head.decide, head.probabilities))
    label = estimator._readable_labels([decisions if head.per_word else decisions[0]])[0]
    by_class = [dict(zip(estimator.classes_.tolist(), row, strict=True)) for row in chances.tolist()]
    return Attention(
        title=" / ".join(" ".join(sentence.words) for sentence in sentences.values()),
        prediction=label.item() if isinstance(label, np.generic) else label,
        probabilities=tuple(by_class) if head.per_word else by_class[0],
        tokens=nodes_of(graph, kinds_joined(batch), {name: (CLS, *own.tokens) for name, own in sentences.items()}),
        sentences=sentences,
        maps=tuple(attention_maps(found, graph, estimator.model_.encoder.relations(), tuple(sentences))),
    )
