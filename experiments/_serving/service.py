"""The application of ``graphattn serve``: its paths, the checks of requests, and its errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from graphattn import __version__
from graphattn.exceptions import GraphAttnError
from graphattn.experiments._serving.guard import HostGuard, answer_unknown
from graphattn.experiments._serving.metrics import Metrics
from graphattn.experiments._serving.requests import Limits, RequestError, RequestQueue, receive_json
from graphattn.experiments._serving.served_model import Explanation, Predict, ServedModel

BATCH_BYTES = 24_000
"""Of the texts of a batch, about 4,000 tokens: few enough that answers are sent and requests received meanwhile."""
EXPLAINED_TOKENS = 1_000
"""Most tokens of a text whose attention is shown, which has up to the square of edges."""
MAX_EDGES = 10_000
SMALL = 2_000
"""Characters of a request that is read at once."""
PART = 10_000
"""Numbers and characters of an answer that is sent at once; longer ones are sent in parts of this size."""
CLIENT_LEFT = 499
"""Status of requests whose clients did not wait, in the metrics."""

Answer = Callable[[Request], Awaitable[Response]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _TextsBody(_Body):
    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, data: Any) -> Any:
        """One text may be called ``text``."""
        if isinstance(data, dict) and "text" in data and "texts" not in data:
            others = {name: value for name, value in data.items() if name != "text"}
            return {**others, "texts": [data["text"]]}
        return data


class _TextBody(_Body):
    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, data: Any) -> Any:
        """One text may be in a list ``texts``."""
        if isinstance(data, dict) and isinstance(data.get("texts"), list) and "text" not in data:
            others = {name: value for name, value in data.items() if name != "texts"}
            if len(data["texts"]) != 1:
                raise ValueError("texts: this path takes one text")
            return {**others, "text": data["texts"][0]}
        return data


class _Application:
    """Answers the requests that a model computes, and leaves the others to FastAPI, which needs more time for each."""

    def __init__(self, answers: Mapping[str, Answer], others: FastAPI):
        self._answers, self._others = answers, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answers.get(scope["path"]) if scope.get("method") == "POST" else None
        if answer is None:
            await self._others(scope, receive, send)
            return
        gone, task = scope["state"]["gone"], asyncio.current_task()
        assert task is not None

        def cancel(_: asyncio.Future[None]) -> None:
            task.cancel()

        gone.add_done_callback(cancel)
        try:
            response = await answer(Request(scope, receive))
            await response(scope, receive, send)
        except asyncio.CancelledError:
            if not gone.done():
                raise
        finally:
            gone.remove_done_callback(cancel)


def make_service(model: ServedModel, limits: Limits, *, hosts: Sequence[str] = ()) -> HostGuard:
    """The application that serves a model to requests for this machine, for IP addresses and for ``hosts``.

    ``limits.characters`` are those of all texts of a request.
    """
    app = FastAPI(title=f"GraphAttn: {model.name}", version=__version__, redoc_url=None)
    service = _Service(model, limits)
    bodies = _make_bodies(model)
    handlers = {"/predict": service.predict, "/encode": service.encode, "/explain": service.explain}
    answers = {path: service.answer(path, bodies[path], handle) for path, handle in handlers.items()}
    for path, answer in answers.items():  # for other methods, and for /docs
        described: Any = {"summary": _SUMMARIES[path], "responses": _RESPONSES, **_describe_body(bodies[path])}
        app.add_api_route(path, answer, methods=["POST"], include_in_schema=path not in model.missing, **described)
    app.add_api_route("/health", service.report_health, summary=_SUMMARIES["/health"])
    app.add_api_route(
        "/metrics", service.report_metrics, summary=_SUMMARIES["/metrics"], response_class=PlainTextResponse
    )
    paths = [f"POST {path}" for path in handlers if path not in model.missing]
    known = f"There is {', '.join([*paths, 'GET /health', 'GET /metrics'])}, and GET /docs, which describes them."

    async def list_paths(request: Request, error: Any) -> Response:
        return answer_unknown(known, request.method, error)

    async def report_defect(request: Request, error: Exception) -> Response:
        return _format_error(_DEFECT, 500)

    app.add_exception_handler(404, list_paths)
    app.add_exception_handler(405, list_paths)
    app.add_exception_handler(Exception, report_defect)
    app.add_middleware(ProxyHeadersMiddleware)  # so that redirects keep a proxy's scheme
    fix = "; start it with --allow-host NAME to permit another one"
    return HostGuard(_Application(answers, app), hosts, fix=fix)


def _make_bodies(model: ServedModel) -> dict[str, type[BaseModel]]:
    """Path -> the form of its requests."""
    item: Any = _make_item(model)
    share: Any = Annotated[float, Field(ge=0, le=1)]
    texts: Any = Annotated[list[item], Field(min_length=1, examples=[[model.example]])]
    return {
        "/predict": create_model(
            "PredictRequest",
            __base__=_TextsBody,
            texts=(texts, ...),
            probabilities=(bool, False),
            top_k=(Annotated[int, Field(ge=1)] | None, None),
            min_confidence=(share | None, None),
            threshold=(share | dict[str, share] | None, None),
        ),
        "/encode": create_model("EncodeRequest", __base__=_TextsBody, texts=(texts, ...)),
        "/explain": create_model(
            "ExplainRequest",
            __base__=_TextBody,
            text=(item, ...),
            edges=(Annotated[int, Field(ge=1, le=MAX_EDGES)], 100),
            attributions=(bool, False),
        ),
    }


def _make_item(model: ServedModel) -> Any:
    """A text, a pair, or an object with the columns of the training corpus."""
    texts: Any = {"type": "array", "items": {"type": "string"}} if model.is_pair else {"type": "string"}
    fields = model.columns
    item: Any = tuple[str, str] if model.is_pair else str
    if not fields:
        return Annotated[item, WrapValidator(_accept_objects)]
    objects = {"type": "object", "properties": fields, "required": list(fields)}
    schema: Any = objects if model.has_cells else {"anyOf": [texts, objects]}
    return Annotated[item, WrapValidator(_accept_objects), WithJsonSchema(schema)]


def _accept_objects(value: Any, validate: Callable[[Any], Any]) -> Any:
    """An object as it is, since the model reads it, and other values validated."""
    if isinstance(value, dict):
        return value
    return validate(tuple(value) if isinstance(value, list) else value)


_ROW_OPTIONS = {
    "probabilities": "this model has no classes",
    **dict.fromkeys(("top_k", "min_confidence", "threshold"), "this model does not classify texts"),
}
"""Fields of requests that are options of ``predict_rows``, and what a model is that lacks them."""
_SUMMARIES = {
    "/predict": "Predict texts; rows as graphattn predict prints them.",
    "/encode": "The sentence vectors of texts.",
    "/explain": "The prediction of a text, which branch decides it, its strongest edges, and what each word adds.",
    "/health": "Whether the server answers, and its model.",
    "/metrics": "Counts and times of requests, for Prometheus.",
}
_ERRORS = {
    400: "The request is no JSON of this form.",
    404: "The model cannot compute this.",
    408: "The client was too slow.",
    413: "The texts are too long.",
    415: "The request is no JSON.",
    422: "The model cannot compute this text.",
    429: "Too many requests wait; try again later.",
}
_ERROR_EXAMPLE = {"application/json": {"example": {"error": "one line that says what is wrong"}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": about, "content": _ERROR_EXAMPLE} for status, about in _ERRORS.items()
}


def _describe_body(body: type[BaseModel]) -> dict[str, Any]:
    content = {"application/json": {"schema": body.model_json_schema()}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


_DEFECT = "The server failed; its log has the reason."


def _format_error(reason: str, status: int) -> Response:
    headers = {"Retry-After": "1"} if status == 429 else {}
    return JSONResponse({"error": reason}, status, headers)


class _Service:
    """The paths of a served model."""

    def __init__(self, model: ServedModel, limits: Limits):
        self._model, self._limits = model, limits
        self._queue, self._metrics = RequestQueue(limits.waiting, BATCH_BYTES), Metrics()

    def answer(self, path: str, body: type[BaseModel], handle: Callable[[Any], Awaitable[Any]]) -> Answer:
        """Make the function that answers requests to a path."""

        async def answer(request: Request) -> Response:
            start, status = time.perf_counter(), CLIENT_LEFT
            try:
                if path in self._model.missing:
                    raise RequestError(404, " ".join(self._model.missing[path].split()))
                response = _format_answer(await handle(await self._receive(request, body)))
                status = response.status_code
            except RequestError as error:
                status = error.status
                response = _format_error(str(error), status)
            except GraphAttnError as error:
                status = 422
                response = _format_error(" ".join(str(error).split()), status)
            except Exception:
                status = 500
                response = _format_error(_DEFECT, status)
                logging.getLogger(__name__).exception("A request to %s failed:", path)
            finally:
                self._metrics.observe(path, status, time.perf_counter() - start)
            return response

        return answer

    async def _receive(self, request: Request, body: type[BaseModel]) -> BaseModel:
        content = await receive_json(request, self._limits, self._length_error())
        try:
            return await _run(len(content), body.model_validate_json, content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where, problem = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
            raise RequestError(400, f"{where}: {problem}" if where else problem) from None

    def _length_error(self) -> RequestError:
        most = self._limits.characters
        return RequestError(413, f"The request is too long: its texts may have {most:,} characters together.")

    async def _read(self, items: Sequence[Any], most: int, numbers: int = 0) -> list[tuple[list[Any], int]]:
        """Inputs as parts of a batch's size, with their bytes.

        A RequestError says that there are too many, of all texts or of one, or that the answer has too many numbers, of
        which each input has ``numbers``.
        """
        fit = min(self._limits.texts, self._limits.numbers // max(numbers, 1))
        if len(items) > fit:
            raise RequestError(413, f"The request has {len(items):,} texts; this takes up to {fit:,} at once.")
        characters = sum(map(_count_characters, items))
        if characters > self._limits.characters:
            raise self._length_error()
        inputs = await _run(characters, self._model.read, items)
        sizes = list(map(self._model.count_bytes, inputs))
        per_token = numbers if self._model.is_per_word else 0
        if max(sizes) > most or sum(sizes) * per_token > self._limits.numbers:  # else it has not so many tokens either
            await self._check_tokens(inputs, characters, most, per_token)
        self._metrics.characters += characters
        parts: list[tuple[list[Any], int]] = []
        for item, size in zip(inputs, sizes, strict=True):
            if not parts or parts[-1][1] + size > BATCH_BYTES:
                parts.append(([], 0))
            parts[-1] = ([*parts[-1][0], item], parts[-1][1] + size)
        return parts

    async def _check_tokens(self, inputs: Sequence[Any], characters: int, most: int, numbers: int) -> None:
        """Reject inputs with more tokens, or with more than this many numbers for each that the answer may have."""
        counts = await _run(characters, lambda: list(map(self._model.count_tokens, inputs)))
        if max(counts) > most:
            raise RequestError(413, f"A text has {max(counts):,} tokens; this takes up to {most:,}.")
        if sum(counts) * numbers > self._limits.numbers:
            problem = f"The answer would have a number for each of {numbers:,} tags and {sum(counts):,} tokens"
            raise RequestError(413, f"{problem}; send fewer texts, or leave out probabilities.")

    async def predict(self, body: Any) -> dict[str, Any]:
        """The predictions of texts."""
        options = {name: getattr(body, name) for name in _ROW_OPTIONS}
        options = {name: value for name, value in options.items() if value is not None and value is not False}
        for name in options:
            if not self._model.has_option(name):
                raise RequestError(422, f"{name}: {_ROW_OPTIONS[name]}; leave it out")
        compute = Predict(self._model, options)
        numbers = self._model.num_classes * body.probabilities + min(self._model.num_classes, body.top_k or 0)
        parts = await self._read(body.texts, self._limits.tokens, numbers)
        return {"predictions": _join(await self._queue.compute_all(compute, parts))}

    async def encode(self, body: Any) -> dict[str, Any]:
        """The vectors of texts."""
        parts = await self._read(body.texts, self._limits.tokens, self._model.width)
        return {"vectors": _join(await self._queue.compute_all(self._model.encode, parts))}

    async def explain(self, body: Any) -> dict[str, Any]:
        """The attention of a text, which is computed alone."""
        (((item,), _),) = await self._read([body.text], EXPLAINED_TOKENS)
        request = Explanation(item, body.edges, body.attributions)
        return await self._queue.compute(self._model.explain, request, BATCH_BYTES)

    async def report_health(self) -> dict[str, Any]:
        """What the model is."""
        return self._model.describe()

    async def report_metrics(self) -> Response:
        """The metrics."""
        text = self._metrics.format(batches=self._queue.batches, waiting=self._queue.present)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _run(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, in another thread unless it has little to do, so that the server answers meanwhile."""
    return function(*arguments) if size <= SMALL else await run_in_threadpool(function, *arguments)


def _count_characters(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    values = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
    return sum(map(_count_characters, values))


def _join(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [row for part in parts for row in part]


def _format_answer(result: dict[str, Any]) -> Response:
    """The answer with a result; a long list of rows is sent in parts, and other requests are answered between them."""
    name, rows = next(iter(result.items()))
    if len(result) > 1 or len(rows) == 1 or sum(map(_count_values, rows)) <= PART:
        return Response(_to_json(result), media_type="application/json")
    return StreamingResponse(_iter_json(name, rows), media_type="application/json")


def _count_values(row: Any) -> int:
    """About the number of values or characters of a row."""
    size: int = 8 + _count_characters(row) if isinstance(row, dict) else row.size
    return size


async def _iter_json(name: str, rows: Sequence[Any]) -> AsyncIterator[bytes]:
    part, size = [b'{"%b":[' % name.encode()], 0
    for number, row in enumerate(rows):
        part += [b"," if number else b"", _to_json(row)]
        size += _count_values(row)
        if size > PART:
            yield b"".join(part)
            await asyncio.sleep(0)
            part, size = [], 0
    yield b"".join([*part, b"]}"])


def _to_json(value: Any) -> bytes:
    """A value as JSON, with arrays as lists."""
    return orjson.dumps(value, np.ndarray.tolist, orjson.OPT_SERIALIZE_NUMPY)  # tolist: those that are not contiguous
