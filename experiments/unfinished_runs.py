"""Runs that were interrupted: which command may go on with which, so that no run ends with another's weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from graphattn.experiments.training_plan import TrainingPlan

_COMMAND, _CHECKPOINT = "command.json", "last.ckpt"
# Options that may differ when a run is taken up again.
_FREE = {"dev", "test", "resume", "progress", "run_dir"}


def begin_run(run_dir: Path, plan: TrainingPlan, corpora: Mapping[str, Iterable[Path]]) -> None:
    """Note down what is to be trained; refuse to go on with a run that another command began.

    Parameters
    ----------
    run_dir : folder of the run, which may not exist yet
    plan : what is to be trained
    corpora : role -> its files, whose contents have to be the same too

    Raises
    ------
    ConfigError
        naming the first difference and the ways out
    DataError
        when the folder cannot be written to
    """
    own = _described(plan, corpora)
    noted = run_dir / _COMMAND
    if plan.values["resume"] and (run_dir / _CHECKPOINT).exists() and noted.exists():
        earlier = json.loads(noted.read_text(encoding="utf-8"))
        different = next((name for name in {**earlier, **own} if earlier.get(name) != own.get(name)), None)
        if different:
            raise ConfigError(
                f"{run_dir} holds an unfinished run with {_difference(different, earlier, own)}. Repeat its command to "
                "go on with it, give --no-resume to start anew, or choose another --out"
            )
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(own, indent=1), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"cannot be written ({error.strerror or error})", path=noted, hint="Choose another --run-dir."
        ) from error


def end_run(run_dir: Path) -> None:
    """Forget the checkpoint of a run whose model is saved; its logs stay."""
    (run_dir / _CHECKPOINT).unlink(missing_ok=True)


def _described(plan: TrainingPlan, corpora: Mapping[str, Iterable[Path]]) -> dict[str, Any]:
    options = {name: value for name, value in plan.values.items() if name not in _FREE}
    contents = {f"{role} corpus": [*map(_checksum, paths)] for role, paths in corpora.items()}
    return json.loads(json.dumps({"task": plan.task, **options, **contents}))


def _difference(name: str, earlier: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    if name.endswith(" corpus"):
        return f"another {name}"
    return f"{name} {json.dumps(earlier.get(name))}, not {json.dumps(own.get(name))}"


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
