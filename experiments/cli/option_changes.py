"""``--set GROUP.OPTION=VALUE``: changes to the options of a run, with values as in the flags of ``train``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.flags import flags_of
from graphattn.experiments.papers.runs import check_changes, option_groups


def parse_changes(words: Sequence[str], data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
    """Group of options -> changed options.

    Parameters
    ----------
    words : such as ``encoder.alpha=0``
    data_set, encoder : of the run

    Raises
    ------
    ConfigError
        for another notation, an unknown group or option, or a value of the wrong type

    Examples
    --------
    >>> parse_changes(["encoder.alpha=0", "training.clip=none"], "sst2", "ms-trans")
    {'encoder': {'alpha': 0.0}, 'training': {'clip': None}}
    """
    changes: dict[str, dict[str, Any]] = {}
    for word in words:
        place, has_value, value = word.partition("=")
        group, has_name, name = place.partition(".")
        if not has_value or not has_name:
            raise ConfigError(f"--set {word}: write GROUP.OPTION=VALUE, encoder.layers=2 for example")
        name = name.replace("-", "_")
        check_changes(data_set, encoder, {group: {name: value}})
        options = option_groups(data_set, encoder)[group]
        flag = next(flag for flag in flags_of(options) if flag.name == name)
        try:
            changes.setdefault(group, {})[name] = flag.parse(value)
        except ConfigError as error:
            raise ConfigError(f"--set {word}: {error}") from error
    return changes
