"""``graphattn push``: upload a model directory to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "graphattn push model OWNER/NAME\n\ngraphattn push model OWNER/NAME --private"


def push(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository; it is made if there is none.")],
    *,
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private (default: as the owner's settings say).")
    ] = False,
    message: Annotated[str, typer.Option(help="Message of the commit.")] = "Upload a model of GraphAttn",
) -> None:
    """Upload a model to the Hugging Face hub.

    All files of the model directory are uploaded in one commit, with the model card as README.md. Commands and
    graphattn.load take OWNER/NAME in place of a directory. Log in before with `hf auth login`, or set HF_TOKEN.
    """
    from graphattn.models._files import hub

    print(hub.push(model, name, private=private, message=message))
