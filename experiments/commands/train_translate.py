"""``graphattn train translate``: sources and targets in, a translator's directory with its metrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.experiments.finished_runs import (
    CONFIG_FILE,
    METRICS_FILE,
    finish_run,
    plan_text,
    refuse_to_overwrite,
    run_facts,
    run_folder_of,
)
from graphattn.experiments.metric_tables import print_metrics
from graphattn.experiments.option_flags import Values, naming_flags, with_flags

if TYPE_CHECKING:
    from graphattn.experiments.translation_plan import TranslationPlan

SUMMARY = "Train a translator, or a summariser: from texts to texts."
EXAMPLES = (
    "graphattn train translate train.en train.de --dev val.en,val.de --out model\n\n"
    "graphattn train translate abstracts.jsonl --text-column abstract --second-column tldr --encoder ms-trans "
    "--out model"
)
_MEASURED = ("dev", "test")


def translate_command() -> Callable[..., None]:
    """The function behind the command."""
    from graphattn.experiments.translation_plan import TranslationPlan, translation_flags

    @with_flags(translation_flags())
    def command(
        train: Annotated[
            list[Path],
            typer.Argument(metavar="SOURCE [TARGET]", help="Sources and targets, line by line; or one table of both."),
        ],
        given: Values,
        out: Annotated[Path, typer.Option(help="Model directory to write.")],
        config: Annotated[Path | None, typer.Option(help="YAML file of options; flags win over it.")] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    ) -> None:
        refuse_to_overwrite(out, overwrite=overwrite)
        plan = TranslationPlan.of(given, config)
        with naming_flags(plan.values):
            figures = train_translator(plan, train, out)
        print_metrics({part: figures[part] for part in _MEASURED if part in figures})
        print(f"model: {out}")

    return command


def train_translator(plan: TranslationPlan, train: Sequence[Path], out: Path) -> dict[str, Any]:
    """Read, train, measure and save; a run that was interrupted goes on.

    Parameters
    ----------
    plan : the options
    train : sources and targets, or one table of both
    out : the model directory; checkpoints and logs go to ``OUT.run`` unless the plan says otherwise

    Returns
    -------
    What ``metrics.json`` holds.
    """
    from graphattn.experiments.translation_corpora import read_pairs

    plan.check()
    files = plan.files
    columns = {"text_column": files.text_column, "second_column": files.second_column}
    pairs = {"training": read_pairs(train, **columns)}
    for part in _MEASURED:
        if paths := getattr(files, part):
            pairs[part] = read_pairs([Path(path) for path in paths], what=f"--{part}", **columns)
    run_dir = run_folder_of(plan.values, out)
    estimator = plan.estimator(run_dir=run_dir).fit(*pairs["training"], dev=pairs.get("dev"))
    figures = run_facts(estimator, {part: len(sources) for part, (sources, _) in pairs.items()})
    if "test" in pairs:
        figures["test"] = estimator.evaluate(*pairs["test"])
    notes = {METRICS_FILE: json.dumps(figures, indent=1) + "\n", CONFIG_FILE: plan_text(plan.task, plan.values)}
    estimator.save(out, notes=notes)
    finish_run(run_dir)
    return figures
