"""``graphattn serve``: predictions, sentence vectors and explanations for many clients over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphattn._optional_packages import import_optional
from graphattn.experiments._cli.corpus_options import parser_flags
from graphattn.experiments._cli.flags import Device, MaxTokens, Precision, Values, with_flags
from graphattn.experiments._cli.loaded_models import find_directory, load_any_model

EXAMPLES = (
    "graphattn serve model\n\n"
    "graphattn serve sentence-transformers/all-MiniLM-L6-v2 --port 9000\n\n"
    "curl localhost:8000/predict -H 'Content-Type: application/json' -d '{\"texts\": [\"a lovely film\"]}'"
)
STOP_SECONDS = 30
"""Time for requests that were accepted before SIGTERM, as Kubernetes grants it."""


@with_flags(parser=parser_flags())
def serve(
    model: Annotated[
        Path, typer.Argument(help="Model directory that train wrote; a Hugging Face directory; or a name on its hub.")
    ],
    parser: Values,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port, 0 for a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Further name under which clients reach the server, besides this machine's and IP addresses; * for "
            "any; may be repeated."
        ),
    ] = None,
    waiting: Annotated[int, typer.Option(min=0, help="Requests that may wait; more are answered with 429.")] = 1000,
    max_tokens_per_text: MaxTokens = None,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Answer requests of many clients over HTTP: predictions, vectors, explanations.

    Requests that arrive while others are computed become the next batch, across clients. POST /predict, /encode and
    /explain take JSON; GET /docs describes them. GET /health and /metrics (Prometheus) are for monitoring.

    Ctrl-C or SIGTERM stops it after what has arrived is answered. There is no password: put it behind a proxy.
    """
    for package in ("fastapi", "httptools", "orjson", "uvicorn"):
        import_optional(package, "graphattn serve needs", "serve")
    from graphattn.experiments._serving.connections import run_server
    from graphattn.experiments._serving.requests import Limits, require_texts
    from graphattn.experiments._serving.served_model import ServedModel
    from graphattn.experiments._serving.service import make_service
    from graphattn.models._prediction import MAX_TOKENS

    folder = find_directory(model)
    loaded = load_any_model(folder, parser, precision=precision, device=device, max_tokens_per_text=max_tokens_per_text)
    name = model.name or folder.absolute().name
    require_texts(name, loaded, takes_objects=True)
    served = ServedModel(name, loaded)
    limits = Limits(characters=100_000, tokens=MAX_TOKENS, waiting=waiting, connections=2 * waiting + 100)

    def ready(address: str) -> None:
        print(f"{address} serves {served.name}; Ctrl-C ends it", flush=True)

    run_server(
        make_service(served, limits, hosts=[host, *(allow_host or [])]),
        host,
        port,
        limits,
        ready=ready,
        stop_seconds=STOP_SECONDS,
    )
