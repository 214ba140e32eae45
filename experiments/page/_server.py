"""The live page: a local server that predicts a typed text and shows its attention weights. It writes no files."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from graphattn._optional_packages import import_optional
from graphattn.exceptions import ConfigError
from graphattn.experiments.page._request_queue import Limits, LiveModel, RequestError, RequestQueue
from graphattn.models.inspection.page._document import PageModel, content_policy, render_page

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

    from graphattn.experiments.page._connections import PageServer

_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1", "[::1]")


def serve(
    models: Sequence[LiveModel],
    *,
    texts: int = 1,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the live page until Ctrl-C.

    Parameters
    ----------
    models : one, or two to compare side by side
    texts : of an input: 2 for pairs
    host, port : address to listen on; port 0 selects a free one
    limits : of requests; None for the defaults
    ready : gets the page's URL as soon as the server answers, and Ctrl-C ends it

    Raises
    ------
    ConfigError
        if FastAPI or uvicorn are not installed, or the address is not available
    """
    app = make_app(models, texts=texts, host=host, limits=limits)
    with _open_listener(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{listener.getsockname()[1]}/"
        server = make_server(app, listener, limits or Limits(), ready=lambda: ready(url))
        with suppress(KeyboardInterrupt):  # uvicorn closes everything first
            server.run()


def make_server(
    app: FastAPI, listener: socket.socket, limits: Limits, *, ready: Callable[[], None] = lambda: None
) -> PageServer:
    """The server of an application, which calls ``ready`` when it answers."""
    from uvicorn import Config

    from graphattn.experiments.page._connections import PageServer

    config = Config(app, ws="none", log_level="error", timeout_graceful_shutdown=1, server_header=False)
    return PageServer(config, listener, limits, ready)


def make_app(
    models: Sequence[LiveModel], *, texts: int = 1, host: str = "127.0.0.1", limits: Limits | None = None
) -> FastAPI:
    """The application: ``GET /`` is the page, ``POST /attention`` takes ``{"texts": [...]}``.

    Only requests to ``host`` or to this machine are answered, which prevents DNS rebinding.
    """
    for package in ("fastapi", "uvicorn"):
        import_optional(package, "the live page needs", "inspect")
    from fastapi import FastAPI
    from fastapi.middleware.trustedhost import TrustedHostMiddleware
    from fastapi.responses import HTMLResponse, JSONResponse

    limits = limits or Limits()
    queue = RequestQueue(models, texts, limits)
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
        return JSONResponse({"results": await queue.answer(request)}, headers=headers)

    async def report_error(request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error)}, status_code=error.status, headers=headers)

    async def list_routes(request: Request, error: Any) -> Response:
        reason = 'There is GET /, the page, and POST /attention, which takes {"texts": [...]}.'
        return JSONResponse({"error": reason}, error.status_code, {**(error.headers or {}), **headers})

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_route("/", show, methods=["GET"])
    app.add_route("/attention", attention, methods=["POST"])
    app.add_exception_handler(RequestError, report_error)
    app.add_exception_handler(404, list_routes)
    app.add_exception_handler(405, list_routes)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_LOCAL_HOSTS, host], www_redirect=False)
    return app


def _open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket, so that the address is final before it is printed."""
    try:
        # an empty host is every address, as "0.0.0.0" and "::" are in many spellings
        family, *_, address = socket.getaddrinfo(host or "::", port, type=socket.SOCK_STREAM)[0]
        if ip_address(str(address[0]).partition("%")[0]).is_unspecified:
            raise ConfigError(f"host {host!r} is every address of this machine; name the one to listen on")
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1024)
            on_error.pop_all()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{host} port {port} is not available ({reason}); name another --port, or 0 for a free one"
        ) from error
    return listener
