"""Connections of a server: a limited number, and none whose client keeps it waiting."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from typing import Any

from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from graphattn.exceptions import ConfigError
from graphattn.experiments._serving.requests import Limits

MAX_HEAD_BYTES = 65_536
"""Of a request's first line and header; one received part of them may be longer."""


class _Flow(FlowControl):
    """Stops reading from a client while requests of it wait, so that it cannot fill the memory with them."""

    def __init__(self, transport: Transport, waiting: Collection[object]):
        super().__init__(transport)
        self._waiting = waiting

    @override
    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _Transport(Transport):
    """Ignores what is written after the end of a connection, which uvloop reports as a defect."""

    def __init__(self, transport: Transport, gone: asyncio.Future[None]):
        super().__init__()
        self._gone, self._write = gone, transport.write
        self.close, self.abort, self.is_closing = transport.close, transport.abort, transport.is_closing  # type: ignore[method-assign]

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._gone.done():
            self._write(data)


class Connection(HttpToolsProtocol):
    """A connection that ends if its client is late with a request's header, with its body, or with reading an answer.

    uvicorn itself limits only the time between an answer and the first byte of the next request. The state of a request
    has ``gone``, a future that is done when the client has left.
    """

    def __init__(self, seconds: float, on_end: Callable[[], None], **uvicorn: Any):
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        super().__init__(app_state={"gone": self._gone}, **uvicorn)
        self._seconds, self._on_end = seconds, on_end
        self._timer: TimerHandle | None = None
        self._head_bytes = 0

    @property
    def _waits_for_client(self) -> bool:
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused or self._waits_for_body

    @property
    def _waits_for_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body and not self.pipeline

    def _update_timer(self) -> None:
        if not self._waits_for_client:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._end_late)

    def _end_late(self) -> None:
        if not self._waits_for_body or self.cycle.response_started or self.transport.is_closing():
            self.transport.abort()
        else:
            self._end_with_error("408 Request Timeout", f"The text did not arrive within {self._seconds:g} seconds.")
            self._timer = None
            self._update_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @override
    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport, self.flow = _Transport(transport, self._gone), _Flow(transport, self.pipeline)
        self._update_timer()

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or not (self.cycle is None or self.cycle.keep_alive or self.cycle.more_body):
            return  # what follows the last request
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The header is too long.")
        self._update_timer()

    @override
    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = 0
        self._stop_timer()  # the body has a time of its own

    @override
    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._head_bytes = 0

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or whose header is too long."""
        self._end_with_error("400 Bad Request", msg)

    def _end_with_error(self, status: str, reason: str) -> None:
        body = json.dumps({"error": reason})
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
        self.transport.write(f"HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}".encode())
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
        self._gone.set_result(None)
        self._on_end()

    @override
    def shutdown(self) -> None:
        if self._waits_for_client:
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
        shared = {"config": self.config, "server_state": self.server_state}
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
    app: ASGIApp, host: str, port: int, limits: Limits, *, ready: Callable[[str], None], stop_seconds: int = 1
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
    app: ASGIApp,
    listener: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None] = lambda: None,
    stop_seconds: int = 1,
) -> LimitedServer:
    """The server of an application, which calls ``ready`` when it answers."""
    silent: Any = {"log_level": "error", "access_log": False, "server_header": False}
    config = Config(app, ws="none", proxy_headers=False, timeout_graceful_shutdown=stop_seconds, **silent)
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
