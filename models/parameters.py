"""Parameters as in scikit-learn (``get_params``, ``set_params``, ``__sklearn_tags__``), without its slow import."""

from __future__ import annotations

import inspect
from collections import defaultdict
from typing import Any, TypeVar

from typing_extensions import override

ParametersT = TypeVar("ParametersT", bound="Parameters")


class Parameters:
    """A class that stores each argument of ``__init__`` in an attribute of the same name; all have defaults.

    Examples
    --------
    >>> class Tower(Parameters):
    ...     def __init__(self, height=1, top=None):
    ...         self.height, self.top = height, top
    >>> Tower(top=Tower(2)).set_params(top__height=3)
    Tower(top=Tower(height=3))
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name -> value; ``deep`` adds nested parameters as ``outer__inner``."""
        params: dict[str, Any] = {}
        for name in _names(type(self)):
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{inner}": part for inner, part in value.get_params().items()})
        return params

    def set_params(self: ParametersT, **params: Any) -> ParametersT:
        """Change parameters, also nested ones as ``outer__inner``; unknown names raise ``ValueError``."""
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
        for name, values in nested.items():
            part = self._get_nested(name)
            if not hasattr(part, "set_params"):
                invalid = next(iter(values))
                raise ValueError(f"Invalid parameter {invalid!r} for {name}={part!r}, which has no parameters.")
            part.set_params(**values)
        return self

    def _get_nested(self, name: str) -> Any:
        """The parameter whose parameters :meth:`set_params` is about to change."""
        return getattr(self, name)

    @override
    def __repr__(self) -> str:
        values, defaults = (vars_of.get_params(deep=False) for vars_of in (self, type(self)()))
        texts = {name: (_repr(value), _repr(defaults[name])) for name, value in values.items()}
        changed = [f"{name}={text}" for name, (text, default) in texts.items() if text != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        texts = InputTags(one_d_array=True, string=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=texts)


def _names(kind: type) -> list[str]:
    return list(inspect.signature(kind.__init__).parameters)[1:]  # type: ignore[misc]


def _repr(value: Any) -> str:
    """Nested parameters in the same short form, whatever ``__repr__`` a dataclass gave them."""
    return Parameters.__repr__(value) if isinstance(value, Parameters) else repr(value)
