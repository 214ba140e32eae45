"""Dataclass options as flags: parsing, help, and the arguments of commands."""

from dataclasses import dataclass, fields

import pytest
import typer
from typer.testing import CliRunner

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.flags import as_flag, merge_flags, with_flags
from graphattn.models import MSTransOptions
from graphattn.options import Option, Options, list_options, option


@dataclass
class Cake(Options):
    """Options of every kind."""

    layers: int = option(3, "how many", common=True)
    sugar: float | None = option(0.5, "how sweet")
    topping: str = option("cream", "what is on top", choices=("cream", "fruit"), common=True)
    candles: tuple[str, ...] = option((), "their colours")
    cold: bool = option(True, "keep it cool", common=True)
    name: str | None = option(None, "whose it is [sic]")


FLAGS = {flag.name: flag for flag in list_options(Cake())}


@pytest.mark.parametrize(
    ("name", "given", "parsed"),
    [
        ("layers", "4", 4),
        ("layers", 4, 4),
        ("sugar", "1e-3", 1e-3),
        ("sugar", 1, 1.0),
        ("sugar", "none", None),
        ("sugar", None, None),
        ("topping", "fruit", "fruit"),
        ("candles", "red, N/4", ("red", "N/4")),
        ("candles", ["red", 3], ("red", "3")),
        ("candles", "", ()),
        ("candles", "none", ()),
        ("cold", "false", False),
        ("cold", True, True),
        ("name", "Ada", "Ada"),
    ],
)
def test_words_and_yaml_values_are_parsed_alike(name, given, parsed):
    value = FLAGS[name].parse(given)
    assert value == parsed
    assert type(value) is type(parsed)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("layers", "many", "layers is 'many'; it must be a whole number"),
        ("layers", 2.5, "layers is 2.5; it must be a whole number"),
        ("layers", True, "layers is True; it must be a whole number"),
        ("layers", None, "layers is None; it must be a whole number"),
        ("sugar", "much", "sugar is 'much'; it must be a number, or none"),
        ("topping", "mud", "topping is 'mud'; choose one of: cream, fruit"),
        ("topping", 7, "topping is 7; it must be a text (in quotes if it looks like a number)"),
        ("candles", {"red": 1}, "candles is {'red': 1}; it must be a list of texts"),
        ("cold", "maybe", "cold is 'maybe'; it must be true or false"),
    ],
)
def test_invalid_values_are_rejected(name, given, message):
    with pytest.raises(ConfigError) as error:
        FLAGS[name].parse(given)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("7", 7),
        (7, 7),
        ("window:3=4,star=2", "window:3=4,star=2"),
        (["window:3=4", "star=2"], "window:3=4,star=2"),
        ({"window:3": 4}, {"window:3": 4}),
    ],
)
def test_a_number_can_be_given_per_relation(given, value):
    (flag,) = [flag for flag in list_options(MSTransOptions()) if flag.name == "heads"]
    assert flag.parse(given) == value
    assert (flag.optional, flag.default) == (False, 10)
    with pytest.raises(ConfigError) as error:
        flag.parse(2.5)
    assert str(error.value) == (
        "heads is 2.5; it must be a whole number, or relations with their numbers such as window:3=4"
    )


@pytest.fixture
def run():
    """Call a command with the flags of a cake; return its arguments."""
    arguments = {}
    app = typer.Typer()

    @app.command()
    @with_flags(flag_values=list_options(Cake(), "Cake"))
    def bake(place: str, flag_values: dict, hot: bool = False) -> None:
        arguments.update(place=place, flag_values=flag_values, hot=hot)

    def call(*words):
        arguments.clear()
        result = CliRunner().invoke(app, list(words))
        return (arguments, result) if result.exit_code == 0 else (None, result)

    return call


def test_a_command_gets_the_used_flags(run):
    arguments, _ = run("oven", "--layers", "5", "--no-cold", "--sugar", "none", "--hot")
    assert arguments == {"place": "oven", "flag_values": {"layers": 5, "cold": False, "sugar": None}, "hot": True}
    assert run("oven")[0] == {"place": "oven", "flag_values": {}, "hot": False}


def test_an_invalid_flag_is_a_usage_error(run):
    arguments, result = run("oven", "--layers", "many")
    assert arguments is None
    assert result.exit_code == 2
    assert "Invalid value for --layers: 'many'; it must be a whole number" in result.output


def test_help_shows_choices_and_defaults(run):
    text = " ".join(run("--help")[1].output.replace("│", " ").split())
    assert "--layers INTEGER how many [default: 3]" in text
    assert "--topping NAME what is on top [cream | fruit; default: cream]" in text
    assert "keep it cool [default: on]" in text
    assert "Cake" in text


def test_help_lists_common_flags_and_help_all_every_flag(run):
    usual, complete = (" ".join(run(flag)[1].output.replace("│", " ").split()) for flag in ("--help", "--help-all"))
    declared = {item.name: item.metadata.get("common", False) for item in fields(Cake)}
    for name, common in declared.items():
        assert (f"--{name}" in usual) is common
        assert f"--{name}" in complete
    assert f"{len(declared) - sum(declared.values())} more than --help" in usual
    assert "--hot" in usual, "a command's own parameters are always listed"
    assert "whose it is [sic]" in complete, "brackets are not markup"
    assert ("--import" in usual, "--import" in complete) == (False, True)


def test_shared_flags_show_different_defaults():
    one = [Option("depth", int, False, 3, "how deep"), Option("width", int, False, 5, "how wide")]
    two = [Option("depth", int, False, 1, "how far down", common=True), Option("ends", tuple, False, (), "where")]
    flags = merge_flags({"lake": one, "pond": two}, "Water")
    assert [(flag.name, flag.help, flag.panel, flag.common) for flag in flags] == [
        ("depth", "how deep (pond: 1)", "Water", True),
        ("width", "how wide (lake)", "Water", False),
        ("ends", "where (pond)", "Water", False),
    ]


@pytest.mark.parametrize(
    ("template", "options", "expected"),
    [
        ("set {head_feats}", ["head_feats"], "set --head-feats"),
        ("{resume=False} starts again", ["resume"], "--no-resume starts again"),
        ("{resume=True} resumes", ["resume"], "--resume resumes"),
        ("use {level=word}", ["level"], "use --level word"),
        ("resume or {no_such_thing}", ["resume"], "resume or {no_such_thing}"),
    ],
)
def test_errors_show_options_as_flags(template, options, expected):
    assert ConfigError(template, options=options).render(as_flag) == expected
