"""Flags of other libraries suggest ours, in every command that has them, and in YAML files."""

import re

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.config import read_config
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.main import COMMANDS, Commands
from graphattn.experiments._cli.synonyms import SYNONYMS, find_meant
from graphattn.experiments._cli.training_plan import training_flags
from graphattn.models import TASKS


@pytest.mark.parametrize(
    ("words", "flag", "suggested"),
    [
        ("train classify c.tsv", "--lr", "--learning-rate"),
        ("train tag c.conll", "--num-epochs", "--epochs"),
        ("train tag c.conll", "--num_train_epochs", "--epochs"),
        ("train pair c.tsv", "--bs", "--batch-size"),
        ("train classify c.tsv", "--max-length", "--max-tokens, --max-tokens-per-text, --pretrained-length"),
        ("train translate a b", "--max-seq-length", "--longest, --max-tokens, --pretrained-length"),
        ("train regress c.tsv", "--model", "--pretrained"),
        ("train classify c.tsv", "--output-dir", "--out"),
        ("train classify c.tsv", "--validation", "--dev"),
        ("train classify c.tsv", "--epoch", "--epochs"),
        ("predict m text", "--max-length", "--longest, --max-tokens-per-text"),
        ("predict m text", "--gpu", "--device"),
        ("tune classify c.tsv", "--n-jobs", None),
        ("evaluate m c.tsv", "--cuda", "--device"),
    ],
)
def test_a_flag_of_another_library_suggests_ours(graphattn, words, flag, suggested):
    answer = graphattn(*words.split(), flag, "1")
    assert answer.code == 2
    text = " ".join(answer.err.replace("│", " ").split())
    found = re.search(r"\(Possible options: (.*?)\)", text)
    assert f"No such option: {flag}" in text
    assert (found and found[1]) == suggested


@pytest.mark.parametrize(
    ("words", "argument"),
    [("predict --model m", "MODEL"), ("evaluate --model m", "MODEL"), ("train classify --train-file c.tsv", "TRAIN")],
)
def test_an_argument_is_named_for_the_flag_of_another_library(graphattn, words, argument):
    text = " ".join(graphattn(*words.split()).err.replace("│", " ").split())
    assert re.search(rf"No such option: --[a-z-]+ \([^ ]*{argument}[^ ]* is given without a flag\)", text), text


def test_names_in_a_configuration(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("lr: 0.1\n")
    with pytest.raises(ConfigError, match=r", line 1: there is no option 'lr'; did you mean 'learning_rate'\?$"):
        read_config(path, training_flags(TASKS["classify"]))


def test_every_suggestion_is_a_name_of_ours():
    known = {as_flag(flag.name)[2:] for task in TASKS.values() for flag in training_flags(task)}
    for name in COMMANDS.keys() - {"train"}:
        command = Commands(name="graphattn").build_command(name, [])
        known |= {str(flag).lstrip("-") for each in command.params for flag in (*each.opts, each.name)}
    known |= {"train", "out", "overwrite", "config", "logger"}  # of `graphattn train`
    assert SYNONYMS.keys() - known == set()


def test_a_name_of_ours_is_never_replaced():
    assert find_meant("bach-size", ["batch-size", "max-edges"]) == ["batch-size"]
    assert find_meant("lr", ["cls", "clip"]) == []
