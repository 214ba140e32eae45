"""The application of ``graphattn serve``: its paths, the checks of requests, and its errors."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from graphattn import __version__
from graphattn.exceptions import GraphAttnError
from graphattn.experiments._serving.metrics import Metrics
from graphattn.experiments._serving.requests import Limits, RequestError, RequestQueue, receive_json
from graphattn.experiments._serving.served_model import Explanation, ServedModel

BATCH_TOKENS = 4_096
"""Tokens of a batch: few enough that answers are sent and requests received while others are computed."""
EXPLAINED_TOKENS = 1_000
"""Most tokens of a text whose attention is shown, which has up to the square of edges."""
MAX_EDGES = 10_000

Answer = Callable[[Request], Awaitable[Response]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def make_service(model: ServedModel, limits: Limits) -> FastAPI:
    """The application that serves a model; ``limits.characters`` are those of all texts of a request."""
    app = FastAPI(title=f"GraphAttn: {model.name}", version=__version__, redoc_url=None)
    service = _Service(model, limits)
    bodies = _make_bodies(model)
    handlers = {"/predict": service.predict, "/encode": service.encode, "/explain": service.explain}
    for path, handle in handlers.items():
        answer = service.answer(path, bodies[path], handle)
        app.add_route(path, answer, methods=["POST"])  # answers, with less work than FastAPI's, which is for /docs
        if path not in model.missing:
            described: Any = {"summary": _SUMMARIES[path], "responses": _RESPONSES, **_describe_body(bodies[path])}
            app.add_api_route(path, answer, methods=["POST"], **described)
    app.add_api_route("/health", service.report_health, summary=_SUMMARIES["/health"])
    app.add_api_route(
        "/metrics", service.report_metrics, summary=_SUMMARIES["/metrics"], response_class=PlainTextResponse
    )
    paths = [f"POST {path}" for path in handlers if path not in model.missing]
    known = f"There is {', '.join([*paths, 'GET /health', 'GET /metrics'])}, and GET /docs, which describes them."

    async def list_paths(request: Request, error: Any) -> Response:
        return _format_error(known, error.status_code)

    async def report_defect(request: Request, error: Exception) -> Response:
        return _format_error("The server failed; its log has the reason.", 500)

    app.add_exception_handler(404, list_paths)
    app.add_exception_handler(405, list_paths)
    app.add_exception_handler(Exception, report_defect)
    return app


def _make_bodies(model: ServedModel) -> dict[str, type[BaseModel]]:
    """Path -> the form of its requests."""
    item: Any = tuple[str, str] if model.is_pair else str
    example = ("a text", "another") if model.is_pair else "a text"
    texts: Any = Annotated[list[item], Field(min_length=1, examples=[[example]])]
    return {
        "/predict": create_model("PredictRequest", __base__=_Body, texts=(texts, ...), probabilities=(bool, False)),
        "/encode": create_model("EncodeRequest", __base__=_Body, texts=(texts, ...)),
        "/explain": create_model(
            "ExplainRequest",
            __base__=_Body,
            text=(item, ...),
            edges=(Annotated[int, Field(ge=1, le=MAX_EDGES)], 100),
            attributions=(bool, False),
        ),
    }


_SUMMARIES = {
    "/predict": "Predict texts; rows as graphattn predict prints them.",
    "/encode": "The sentence vectors of texts.",
    "/explain": "The prediction of a text, its strongest edges, and what each word adds.",
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


def _format_error(reason: str, status: int) -> Response:
    headers = {"Retry-After": "1"} if status == 429 else {}
    return JSONResponse({"error": reason}, status, headers)


class _Service:
    """The paths of a served model."""

    def __init__(self, model: ServedModel, limits: Limits):
        self._model, self._limits = model, limits
        self._queue, self._metrics = RequestQueue(limits.waiting, BATCH_TOKENS), Metrics()

    def answer(self, path: str, body: type[BaseModel], handle: Callable[[Any], Awaitable[Any]]) -> Answer:
        """Make the function that answers requests to a path."""

        async def answer(request: Request) -> Response:
            start, status = time.perf_counter(), 500
            try:
                if path in self._model.missing:
                    raise RequestError(404, " ".join(self._model.missing[path].split()))
                response: Response = JSONResponse(await handle(await self._receive(request, body)))
                status = response.status_code
            except RequestError as error:
                status = error.status
                response = _format_error(str(error), status)
            except GraphAttnError as error:
                status = 422
                response = _format_error(" ".join(str(error).split()), status)
            finally:
                self._metrics.observe(path, status, time.perf_counter() - start)
            return response

        return answer

    async def _receive(self, request: Request, body: type[BaseModel]) -> BaseModel:
        content = await receive_json(request, self._limits, self._length_error())
        try:
            return body.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise RequestError(400, f"{where}: {first['msg']}" if where else first["msg"]) from None

    def _length_error(self) -> RequestError:
        most = self._limits.characters
        return RequestError(413, f"The request is too long: its texts may have {most:,} characters together.")

    def _count(self, items: Sequence[Any], most: int) -> int:
        """The number of tokens of all inputs; a RequestError if there are too many."""
        texts = [text for item in items for text in (item if self._model.is_pair else (item,))]
        if sum(map(len, texts)) > self._limits.characters:
            raise self._length_error()
        counts = [self._model.count_tokens(item) for item in items]
        if max(counts) > most:
            raise RequestError(413, f"A text has {max(counts):,} tokens; this takes up to {most:,}.")
        self._metrics.tokens += sum(counts)
        return sum(counts)

    async def predict(self, body: Any) -> dict[str, Any]:
        """The predictions of texts."""
        if body.probabilities and not self._model.has_probabilities:
            raise RequestError(422, "probabilities: this model has no classes; leave them out")
        compute = self._model.predict_with_probabilities if body.probabilities else self._model.predict
        tokens = self._count(body.texts, self._limits.tokens)
        return {"predictions": await self._queue.compute(compute, body.texts, tokens)}

    async def encode(self, body: Any) -> dict[str, Any]:
        """The vectors of texts."""
        tokens = self._count(body.texts, self._limits.tokens)
        return {"vectors": await self._queue.compute(self._model.encode, body.texts, tokens)}

    async def explain(self, body: Any) -> dict[str, Any]:
        """The attention of a text, which is computed alone."""
        self._count([body.text], EXPLAINED_TOKENS)
        request = Explanation(body.text, body.edges, body.attributions)
        return await self._queue.compute(self._model.explain, request, BATCH_TOKENS)

    async def report_health(self) -> dict[str, Any]:
        """What the model is."""
        return self._model.describe()

    async def report_metrics(self) -> Response:
        """The metrics."""
        text = self._metrics.format(batches=self._queue.batches, waiting=self._queue.present)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
