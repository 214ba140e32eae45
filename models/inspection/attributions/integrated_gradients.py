"""Integrated gradients per token, computed by captum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from graphattn.builders.graph_builder import CLS_ID, TextGraphBuilder
from graphattn.edges import features_of
from graphattn.models.corpus import Batch
from graphattn.models.estimators.prediction import MAX_TOKENS
from graphattn.models.inspection.attention import word_texts
from graphattn.models.inspection.edge_kinds import word_ids_of
from graphattn.models.text_model import in_evaluation
from graphattn.networkx_graphs import CLS
from graphattn.optional_packages import import_optional
from graphattn.precision import at_least_float32
from graphattn.schema import TOKEN
from graphattn.validation import require_range

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator
    from graphattn.models.estimators.task import EncodedInputs


def integrated_gradients(
    estimator: Estimator,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
    steps: int = 50,
) -> pd.DataFrame:
    """Integrate gradients along the straight line from unknown words to the text (Sundararajan et al. 2017, Eq. 1).

    At the start every word is ``[UNK]``; character features do not change. For a translator the source changes and the
    output text does not.

    Parameters
    ----------
    estimator : a fitted estimator; its encoder needs no attention
    x : one input
    label, word, target : what to explain, as for :func:`gradient_times_weight`
    steps : points on the line; with enough of them, attributions add up to the change of the explained quantity

    Returns
    -------
    Columns part, position, token, word and attribution.

    Raises
    ------
    ConfigError
        when captum is missing, there is no such class or word, or the option does not apply to the task
    DataError
        when a translator's source has no words
    """
    captum = import_optional("captum.attr", "integrated gradients need", "inspect")
    require_range("steps", steps, min=1)
    inputs = estimator.encode_input(x, target=target)
    model, batch = estimator.model_, inputs.batch
    with torch.inference_mode(False), in_evaluation(model):
        with torch.no_grad():
            explained = estimator.target(inputs, estimator._copy_scores(batch)[0], label=label, word=word)
            start, end = (
                model.embed_tokens(ids, batch) for ids in _token_ids(inputs.corpus.builder, batch, model.device)
            )

        def value(points: Tensor) -> Tensor:
            """(copies, N, D) token vectors -> (copies,)."""
            copies = inputs.corpus[[0] * len(points)]
            lengths = batch.graph.batch_num_nodes(TOKEN).tolist()
            vectors = torch.cat([part.flatten(0, 1) for part in points.split(lengths, dim=1)])
            return explained.value(estimator._copy_scores(copies, vectors=vectors))

        num_tokens = len(end) + (0 if batch.target_counts is None else int(batch.target_counts.sum()))
        attributions = captum.IntegratedGradients(value).attribute(
            end.unsqueeze(0),
            start.unsqueeze(0),
            n_steps=steps,
            internal_batch_size=max(1, MAX_TOKENS // num_tokens),
        )
    return _list_tokens(inputs).assign(
        attribution=at_least_float32(attributions.squeeze(0).sum(1).detach()).cpu().numpy()
    )


def _list_tokens(inputs: EncodedInputs) -> pd.DataFrame:
    """Columns part, position, token and word of one input."""
    rows, cls = [], inputs.corpus.builder.cls
    for part in inputs.graph_texts:
        sentence = inputs.single[part]
        tokens, words = (*[CLS] * cls, *sentence.tokens), word_texts(sentence, cls=cls)
        numbers = word_ids_of(sentence, cls=cls)
        rows += [(part, place, tokens[place], words[number]) for place, number in enumerate(numbers)]
    return pd.DataFrame(rows, columns=["part", "position", "token", "word"])


def _token_ids(builder: TextGraphBuilder, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """(N,) token ids with every word unknown, and the actual ones."""
    features = features_of(batch.graph, TOKEN)
    ids = features["id"].to(device)
    assert builder.vocabulary is not None
    is_special = features["special"].to(device) if "special" in features else ids == CLS_ID
    return torch.where(is_special, ids, builder.vocabulary.unknown_id), ids
