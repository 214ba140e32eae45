"""``graphattn info``: what a store or a model directory holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphattn.exceptions import DataError
from graphattn.experiments.cli.corpus_options import is_store
from graphattn.experiments.cli.training_run import is_model

EXAMPLES = "graphattn info store\n\ngraphattn info store --check\n\ngraphattn info model"


def info(
    folder: Annotated[
        Path, typer.Argument(metavar="STORE|MODEL", help="A folder that graphattn build or graphattn train wrote.")
    ],
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences in the batch whose memory is told (stores).")] = 32,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read every byte of a store and compare the checksums (a model's always are)."),
    ] = False,
) -> None:
    """Show what a store holds: counts, lengths, edges of each relation, the memory of a batch.

    Of a model directory: its task, encoder, labels, size, the options that are not the defaults, and its epochs.
    """
    if is_model(folder):
        _show_model(folder)
    elif is_store(folder):
        _show_store(folder, batch_size, check=check)
    else:
        raise DataError(
            "holds neither a store nor a model",
            path=folder,
            hint="Give a folder that graphattn build or graphattn train wrote.",
        )


def _show_model(folder: Path) -> None:
    from graphattn.experiments.cli.summaries.model import model_lines
    from graphattn.models import load

    print("\n".join(model_lines(folder, load(folder))))


def _show_store(folder: Path, batch_size: int, *, check: bool) -> None:
    from graphattn.builders.store import Store
    from graphattn.experiments.cli.summaries.store import store_lines

    store = Store(folder)
    print("\n".join(store_lines(folder, store.manifest, batch_size)))
    if check:
        damaged = store.damaged()
        for reason in damaged.values():
            print(f"damaged: {reason}")
        if damaged:
            raise DataError(
                f"{len(damaged)} of {len(store.manifest.shards)} shards are damaged",
                path=folder,
                hint="Run the same graphattn build again to rebuild them.",
            )
        print("all checksums match")
