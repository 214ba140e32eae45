"""Columns of the page and live models, from fitted estimators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.page.document import PageModel
from graphattn.experiments.page.request_queue import LiveModel

if TYPE_CHECKING:
    from graphattn.models import Estimator
    from graphattn.models.inspection import Attention


def page_model(path: str | Path, estimator: Estimator, attentions: Iterable[Attention]) -> PageModel:
    """A column of a page.

    Parameters
    ----------
    path : folder of the model
    estimator : the model
    attentions : its result for each text
    """
    return PageModel(_name(path, estimator), (attention.to_page(arrays=True) for attention in attentions))


def live_model(path: str | Path, estimator: Estimator) -> LiveModel:
    """A model for the live page.

    Parameters
    ----------
    path : folder of the model
    estimator : the model
    """

    def explain(texts: Sequence[str]) -> Mapping[str, Any]:
        item = tuple(texts) if estimator.texts_per_input > 1 else texts[0]
        return estimator.attention(item).to_page(arrays=True)

    return LiveModel(_name(path, estimator), estimator.count_tokens, explain)


def count_texts(estimators: Sequence[Estimator]) -> int:
    """The number of texts of an input of these models: two for pairs.

    Raises
    ------
    ConfigError
        if the models differ
    """
    sizes = {estimator.texts_per_input for estimator in estimators}
    if len(sizes) > 1:
        raise ConfigError("one model takes pairs of texts and the other does not; they cannot stand side by side")
    return sizes.pop()


def _name(path: str | Path, estimator: Estimator) -> str:
    return f"{Path(path).absolute().name} · {estimator.encoder_.name}"
