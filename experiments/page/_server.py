"""The live page: a local server that predicts a typed text and shows its attention weights. It writes no files."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from graphattn._optional_packages import import_optional
from graphattn.exceptions import ConfigError
from graphattn.experiments._serving.requests import Limits, RequestError
from graphattn.experiments.page._live_models import LiveModel, LiveModels
from graphattn.models.inspection.page._document import PageModel, content_policy, render_page

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response


def serve(
    models: Sequence[LiveModel],
    *,
    texts: int = 1,
    host: str = "127.0.0.1",
    port: int = 8000,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the live page of one model, or of two side by side, until Ctrl-C.

    An input has ``texts`` texts, 2 for pairs. Port 0 selects a free one. ``ready`` gets the page's URL as soon as the
    server answers, and Ctrl-C ends it. A ConfigError: FastAPI or uvicorn are missing, or the address is not available.
    """
    app = make_app(models, texts=texts, host=host)
    _reject_every_address(host)
    from graphattn.experiments._serving.connections import run_server

    run_server(app, host, port, Limits(), ready=ready)


def make_app(
    models: Sequence[LiveModel], *, texts: int = 1, host: str = "127.0.0.1", limits: Limits | None = None
) -> FastAPI:
    """The application: ``GET /`` is the page, ``POST /attention`` takes ``{"texts": [...]}``.

    Only requests to ``host``, to this machine or to an IP address are answered, which prevents DNS rebinding.
    """
    for package in ("fastapi", "httptools", "uvicorn"):
        import_optional(package, "the live page needs", "inspect")
    from fastapi import FastAPI
    from fastapi.responses import HTMLResponse, JSONResponse

    from graphattn.experiments._serving.guard import HostGuard, answer_unknown

    limits = limits or Limits()
    live_models = LiveModels(models, texts, limits)
    live = {"texts": texts, "most_characters": limits.characters}
    page = render_page([PageModel(model.name, []) for model in models], title="Attention, live", live=live)
    headers = {
        "Content-Security-Policy": content_policy(live=True) + "; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def attention(request: Request) -> Response:
        return JSONResponse({"results": await live_models.answer(request)}, headers=headers)

    async def report_error(request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error)}, status_code=error.status, headers=headers)

    async def list_routes(request: Request, error: Any) -> Response:
        reason = 'There is GET /, the page, and POST /attention, which takes {"texts": [...]}.'
        return answer_unknown(reason, request.method, error, headers)

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_route("/", show, methods=["GET"])
    app.add_route("/attention", attention, methods=["POST"])
    app.add_exception_handler(RequestError, report_error)
    app.add_exception_handler(404, list_routes)
    app.add_exception_handler(405, list_routes)
    app.add_middleware(HostGuard, hosts=[host], headers=headers)
    return app


def _reject_every_address(host: str) -> None:
    """Reject a host that is every address of this machine, in any spelling: names of hosts would protect nothing."""
    with suppress(OSError):  # reported when it is opened
        address = str(socket.getaddrinfo(host or "::", 0, type=socket.SOCK_STREAM)[0][-1][0])
        if ip_address(address.partition("%")[0]).is_unspecified:
            raise ConfigError(f"host {host!r} is every address of this machine; name the one to listen on")
