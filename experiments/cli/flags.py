"""Flags and YAML keys from option dataclasses, which define types, defaults and help once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.user_modules import import_option
from graphattn.validation import require_choice

Values = dict[str, Any]
OptionsT = TypeVar("OptionsT")
_METAVARS: dict[type, str | None] = {
    bool: None,
    int: "INTEGER",
    float: "NUMBER",
    str: "TEXT",
    tuple: "LIST",
    Sequence: "TEXT",
    object: "INTEGER|LIST",
}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Flag:
    """One option: ``--learning-rate`` on the command line, ``learning_rate`` in a YAML file.

    Parameters
    ----------
    name : as in the dataclass and in YAML
    kind : bool, int, float, str, tuple (strings, with commas on the command line), Sequence (strings, with a flag
        for each), or object (a number, or a string with counts)
    optional : whether it may be none
    default : its default value
    help : one line
    choices : allowed values; None for any
    panel : heading in ``--help``
    common : whether ``--help`` lists it; ``--help-all`` lists all flags
    """

    name: str
    kind: type
    optional: bool
    default: Any
    help: str
    choices: tuple[str, ...] | None = None
    panel: str | None = None
    common: bool = False

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return as_flag(self.name)

    def parse(self, value: Any) -> Any:
        """Parse a command-line argument or a YAML value.

        Raises
        ------
        ConfigError
            when the value has the wrong type

        Examples
        --------
        >>> Flag("clip", float, True, 5.0, "largest norm").parse("none") is None
        True
        >>> Flag("scales", tuple, False, (), "window widths").parse("1, 3, N/16")
        ('1', '3', 'N/16')
        """
        if self.optional and value in (None, "none", ["none"]):
            return None
        parsed = _PARSERS[self.kind](value)
        if parsed is None:
            expected = _EXPECTED[self.kind] + (", or none" if self.optional else "")
            raise ConfigError(f"{{{self.name}}} is {value!r}; it must be {expected}", options=(self.name,))
        if self.choices:
            require_choice(self.name, parsed, self.choices)
        return parsed

    def as_parameter(self) -> inspect.Parameter:
        """The parameter of a typer command; its value is None when the flag is absent."""
        declared = f"{self.flag}/--no-{self.flag[2:]}" if self.kind is bool else self.flag
        shown = typer.Option(
            declared,
            help=escape(self.help + self._describe_values()),
            metavar=_METAVARS[self.kind] if not self.choices else "NAME",
            show_default=False,
            rich_help_panel=self.panel,
            hidden=not self.common,
        )
        kind = {bool: bool, Sequence: list[str]}.get(self.kind, str)
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, shown]
        )

    def _describe_values(self) -> str:
        """Choices and default, to append to the help."""
        notes = [" | ".join(self.choices)] if self.choices else []
        if self.kind is bool:
            notes += ["default: on"] if self.default else []
        elif self.default not in (None, (), ""):
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
    options : an instance; its fields are made by :func:`graphattn.models.options.option`
    panel : heading in ``--help``
    without : fields to omit
    """
    hints = get_type_hints(type(options))
    return [
        Flag(
            item.name,
            *_field_type(hints[item.name]),
            getattr(options, item.name),
            item.metadata["help"],
            item.metadata.get("choices"),
            panel,
            item.metadata.get("common", False),
        )
        for item in fields(options)
        if item.name not in without
    ]


def option_group(values: Values, kind: type[OptionsT], **changes: Any) -> OptionsT:
    """The options of one dataclass among these values."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    return kind(**{**{name: values[name] for name in names if name in values}, **changes})


def merge_flags(alternatives: Mapping[str, Sequence[Flag]], panel: str) -> list[Flag]:
    """Merge the flags of alternatives, such as encoders; the help says which alternatives have a flag.

    Parameters
    ----------
    alternatives : name -> its flags; the first alternative with a flag provides its help
    panel : heading in ``--help``
    """
    merged: dict[str, Flag] = {}
    common = {flag.name for flags in alternatives.values() for flag in flags if flag.common}
    for flags in alternatives.values():
        for flag in flags:
            merged.setdefault(flag.name, replace(flag, panel=panel, common=flag.name in common))
    return [replace(flag, help=_merge_help(flag, alternatives)) for flag in merged.values()]


def _merge_help(flag: Flag, alternatives: Mapping[str, Sequence[Flag]]) -> str:
    """The help, with the alternatives that have the flag, and their defaults where they differ."""
    defaults = {
        name: other.default for name, flags in alternatives.items() for other in flags if other.name == flag.name
    }
    notes = [", ".join(defaults)] if len(defaults) < len(alternatives) else []
    notes += [f"{name}: {default}" for name, default in defaults.items() if default != flag.default]
    return f"{flag.help} ({'; '.join(notes)})" if notes else flag.help


def with_flags(flags: Sequence[Flag]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add flags to a command; its parameter ``given`` receives the values of those in use.

    ``--help`` lists the common flags and the command's own, ``--help-all`` all of them.

    Parameters
    ----------
    flags : the flags, in the order of ``--help``
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        parameters = [p for p in signature.parameters.values() if p.name != "given"]
        parameters += [flag.as_parameter() for flag in flags]
        parameters += [_help_all(sum(not flag.common for flag in flags)), _IMPORTED]

        @wraps(function)
        def command(*, help_all: bool, imported: list[str] | None, **values: Any) -> None:
            words = {flag: values.pop(flag.name) for flag in flags}
            given = {flag.name: _parse_argument(flag, word) for flag, word in words.items() if word is not None}
            function(**values, given=given)

        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _help_all(hidden: int) -> inspect.Parameter:
    """The flag ``--help-all`` of a command with this number of hidden flags."""

    def show(context: typer.Context, requested: bool) -> None:
        if requested and not context.resilient_parsing:
            for parameter in context.command.params:
                parameter.hidden = False  # type: ignore[attr-defined]
            print(context.get_help(), end="")  # rich has printed it
            raise typer.Exit()

    about = f"Show all options, {hidden} more than --help, and exit."
    declared = typer.Option("--help-all", is_eager=True, callback=show, help=about)
    return inspect.Parameter(
        "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, declared]
    )


_IMPORTED = inspect.Parameter(
    "imported",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[list[str] | None, import_option(hidden=True)],
)
"""``--import`` of a command, for its help: before arguments are parsed, its values are moved before the command."""


def _parse_argument(flag: Flag, word: Any) -> Any:
    try:
        return flag.parse(word)
    except ConfigError as error:
        raise typer.BadParameter(str(error).removeprefix(f"{flag.name} is "), param_hint=flag.flag) from error


def _field_type(hint: Any) -> tuple[type, bool]:
    """Type of a field, and whether it may be None."""
    if get_origin(hint) in (Union, types.UnionType):
        if {int, str} <= set(get_args(hint)):
            return object, type(None) in get_args(hint)
        kind = next(part for part in get_args(hint) if part is not type(None))
        return _field_type(kind)[0], True
    return get_origin(hint) or hint, False


def _parse_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _TRUTH.get(str(value).lower())


def _parse_number(kind: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if isinstance(value, bool) or (kind is int and isinstance(value, float)):
            return None
        try:
            return kind(value)
        except (TypeError, ValueError):
            return None

    return parse


def _parse_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_list(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = [] if value.strip() in ("", "none") else value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(part, str | int) for part in value):
        return None
    return tuple(str(part).strip() for part in value)


def _parse_repeated(value: Any) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    return tuple(values) if isinstance(values, list | tuple) and all(isinstance(part, str) for part in values) else None


def _parse_counts(value: Any) -> Any:
    """An integer, or a string such as ``window:3=4,star=2``; YAML may also give a mapping or a list."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    count = _parse_number(int)(value)
    return _parse_text(value) if count is None else count


_PARSERS: dict[type, Callable[[Any], Any]] = {
    bool: _parse_bool,
    int: _parse_number(int),
    float: _parse_number(float),
    str: _parse_text,
    tuple: _parse_list,
    Sequence: _parse_repeated,
    object: _parse_counts,
}
_EXPECTED: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text (in quotes if it looks like a number)",
    tuple: "a list of texts",
    Sequence: "a text, or a list of texts",
    object: "a whole number, or relations with their numbers such as window:3=4",
}
