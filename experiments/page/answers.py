"""What the live page's server answers: texts are checked, wait their turn and become weights, or a clear refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import GraphAttnError
from graphattn.experiments.page.packing import packed

if TYPE_CHECKING:
    from fastapi import Request


@dataclass(frozen=True)
class LiveModel:
    """A model as the server uses it.

    Parameters
    ----------
    name : what stands above its column
    count : a text -> its number of tokens
    look : the text of an input, or the two of a pair -> what ``to_page()`` of its attention result gives
    """

    name: str
    count: Callable[[str], int]
    look: Callable[[Sequence[str]], Mapping[str, Any]]


@dataclass(frozen=True)
class Limits:
    """What the server accepts.

    Parameters
    ----------
    characters, tokens : of one text
    waiting : requests that may wait while another one is answered
    """

    characters: int = 20_000
    tokens: int = 1_000
    waiting: int = 4


class Refused(Exception):
    """A request that gets no result: the status and a sentence for the page."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class RequestQueue:
    """Answers requests, one at a time.

    Parameters
    ----------
    models : those that predict
    texts : in an input
    limits : what to accept
    """

    def __init__(self, models: Sequence[LiveModel], texts: int, limits: Limits):
        self.models, self.texts, self.limits = models, texts, limits
        self._turn = asyncio.Lock()
        self._present = 0

    async def answer(self, request: Request) -> list[dict[str, Any]]:
        """The packed result of each model.

        Raises
        ------
        Refused
            when the request is not as it must be, its text is too long or a model cannot take it, or too many wait
        """
        from fastapi.concurrency import run_in_threadpool

        if self._present > self.limits.waiting:
            raise Refused(503, "The server is busy with other texts; try again in a moment.")
        self._present += 1
        try:
            texts = self._read(await self._body(request))
            async with self._turn:
                return await run_in_threadpool(self._results, texts)
        finally:
            self._present -= 1

    async def _body(self, request: Request) -> bytes:
        """The body; only JSON, which a page of another site cannot send without asking first."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "Send JSON, with the header Content-Type: application/json.")
        most = 200 + self.texts * 12 * self.limits.characters  # an escaped emoji has 12 bytes
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refused(413, self._too_long())
        return bytes(body)

    def _read(self, body: bytes) -> list[str]:
        try:
            texts = json.loads(body)["texts"]
        except (ValueError, KeyError, TypeError, RecursionError):
            texts = None
        if not (isinstance(texts, list) and len(texts) == self.texts and all(isinstance(text, str) for text in texts)):
            wanted = ", ".join(['"..."'] * self.texts)
            raise Refused(400, f'Send {{"texts": [{wanted}]}}.')
        if any(len(text) > self.limits.characters for text in texts):
            raise Refused(413, self._too_long())
        if not all(text.strip() for text in texts):
            raise Refused(422, "There is no text; type one.")
        return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # half a surrogate pair is no text

    def _too_long(self) -> str:
        return f"The text is too long: the page takes up to {self.limits.characters:,} characters."

    def _results(self, texts: list[str]) -> list[dict[str, Any]]:
        return [self._result(model, texts) for model in self.models]

    def _result(self, model: LiveModel, texts: list[str]) -> dict[str, Any]:
        try:
            tokens = max(model.count(text) for text in texts)
            if tokens > self.limits.tokens:
                raise Refused(413, f"The text has {tokens:,} tokens; the page takes up to {self.limits.tokens:,}.")
            return packed(model.look(texts))
        except GraphAttnError as error:
            raise Refused(422, f"{model.name}: {error}") from error
