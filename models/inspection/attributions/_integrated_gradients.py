"""Integrated gradients per token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphattn._edges import features_of
from graphattn._networkx_graphs import CLS
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn._validation import require_range
from graphattn.builders._graph_builder import CLS_ID
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._estimators.inspectable import Inspectable, encode_input
from graphattn.models._prediction import MAX_TOKENS
from graphattn.models._text_model import in_evaluation
from graphattn.models.inspection._attention_weights import word_texts
from graphattn.models.inspection._branch_scores import BranchScores
from graphattn.models.inspection._edge_kinds import word_ids_of
from graphattn.models.inspection.attributions._targets import ExplanationTarget


def integrated_gradients(
    estimator: Inspectable,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
    steps: int = 50,
) -> pd.DataFrame:
    r"""Integrate gradients along the straight line from unknown words to the text (Sundararajan et al. 2017, Eq. 1).

    Attributions add up to the change of the explained quantity from unknown words to the text. At the start

    - each token vector is that of ``[UNK]`` without characters; special tokens, features from a lexicon and marks of
      predicates do not change;
    - the linear branch of a classifier or regressor has no n-grams, as for a text of unknown words;
    - in the linear branch of a tagger, each word has the spelling of an empty word and its neighbours see no word.

    The line leads from there to the token vectors and features of the text, at the same pace. So each n-gram
    contributes its weight times its tf-idf value in the text, whose norm is that of the text on the whole line. The
    occurrences of an n-gram share its contribution equally, and so do the two tokens of a pair. Features of both texts
    of a pair are divided by their gradients with respect to the tf-idf values, a product in halves. What the spelling
    of a word adds to the tags of its neighbours counts for that word.

    For a translator the source changes and the output text does not.

    Parameters
    ----------
    estimator : a fitted estimator; its encoder needs no attention
    x : one input
    label, word, target : what to explain, as for :func:`gradient_times_weight`
    steps : points on the line (Gauss-Legendre); with enough of them, the sum is exact. The part of the linear branch is
        exact with any number of them for two classes, several labels and regression

    Returns
    -------
    Columns part, position, token, word and attribution.

    Raises
    ------
    ConfigError
        when there is no such class or word, or the option does not apply to the task
    DataError
        when a translator's source has no words
    """
    inputs = encode_input(estimator, x, target=target)
    return integrate(estimator, inputs, label=label, word=word, steps=steps).table


@dataclass(frozen=True, eq=False)
class Integral:
    """Integrated gradients of one input.

    ``table`` has the columns part, position, token, word and attribution; ``start`` and ``end`` are the values of the
    explained quantity for unknown words and for the input, ``branches`` how much each branch gives to it.
    """

    table: pd.DataFrame
    explained: ExplanationTarget
    start: float
    end: float
    branches: BranchScores | None


def integrate(
    estimator: Inspectable, inputs: Corpus, *, label: Any = None, word: int | None = None, steps: int = 50
) -> Integral:
    """:func:`integrated_gradients` of an encoded input, with both values of the quantity."""
    require_range("steps", steps, min=1)
    model, explainer, batch = estimator.model_, estimator.explainer_, inputs.first_batch
    lengths = batch.graph.batch_num_nodes(TOKEN).tolist()

    def move(shares: Tensor) -> tuple[list[Tensor], Tensor]:
        """Inputs on the line, (copies, N, D) and (copies, N), and (copies,) values."""
        points = [
            (start + shares.view(-1, *[1] * start.dim()) * (end - start)).requires_grad_(torch.is_grad_enabled())
            for start, end in line
        ]
        vectors, presence = (torch.cat([part.flatten(0, 1) for part in x.split(lengths, dim=1)]) for x in points)
        vectors = vectors.to(dtype)
        copies = inputs.batch([0] * len(shares))
        return points, explained.value(explainer.score_copies(copies, vectors=vectors, presence=presence))

    with torch.inference_mode(False), in_evaluation(model):
        with torch.no_grad():
            scores = explainer.score_copies(batch)[0]
            explained = explainer.choose_target(inputs, scores, label=label, word=word)
            branches = explainer.score_branches(inputs, scores, explained)
            ids, unknown, is_special = _token_ids(inputs, model.device)
            origin, text = model.embed_tokens(unknown, _clear_characters(batch)), model.embed_tokens(ids, batch)
            dtype = text.dtype
            origin, text = at_least_float32(origin), at_least_float32(text)  # the line and sums along it need them
            presence = is_special.to(text.dtype)
            line = [(origin, text), (presence, torch.ones_like(presence))]
            start, end = move(text.new_tensor([0.0, 1.0]))[1].tolist()
        nodes, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1]
        num_tokens = len(ids) + (0 if batch.target_counts is None else int(batch.target_counts.sum()))
        sums: list[Any] = [0.0, 0.0]
        size = max(1, MAX_TOKENS // num_tokens)
        for first in range(0, steps, size):
            shares, factors = (text.new_tensor(x[first : first + size]) for x in ((nodes + 1) / 2, weights / 2))
            points, values = move(shares)
            gradients = torch.autograd.grad(
                values @ factors.to(values), points, allow_unused=True, materialize_grads=True
            )
            sums = [total + gradient.sum(0) for total, gradient in zip(sums, gradients, strict=True)]
        of_vectors, of_presence = (total * (stop - begin) for total, (begin, stop) in zip(sums, line, strict=True))
        attributions = (of_vectors.sum(1) + of_presence).detach().cpu().numpy()
    return Integral(_list_tokens(inputs).assign(attribution=attributions), explained, start, end, branches)


def _list_tokens(inputs: Corpus) -> pd.DataFrame:
    """Columns part, position, token and word of one input."""
    rows, cls = [], inputs.builder.cls
    for part in inputs.graph_texts:
        sentence = inputs.first_sentences[part]
        tokens, words = (*[CLS] * cls, *sentence.tokens), word_texts(sentence, cls=cls)
        numbers = word_ids_of(sentence, cls=cls)
        rows += [(part, place, tokens[place], words[number]) for place, number in enumerate(numbers)]
    return pd.DataFrame(rows, columns=["part", "position", "token", "word"])


def _token_ids(inputs: Corpus, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) token ids, the same with every word unknown, and whether a token is special."""
    features, vocabulary = features_of(inputs.first_batch.graph, TOKEN), inputs.builder.vocabulary
    ids = features["id"].to(device)
    assert vocabulary is not None
    is_special = features["special"].to(device) if "special" in features else ids == CLS_ID
    return ids, torch.where(is_special, ids, vocabulary.unknown_id), is_special


def _clear_characters(batch: Batch) -> Batch:
    """The batch, whose tokens have the empty spelling of type 0."""
    types = batch.token_types
    return batch if types is None else replace(batch, token_types=replace(types, index=torch.zeros_like(types.index)))
