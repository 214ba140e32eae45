"""Requests: their limits, their bodies, and a queue that computes those of many clients together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, verbatim

if TYPE_CHECKING:
    from fastapi import Request

    from graphattn.models._estimators.inspectable import Inspectable

Compute = Callable[[list[Any]], Sequence[Any]]
"""Computes the results of the requests of a batch, in order."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server."""

    characters: int = 20_000  # of one text
    tokens: int = 1_000  # of one text
    texts: int = 1_000  # of one request
    numbers: int = 1_000_000  # in one answer
    waiting: int = 4  # requests in the queue
    connections: int = 100  # open at the same time
    seconds: float = 15.0  # in which a client must send a request's header, then its body, and read the answer


class RequestError(Exception):
    """A request without a result: an HTTP status and a sentence for the client."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


def require_texts(name: str, model: Inspectable, *, takes_objects: bool = False) -> None:
    """Reject a model that reads more than requests have; objects may have columns beside the text."""
    names = model.task_.feature_names
    beside = [] if takes_objects else [column.column for column in model.task_.known_columns.cells]
    read = [f"the features {verbatim(', '.join(names))} of words"] if names else []
    inputs = getattr(model, "text_inputs_", None)  # a pretrained model alone has none
    read += [f"the columns {verbatim(', '.join(beside))} beside the text"] if beside else []
    read += ["the marks of predicates"] if inputs is not None and inputs.predicates else []
    if read:
        raise ConfigError(
            f"{verbatim(name)} reads {' and '.join(read)}, and a server gets texts alone. graphattn predict reads files"
        )


async def receive_json(request: Request, limits: Limits, too_long: RequestError, *, texts: int = 1) -> bytes:
    """The body of a request with so many texts, unless it is no JSON or too long, or the client gone."""
    # JSON only, which a page of another site cannot send without a preflight request
    media_type = next((value for name, value in request.scope["headers"] if name == b"content-type"), b"")
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise RequestError(415, "Send JSON, with the header Content-Type: application/json.")
    max_bytes = 200 + texts * 12 * limits.characters  # an escaped emoji has 12 bytes

    body, is_whole = b"", False
    while not is_whole:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestError(408, "The client left before the end of its request.")
        body += message["body"]
        if len(body) > max_bytes:
            raise too_long
        is_whole = not message["more_body"]
    return body


@dataclass
class _Waiting:
    compute: Compute
    item: Any
    size: int
    result: asyncio.Future[Any]


@dataclass
class RequestQueue:
    """Computes requests in one thread; those that arrive meanwhile are the next batch.

    A batch is the first request in line and all others like it that fit, so none waits for others to arrive.
    """

    waiting: int  # requests that wait, besides one; more are rejected
    size: int = 1  # of a batch; a larger request is computed alone
    present: int = field(default=0, init=False)  # requests without an answer yet
    batches: int = field(default=0, init=False)  # that were computed
    _line: deque[_Waiting] = field(default_factory=deque, init=False)
    _worker: asyncio.Task[None] | None = field(default=None, init=False)

    async def compute(self, compute: Compute, item: Any, size: int = 1) -> Any:
        """The result of an item; a RequestError if too many wait."""
        return (await self.compute_all(compute, [(item, size)]))[0]

    async def compute_all(self, compute: Compute, items: Sequence[tuple[Any, int]]) -> list[Any]:
        """The results of items with their sizes, which wait for each other, so that others are computed between them.

        Items that wait when the caller is cancelled are not computed.
        """
        if self.present > self.waiting:
            raise RequestError(429, "The server is busy with other texts; try again in a moment.")
        self.present += 1
        try:
            return [await self._compute_one(compute, item, size) for item, size in items]
        finally:
            self.present -= 1

    async def _compute_one(self, compute: Compute, item: Any, size: int) -> Any:
        waiting = _Waiting(compute, item, size, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await waiting.result

    async def _work(self) -> None:
        from fastapi.concurrency import run_in_threadpool

        while batch := self._take_batch():
            self.batches += 1
            results = await run_in_threadpool(_compute_batch, batch[0].compute, [each.item for each in batch])
            for each, result in zip(batch, results, strict=True):
                if each.result.done():  # cancelled
                    continue
                if isinstance(result, Exception):
                    each.result.set_exception(result)
                else:
                    each.result.set_result(result)
        self._worker = None

    def _take_batch(self) -> list[_Waiting]:
        self._line = deque(each for each in self._line if not each.result.done())  # their clients have left
        if not self._line:
            return []
        batch = [self._line.popleft()]
        rest, free = deque[_Waiting](), self.size - batch[0].size
        for each in self._line:
            if each.compute == batch[0].compute and each.size <= free:
                batch.append(each)
                free -= each.size
            else:
                rest.append(each)
        self._line = rest
        return batch


def _compute_batch(compute: Compute, items: list[Any]) -> Sequence[Any]:
    """A result or an exception for each item; one that cannot be computed does not affect the others."""
    try:
        return compute(items)
    except Exception as error:
        if len(items) == 1:
            return [error]
        return [result for item in items for result in _compute_batch(compute, [item])]
