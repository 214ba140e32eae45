"""Messages advise only what exists where they appear: options of commands and of classes, no pages of a clone."""

import ast
import importlib
import inspect
import re

import pytest
import typer
from typer.main import get_command

from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.main import app

FLAG = re.compile(r"(?<![\w`-])--(?:no-)?[a-z][a-z-]*")
NAMED_COMMAND = re.compile(r"graphattn ([a-z]+)")
OF_ALL_COMMANDS = {"--help", "--help-all", "--import", "--version"}
# Modules -> the commands in which their messages appear; those of other modules appear in any command.
COMMANDS = {
    "graphattn.builders._jobs": ["build", "predict", "encode"],
    "graphattn.builders.store._build": ["build"],
    "graphattn.builders.store._shard_writer": ["build"],
    "graphattn.experiments.demo": ["demo", "train"],
    "graphattn.experiments.papers": ["reproduce"],
    "graphattn.experiments._serving": ["serve", "inspect"],
    "graphattn.models._encoders": ["train", "tune", "reproduce"],
    "graphattn.models.training": ["train", "tune", "reproduce"],
}
# Modules that only commands use.
OF_COMMANDS = ("graphattn.experiments.", "graphattn.builders._jobs", "graphattn.builders.store._build")
PUBLIC = [
    "graphattn", "graphattn.builders", "graphattn.builders.readers", "graphattn.builders.store", "graphattn.layers",
    "graphattn.models", "graphattn.models.inspection", "graphattn.models.pretrained", "graphattn.models.training",
]  # fmt: skip


def list_flags(command):
    """The flags of a command, or of all commands in a group."""
    if hasattr(command, "list_commands"):
        called = [command.resolve_command(typer.Context(command), [name])[1] for name in command.list_commands(None)]
        return set().union(*map(list_flags, called))
    return {word for each in command.params for word in (*each.opts, *each.secondary_opts)}


@pytest.fixture(scope="module")
def flags():
    """Command -> its flags."""
    main = get_command(app)
    names = main.list_commands(None)
    return {name: list_flags(main.resolve_command(typer.Context(main), [name])[1]) for name in names}


@pytest.fixture(scope="module")
def arguments():
    """Names of all arguments of public functions, classes and their methods."""
    names = set()
    for module in map(importlib.import_module, PUBLIC):
        for value in (getattr(module, name) for name in getattr(module, "__all__", vars(module))):
            methods = [each for _, each in inspect.getmembers(value, callable)] if inspect.isclass(value) else []
            for function in [value, *methods]:
                try:
                    names |= inspect.signature(function).parameters.keys()
                except (TypeError, ValueError):
                    continue
    return names


def find_commands(name, flags):
    """The commands that show messages of a module."""
    own = name.removeprefix("graphattn.experiments._cli.")
    listed = next((found for prefix, found in COMMANDS.items() if f"{name}.".startswith(f"{prefix}.")), None)
    return listed or ([own] if own in flags else list(flags))


def list_options(module):
    """Yield line and name of each option that a message of a module names."""
    for node in ast.walk(module.tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg == "options" and isinstance(keyword.value, ast.Tuple):
                for each in keyword.value.elts:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield node.lineno, each.value


def list_texts(module):
    """Yield line and text of each string in a module that is no docstring; values within f-strings are left out."""
    parts = {id(part) for node in ast.walk(module.tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    notes = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, " ".join(map(str, constants))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | notes:
            yield node.lineno, node.value


def find_wrong_options(module, flags, arguments):
    """Options in messages that no command has which shows them, or no class."""
    known = set().union(*(flags[name] for name in find_commands(module.name, flags)))
    is_command = module.name.startswith(OF_COMMANDS)
    for line, name in list_options(module):
        if as_flag(name) not in known and name not in PYTHON_ONLY:
            yield f"{module.path.name}:{line} {as_flag(name)} is no flag of these commands"
        if not is_command and name not in arguments | COMMANDS_ONLY:
            yield f"{module.path.name}:{line} {name} is no argument"


def find_wrong_flags(module, flags):
    """Flags in texts that the named command does not have, or in a message that Python shows, too."""
    is_command = module.name.startswith(OF_COMMANDS)
    for line, text in list_texts(module):
        named = [name for name in NAMED_COMMAND.findall(text) if name in flags]
        names = named or (find_commands(module.name, flags) if is_command else [])
        known = set().union(OF_ALL_COMMANDS, *(flags[name] for name in names))
        for flag in FLAG.findall(text):
            if flag not in known and not any(each.startswith(flag) for each in known if flag.endswith("-")):
                yield f"{module.path.name}:{line} {flag} in {text!r}"


# Options of Python alone: of messages that the command line does not show.
PYTHON_ONLY = {"by", "rank", "target", "x", "prefix", "output", "word", "warm_start", "maps"} | {
    "X", "attentions", "inputs", "outputs", "row", "sentence", "sentences", "target_tokens", "tokens"
}  # fmt: skip
# Options of the command line alone: of messages about corpora and the models that commands load.
COMMANDS_ONLY = {"threshold", "text_column", "label_column", "output"}
# Flags of other programs, and of `train` in the table of a benchmark.
NO_MESSAGES = {
    "graphattn.experiments._commit",
    "graphattn.experiments._cli.synonyms",
    "graphattn.experiments.benchmarks._frontier",
}


def test_options_in_messages_exist(modules, flags, arguments):
    assert [wrong for module in modules.values() for wrong in find_wrong_options(module, flags, arguments)] == []


def test_flags_in_messages_exist(modules, flags):
    wrong = [
        each for name, module in modules.items() if name not in NO_MESSAGES for each in find_wrong_flags(module, flags)
    ]
    assert wrong == []


def test_messages_name_no_page_of_the_repository(modules):
    """Which a wheel does not have."""
    pages = [
        f"{module.path.name}:{line} {text!r}"
        for module in modules.values()
        for line, text in list_texts(module)
        if re.search(r"\bdocs/[\w-]+\.md", text)
    ]
    assert pages == []


def test_wrong_advice_is_detected(make_module, flags, arguments):
    text = (
        "def f(x):\n"
        "    raise ConfigError('set {depth}', options=('depth', 'epochs'))\n"
        "def g(x):\n"
        "    raise DataError(f'{x}: give --epochs; see docs/train.md, or graphattn show --parser stanza')\n"
    )
    module = make_module("graphattn.models._m", text)
    options = list(find_wrong_options(module, flags, arguments))
    assert options == ["_m.py:2 --depth is no flag of these commands", "_m.py:2 depth is no argument"]
    assert [each.split()[1] for each in find_wrong_flags(module, flags)] == ["--epochs", "--parser"]
