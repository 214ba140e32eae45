"""The models of the live page: from the texts of a request to attention weights, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.exceptions import ConfigError, GraphAttnError
from graphattn.experiments._serving.requests import Limits, RequestError, RequestQueue, receive_json
from graphattn.models.inspection.page._document import name_model
from graphattn.models.inspection.page._packing import pack_page

if TYPE_CHECKING:
    from fastapi import Request

    from graphattn.models import Estimator


@dataclass(frozen=True)
class LiveModel:
    """A model on the live page."""

    name: str  # heading of its column
    count_tokens: Callable[[str], int]
    explain: Callable[[Sequence[str]], Mapping[str, Any]]  # a text or a pair -> ``to_page()`` of its attention result


def live_model(path: str | Path, estimator: Estimator) -> LiveModel:
    """A model for the live page, from its folder and the estimator."""

    def explain(texts: Sequence[str]) -> Mapping[str, Any]:
        item = tuple(texts) if estimator.task.texts_per_input > 1 else texts[0]
        return estimator.attention(item).to_page(arrays=True)

    return LiveModel(name_model(path, estimator), estimator.count_tokens, explain)


def count_texts(estimators: Sequence[Estimator]) -> int:
    """The number of texts of an input of these models: two for pairs; models that differ are an error."""
    sizes = {estimator.task.texts_per_input for estimator in estimators}
    if len(sizes) > 1:
        raise ConfigError("one model takes pairs of texts and the other single texts; they cannot share a page")
    return sizes.pop()


class LiveModels:
    """Answers the requests of the page, one at a time."""

    def __init__(self, models: Sequence[LiveModel], texts: int, limits: Limits):
        self.models, self.texts, self.limits = models, texts, limits
        self._queue = RequestQueue(limits.waiting)

    async def answer(self, request: Request) -> list[dict[str, Any]]:
        """The packed result of each model.

        A RequestError says that the request is not valid or slow, its text is too long, a model cannot predict it, or
        the queue is full.
        """
        # received first, so that a slow client takes no place in the queue
        texts = self._parse(await receive_json(request, self.limits, self._length_error(), texts=self.texts))
        return await self._queue.compute(self._run, texts)

    def _parse(self, body: bytes) -> list[str]:
        try:
            texts = json.loads(body)["texts"]
        except (ValueError, KeyError, TypeError, RecursionError):
            texts = None
        if not (isinstance(texts, list) and len(texts) == self.texts and all(isinstance(text, str) for text in texts)):
            example = ", ".join(['"..."'] * self.texts)
            raise RequestError(400, f'Send {{"texts": [{example}]}}.')
        if any(len(text) > self.limits.characters for text in texts):
            raise self._length_error()
        if not all(text.strip() for text in texts):
            raise RequestError(422, "There is no text; type one.")
        return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # lone surrogates

    def _length_error(self) -> RequestError:
        return RequestError(413, f"The text is too long: the page takes up to {self.limits.characters:,} characters.")

    def _run(self, requests: list[list[str]]) -> list[list[dict[str, Any]]]:
        return [[self._explain(model, texts) for model in self.models] for texts in requests]

    def _explain(self, model: LiveModel, texts: list[str]) -> dict[str, Any]:
        try:
            tokens = max(map(model.count_tokens, texts))
            if tokens > self.limits.tokens:
                raise RequestError(413, f"The text has {tokens:,} tokens; the page takes up to {self.limits.tokens:,}.")
            return pack_page(model.explain(texts))
        except GraphAttnError as error:
            raise RequestError(422, f"{model.name}: {error}") from error
