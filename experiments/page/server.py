"""The live page: a server on this machine that predicts what is typed and shows the weights. It writes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.page.answers import Limits, LiveModel, Refused, RequestQueue
from graphattn.experiments.page.document import PageModel, content_policy, page_html

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

_OWN_NAMES = ("127.0.0.1", "localhost", "::1", "[::1]")


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
    models : one, or two to be shown side by side
    texts : in an input: 2 for pairs
    host, port : where to listen; port 0 takes a free one
    limits : what to accept; None for the defaults
    ready : hears the page's address once it can be called

    Raises
    ------
    ConfigError
        when FastAPI or uvicorn are not installed, or the address cannot be had
    """
    if not host:
        raise _everywhere(host)
    app = make_app(models, texts=texts, host=host, limits=limits)
    import uvicorn

    with _listening(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, server_header=False)
        with suppress(KeyboardInterrupt):  # uvicorn has closed everything when it passes Ctrl-C on
            uvicorn.Server(config).run(sockets=[listener])


def make_app(
    models: Sequence[LiveModel], *, texts: int = 1, host: str = "127.0.0.1", limits: Limits | None = None
) -> FastAPI:
    """The application: ``GET /`` is the page, ``POST /attention`` takes ``{"texts": [...]}``.

    Only requests that name ``host`` or this machine itself are answered: another site's page, whose name was made to
    lead here, gets nothing.

    Parameters
    ----------
    models, texts, host, limits : as for :func:`serve`

    Raises
    ------
    ConfigError
        when FastAPI or uvicorn are not installed
    """
    try:
        import uvicorn  # noqa: F401
        from fastapi import FastAPI
        from fastapi.middleware.trustedhost import TrustedHostMiddleware
        from fastapi.responses import HTMLResponse, JSONResponse
    except ImportError:
        raise ConfigError(
            "the live page needs FastAPI and uvicorn, which are not installed: pip install 'graphattn[inspect]'"
        ) from None
    limits = limits or Limits()
    desk = RequestQueue(models, texts, limits)
    live = {"texts": texts, "most_characters": limits.characters}
    page = page_html([PageModel(model.name, []) for model in models], title="Attention, live", live=live)
    headers = {
        "Content-Security-Policy": content_policy(live=True) + "; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def attention(request: Request) -> Response:
        return JSONResponse({"results": await desk.answer(request)}, headers=headers)

    async def refuse(request: Request, refused: Any) -> Response:
        return JSONResponse({"error": str(refused)}, status_code=refused.status, headers=headers)

    async def lead_back(request: Request, unknown: Any) -> Response:
        reason = 'There is GET /, the page, and POST /attention, which takes {"texts": [...]}.'
        return JSONResponse({"error": reason}, unknown.status_code, {**(unknown.headers or {}), **headers})

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_route("/", show, methods=["GET"])
    app.add_route("/attention", attention, methods=["POST"])
    app.add_exception_handler(Refused, refuse)
    app.add_exception_handler(404, lead_back)
    app.add_exception_handler(405, lead_back)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_OWN_NAMES, host], www_redirect=False)
    return app


def _everywhere(host: str) -> ConfigError:
    return ConfigError(f"host {host!r} is every address of this machine; name the one that is to be called")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that the address is certain before it is told."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if ip_address(str(address[0]).partition("%")[0]).is_unspecified:  # 0.0.0.0 and ::, which have many spellings
            raise _everywhere(host)
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{host} port {port} cannot be had ({reason}); name another --port, or 0 for a free one"
        ) from error
    return listener
