"""Connections of a server: a limited number, and none whose client keeps it waiting."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import h11
from fastapi import FastAPI
from typing_extensions import override
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from graphattn.exceptions import ConfigError
from graphattn.experiments._serving.requests import Limits


class Connection(H11Protocol):
    """A connection that ends if its client is late with a request's header, or with reading an answer.

    uvicorn itself limits only the time between an answer and the first byte of the next request.
    """

    def __init__(self, seconds: float, on_end: Callable[[], None], **uvicorn: Any):
        super().__init__(**uvicorn)
        self._seconds, self._on_end = seconds, on_end
        self._timer: TimerHandle | None = None

    @property
    def _waits_for_client(self) -> bool:
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def _update_timer(self) -> None:
        if not self._waits_for_client:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @override
    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_timer()

    @override
    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is not h11.MUST_CLOSE:  # uvicorn would answer twice what follows the last request
            super().data_received(data)
        self._update_timer()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or whose header is too long."""
        body = json.dumps({"error": msg}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_timer()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._update_timer()

    @override
    def on_response_complete(self) -> None:
        self._stop_timer()
        super().on_response_complete()  # starts the next request if it is here already
        self._update_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()
        self._on_end()

    @override
    def shutdown(self) -> None:
        if self._waits_for_client or self.cycle.more_body:
            self.transport.abort()
        else:
            super().shutdown()


class LimitedServer(Server):
    """A server that leaves clients beyond its limit of connections waiting in the queue of its listening socket."""

    def __init__(self, config: Config, listener: socket.socket, limits: Limits, ready: Callable[[], None]):
        super().__init__(config)
        self._listener, self._limits, self._ready = listener, limits, ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._accepting = asyncio.create_task(self._accept())
        self._ready()  # now, since uvicorn has taken over the signals

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # no traceback of requests cut short
        await super().shutdown(sockets)

    async def _accept(self) -> None:
        loop, free = asyncio.get_running_loop(), asyncio.Semaphore(_count_connections(self._limits.connections))
        shared = {"config": self.config, "server_state": self.server_state, "app_state": {}}
        self._listener.setblocking(False)
        while True:
            await free.acquire()
            try:
                client, _ = await loop.sock_accept(self._listener)
                await loop.connect_accepted_socket(
                    lambda: Connection(self._limits.seconds, free.release, **shared), client
                )
            except OSError:  # no file descriptor is left, or the client is gone
                free.release()
                await asyncio.sleep(0.1)


def run_server(
    app: FastAPI, host: str, port: int, limits: Limits, *, ready: Callable[[str], None], stop_seconds: int = 1
) -> None:
    """Serve an application until Ctrl-C or SIGTERM.

    ``ready`` gets its address as soon as the server answers, and a signal ends it; port 0 selects a free one. Requests
    that have arrived are still answered, unless they take longer than ``stop_seconds``.
    """
    with open_listener(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{listener.getsockname()[1]}/"
        server = make_server(app, listener, limits, ready=lambda: ready(url), stop_seconds=stop_seconds)
        with suppress(KeyboardInterrupt):  # uvicorn closes everything first
            server.run()


def make_server(
    app: FastAPI,
    listener: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None] = lambda: None,
    stop_seconds: int = 1,
) -> LimitedServer:
    """The server of an application, which calls ``ready`` when it answers."""
    config = Config(app, ws="none", log_level="error", timeout_graceful_shutdown=stop_seconds, server_header=False)
    return LimitedServer(config, listener, limits, ready)


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket, so that the address is final before it is printed."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
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


def _count_connections(limit: int) -> int:
    """The limit, or half of the file descriptors that this process may open; the models need some."""
    if sys.platform == "win32":
        return limit
    import resource

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if descriptors == resource.RLIM_INFINITY else min(limit, descriptors // 2)
