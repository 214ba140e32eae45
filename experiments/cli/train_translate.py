"""``graphattn train translate``: sources and targets in, a translator's directory with its metrics out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.experiments.cli.flags import Values, with_flags
from graphattn.experiments.cli.training_run import MEASURED, fit_and_save, print_run, refuse_to_overwrite

if TYPE_CHECKING:
    from graphattn.experiments.cli.translation_plan import TranslationPlan

SUMMARY = "Train a translator, or a summariser: from texts to texts."
EXAMPLES = (
    "graphattn train translate train.en train.de --dev val.en,val.de --out model\n\n"
    "graphattn train translate abstracts.jsonl --text-column abstract --second-column tldr --encoder ms-trans "
    "--out model"
)


def translate_command() -> Callable[..., None]:
    """The function behind the command."""
    from graphattn.experiments.cli.translation_plan import TranslationPlan, translation_flags

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
        print_run(train_translator(plan, train, out), out)

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
    from graphattn.experiments.cli.translation_corpora import read_pairs

    plan.check()
    files = plan.files
    columns = {"text_column": files.text_column, "second_column": files.second_column}
    pairs = {"training": read_pairs(train, **columns)}
    for part in MEASURED:
        if paths := getattr(files, part):
            pairs[part] = read_pairs([Path(path) for path in paths], what=f"--{part}", **columns)
    return fit_and_save(plan, pairs, out)
