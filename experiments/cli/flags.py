"""Option dataclasses as flags and YAML keys: the fields' types, defaults and help are written down once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

from graphattn.exceptions import ConfigError

Values = dict[str, Any]
_METAVARS: dict[type, str | None] = {
    bool: None,
    int: "INTEGER",
    float: "NUMBER",
    str: "TEXT",
    tuple: "LIST",
    object: "INTEGER|LIST",
}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Flag:
    """One option: ``--learning-rate`` on the command line, ``learning_rate`` in a YAML file.

    Parameters
    ----------
    name : as in the dataclass and in YAML
    kind : bool, int, float, str, tuple for a list of texts, or object for a whole number or a text with counts
    optional : whether it may be none
    default : its value when nobody says anything
    help : one line
    choices : the values it may take; None for any
    panel : heading it stands under in ``--help``
    """

    name: str
    kind: type
    optional: bool
    default: Any
    help: str
    choices: tuple[str, ...] | None = None
    panel: str | None = None

    @property
    def flag(self) -> str:
        """What it is called on the command line."""
        return as_flag(self.name)

    def parse(self, value: Any) -> Any:
        """The value that a word of the command line, or a YAML value, stands for.

        Raises
        ------
        ConfigError
            saying what it must be

        Examples
        --------
        >>> Flag("clip", float, True, 5.0, "largest norm").parse("none") is None
        True
        >>> Flag("scales", tuple, False, (), "window widths").parse("1, 3, N/16")
        ('1', '3', 'N/16')
        """
        if self.optional and (value is None or value == "none"):
            return None
        parsed = _PARSERS[self.kind](value)
        if parsed is None:
            expected = _EXPECTED[self.kind] + (", or none" if self.optional else "")
            raise ConfigError(f"{{{self.name}}} is {value!r}; it must be {expected}", options=(self.name,))
        if self.choices and parsed not in self.choices:
            raise ConfigError(
                f"{{{self.name}}} is {value!r}; choose one of: {', '.join(self.choices)}", options=(self.name,)
            )
        return parsed

    def as_parameter(self) -> inspect.Parameter:
        """The parameter of a typer command; its value is None when the flag is not given."""
        declared = f"{self.flag}/--no-{self.flag[2:]}" if self.kind is bool else self.flag
        shown = typer.Option(
            declared,
            help=escape(self.help + self._possible_values()),
            metavar=_METAVARS[self.kind] if not self.choices else "NAME",
            show_default=False,
            rich_help_panel=self.panel,
        )
        kind = bool if self.kind is bool else str
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, shown]
        )

    def _possible_values(self) -> str:
        """What to say of choices and default behind the help; nothing of a default that says nothing."""
        notes = ["|".join(self.choices)] if self.choices else []
        if self.kind is bool:
            notes += ["default: on"] if self.default else []
        elif self.default not in (None, ()):
            notes.append(f"default: {','.join(self.default) if self.kind is tuple else self.default}")
        return f" [{'; '.join(notes)}]" if notes else ""


_READER_OPTIONS = {"text": "text_column", "second": "second_column", "label": "label_column"}
"""Options of readers -> their longer flags."""


def as_flag(name: str) -> str:
    """The flag of an option, or of an option with its value.

    Examples
    --------
    >>> as_flag("text_column"), as_flag("level=word"), as_flag("multilabel=True"), as_flag("resume=False")
    ('--text-column', '--level word', '--multilabel', '--no-resume')
    >>> as_flag("label")
    '--label-column'
    """
    name, _, value = name.partition("=")
    name = _READER_OPTIONS.get(name, name).replace("_", "-")
    if value in ("True", "False"):
        return f"--{name}" if value == "True" else f"--no-{name}"
    return f"--{name} {value}".rstrip()


def flags_of(options: Any, panel: str | None = None, *, without: Collection[str] = ()) -> list[Flag]:
    """The flags of a dataclass; defaults are those of the instance.

    Parameters
    ----------
    options : an instance; the metadata of its fields have ``help`` and ``choices``
    panel : heading in ``--help``
    without : fields to leave out
    """
    hints = get_type_hints(type(options))
    return [
        Flag(
            item.name,
            *_kind(hints[item.name]),
            getattr(options, item.name),
            item.metadata["help"],
            item.metadata.get("choices"),
            panel,
        )
        for item in fields(options)
        if item.name not in without
    ]


def merged_flags(alternatives: Mapping[str, Sequence[Flag]], panel: str) -> list[Flag]:
    """The flags of several alternatives (encoders, say), shared names once; the help says what holds for which.

    Parameters
    ----------
    alternatives : name -> its flags; of two helps the first alternative's is shown
    panel : heading in ``--help``
    """
    merged: dict[str, Flag] = {}
    for own in alternatives.values():
        for flag in own:
            merged.setdefault(flag.name, flag)
    owners = {name: [a for a, own in alternatives.items() if any(f.name == name for f in own)] for name in merged}
    return [replace(flag, panel=panel, help=_owned(flag, owners[flag.name], alternatives)) for flag in merged.values()]


def _owned(flag: Flag, owners: Sequence[str], alternatives: Mapping[str, Sequence[Flag]]) -> str:
    """The help, with the alternatives that have the flag or another default for it."""
    notes = [", ".join(owners)] if len(owners) < len(alternatives) else []
    for owner in owners:
        default = next(own.default for own in alternatives[owner] if own.name == flag.name)
        if default != flag.default:
            notes.append(f"{owner}: {default}")
    return f"{flag.help} ({'; '.join(notes)})" if notes else flag.help


def with_flags(flags: Sequence[Flag]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command flags besides the parameters of its own; its parameter ``given`` gets those that were used.

    Parameters
    ----------
    flags : what to add, in the order of ``--help``
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        parameters = [p for p in signature.parameters.values() if p.name != "given"]
        parameters += [flag.as_parameter() for flag in flags]

        @wraps(function)
        def command(**values: Any) -> None:
            words = {flag: values.pop(flag.name) for flag in flags}
            given = {flag.name: _from_command_line(flag, word) for flag, word in words.items() if word is not None}
            function(**values, given=given)

        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _from_command_line(flag: Flag, word: Any) -> Any:
    try:
        return flag.parse(word)
    except ConfigError as error:
        raise typer.BadParameter(str(error).removeprefix(f"{flag.name} is "), param_hint=flag.flag) from error


def _kind(hint: Any) -> tuple[type, bool]:
    """Type of a field, and whether it may be None."""
    if get_origin(hint) in (Union, types.UnionType):
        if {int, str} <= set(get_args(hint)):
            return object, type(None) in get_args(hint)
        kind = next(part for part in get_args(hint) if part is not type(None))
        return _kind(kind)[0], True
    return get_origin(hint) or hint, False


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _TRUTH.get(str(value).lower())


def _number(kind: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if isinstance(value, bool) or (kind is int and isinstance(value, float)):
            return None
        try:
            return kind(value)
        except (TypeError, ValueError):
            return None

    return parse


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = [] if value.strip() in ("", "none") else value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(part, str | int) for part in value):
        return None
    return tuple(str(part).strip() for part in value)


def _count_or_counts(value: Any) -> Any:
    """A whole number; or a text such as ``window:3=4,star=2``, which YAML may also write as a mapping or a list."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    count = _number(int)(value)
    return _text(value) if count is None else count


_PARSERS: dict[type, Callable[[Any], Any]] = {
    bool: _truth,
    int: _number(int),
    float: _number(float),
    str: _text,
    tuple: _texts,
    object: _count_or_counts,
}
_EXPECTED: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text (in quotes if it looks like a number)",
    tuple: "a list of texts",
    object: "a whole number, or relations with their numbers such as window:3=4",
}
