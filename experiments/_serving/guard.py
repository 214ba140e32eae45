"""What all paths of our servers have in common: the hosts that they answer for, HEAD, OPTIONS, and errors as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from socket import gethostname
from typing import Any

from starlette.responses import JSONResponse, Response

_LOCAL_HOSTS = frozenset({"localhost", gethostname().lower()})
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class HostGuard:
    """Answers only requests whose ``Host`` is this machine, an IP address, or one of ``hosts``, and HEAD like GET.

    Else a page of another site could read answers, after it has pointed its own name to this machine (DNS rebinding).
    ``"*"`` permits every host. ``fix`` ends the error.
    """

    def __init__(self, app: Any, hosts: Sequence[str] = (), headers: dict[str, str] | None = None, fix: str = ""):
        self._app, self._headers, self._fix = app, headers, fix
        self._hosts = _LOCAL_HOSTS | {host.lower() for host in hosts}
        self._find_problem = lru_cache(16)(self._check)

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            hosts = tuple(value for name, value in scope["headers"] if name == b"host")
            if problem := self._find_problem(hosts, scope["http_version"]):
                await JSONResponse({"error": problem}, 400, self._headers)(scope, receive, send)
                return
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}  # the server leaves out the body
        await self._app(scope, receive, send)

    def _check(self, hosts: tuple[bytes, ...], version: str) -> str:
        """What is wrong with the headers ``Host`` of a request, or nothing."""
        if len(hosts) != 1:
            return "" if not hosts and version == "1.0" else "A request needs one header Host."
        name = _name_of(hosts[0].decode("latin-1"))
        permitted = "*" in self._hosts or name in self._hosts or _is_address(name)
        return "" if permitted else f"This server does not answer for the host {name}{self._fix}."


def _name_of(host: str) -> str:
    """The name in a header ``Host``, without the port."""
    name, _, port = host.rpartition(":")
    name = name if port.isdecimal() or (name and not port) else host
    return name.strip().lower().removeprefix("[").removesuffix("]")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def answer_unknown(reason: str, method: str, error: Any, headers: dict[str, str] | None = None) -> Response:
    """The answer to an unknown path, or to another method of a known one; OPTIONS lists the methods."""
    headers = {**(error.headers or {}), **(headers or {})}
    if "Allow" in headers:
        allowed = {name.strip() for name in headers["Allow"].split(",")} | {"OPTIONS"}
        headers["Allow"] = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
        if method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    return JSONResponse({"error": reason}, error.status_code, headers)
