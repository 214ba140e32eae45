"""``graphattn reproduce``: the runs behind the result tables, one line of figures each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphattn.exceptions import DataError

EXAMPLES = (
    "graphattn reproduce sst2 sst5 --encoder ms-trans --seeds 3 --data DATA --out results.jsonl\n\n"
    "graphattn reproduce multi30k --encoder transformer --encoder umst --seeds 2 --out results.jsonl\n\n"
    "graphattn reproduce --table --side-by-side --out results.jsonl"
)


def reproduce(
    data_sets: Annotated[list[str] | None, typer.Argument(help="Data sets, see docs/reproduce.md.")] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(help="Encoder, baseline, or default; may be given several times (default: all)."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs with the seeds 0, 1, ...", min=1)] = 3,
    data: Annotated[Path | None, typer.Option(help="Data folder (default: the one GRAPHATTN_DATA names).")] = None,
    out: Annotated[Path, typer.Option(help="File of JSON lines; runs it holds already are not repeated.")] = Path(
        "results.jsonl"
    ),
    threads: Annotated[int | None, typer.Option(help="Threads of PyTorch (default: all cores).", min=1)] = None,
    table: Annotated[
        bool,
        typer.Option(
            "--table", help="Only print the table of the runs in --out, of the data sets and encoders that are named."
        ),
    ] = False,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Print test figures only, an encoder in each column.")
    ] = False,
) -> None:
    """Train and test on the corpora of the result tables, write each run's figures as it ends, print the table."""
    import torch

    from graphattn.experiments.papers import rows, runs
    from graphattn.experiments.papers.baselines import BASELINES
    from graphattn.experiments.papers.data_sets import DATA_SETS
    from graphattn.models.encoders import ENCODERS

    if threads is not None:
        torch.set_num_threads(threads)
    if not table:
        runs.reproduce(
            data_sets or list(DATA_SETS),
            encoder or [*ENCODERS, *BASELINES],
            range(seeds),
            out,
            folder=data,
            report=lambda row: print(rows.describe_run(row), flush=True),
        )
    filters = (("data_set", data_sets), ("encoder", encoder)) if table else ()
    kept = [row for row in rows.read_rows(out) if all(not names or row[name] in names for name, names in filters)]
    if table and not kept:
        hint = "Name the file that runs were written to, and data sets and encoders that are in it."
        raise DataError("holds no such runs", path=out, hint=hint)
    print(rows.comparison_table(kept) if side_by_side else rows.results_table(kept))
