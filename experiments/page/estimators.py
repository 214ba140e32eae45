"""Fitted estimators as the page and its server use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.page.answers import LiveModel
from graphattn.experiments.page.document import PageModel

if TYPE_CHECKING:
    from graphattn.models import TextEstimator

_PAIR = "pair"


def page_models(estimators: Mapping[Path, TextEstimator], items: Iterable[Any]) -> list[PageModel]:
    """The columns of a page: what each model says of the same inputs.

    Parameters
    ----------
    estimators : by the folder each was read from
    items : as ``attention`` takes them
    """
    taken = list(items)
    return [PageModel(_name(path, own), _results(own, taken)) for path, own in estimators.items()]


def live_models(estimators: Mapping[Path, TextEstimator]) -> list[LiveModel]:
    """What the server needs to know of each model; by the folder each was read from."""
    return [_live_model(path, estimator) for path, estimator in estimators.items()]


def texts_of(estimators: Mapping[Path, TextEstimator]) -> int:
    """How many texts an input of these models has: two for pairs.

    Raises
    ------
    ConfigError
        when the models differ
    """
    sizes = {path: 2 if estimator.task == _PAIR else 1 for path, estimator in estimators.items()}
    if len(set(sizes.values())) > 1:
        pair = next(path for path, size in sizes.items() if size == 2)
        raise ConfigError(f"{pair} takes pairs of texts and the other model does not; they cannot stand side by side")
    return max(sizes.values())


def _results(estimator: TextEstimator, items: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (estimator.attention(item).to_page(arrays=True) for item in items)


def _live_model(path: Path, estimator: TextEstimator) -> LiveModel:
    def count(text: str) -> int:
        return 1 + len(estimator.vocabulary_.sentence(text))

    def look(texts: Sequence[str]) -> Mapping[str, Any]:
        item = tuple(texts) if estimator.task == _PAIR else texts[0]
        return estimator.attention(item).to_page(arrays=True)

    return LiveModel(_name(path, estimator), count, look)


def _name(path: Path, estimator: TextEstimator) -> str:
    return f"{path.absolute().name} · {estimator.encoder_.name}"
