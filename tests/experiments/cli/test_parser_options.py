"""Parser flags: which parser is made of them, and where it works."""

from dataclasses import replace
from pathlib import Path

import pytest

from graphattn.builders.parsers import CachedParser, StanzaParser
from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.build import _executor
from graphattn.experiments.cli.parser_options import ParserOptions

STANZA = ParserOptions("stanza", "models", "de", "cuda", parse_cache="none")


def test_no_parser_needs_no_device():
    assert (ParserOptions().create_parser(), ParserOptions(parser_device="cuda").device) == (None, "cpu")


def test_a_parser_with_its_models_and_device():
    assert STANZA.create_parser() == StanzaParser("de", "models", device="cuda")
    assert (STANZA.device, replace(STANZA, parser_device=None).device) == ("cuda", None)


def test_parses_are_kept_in_the_cache_folder_or_a_given_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parser = STANZA.create_parser()
    kept = replace(STANZA, parse_cache="auto").create_parser()
    assert kept == CachedParser(parser, tmp_path / "graphattn" / "parses.sqlite")
    assert replace(STANZA, parse_cache="mine").create_parser() == CachedParser(parser, Path("mine"))


@pytest.mark.parametrize(("device", "gpus"), [(None, None), ("cpu", 0.0), ("cuda", 1.0)])
def test_what_an_actor_holds_follows_from_the_parsers_device(monkeypatch, device, gpus):
    monkeypatch.setattr("graphattn.builders.store.executors._import_ray", lambda: None)
    assert _executor("ray", 2, None, device).gpus == gpus


def test_ray_chooses_the_gpu():
    with pytest.raises(ConfigError) as caught:
        _executor("ray", 2, None, "cuda:1")
    assert str(caught.value) == (
        "--parser-device is 'cuda:1'; with --engine ray give cpu or cuda: Ray chooses a GPU for each worker"
    )


def test_a_cache_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set parse_cache to a file, or to none"):
        ParserOptions("stanza").create_parser()
