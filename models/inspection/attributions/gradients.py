"""Gradient times weight: what each edge's weight contributes to what is explained, to first order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attributions.explained import explained, explains_text
from graphattn.models.inspection.attributions.explained_text import explained_text
from graphattn.models.inspection.capture import ForwardCapture, in_evaluation, run_once
from graphattn.models.inspection.looking import attention_of, encoded
from graphattn.models.inspection.written import ForcedDecoding, reading_pass

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator
    from graphattn.models.estimators.translator import Translator


def gradient_times_weight(
    estimator: Estimator,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> pd.DataFrame:
    r"""Multiply the weight of each edge with the gradient of the log-odds with respect to it.

    .. math:: a_{ij} \cdot \frac{\partial}{\partial a_{ij}} \log \frac{p}{1 - p}

    The gradient is exact: all other weights are held, while what follows in higher layers may change. Positive
    products speak for the class. Where weights differ by feature (MTSA) those of an edge grow together in proportion.

    Of a translator the log-probability of a text is explained, each token read as it stands (teacher forcing). Its
    edges are the encoder's and the decoder's on the source, ``cross``.

    Parameters
    ----------
    estimator : a fitted one, with attention
    x : one input
    label : the class; the likeliest when None, for a tagger that of each word
    word : of a tagger, the word to explain; all words together when None. Of a translator, the word of its text
    target : of a translator, the text to explain; what it writes for the source when None

    Returns
    -------
    The rows of ``estimator.attention(x).table()`` with two more columns, gradient and attribution, their product with
    the weight.

    Raises
    ------
    ConfigError
        when the encoder has no attention weights, or there is no such class or word; for the ``label`` of a translator
        and the ``target`` of another model
    DataError
        when a translator's source has no words
    """
    look: Callable[[], _Seen]
    if explains_text(estimator, label=label, target=target):
        look = partial(_writing, estimator, x, target, word)
    else:
        look = partial(_deciding, estimator, x, label, word)
    with torch.inference_mode(False), torch.enable_grad(), in_evaluation(estimator.model_):
        seen = look()
        gradients = torch.autograd.grad(seen.explained, seen.weights, allow_unused=True, materialize_grads=True)
    table = seen.shown(seen.weights).table()
    table["gradient"] = seen.shown(gradients).weights()
    table["attribution"] = table.weight * table.gradient
    return table


@dataclass(frozen=True, eq=False)
class _Seen:
    """A pass.

    Parameters
    ----------
    explained : (), what is explained
    weights : that made it
    shown : figures in the places of the weights -> what they look like as attention
    """

    explained: Tensor
    weights: list[Tensor]
    shown: Callable[[Iterable[Tensor]], Attention]


def _deciding(estimator: Any, x: Any, label: Any, word: int | None) -> _Seen:
    corpus, sentences = encoded(estimator, x)
    batch = corpus[[0]]
    found = run_once(estimator.model_, batch)

    def shown(figures: Iterable[Tensor]) -> Attention:
        return attention_of(estimator, _with(found, figures), batch, sentences)

    shown(_weights(found))  # refuses an encoder without any
    chosen = explained(estimator, found.scores.detach(), label, word)
    return _Seen(chosen.log_odds(found.scores.unsqueeze(0)).sum(), _weights(found), shown)


def _writing(translator: Translator, x: Any, target: str | None, word: int | None) -> _Seen:
    reading = ForcedDecoding.of(translator, x, target)
    chosen = explained_text(reading, word)
    found, cross = reading_pass(translator.model_, reading.corpus[[0]])
    own = _weights(found)

    def shown(figures: Iterable[Tensor]) -> Attention:
        every = list(figures)
        return reading.attention(_with(found, every[: len(own)]), every[len(own) :])

    return _Seen(chosen.log_probability(found.scores.unsqueeze(0)).sum(), [*own, *cross], shown)


def _weights(found: ForwardCapture) -> list[Tensor]:
    return [own for layer in found.layers for own in layer.values()]


def _with(found: ForwardCapture, figures: Iterable[Tensor]) -> ForwardCapture:
    """The pass with other figures in the places of its weights."""
    each = iter(figures)
    return replace(found, layers=[{relation: next(each) for relation in layer} for layer in found.layers])


def by_token(table: pd.DataFrame, column: str = "attribution") -> pd.Series:
    """Sums of sizes over all edges between a node and others, in all layers and heads, whichever way they lead.

    What a word weighs shows at both ends: others look at it, and it looks at what turns it around.

    Parameters
    ----------
    table : one row for each edge of one text
    column : what to add up

    Returns
    -------
    Indexed by position.

    Examples
    --------
    >>> table = pd.DataFrame({"source": [1, 1, 2], "target": [0, 1, 1], "attribution": [2.0, 9.0, -1.0]})
    >>> by_token(table).to_dict()
    {0: 2.0, 1: 3.0, 2: 1.0}
    """
    others = table[table.source != table.target]
    sizes = others[column].abs()
    return sizes.groupby(others.source).sum().add(sizes.groupby(others.target).sum(), fill_value=0.0)


def by_source(table: pd.DataFrame, column: str = "attribution") -> pd.Series:
    """Sums over all edges from a node, in all layers and heads: what is attributed to it.

    Parameters
    ----------
    table : one row for each edge
    column : what to add up

    Returns
    -------
    Indexed by source (and source_part, where there are several) and source_token.
    """
    keys = [name for name in ("source_part", "source", "source_token") if name in table]
    return (
        table.groupby(keys, sort=False)[column]
        .sum()
        .sort_index(level=[name for name in keys if name != "source_token"])
    )
