"""Flags made of options, flags that several commands share, and groups that build commands when they are called."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.synonyms import find_meant
from graphattn.experiments._cli.user_modules import import_option
from graphattn.options import DEVICE_HELP, NOTATIONS, Option

Values = dict[str, Any]

Jobs = Annotated[int, typer.Option(min=1, help="Number of processes.")]
EngineName = Annotated[Literal["local", "ray"], typer.Option(help="Processes of this machine, or a Ray cluster.")]
Address = Annotated[str | None, typer.Option(help="Ray cluster to use (default: one on this machine).")]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Truncate longer texts (classifiers; default: as in training).")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, hints, or line about the file at the end.")]
Threshold = Annotated[
    str,
    typer.Option(
        help="Probability above which a label is predicted: of several labels 0.3 or film=0.3,plot=0.2; of two classes "
        "one of them, spam=0.3."
    ),
]
SearchChanges = Annotated[str, typer.Option(help="Changes of a translator's search, such as beam=8,length_penalty=1.")]
Longest = Annotated[
    int | None, typer.Option(min=1, help="Most sub-words of a source (translators; default: as in training).")
]
Precision = Annotated[
    Literal["32", "bf16", "int8", "auto"] | None,
    typer.Option(
        help="Number format of matrix products; auto is bf16 where the hardware supports it, else 32; int8 is the "
        "fastest on a CPU, and less exact (default: 32 on a CPU, auto on a GPU)."
    ),
]
Device = Annotated[str, typer.Option(help=f"Where the model runs: {DEVICE_HELP}.")]

_FLAGS = {"text": "text_column", "second": "second_column", "label": "label_column", "warm_start": "init_from"}
"""Options of readers -> their longer flags; a flag that gives a model to continue from sets the parameter."""


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
    name = _FLAGS.get(name, name).replace("_", "-")
    if value in ("True", "False"):
        return f"--{name}" if value == "True" else f"--no-{name}"
    return f"--{name} {value}".rstrip()


def merge_flags(alternatives: Mapping[str, Sequence[Option]], panel: str) -> list[Option]:
    """Merge the flags of alternatives, such as encoders; the help says which alternatives have a flag.

    The first alternative with a flag provides its help.
    """
    merged: dict[str, Option] = {}
    common = {flag.name for flags in alternatives.values() for flag in flags if flag.common}
    for flags in alternatives.values():
        for flag in flags:
            merged.setdefault(flag.name, replace(flag, panel=panel, common=flag.name in common))
    return [replace(flag, help=_merge_help(flag, alternatives)) for flag in merged.values()]


def _merge_help(flag: Option, alternatives: Mapping[str, Sequence[Option]]) -> str:
    """The help, with the alternatives that have the flag, and their defaults where they differ."""
    defaults = {
        name: other.default for name, flags in alternatives.items() for other in flags if other.name == flag.name
    }
    notes = [", ".join(defaults)] if len(defaults) < len(alternatives) else []
    notes += [f"{name}: {default}" for name, default in defaults.items() if default != flag.default]
    return f"{flag.help} ({'; '.join(notes)})" if notes else flag.help


def with_flags(**groups: Sequence[Option]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add groups of flags to a command; the parameter named like a group receives the values of its used flags.

    ``--help`` lists the common flags and the command's own, ``--help-all`` all of them.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        parameters = [p for p in signature.parameters.values() if p.name not in groups]
        flags = [flag for group in groups.values() for flag in group]
        parameters += map(_make_parameter, flags)
        hidden = sum(not flag.common for flag in flags)
        if hidden:
            parameters += [_make_help_all(hidden), _IMPORTED]

        @wraps(function)
        def command(**values: Any) -> None:
            words = {flag.name: values.pop(flag.name) for flag in flags}
            command_values = {name: value for name, value in values.items() if name not in ("help_all", "imported")}
            for name, group in groups.items():
                used = [flag for flag in group if words[flag.name] is not None]
                command_values[name] = {flag.name: _parse_argument(flag, words[flag.name]) for flag in used}
            function(**command_values)

        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _make_parameter(flag: Option) -> inspect.Parameter:
    """The parameter of a typer command; its value is None when the flag is absent."""
    name = as_flag(flag.name)
    shown = typer.Option(
        f"{name}/--no-{name[2:]}" if flag.value_type is bool else name,
        help=escape(flag.help + _describe_values(flag)),
        metavar="NAME" if flag.choices else NOTATIONS[flag.value_type].metavar,
        show_default=False,
        rich_help_panel=flag.panel,
        hidden=not flag.common,
    )
    word = {bool: bool, Sequence: list[str]}.get(flag.value_type, str)
    return _keyword(flag.name, None, Annotated[word | None, shown])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _describe_values(flag: Option) -> str:
    """Choices and default, to append to the help."""
    notes = [" | ".join(flag.choices)] if flag.choices else []
    if flag.value_type is bool:
        notes += ["default: on"] if flag.default else []
    elif flag.default not in (None, (), ""):
        notes.append(f"default: {','.join(flag.default) if flag.value_type is tuple else flag.default}")
    return f" [{'; '.join(notes)}]" if notes else ""


def _make_help_all(hidden: int) -> inspect.Parameter:
    """The flag ``--help-all`` of a command with this number of hidden flags."""

    def show(context: typer.Context, requested: bool) -> None:
        if requested and not context.resilient_parsing:
            for parameter in context.command.params:
                parameter.hidden = False  # type: ignore[attr-defined]
            print(context.get_help(), end="")  # rich has printed it
            raise typer.Exit()

    about = f"Show all options, {hidden} more than --help, and exit."
    declared = typer.Option("--help-all", is_eager=True, callback=show, help=about)
    return _keyword("help_all", False, Annotated[bool, declared])


_IMPORTED = _keyword("imported", None, Annotated[list[str] | None, import_option(hidden=True)])
"""``--import`` of a command, for its help: before arguments are parsed, its values are moved before the command."""


def _parse_argument(flag: Option, word: Any) -> Any:
    try:
        return flag.parse(word)
    except ConfigError as error:
        message = str(error).removeprefix(f"{flag.name} is ")
        raise typer.BadParameter(message, param_hint=as_flag(flag.name)) from error


class LazyGroup(TyperGroup):
    """Commands that are built when they are called; ``--help`` needs only their summaries."""

    @abstractmethod
    def list_summaries(self) -> Mapping[str, str]:
        """Name of each command -> one line about it."""

    @abstractmethod
    def build_command(self, name: str, arguments: Sequence[str]) -> TyperCommand | TyperGroup:
        """The command, which is called with these arguments."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.list_summaries())

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        summary = self.list_summaries().get(cmd_name)
        return None if summary is None else TyperCommand(cmd_name, help=summary)

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        summaries = self.list_summaries()  # to suggest similar names
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in summaries.items()}
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.build_command(str(name), rest), rest


class Command(TyperCommand):
    """A command that suggests its own flags and arguments for one that does not exist."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # typer's NoSuchOption, which is private
                self._suggest(error)
            raise

    def _suggest(self, error: Any) -> None:
        flags = {flag.lstrip("-"): flag for parameter in self.params for flag in parameter.opts if flag[:2] == "--"}
        arguments = {
            str(p.name): p.metavar or str(p.name).upper() for p in self.params if p.param_type_name == "argument"
        }
        meant = find_meant(error.option_name, [*flags, *arguments])
        error.possibilities = [flags[name] for name in meant if name in flags]
        named = [arguments[name] for name in meant if name in arguments]
        if named and not error.possibilities:
            error.message += f" ({' or '.join(named)} is given without a flag)"


def make_command(function: Callable[..., None], about: str, examples: str) -> Any:
    """A command outside of any group."""
    single = typer.Typer(add_completion=False)
    single.command(cls=Command, help=about, epilog=examples)(function)
    return typer.main.get_command(single)
