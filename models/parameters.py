"""Parameters as scikit-learn expects of an estimator, without loading scikit-learn, which takes longer than predicting.

scikit-learn's tools ask for methods, not for a base class: ``get_params``, ``set_params`` and ``__sklearn_tags__``.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from typing import Any, TypeVar

ParametersT = TypeVar("ParametersT", bound="Parameters")


class Parameters:
    """A class whose parameters are the arguments of ``__init__``, kept in attributes of the same names.

    Every argument has a default.

    Examples
    --------
    >>> class Tower(Parameters):
    ...     def __init__(self, height=1, top=None):
    ...         self.height, self.top = height, top
    >>> Tower(top=Tower(2)).set_params(top__height=3)
    Tower(top=Tower(height=3))
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name -> value.

        Parameters
        ----------
        deep : also the parameters of parameters, under ``outer__inner``
        """
        params: dict[str, Any] = {}
        for name in _names(type(self)):
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{inner}": own for inner, own in value.get_params().items()})
        return params

    def set_params(self: ParametersT, **params: Any) -> ParametersT:
        """Change parameters, also those of parameters, as ``outer__inner``.

        Raises
        ------
        ValueError
            for a name that does not exist, as scikit-learn does
        """
        nested: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        known = _names(type(self))
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ValueError(f"Invalid parameter {outer!r} for {self}. Valid parameters are: {known!r}.")
            if inner:
                nested[outer][inner] = value
            else:
                setattr(self, outer, value)
        for name, own in nested.items():
            part = self._part(name)
            if not hasattr(part, "set_params"):
                raise ValueError(f"Invalid parameter {next(iter(own))!r} for {name}={part!r}, which has no parameters.")
            part.set_params(**own)
        return self

    def _part(self, name: str) -> Any:
        """The parameter whose own parameters are to be changed."""
        return getattr(self, name)

    def __repr__(self) -> str:
        own, plain = self.get_params(deep=False), type(self)().get_params(deep=False)
        changed = [f"{name}={_text(own[name])}" for name in own if _text(own[name]) != _text(plain[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def _names(kind: type) -> list[str]:
    """The arguments of ``__init__``."""
    return list(inspect.signature(kind.__init__).parameters)[1:]  # type: ignore[misc]


def _text(value: Any) -> str:
    """Parameters of parameters as short as their owner's, whatever ``__repr__`` a dataclass gave them."""
    return Parameters.__repr__(value) if isinstance(value, Parameters) else repr(value)
