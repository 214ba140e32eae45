"""Add a linear branch to a trained model, if the dev set is predicted no worse with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphattn.models.corpus import Corpus
from graphattn.models.options import TrainingOptions
from graphattn.models.text_model import TextModel

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback


def fit_linear_branch(
    model: TextModel,
    corpus: Corpus,
    dev: Corpus | None,
    words: Sequence[str],
    *,
    metric: str,
    alone: float | None,
    evaluate: Callable[[list[Any]], dict[str, float]],
    refit: bool,
    training: TrainingOptions,
    callbacks: Sequence[Callback],
) -> dict[str, float]:
    """Fit the branch; return its share, that of the graph encoder, and the dev metrics with it.

    ``alone`` is the dev metric without the branch, and ``evaluate`` measures decisions for the dev set. ``refit`` adds
    the dev set to the training set of the branch that is kept.
    """
    from graphattn.models.training.callbacks import shows_epochs
    from graphattn.models.training.linear_branch import add_linear_branch

    metrics = dict[str, float]()
    shown = shows_epochs(training, callbacks)

    def report(line: str) -> None:
        if shown:
            print(line, file=sys.stderr, flush=True)

    def accept(decisions: list[Any]) -> bool:
        assert alone is not None
        metrics.update(evaluate(decisions))
        accepted = metrics[metric] >= alone
        report(
            f"linear branch {'added' if accepted else 'left out'}: dev {metric.replace('_', ' ')} "
            f"{metrics[metric]:.2f} with it, {alone:.2f} without"
        )
        return accepted

    weights = model.head.class_weights
    mixture = add_linear_branch(
        model, corpus, dev, words, refit=refit, class_weights=weights, accept=accept, report=report
    )
    if mixture is None:
        return {}
    return {"deep": mixture.deep, "linear": mixture.linear, **{f"dev_{name}": value for name, value in metrics.items()}}
