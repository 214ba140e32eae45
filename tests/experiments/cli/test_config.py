"""YAML files of options: values round-trip, and errors name the file and line."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.config import config_text, read_config
from graphattn.options import Option

FLAGS = [
    Option("learning_rate", float, False, 5e-4, ""),
    Option("epochs", int, False, 20, ""),
    Option("clip", float, True, 5.0, ""),
    Option("scales", tuple, False, (), ""),
    Option("format", str, False, "auto", ""),
    Option("crf", bool, False, False, ""),
]
FORM = "write one 'option: value' on each line"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "learning_rate": st.floats(allow_nan=False, allow_infinity=False),
        "epochs": st.integers(),
        "clip": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "scales": st.lists(TEXTS).map(tuple),
        "format": TEXTS,
        "crf": st.booleans(),
    },
)


@given(VALUES.filter(bool))
def test_values_round_trip(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("config") / "settings.yaml"
    path.write_text(config_text(values, "a comment"), encoding="utf-8")
    assert read_config(path, FLAGS) == values


def test_dashes_and_exponents_are_valid(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("learning-rate: 1e-3\nscales: 1, N/4\nclip: none\n")
    assert read_config(path, FLAGS) == {"learning_rate": 1e-3, "scales": ("1", "N/4"), "clip": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f": has no options; {FORM}, or leave --config out"),
        ("# nothing yet\n", f": has no options; {FORM}, or leave --config out"),
        ("---\n...\n", f": has no options; {FORM}, or leave --config out"),
        ("{}", f": has no options; {FORM}, or leave --config out"),
        ("learn_rate: 1", ", line 1: there is no option 'learn_rate'; did you mean 'learning_rate'?"),
        ("# mine\n\ncolour: 1", ", line 3: there is no option 'colour'; --help-all lists the options"),
        ("epochs: many", ", line 1: epochs is 'many'; it must be a whole number"),
        ("- a\n- b", f": no options; {FORM}"),
        ("epochs: 1\nb: [", f", line 2: is not YAML (expected the node content, but found '<stream end>'); {FORM}"),
        ("epochs: 1\nbatch_size: 2\nepochs: 3", f", line 3: is not YAML ('epochs' is set twice); {FORM}"),
        ("? [a, b]\n: 1", f", line 1: is not YAML (found unhashable key); {FORM}"),
        ("crf: true\nepochs: 2024-99-99", f", line 2: has an invalid value (month must be in 1..12); {FORM}"),
        ("yes: 1\n", ", line 1: there is no option True; --help-all lists the options"),
        ("epochs: !!bool maybe", f", line 1: has an invalid value ('maybe'); {FORM}"),
        ("[" * 5000, f": is nested too deeply; {FORM}"),
        (b"epochs: \xff", f": is not YAML (not UTF-8 text); {FORM}"),
        ("learning_rate: 1\nlearning-rate: 2\n", ", line 2: option 'learning_rate' is set twice, with - and with _"),
    ],
)
def test_errors_name_the_file_and_a_fix(tmp_path, content, message):
    path = tmp_path / "settings.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as error:
        read_config(path, FLAGS)
    assert str(error.value) == f"{path}{message}"


def test_a_folder_is_not_a_config(tmp_path):
    with pytest.raises(ConfigError) as error:
        read_config(tmp_path, FLAGS)
    assert str(error.value) == f"{tmp_path}: cannot be read (Is a directory); give --config a YAML file"


def test_yaml_cannot_run_code(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("epochs: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(ConfigError, match="is not YAML"):
        read_config(path, FLAGS)


@pytest.mark.parametrize("how", ["pipe", "sparse", "pointer"])
def test_files_that_are_not_read(tmp_path, how):
    path = tmp_path / "settings.yaml"
    if how == "pipe":
        os.mkfifo(path)
    elif how == "sparse":
        path.touch()
        os.truncate(path, 10**11)
    else:
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    with pytest.raises(ConfigError, match=r"settings\.yaml: cannot be read \("):
        read_config(path, FLAGS)
