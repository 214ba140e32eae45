"""What scikit-learn's tools ask of an estimator: metadata routing, tags, and their error before ``fit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from graphattn.exceptions import NotFittedError


def make_requests(owner: str) -> Any:
    """Which arguments of ``fit`` and ``score`` can be requested, as scikit-learn's ``MetadataRequest``."""
    from sklearn.utils.metadata_routing import MetadataRequest

    requests = MetadataRequest(owner=owner)
    for name in ("sample_weight", "dev", "callbacks"):
        requests.fit.add_request(param=name, alias=None)
    requests.score.add_request(param="sample_weight", alias=None)
    return requests


def set_requests(routing: Any, method: str, aliases: Mapping[str, bool | str | None]) -> None:
    """Request arguments of a method."""
    requests = getattr(routing, method)
    unknown = aliases.keys() - requests.requests.keys()
    if unknown:
        raise TypeError(f"{method} has no argument {min(unknown)!r}; it has: {', '.join(requests.requests)}")
    for name, alias in aliases.items():
        requests.add_request(param=name, alias=alias)


def complete_tags(tags: Any, estimator_type: str | None, *, multilabel: bool) -> Any:
    """Tags of a classifier or regressor."""
    from sklearn.utils import ClassifierTags, RegressorTags

    tags.estimator_type = estimator_type
    if estimator_type == "classifier":
        tags.classifier_tags = ClassifierTags(multi_label=multilabel)
    elif estimator_type == "regressor":
        tags.regressor_tags = RegressorTags()
    tags.target_tags.required = estimator_type is not None
    return tags


def make_not_fitted_error(message: str) -> NotFittedError:
    """Make an error that scikit-learn's tools recognise as theirs."""
    from sklearn.exceptions import NotFittedError as OfScikitLearn  # takes long to import

    class Joint(NotFittedError, OfScikitLearn):  # type: ignore[misc]
        @override
        def __reduce__(self) -> tuple[Any, ...]:
            return make_not_fitted_error, (message,)

    Joint.__name__ = Joint.__qualname__ = NotFittedError.__name__
    return Joint(message)
