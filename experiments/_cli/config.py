"""YAML files with the options of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.flags import Values
from graphattn.experiments._cli.synonyms import find_meant
from graphattn.options import Option

_FORMAT = "write one 'option: value' on each line"


def read_config(path: Path, flags: Sequence[Option]) -> Values:
    """Read the options in a YAML file; errors name the line."""
    known = {flag.name: flag for flag in flags}
    values = {}
    content, lines = _load_mapping(path)
    for key, value in content.items():
        location = f"{path}, line {lines[str(key)]}" if str(key) in lines else str(path)
        name = str(key).replace("-", "_")
        if name not in known:
            meant = [found.replace("-", "_") for found in find_meant(name, [flag.replace("_", "-") for flag in known])]
            hint = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "--help-all lists the options"
            raise ConfigError(f"{location}: there is no option {key!r}; {hint}")
        if name in values:
            raise ConfigError(f"{location}: option {name!r} is set twice, with - and with _")
        try:
            values[name] = known[name].parse(value)
        except ConfigError as error:
            raise ConfigError(f"{location}: {error}") from error
    return values


def config_text(values: Mapping[str, Any], heading: str) -> str:
    """Write options as YAML that :func:`read_config` reads, below a comment."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return f"# {heading}\n{yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)}"


class _UniqueKeys(yaml.SafeLoader):
    """Loads plain values and rejects duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):  # others are rejected later
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is set twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError) as error:  # such as month 13
            raise _InvalidValue(problem=str(error), problem_mark=node.start_mark) from None


class _InvalidValue(yaml.MarkedYAMLError):
    """Valid YAML with an invalid value."""


def _load_mapping(path: Path) -> tuple[Mapping[Any, Any], Mapping[str, int]]:
    """The content of the file, and the line of each key."""
    from graphattn.builders._regular_files import SETTINGS, read_text  # loads PyTorch

    try:
        loader = _UniqueKeys(read_text(path, SETTINGS))
        node = loader.get_single_node()
        content = None if node is None else loader.construct_document(node)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise _read_error(path, error) from None
    if content in (None, {}):
        raise ConfigError(f"{path}: has no options; {_FORMAT}, or leave --config out")
    if not isinstance(content, Mapping) or not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}: no options; {_FORMAT}")
    keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge"]
    return content, {str(loader.construct_object(key)): key.start_mark.line + 1 for key in keys}


def _read_error(path: Path, error: Exception) -> ConfigError:
    if isinstance(error, FileNotFoundError):
        return ConfigError(f"{path}: file not found; give --config a YAML file")
    if isinstance(error, OSError):
        return ConfigError(f"{path}: cannot be read ({error.strerror}); give --config a YAML file")
    if isinstance(error, RecursionError):
        return ConfigError(f"{path}: is nested too deeply; {_FORMAT}")
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or "not UTF-8 text"
    verdict = "has an invalid value" if isinstance(error, _InvalidValue) else "is not YAML"
    return ConfigError(f"{path}{line}: {verdict} ({problem}); {_FORMAT}")
