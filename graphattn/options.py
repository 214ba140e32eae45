"""Options as dataclasses: one definition for constructors, validation, flags, YAML, saved JSON and help.

Importing this loads neither NumPy nor PyTorch, so that ``--help`` is quick; functions import NumPy for models only.
"""

from __future__ import annotations

import inspect
import os
import types
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from typing_extensions import override

from graphattn._json_types import check_json
from graphattn._validation import require_choice, require_multiple, require_range, suggest
from graphattn.exceptions import ConfigError, verbatim

_BOUNDS = ("min", "max", "above", "below")


def option(
    default: Any,
    help: str,
    *,
    choices: Collection[str] | None = None,
    min: float | None = None,
    max: float | None = None,
    above: float | None = None,
    below: float | None = None,
    multiple_of: int | str | None = None,
    common: bool = False,
    **facts: Any,
) -> Any:
    """A dataclass field with its help text and bounds.

    Parameters
    ----------
    default : its default value
    help : one line for ``--help``
    choices : all allowed values; those of a registry, which may grow, are its dict
    min, max : inclusive bounds
    above, below : exclusive bounds
    multiple_of : a number, or the name of another option of the same dataclass
    common : list it in ``--help``; other options are listed in ``--help-all`` only
    facts : further metadata of the field
    """
    bounds = {"min": min, "max": max, "above": above, "below": below, "multiple_of": multiple_of}
    metadata = {
        "help": help,
        "choices": choices,
        "common": common,
        **{name: value for name, value in bounds.items() if value is not None},
        **facts,
    }
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class Parameters:
    """Parameters as in scikit-learn (``get_params``, ``set_params``, ``__sklearn_tags__``), without its slow import.

    A subclass stores each argument of ``__init__`` in an attribute of the same name; all have defaults.

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
        for name in _argument_names(type(self)):
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{inner}": nested for inner, nested in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters, also nested ones as ``outer__inner``; unknown names raise ``ValueError``."""
        nested: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        known = _argument_names(type(self))
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise ValueError(f"Invalid parameter {outer!r} for {self}. Valid parameters are: {known!r}.")
            if inner:
                nested[outer][inner] = value
            else:
                setattr(self, outer, value)
        for name, values in nested.items():
            owner = copy(self._get_nested(name))  # others may share it
            if not hasattr(owner, "set_params"):
                invalid = next(iter(values))
                raise ValueError(f"Invalid parameter {invalid!r} for {name}={owner!r}, which has no parameters.")
            setattr(self, name, owner.set_params(**values))
        return self

    def _get_nested(self, name: str) -> Any:
        """The parameter whose parameters :meth:`set_params` is about to change."""
        return getattr(self, name)

    @override
    def __repr__(self) -> str:
        values, defaults = (vars_of.get_params(deep=False) for vars_of in (self, type(self)()))
        texts = {name: (_shorten(value), _shorten(defaults[name])) for name, value in values.items()}
        changed = [f"{name}={text}" for name, (text, default) in texts.items() if text != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        texts = InputTags(one_d_array=True, string=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=texts)


def _argument_names(owner: type) -> list[str]:
    return list(inspect.signature(owner.__init__).parameters)[1:]  # type: ignore[misc]


def _shorten(value: Any) -> str:
    """Nested parameters in the same short form, whatever ``__repr__`` a dataclass gave them."""
    return Parameters.__repr__(value) if isinstance(value, Parameters) else repr(value)


@dataclass
class Options(Parameters):
    """Base of all options; fields are nested parameters for scikit-learn (``training__epochs``).

    An instance stores the options that were set; the others have the default of the class, or in an estimator that of
    its preset or pretrained model. ``dataclasses.replace`` sets all of them, ``set_params`` only those that it names.
    """

    def __new__(cls, /, *values: Any, **named: Any) -> Self:
        """Note which options are passed to ``__init__``."""
        options = super().__new__(cls)
        if values or named:  # not in unpickling
            vars(options)["_passed"] = {*[item.name for item in fields(cls)][: len(values)], *named}
        return options

    def __post_init__(self) -> None:
        """Remove the defaults that ``__init__`` stored, so that ``vars`` has what was passed."""
        passed = vars(self).pop("_passed", ())
        for item in fields(self):
            if item.name not in passed and item.default is not MISSING:
                delattr(self, item.name)

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)  # scikit-learn's own way passes all options, and so sets them

    def fill(self) -> Self:
        """A copy that stores all options: those that were not set have the defaults of the class."""
        return self.keep([item.name for item in fields(self)])

    def validate(self) -> None:
        """Check each option's type and bounds, then the rules between options.

        Raises
        ------
        ConfigError
            naming the option, and its type or bounds
        """
        self._check_types()
        for item in fields(self):
            value, choices = getattr(self, item.name), item.metadata.get("choices")
            bounds = {name: item.metadata[name] for name in _BOUNDS if name in item.metadata}
            if value is not None and choices and not isinstance(value, Mapping):  # classes are known later
                require_choice(item.name, value, choices)
            if value is not None and bounds:
                require_range(item.name, value, **bounds)
        for item in fields(self):
            divisor = item.metadata.get("multiple_of")
            if isinstance(divisor, str):
                require_multiple(item.name, getattr(self, item.name), getattr(self, divisor), divisor)
            elif divisor is not None:
                require_multiple(item.name, getattr(self, item.name), divisor)
        self.check()

    def _check_types(self) -> None:
        """Reject values that a saved model could not have."""
        kind: Any = type(self)
        for name, hint in _list_hints(kind).items():
            value = getattr(self, name)
            try:
                check_json(_to_plain(value), hint, name)
            except ValueError:
                value_type, optional = _find_value_type(hint)
                expected = NOTATIONS[value_type].expected + (", or None" if optional else "")
                problem = f"{{{name}}} is {verbatim(repr(value))}; it must be {expected}"
                raise ConfigError(problem, options=(name,)) from None

    def check(self) -> None:
        """Check the rules between options; :meth:`validate` calls it after the bounds."""

    def copy(self) -> Self:
        """A copy whose values are plain Python objects."""
        return self.keep(vars(self))

    def keep(self, names: Collection[str]) -> Self:
        """A copy in which only these options are set; its values are plain Python objects."""
        kept = [item.name for item in fields(self) if item.name in names]
        return type(self)(**{name: _to_plain(getattr(self, name)) for name in kept})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``config.json``."""
        return asdict(self.copy())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Options from plain values.

        Raises
        ------
        ConfigError
            for an unknown name
        """
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            hint = f"{suggest(unknown[0], known)}it has"
            raise ConfigError(f"{cls.__name__} has no option {unknown[0]!r}; {hint}: {', '.join(sorted(known))}")
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})

    @classmethod
    def from_values(cls, values: Mapping[str, Any], **changes: Any) -> Self:
        """The options among these values; others are ignored."""
        chosen = {item.name: values[item.name] for item in fields(cls) if item.name in values}
        return cls(**{**chosen, **changes})


def _to_plain(value: Any) -> Any:
    """Paths, scales, sequences and NumPy scalars as plain Python values."""
    import numpy as np

    from graphattn._scales import Scale

    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Scale):
        return str(value)
    if isinstance(value, Mapping):
        return {_to_plain(name): _to_plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(map(_to_plain, value))
    value = value.item() if isinstance(value, np.generic) else value
    return float(value) if isinstance(value, Real) and not isinstance(value, (int, float)) else value


@dataclass(frozen=True)
class Notation:
    """Notation of the values of a type on the command line and in YAML."""

    parse: Callable[[Any], Any]  # an argument or a YAML value -> the value; None if it has another type
    expected: str  # what an error says that it must be
    metavar: str | None  # its name in ``--help``


def _parse_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())


def _parse_number(number: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if isinstance(value, bool) or (number is int and isinstance(value, float)):
            return None
        try:
            return number(value)
        except (TypeError, ValueError):
            return None

    return parse


def _parse_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_path(value: Any) -> Path | None:
    return Path(value) if isinstance(value, str) else None


def _parse_list(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = [] if value.strip() in ("", "none") else value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int) for item in value):
        return None
    return tuple(str(item).strip() for item in value)


def _parse_repeated(value: Any) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    return tuple(values) if isinstance(values, list | tuple) and all(isinstance(item, str) for item in values) else None


def _parse_counts(value: Any) -> Any:
    """An integer, or a string such as ``window:3=4,star=2``; YAML may also give a mapping or a list."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    count = _parse_number(int)(value)
    return _parse_text(value) if count is None else count


def split_items(text: str, sign: str) -> list[str]:
    """Split at commas into items that contain a sign; a part without it begins the next, as names may have commas."""
    items, begun = list[str](), ""
    for part in text.split(","):
        begun += part
        if sign in part:
            items.append(begun.strip())
            begun = ""
        else:
            begun += ","
    return [*items, begun[:-1].strip()] if begun else items


def parse_assignments(text: str) -> dict[str, float] | None:
    """Numbers by name, as in ``spam=5,ham=1``; None for another text.

    Examples
    --------
    >>> parse_assignments("spam=5, ham=0.5"), parse_assignments("spam")
    ({'spam': 5.0, 'ham': 0.5}, None)
    >>> parse_assignments("good, very=2,bad=1")
    {'good, very': 2.0, 'bad': 1.0}
    """
    numbers = {}
    for assignment in split_items(text, "="):
        name, sign, value = assignment.rpartition("=")
        number = _parse_number(float)(value)
        if not sign or number is None:
            return None
        numbers[name.strip()] = number
    return numbers


def _parse_weights(value: Any) -> Any:
    """``balanced``, or a number for each class; YAML gives a mapping."""
    if isinstance(value, Mapping):
        numbers = {str(name): _parse_number(float)(number) for name, number in value.items()}
        return None if None in numbers.values() else numbers
    return value if value == "balanced" else parse_assignments(value) if isinstance(value, str) else None


NOTATIONS: dict[type, Notation] = {
    bool: Notation(_parse_bool, "true or false", None),
    int: Notation(_parse_number(int), "a whole number", "INTEGER"),
    float: Notation(_parse_number(float), "a number", "NUMBER"),
    str: Notation(_parse_text, "a text (in quotes if it looks like a number)", "TEXT"),
    Path: Notation(_parse_path, "a path", "PATH"),
    tuple: Notation(_parse_list, "a list of texts", "LIST"),
    Sequence: Notation(_parse_repeated, "a text, or a list of texts", "TEXT"),
    Mapping: Notation(_parse_weights, "balanced, or classes with their weights such as spam=5,ham=1", "balanced|LIST"),
    object: Notation(
        _parse_counts, "a whole number, or relations with their numbers such as window:3=4", "INTEGER|LIST"
    ),
}
"""Type in an annotation -> how values are written: a tuple is strings with commas on the command line, a Sequence
strings with a flag for each, an object a number or a string with counts."""


@dataclass(frozen=True)
class Option:
    """One option: ``--learning-rate`` on the command line, ``learning_rate`` in a YAML file."""

    name: str  # name in the dataclass and in YAML
    value_type: type  # a key of :data:`NOTATIONS`
    optional: bool  # whether it may be none
    default: Any
    help: str  # one line
    choices: tuple[str, ...] | None = None  # allowed values; None for any
    panel: str | None = None  # heading in ``--help``
    common: bool = False  # whether ``--help`` lists it; ``--help-all`` lists all options

    def parse(self, value: Any) -> Any:
        """Parse a command-line argument or a YAML value.

        Examples
        --------
        >>> Option("clip", float, True, 5.0, "largest norm").parse("none") is None
        True
        >>> Option("scales", tuple, False, (), "window widths").parse("1, 3, N/16")
        ('1', '3', 'N/16')
        """
        if self.optional and value in (None, "none", ["none"]):
            return None
        notation = NOTATIONS[self.value_type]
        parsed = notation.parse(value)
        if parsed is None:
            expected = notation.expected + (", or none" if self.optional else "")
            raise ConfigError(f"{{{self.name}}} is {value!r}; it must be {expected}", options=(self.name,))
        for value in (parsed if self.value_type is Sequence else [parsed]) if self.choices else ():
            require_choice(self.name, value, self.choices or ())
        return parsed


def list_options(
    options: Options | type[Options], panel: str | None = None, *, without: Collection[str] = ()
) -> list[Option]:
    """Describe the fields of a class of options, or of an instance, whose values are then the defaults.

    ``panel`` is the heading in ``--help``; fields in ``without`` are omitted.
    """
    owner: Any = options if isinstance(options, type) else type(options)
    hints = _list_hints(owner)
    return [
        Option(
            item.name,
            *_find_value_type(hints[item.name]),
            getattr(options, item.name),
            item.metadata["help"],
            tuple(item.metadata["choices"] or ()) or None,
            panel,
            item.metadata["common"],
        )
        for item in fields(options)
        if item.name not in without
    ]


@cache
def _list_hints(options: type[Any]) -> dict[str, Any]:
    """Option -> its annotation."""
    hints = get_type_hints(options)
    return {item.name: hints[item.name] for item in fields(options)}


def _find_value_type(hint: Any) -> tuple[type, bool]:
    """The key of an annotation in :data:`NOTATIONS`, and whether the value may be None."""
    if get_origin(hint) in (Union, types.UnionType):
        if {int, str} <= set(get_args(hint)):
            return object, type(None) in get_args(hint)
        inner = next(argument for argument in get_args(hint) if argument is not type(None))
        return _find_value_type(inner)[0], True
    return get_origin(hint) or hint, False


DEVICE_HELP = "cpu, cuda, cuda:1 or mps; auto is a GPU of CUDA if there is one, else the CPU"
"""Help of the option ``device``."""


@dataclass
class ParsingOptions(Options):
    """How texts without heads are parsed, for encoders that use dependency arcs; they may change after training."""

    parser: str = option("none", "parser of texts without heads", choices=("none", "stanza", "spacy"), common=True)
    parser_language: str = option("en", "language of Stanza's models")
    parser_package: str = option("default", "name of Stanza's models")
    parser_model: str | None = option(
        None, "folder of Stanza's models (default: its own folder); of spaCy the name or folder of a pipeline"
    )
    parse_cache: str | None = option("auto", "file that caches parses, or none; auto: one in the user's cache folder")
    parser_device: str | None = option(None, "cpu, cuda or cuda:1 (default: a GPU if there is one)")
