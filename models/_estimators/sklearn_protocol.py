"""What scikit-learn's tools ask of an estimator: metadata routing and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from typing_extensions import override

from graphattn.models._estimators.state import EstimatorState


class ScikitLearn(EstimatorState):
    """Metadata routing and tags as scikit-learn's tools expect them."""

    def get_metadata_routing(self) -> Any:
        """Which arguments of ``fit`` and ``score`` are requested, as scikit-learn's ``MetadataRequest``."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):  # this name is copied by sklearn.base.clone
            requests = MetadataRequest(owner=type(self).__name__)
            for name in ("sample_weight", "dev", "callbacks"):
                requests.fit.add_request(param=name, alias=None)
            requests.score.add_request(param="sample_weight", alias=None)
            self._metadata_request = requests
        return self._metadata_request

    def set_fit_request(self, **aliases: bool | str | None) -> Self:
        """Which of ``sample_weight``, ``dev`` and ``callbacks`` a pipeline or search passes to ``fit``, or an alias."""
        return self._set_requests("fit", aliases)

    def set_score_request(self, **aliases: bool | str | None) -> Self:
        """Whether a pipeline or search passes ``sample_weight`` to ``score``, or an alias."""
        return self._set_requests("score", aliases)

    def _set_requests(self, method: str, aliases: Mapping[str, bool | str | None]) -> Self:
        requests = getattr(self.get_metadata_routing(), method)
        unknown = aliases.keys() - requests.requests.keys()
        if unknown:
            raise TypeError(f"{method} has no argument {min(unknown)!r}; it has: {', '.join(requests.requests)}")
        for name, alias in aliases.items():
            requests.add_request(param=name, alias=alias)
        return self

    @override
    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = self.task.estimator_type
        if tags.estimator_type == "classifier":
            tags.classifier_tags = ClassifierTags(multi_label=getattr(self, "multilabel", False))
        elif tags.estimator_type == "regressor":
            tags.regressor_tags = RegressorTags()
        tags.target_tags.required = tags.estimator_type is not None
        return tags
