"""The requests of the page: results, limits, and errors with reasons."""

import asyncio
import json
import threading

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments._serving.requests import Limits, RequestError
from graphattn.experiments.page._live_models import LiveModel, LiveModels
from graphattn.models.inspection.page._packing import pack_page

Request = pytest.importorskip("starlette.requests").Request


def make_request(body, media_type="application/json"):
    """A request whose body arrives in pieces."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    pieces = [body[begin : begin + 7] for begin in range(0, len(body), 7)]

    async def receive():
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    return Request({"type": "http", "headers": [(b"content-type", media_type.encode())]}, receive)


@pytest.fixture
def make_queue(make_result):
    """A queue with a toy model; ``explain`` replaces its attention."""

    def explain_tokens(texts):
        return make_result(" ".join(texts).split()).page

    def make(*, texts=1, explain=explain_tokens, **limits):
        model = LiveModel("toy", lambda text: 1 + len(text.split()), explain)
        return LiveModels([model], texts, Limits(**limits))

    return make


def answer(queue, *arguments):
    return asyncio.run(queue.answer(make_request(*arguments)))


def test_the_result_of_every_model(make_queue, make_result):
    assert answer(make_queue(), {"texts": ["a good film"]}) == [pack_page(make_result(["a", "good", "film"]).page)]
    (pair,) = answer(make_queue(texts=2), {"texts": ["it rains", "it is wet"]})
    assert pair["tokens"]["text"] == "it rains it is wet".split()


FORM = 'Send {"texts": ["..."]}.'
TOO_LONG = "The text is too long: the page takes up to 20 characters."


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, FORM),
        (b"[" * 150, 400, FORM),
        (b"\xff", 400, FORM),
        ({"text": "a"}, 400, FORM),
        ({"texts": ["a", "b"]}, 400, FORM),
        ({"texts": [7]}, 400, FORM),
        ({"texts": [" \n"]}, 422, "There is no text; type one."),
        ({"texts": ["a" * 21]}, 413, TOO_LONG),
        ({"texts": ["a" * 1000]}, 413, TOO_LONG),
        ({"texts": ["a b c d e"]}, 413, "The text has 6 tokens; the page takes up to 5."),
        ({"texts": ["no tree"]}, 422, "toy: no tree for the sentence. Give one."),
    ],
)
def test_invalid_requests(make_queue, body, status, reason):
    def explain(texts):
        raise DataError("no tree for the sentence", hint="Give one.")

    with pytest.raises(RequestError) as caught:
        answer(make_queue(explain=explain, characters=20, tokens=5), body)
    assert (caught.value.status, str(caught.value)) == (status, reason)


def test_half_a_pair_and_other_formats(make_queue):
    with pytest.raises(RequestError, match=r'^Send {"texts": \["...", "..."\]}\.$'):
        answer(make_queue(texts=2), {"texts": ["a"]})
    with pytest.raises(RequestError, match=r"^Send JSON, with the header Content-Type: application/json\.$") as caught:
        answer(make_queue(), {"texts": ["a"]}, "text/plain")
    assert caught.value.status == 415


def test_the_longest_text_is_accepted(make_queue):
    for letter in ("a", "\U0001f600"):
        assert answer(make_queue(characters=50), {"texts": [letter * 50]})[0]["tokens"] == {"text": [letter * 50]}


def test_lone_surrogates_are_replaced(make_queue):
    (result,) = answer(make_queue(), b'{"texts": ["a \\ud800"]}')
    assert result["tokens"] == {"text": ["a", "?"]}


def test_one_runs_and_few_wait(make_queue, make_result):
    release, active, counts = threading.Event(), [], []

    def explain(texts):
        active.append(texts)
        counts.append(len(active))
        release.wait(10)
        active.remove(texts)
        return make_result(["a"]).page

    queue = make_queue(explain=explain, waiting=2)

    async def send_all():
        requests = [asyncio.ensure_future(queue.answer(make_request({"texts": [f"text {n}"]}))) for n in range(5)]
        while not counts:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        release.set()
        return await asyncio.gather(*requests, return_exceptions=True)

    results = asyncio.run(send_all())
    assert max(counts) == 1
    assert len(counts) == 3
    busy = [(result.status, str(result)) for result in results if isinstance(result, RequestError)]
    assert busy == [(429, "The server is busy with other texts; try again in a moment.")] * 2
    assert len(answer(queue, {"texts": ["later"]})) == 1, "finished requests make room"
