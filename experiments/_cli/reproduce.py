"""``graphattn reproduce``: the runs behind the result tables, and the tables and figures of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "graphattn reproduce sst2 sst5 --encoder ms-trans --seeds 3 --data DATA --out results.jsonl\n\n"
    "graphattn reproduce multi30k --encoder umst --set encoder.layers=6 --dev-only --out results.jsonl\n\n"
    "graphattn reproduce --show --side-by-side --out results.jsonl\n\n"
    "graphattn reproduce ms-trans --table 6 --row A --row F --data DATA\n\n"
    "graphattn reproduce ms-trans --figure 2 --show --picture mirrored.png"
)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets, or papers: ms-trans, mtsa, umst, duo, pretrained, decisions. The documentation "
            "lists their files."
        ),
    ] = None,
    *,
    encoder: Annotated[
        list[str] | None,
        typer.Option(help="Encoder, baseline, default or pretrained, for data sets; may be repeated (default: all)."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Number of a paper's table (default: all).")] = None,
    figure: Annotated[str | None, typer.Option(help="Number of a paper's figure (default: all).")] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Label of a row, or its part before or after a slash; may be given several times."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change an option: encoder.alpha=0, training.epochs=3; may be given several times."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs with the seeds 0, 1, ...", min=1)] = 3,
    fold: Annotated[
        int | None,
        typer.Option(help="Hold out this fold of the training set instead of using the test set.", min=0, max=3),
    ] = None,
    dev_only: Annotated[bool, typer.Option("--dev-only", help="Do not read the test set.")] = False,
    data: Annotated[Path | None, typer.Option(help="Data folder (default: the one GRAPHATTN_DATA names).")] = None,
    out: Annotated[Path, typer.Option(help="File of JSON lines; runs it holds already are not repeated.")] = Path(
        "results.jsonl"
    ),
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes with a thread each (default: 1; papers: all cores). Times need 1.", min=1),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of PyTorch with one process.", min=1)] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the runs in --out, for papers next to the paper's numbers.")
    ] = False,
    side_by_side: Annotated[
        bool,
        typer.Option(
            "--side-by-side",
            help="Print test scores: the best in bold, in italics those within a standard error of it, the paper's in "
            "brackets.",
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw a figure, or with --encoder the first one's scores minus the others': .png, .svg or .pdf."
        ),
    ] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Print our numbers of parameters next to the papers'.")
    ] = False,
    hours: Annotated[
        list[Path] | None,
        typer.Option(
            help="Print the core hours of tables, from the seconds of the runs in this file; may be repeated."
        ),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run tables and figures with generated corpora, small models and one step.")
    ] = False,
) -> None:
    """Train and test on the corpora of the result tables, write each run's figures as it ends, print the table.

    With the name of a paper, run the rows of its tables and figures, and print our numbers next to the paper's.
    """
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    from graphattn.experiments.papers import _reproduction as reproduction  # loads PyTorch

    request = reproduction.Request(
        names or [],
        encoder or [],
        table,
        figure,
        labels=row or [],
        words=changes or [],
        seeds=range(seeds),
        options={"fold": fold, "on_test": not dev_only},
        folder=data,
        out=out,
        jobs=jobs,
        only_show=show,
        side_by_side=side_by_side,
        picture=picture,
    )
    if parameters:
        print(reproduction.show_parameters(request.names))
    elif hours:
        print(reproduction.show_hours(request, hours))
    elif smoke:
        reproduction.smoke(request)
    else:
        reproduction.reproduce(request)
