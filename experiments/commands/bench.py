"""``graphattn bench``: measurements in one process, in turns, as medians and ratios."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Measure speed; only ratios within one run mean anything.", no_args_is_help=True)


@app.command(epilog="graphattn bench build --lengths 22 --lengths 109")
def build(
    lengths: Annotated[list[int] | None, typer.Option(help="Words of each sentence (default: 22, 109, 201).")] = None,
    sentences: Annotated[int, typer.Option(help="Sentences in a batch.", min=1)] = 128,
    rounds: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 9,
) -> None:
    """Building a batch's graph (scales 1, 3, N/16, N/8, N/4, dependency) beside one MS-Trans forward pass over it."""
    from graphattn.experiments.benchmark import build_costs, build_table

    print(build_table(build_costs(lengths or (22, 109, 201), sentences=sentences, rounds=rounds)))
