"""The command ``graphattn``: its commands, and the one place that prints errors."""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import getdoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from graphattn import __version__
from graphattn.exceptions import GraphAttnError, GraphAttnWarning, Hint, MissingPackageError
from graphattn.experiments.cli import (
    bench,
    build,
    demo,
    encode,
    evaluate,
    info,
    inspect,
    predict,
    reproduce,
    show,
    train,
    tune,
)
from graphattn.experiments.cli.chunks import RESUME
from graphattn.experiments.cli.flags import as_flag
from graphattn.experiments.cli.user_modules import (
    describe_failure,
    find_values,
    import_modules,
    import_option,
    modules_in_environment,
)

WRONG, NOT_INSTALLED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
"""Exit codes of an error, of Ctrl-C or SIGTERM, and of a closed pipe (the last two as a shell reports SIGINT and
SIGPIPE); 2: usage."""


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FIRST = ["demo", "train", "evaluate", "predict", "inspect", "build"]
"""Commands listed first in ``--help``."""
_RESUMED = {"train", "build", "reproduce", "tune"}
"""Commands that resume."""


class Commands(TyperGroup):
    """All commands; an error becomes one line on standard error, without a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of ``--help``."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        modules, others = find_values("--import", args)  # first, since modules add commands and flags
        return super().parse_args(ctx, [*(f"--import={module}" for module in modules), *others])

    def invoke(self, ctx: Any) -> Any:
        """Run a command and end with its exit code."""
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except GraphAttnError as error:
            print(f"error: {' '.join(error.render(as_flag).split())}", file=sys.stderr)
            raise typer.Exit(NOT_INSTALLED if isinstance(error, MissingPackageError) else WRONG) from error
        except BrokenPipeError as error:
            _discard_output()
            raise typer.Exit(PIPE_CLOSED) from error
        except KeyboardInterrupt as error:
            hint = f"; {RESUME}" if error.args or ctx.invoked_subcommand in _RESUMED else ""
            print(f"stopped{hint}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from error
        except SystemExit as error:  # a user's module; exit code 0 would mean success
            print(f"error: {ctx.invoked_subcommand} fails{describe_failure(error)}", file=sys.stderr)
            raise typer.Exit(WRONG) from error


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print our own warnings in one line, without Python's source location."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if isinstance(message, GraphAttnWarning):
                kind = "hint" if isinstance(message, Hint) else "warning"
                print(f"{kind}: {' '.join(message.render(as_flag).split())}", file=sys.stderr)
            else:
                others(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _discard_output() -> None:
    """Redirect standard output to null, since Python flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_full_disk(error: OSError) -> None:
    _discard_output()
    print(f"error: {error.filename or 'the output'} cannot be written ({error.strerror})", file=sys.stderr)


app = typer.Typer(
    cls=Commands,
    name="graphattn",
    help="Texts as graphs, attention along their edges: train, use and look at models.",
    epilog="Start with: graphattn demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"graphattn {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    imported: Annotated[list[str] | None, import_option()] = None,
) -> None:
    """Options before a command."""
    import_modules([*modules_in_environment(), *(imported or [])])


def _add_command(function: Callable[..., None], examples: str) -> None:
    """Add a command; each paragraph of its docstring is one line, which the help wraps."""
    paragraphs = (getdoc(function) or "").split("\n\n")
    about = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    app.command(help=about, epilog=examples)(function)


_add_command(demo.demo, demo.EXAMPLES)
_add_command(build.build, build.EXAMPLES)
_add_command(info.info, info.EXAMPLES)
_add_command(show.show, show.EXAMPLES)
app.add_typer(train.app, name="train")
_add_command(evaluate.evaluate, evaluate.EXAMPLES)
_add_command(predict.predict, predict.EXAMPLES)
_add_command(inspect.inspect, inspect.EXAMPLES)
_add_command(encode.encode, encode.EXAMPLES)
_add_command(tune.tune, tune.EXAMPLES)
_add_command(reproduce.reproduce, reproduce.EXAMPLES)
app.add_typer(bench.app, name="bench")


def _interrupt(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)  # the next one ends the process at once
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; SIGTERM ends it like Ctrl-C, so that workers stop and temporary files are removed."""
    signal.signal(signal.SIGTERM, _interrupt)
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    try:
        app(prog_name="graphattn")
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        _report_full_disk(error)
        raise SystemExit(WRONG) from None
    finally:
        _flush()


def _flush() -> None:
    """Flush standard output here, where an error can still be reported."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(PIPE_CLOSED) from None
    except OSError as error:
        _report_full_disk(error)
        raise SystemExit(WRONG) from None
