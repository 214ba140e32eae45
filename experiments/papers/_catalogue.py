"""All tables and figures, by paper."""

from __future__ import annotations

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers import _decision_tables as decisions
from graphattn.experiments.papers import _duo as duo
from graphattn.experiments.papers import _ms_trans as ms_trans
from graphattn.experiments.papers import _mtsa as mtsa
from graphattn.experiments.papers import _pretrained as pretrained
from graphattn.experiments.papers import _umst as umst
from graphattn.experiments.papers._experiment import Experiment

PAPERS: dict[str, tuple[Experiment, ...]] = {
    "ms-trans": ms_trans.EXPERIMENTS,
    "mtsa": mtsa.EXPERIMENTS,
    "umst": umst.EXPERIMENTS,
    "duo": duo.EXPERIMENTS,
    "pretrained": pretrained.EXPERIMENTS,
    "decisions": decisions.EXPERIMENTS,
}
"""Paper -> its tables and figures."""


def find_experiments(paper: str, *, table: str | None = None, figure: str | None = None) -> list[Experiment]:
    """Tables and figures of a paper: one, or all.

    Examples
    --------
    >>> [experiment.name for experiment in find_experiments("ms-trans", table="6")]
    ['table 6']
    """
    names = [f"{kind} {number}" for kind, number in (("table", table), ("figure", figure)) if number is not None]
    known = {experiment.name: experiment for experiment in PAPERS[paper]}
    for name in names:
        if name not in known:
            raise ConfigError(f"{paper} has no {name}; choose among: {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())
