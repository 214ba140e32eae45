"""Integrated gradients per token, by captum: what each token vector adds on the way from unknown words to the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import torch
from torch import Tensor

from graphattn.builders import Sentence
from graphattn.edges import features_of
from graphattn.exceptions import ConfigError
from graphattn.models.corpus import Batch
from graphattn.models.decoders.model import shift_right
from graphattn.models.estimators.prediction import MAX_TOKENS
from graphattn.models.inspection.attention_map import SOURCE
from graphattn.models.inspection.attributions.explained import explained, explains_text
from graphattn.models.inspection.attributions.explained_text import explained_text
from graphattn.models.inspection.capture import in_evaluation
from graphattn.models.inspection.looking import encoded
from graphattn.models.inspection.written import ForcedDecoding
from graphattn.models.token_embedding import UNKNOWN_ID
from graphattn.networkx_graphs import CLS
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator, TextEstimator
    from graphattn.models.estimators.translator import Translator


def integrated_gradients(
    estimator: Estimator,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
    steps: int = 50,
) -> pd.DataFrame:
    """Integrate the gradient of what is explained along the way to the text (Sundararajan et al. 2017, Eq. 1).

    The way begins where every word is unknown; character features, of models that have them, stay. Of a translator the
    source changes, and the text that is explained stays as the decoder reads it.

    Parameters
    ----------
    estimator : a fitted one; the encoder needs no attention
    x : one input
    label, word, target : what to explain, as for :func:`gradient_times_weight`
    steps : points on the way; with enough of them attributions sum to the difference of the log-odds, or of a
        translator's log-probabilities

    Returns
    -------
    Columns part, position, token and attribution.

    Raises
    ------
    ConfigError
        when captum is missing, or there is no such class or word; for the ``label`` of a translator and the ``target``
        of another model
    DataError
        when a translator's source has no words
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        raise ConfigError(
            "integrated gradients need captum, which is not installed: pip install 'graphattn[inspect]'"
        ) from None

    if steps < 1:
        raise ConfigError(f"steps is {steps}; it must be at least 1")
    find: Callable[[], _Way]
    if explains_text(estimator, label=label, target=target):
        find = partial(_to_source, estimator, x, target, word)
    else:
        find = partial(_to_text, cast("TextEstimator", estimator), x, label, word)
    with torch.inference_mode(False), in_evaluation(estimator.model_):
        with torch.no_grad():
            way = find()
        found = IntegratedGradients(way.explained).attribute(
            way.end.unsqueeze(0),
            way.begin.unsqueeze(0),
            n_steps=steps,
            internal_batch_size=max(1, MAX_TOKENS // way.tokens),
        )
    rows = [(part, place, text) for part, own in way.sentences.items() for place, text in enumerate((CLS, *own.tokens))]
    return pd.DataFrame(rows, columns=["part", "position", "token"]).assign(
        attribution=found.squeeze(0).sum(1).detach().cpu().numpy()
    )


@dataclass(frozen=True, eq=False)
class _Way:
    """From unknown words to those of an input.

    Parameters
    ----------
    begin, end : (N, D) token vectors
    explained : (copies, N, D) points on the way -> (copies,) what is explained
    sentences : whose tokens the vectors are, by the names of their parts
    tokens : that a copy takes
    """

    begin: Tensor
    end: Tensor
    explained: Callable[[Tensor], Tensor]
    sentences: Mapping[str, Sentence]
    tokens: int


def _to_text(estimator: TextEstimator, x: Any, label: Any, word: int | None) -> _Way:
    corpus, sentences = encoded(estimator, x)
    model, batch = estimator.model_, corpus[[0]]
    chosen = explained(estimator, model(batch), label, word)
    forms = None if batch.forms is None else batch.forms.to(model.device)
    begin, end = (model.embedding(ids, forms) for ids in _ids(batch, model.device))
    lengths = [len(sentence) + 1 for sentence in sentences.values()]

    def log_odds(points: Tensor) -> Tensor:
        copies = corpus[[0] * len(points)]
        rows = torch.cat([part.flatten(0, 1) for part in points.split(lengths, dim=1)])
        scores = model.head(model.encoder(copies.graph, rows), copies.graph)
        return chosen.log_odds(scores.unflatten(0, (len(points), -1)))

    return _Way(begin, end, log_odds, sentences, sum(lengths))


def _to_source(translator: Translator, x: Any, target: str | None, word: int | None) -> _Way:
    reading, model = ForcedDecoding.of(translator, x, target), translator.model_
    chosen, batch = explained_text(reading, word), reading.corpus[[0]]
    assert batch.targets is not None and batch.target_counts is not None
    read = shift_right(batch.targets, batch.target_counts).to(model.device)
    begin, end = (model.embedding(ids) for ids in _ids(batch, model.device))

    def log_probability(points: Tensor) -> Tensor:
        copies = reading.corpus[[0] * len(points)]
        state = model.decoder.start(model.encode_vectors(copies.graph, points.flatten(0, 1)))
        return chosen.log_probability(model.advance(read.expand(len(points), -1), state))

    return _Way(begin, end, log_probability, {SOURCE: reading.sentences[SOURCE]}, len(end) + read.shape[1])


def _ids(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """(N,) of tokens where every word is unknown, and as they are."""
    ids, positions = (features_of(batch.graph, TOKEN)[name].to(device) for name in ("id", "position"))
    return torch.where(positions == 0, ids, UNKNOWN_ID), ids
