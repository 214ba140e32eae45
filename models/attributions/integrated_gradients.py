"""Integrated gradients per token, by captum: what each token vector adds on the way from unknown words to the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from graphattn.exceptions import ConfigError
from graphattn.models.attributions.explained import explained
from graphattn.models.inspection.capture import in_evaluation
from graphattn.models.inspection.looking import encoded
from graphattn.models.prediction import MAX_TOKENS
from graphattn.models.token_embedding import UNKNOWN_ID
from graphattn.networkx_export import CLS
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.models.estimators import TextEstimator


def integrated_gradients(
    estimator: TextEstimator, x: Any, *, label: Any = None, word: int | None = None, steps: int = 50
) -> pd.DataFrame:
    """Integrate the gradient of the log-odds along the way to the text (Sundararajan et al. 2017, Eq. 1).

    The way begins where every word is unknown; character features, of models that have them, stay.

    Parameters
    ----------
    estimator : a fitted one; the encoder needs no attention
    x : one input
    label, word : what to explain, as for :func:`gradient_times_weight`
    steps : points on the way; with enough of them attributions sum to the difference of the log-odds

    Returns
    -------
    Columns part, position, token and attribution.

    Raises
    ------
    ConfigError
        when captum is missing, or there is no such class or word
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        raise ConfigError(
            "integrated gradients need captum, which is not installed: pip install 'graphattn[inspect]'"
        ) from None

    corpus, sentences = encoded(estimator, x)
    model, batch = estimator.model_, corpus[[0]]
    lengths = [len(sentence) + 1 for sentence in sentences.values()]
    with torch.inference_mode(False), in_evaluation(model):
        with torch.no_grad():
            chosen = explained(estimator, model(batch), label, word)
            ids = batch.graph.nodes[TOKEN].data["id"].to(model.device)
            positions = batch.graph.nodes[TOKEN].data["position"].to(model.device)
            forms = None if batch.forms is None else batch.forms.to(model.device)
            vectors = model.embedding(ids, forms)
            unknown = model.embedding(torch.where(positions == 0, ids, UNKNOWN_ID), forms)

        def log_odds(points: Tensor) -> Tensor:
            """(copies, N, D) token vectors -> (copies,)."""
            copies = corpus[[0] * len(points)]
            rows = torch.cat([part.flatten(0, 1) for part in points.split(lengths, dim=1)])
            scores = model.head(model.encoder(copies.graph, rows), copies.graph)
            return chosen.log_odds(scores.unflatten(0, (len(points), -1)))

        found = IntegratedGradients(log_odds).attribute(
            vectors.unsqueeze(0),
            unknown.unsqueeze(0),
            n_steps=steps,
            internal_batch_size=max(1, MAX_TOKENS // sum(lengths)),
        )
    rows = [(part, place, text) for part, own in sentences.items() for place, text in enumerate((CLS, *own.tokens))]
    return pd.DataFrame(rows, columns=["part", "position", "token"]).assign(
        attribution=found.squeeze(0).sum(1).detach().cpu().numpy()
    )
