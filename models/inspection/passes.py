"""One pass of a model over each batch of a corpus, with its weights: what summaries add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from graphattn.builders import BudgetBatches
from graphattn.builders.batch import TextBatch
from graphattn.exceptions import ConfigError, DataError
from graphattn.models.corpus import Corpus
from graphattn.models.inspection import limits
from graphattn.models.inspection.attention_map import Ints
from graphattn.models.inspection.capture import ForwardCapture, in_evaluation, run_once

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from graphattn.builders import Sentence
    from graphattn.models.estimators import Estimator, TextEstimator
    from graphattn.models.estimators.translator import Translator

MAX_TOKENS, MAX_EDGES = 8192, 2_000_000
"""Size of a batch, whose weights are all kept for a moment."""


@dataclass(frozen=True, eq=False)
class CapturedBatch:
    """A batch and the weights of its pass.

    Parameters
    ----------
    found : the encoder's weights
    graph, sentences : of the batch, in its order
    cross : of a translator, for each layer of the decoder (B, H, T, S) its weights on the source
    counts : of a translator, (B,) tokens that were written, the border at the end among them
    """

    found: ForwardCapture
    graph: TextBatch
    sentences: list[Sentence]
    cross: list[Tensor] = field(default_factory=list)
    counts: Tensor | None = None


def check_has_passes(estimator: Any, given: bool) -> None:
    """Refuse what is not fitted, and targets for what writes none.

    Parameters
    ----------
    estimator : of any task
    given : whether there are targets

    Raises
    ------
    NotFittedError
        before ``fit``
    ConfigError
        when there are targets and the model is no translator
    """
    estimator._check_fitted()
    if given and not writes(estimator):
        raise ConfigError("targets are for translators; leave them out")


def writes(estimator: Estimator) -> TypeIs[Translator]:
    """Whether it is a translator."""
    return hasattr(estimator, "outputs")


def passes_over(estimator: Estimator, inputs: Sequence[Any], targets: Sequence[str] | None) -> Iterator[CapturedBatch]:
    """The batches of some inputs.

    Parameters
    ----------
    estimator : a fitted one
    inputs : as ``predict`` takes them
    targets : of a translator, the texts to look at; those that it writes when None

    Raises
    ------
    DataError
        when inputs and targets differ in number
    """
    if targets is not None and len(targets) != len(inputs):
        raise DataError(f"there are {len(inputs)} sources and {len(targets)} targets", hint="Give one for each.")
    with torch.inference_mode(), in_evaluation(estimator.model_):
        yield from (
            _writing(estimator, inputs, targets)
            if writes(estimator)
            else _deciding(cast("TextEstimator", estimator), inputs)
        )


def _deciding(estimator: TextEstimator, inputs: Sequence[Any]) -> Iterator[CapturedBatch]:
    columns = estimator._columns(inputs)
    sentences = [estimator.vocabulary_.sentences(column) for column in columns]
    corpus = estimator._corpus(columns)
    heads = estimator.model_.encoder.heads_along().values()
    for numbers in _batches(corpus, corpus.num_edges(), sum(heads)):
        batch = corpus[numbers]
        own = [column[number] for column in sentences for number in numbers]
        yield CapturedBatch(run_once(estimator.model_, batch), batch.graph, own)


def _writing(translator: Translator, inputs: Sequence[Any], targets: Sequence[str] | None) -> Iterator[CapturedBatch]:
    from graphattn.models.inspection.written import cross_heads, reading_pass

    (sources,) = translator._columns(inputs)
    written = translator.predict(sources) if targets is None else targets
    sentences = translator.subwords_.vocabulary.sentences(translator.subwords_.sources(sources))
    corpus = translator._corpus([sources], written)
    model = translator.model_
    assert isinstance(corpus.targets, tuple)
    edges = corpus.num_edges() + corpus.layouts[0].lengths * corpus.targets[1]
    for numbers in _batches(corpus, edges, sum(model.encoder.heads_along().values()) + cross_heads(model)):
        batch = corpus[numbers]
        found, cross = reading_pass(model, batch)
        yield CapturedBatch(found, batch.graph, [sentences[number] for number in numbers], cross, batch.target_counts)


def _batches(corpus: Corpus, edges: Ints, heads: int) -> BudgetBatches:
    """Batches all of whose weights may be kept, but for a text that has too many alone."""
    most = min(MAX_EDGES, limits.MOST_WEIGHTS // max(1, heads))
    return BudgetBatches(corpus.lengths, max_tokens=MAX_TOKENS, max_edges=most, edges=edges, shuffle=False)
