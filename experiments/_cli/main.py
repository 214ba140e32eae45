"""The command ``graphattn``: its commands, and the one place that prints errors."""

from __future__ import annotations

import _thread
import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typing_extensions import override

from graphattn import __version__
from graphattn.exceptions import ConfigError, GraphAttnError, GraphAttnWarning, Hint, MissingPackageError
from graphattn.experiments._cli.docstrings import read_docstring
from graphattn.experiments._cli.flags import LazyGroup, as_flag, make_command
from graphattn.experiments._cli.user_modules import (
    MODULES,
    describe_failure,
    find_values,
    import_modules,
    import_option,
)

COMMANDS = {
    "demo": "See everything once: corpus, graphs, a classifier, a tagger, a prediction, pictures.",
    "train": "Train a model on a corpus and save it with its metrics.",
    "evaluate": "Measure a model on a corpus.",
    "predict": "Predict texts; prints one JSON object for each, in order.",
    "push": "Upload a model to the Hugging Face hub.",
    "serve": "Answer requests of many clients over HTTP: predictions, vectors, explanations.",
    "inspect": "Show the attention weights of a text's edges.",
    "build": "Build a store of corpora: sentences as columns, from which batches of graphs are built at memory speed.",
    "info": "Summarize a store or a model.",
    "show": "Show the graph of a text, or of one of a corpus.",
    "encode": "Write an embedding of each text, the input of a classifier's head, for scikit-learn or a search.",
    "export": "Write a model for other runtimes: an ONNX file, or a directory for transformers.",
    "tune": "Search learning rate, depth, dropout and weight decay on a dev set, and write the best settings as YAML.",
    "reproduce": "Train and test on the corpora of the result tables, write each run's figures as it ends, print the "
    "table.",
    "bench": "Measure speed and memory; only ratios within one run mean anything.",
}
"""Name of a command, which is that of its module and its function -> its first line of help."""
USER_COMMANDS: dict[str, Callable[..., None]] = {}
"""Name -> command that a user registered."""
WRONG, NOT_INSTALLED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
"""Exit codes of an error, of Ctrl-C or SIGTERM, and of a closed pipe (the last two as a shell reports SIGINT and
SIGPIPE); 2: usage."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_RESUMED = {"train", "build", "reproduce", "tune"}
"""Commands that resume."""


def register_command(function: Callable[..., None]) -> Callable[..., None]:
    """Add a command to ``graphattn``; usable as a decorator.

    Parameters
    ----------
    function : its name is the command's, with hyphens, and its docstring the help. Its annotated parameters are
        arguments or, if they have a default, flags, as in typer

    Raises
    ------
    ConfigError
        when another command has this name
    """
    name = function.__name__.replace("_", "-")
    if name in COMMANDS or USER_COMMANDS.get(name, function).__module__ != function.__module__:
        raise ConfigError(f"the command {name!r} exists already; choose another name")
    USER_COMMANDS[name] = function
    return function


class Commands(LazyGroup):
    """All commands; an error becomes one line on standard error, without a traceback."""

    @override
    def list_summaries(self) -> dict[str, str]:
        return COMMANDS | {name: read_docstring(made).partition("\n")[0] for name, made in USER_COMMANDS.items()}

    @override
    def build_command(self, name: str, arguments: Sequence[str]) -> Any:
        if name in USER_COMMANDS:
            function, examples = USER_COMMANDS[name], f"graphattn --import MODULE {name}"
        else:
            module: Any = import_module(f"graphattn.experiments._cli.{name}")
            if hasattr(module, "group"):
                return module.group
            function, examples = getattr(module, name), module.EXAMPLES
        # each paragraph of its docstring becomes one line, which the help wraps
        about = "\n\n".join(" ".join(paragraph.split()) for paragraph in read_docstring(function).split("\n\n"))
        return make_command(function, about, examples)

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        modules, others = find_values("--import", args)
        with report_errors(ctx):  # first, since modules add commands and flags
            import_modules([*os.environ.get(MODULES, "").replace(",", " ").split(), *modules])
        return super().parse_args(ctx, [*(f"--import={module}" for module in modules), *others])

    def invoke(self, ctx: Any) -> Any:
        """Run a command and end with its exit code."""
        if isinstance(sys.stdout, TextIOWrapper):  # escapes, which JSON has too, for arguments that are not UTF-8
            sys.stdout.reconfigure(errors="backslashreplace")
        with report_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def report_errors(ctx: Any) -> Iterator[None]:
    """Print errors and our own warnings in one line each, and end with an exit code."""
    try:
        with print_plain_warnings():
            yield
    except GraphAttnError as error:
        print(f"error: {' '.join(error.render(as_flag).split())}", file=sys.stderr)
        raise typer.Exit(NOT_INSTALLED if isinstance(error, MissingPackageError) else WRONG) from error
    except BrokenPipeError as error:
        _discard_output()
        raise typer.Exit(PIPE_CLOSED) from error
    except KeyboardInterrupt as error:
        hint = "; run the same command again to resume" if error.args or ctx.invoked_subcommand in _RESUMED else ""
        print(f"stopped{hint}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Rich ends so when the reader of a help text has closed it
            raise typer.Exit(PIPE_CLOSED) from error
        # A user's module called exit; code 0 would mean success.
        print(f"error: {ctx.invoked_subcommand} fails{describe_failure(error)}", file=sys.stderr)
        raise typer.Exit(WRONG) from error


@contextmanager
def print_plain_warnings() -> Iterator[None]:
    """Print our own warnings in one line, without Python's source location."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Any, category: Any, *location: Any, **more: Any) -> None:
            if isinstance(message, GraphAttnWarning):
                title = "hint" if isinstance(message, Hint) else "warning"
                print(f"{title}: {' '.join(message.render(as_flag).split())}", file=sys.stderr)
            else:
                others(message, category, *location, **more)

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
    """Options before a command; the modules of ``--import`` were imported before these were parsed."""


def _interrupt(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)  # the next one ends the process at once
    raise KeyboardInterrupt


def _repeat_interrupt(event: sys.UnraisableHookArgs) -> None:
    """Interrupt again after a finalizer that was interrupted, where Python would only print the exception."""
    if issubclass(event.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(event)


def main() -> None:
    """Run the command line; SIGTERM ends it like Ctrl-C, so that workers stop and temporary files are removed."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _repeat_interrupt
    _replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        app(prog_name="graphattn")
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        _report_full_disk(error)
        raise SystemExit(WRONG) from None
    finally:
        _flush()


def _replace_closed_streams() -> None:
    """Discard what is printed to a stream that is closed (``>&-``); otherwise the next file that is opened gets it."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the whole process)
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


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
