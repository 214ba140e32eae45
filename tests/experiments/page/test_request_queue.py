"""The request queue: results, limits, and errors with reasons."""

import asyncio
import json
import threading

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.page.packing import pack_page
from graphattn.experiments.page.request_queue import Limits, LiveModel, RequestError, RequestQueue


class Request:
    """The parts of a request that the queue reads; the body arrives in pieces."""

    def __init__(self, body, kind="application/json"):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"content-type": kind}

    async def stream(self):
        for begin in range(0, len(self.body), 7):
            yield self.body[begin : begin + 7]


@pytest.fixture
def make_queue(made):
    """A queue with a toy model; ``look`` replaces its attention."""

    def make(*, texts=1, look=None, **limits):
        found = look or (lambda said: made(" ".join(said).split()).page)
        model = LiveModel("toy", lambda text: 1 + len(text.split()), found)
        return RequestQueue([model], texts, Limits(**limits))

    return make


def answer(queue, *arguments):
    return asyncio.run(queue.answer(Request(*arguments)))


def error_of(queue, *arguments):
    with pytest.raises(RequestError) as caught:
        answer(queue, *arguments)
    return caught.value.status, str(caught.value)


def test_the_result_of_every_model(make_queue, made):
    assert answer(make_queue(), {"texts": ["a good film"]}) == [pack_page(made(["a", "good", "film"]).page)]


def test_a_pair_is_two_texts(make_queue):
    (result,) = answer(make_queue(texts=2), {"texts": ["it rains", "it is wet"]})
    assert result["tokens"]["text"] == "it rains it is wet".split()


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, 'Send {"texts": ["..."]}.'),
        (b"[" * 150, 400, 'Send {"texts": ["..."]}.'),
        (b"\xff", 400, 'Send {"texts": ["..."]}.'),
        ({"text": "a"}, 400, 'Send {"texts": ["..."]}.'),
        ({"texts": ["a", "b"]}, 400, 'Send {"texts": ["..."]}.'),
        ({"texts": [7]}, 400, 'Send {"texts": ["..."]}.'),
        ({"texts": [" \n"]}, 422, "There is no text; type one."),
        ({"texts": ["a" * 21]}, 413, "The text is too long: the page takes up to 20 characters."),
        ({"texts": ["a" * 1000]}, 413, "The text is too long: the page takes up to 20 characters."),
        ({"texts": ["a b c d e"]}, 413, "The text has 6 tokens; the page takes up to 5."),
    ],
)
def test_invalid_requests(make_queue, body, status, reason):
    assert error_of(make_queue(characters=20, tokens=5), body) == (status, reason)


def test_half_a_pair(make_queue):
    assert error_of(make_queue(texts=2), {"texts": ["a"]}) == (400, 'Send {"texts": ["...", "..."]}.')


def test_the_longest_text_may_come(make_queue):
    for letter in ("a", "\U0001f600"):
        assert answer(make_queue(characters=50), {"texts": [letter * 50]})[0]["tokens"] == {"text": [letter * 50]}


def test_lone_surrogates_are_replaced(make_queue):
    (result,) = answer(make_queue(), b'{"texts": ["a \\ud800"]}')
    assert result["tokens"] == {"text": ["a", "?"]}


def test_only_json(make_queue):
    assert error_of(make_queue(), {"texts": ["a"]}, "text/plain") == (
        415,
        "Send JSON, with the header Content-Type: application/json.",
    )


def test_errors_of_models_are_reported(make_queue):
    def look(said):
        raise DataError("no tree for the sentence", hint="Give one.")

    assert error_of(make_queue(look=look), {"texts": ["a"]}) == (422, "toy: no tree for the sentence. Give one.")


def test_one_at_a_time_and_few_wait(make_queue, made):
    free, inside, most = threading.Event(), [], []

    def look(said):
        inside.append(said)
        most.append(len(inside))
        free.wait(10)
        inside.remove(said)
        return made(["a"]).page

    queue = make_queue(look=look, waiting=2)

    async def crowd():
        asked = [asyncio.ensure_future(queue.answer(Request({"texts": [f"text {n}"]}))) for n in range(5)]
        while not most:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        free.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(crowd())
    assert max(most) == 1
    assert len(most) == 3
    busy = [(one.status, str(one)) for one in found if isinstance(one, RequestError)]
    assert busy == [(503, "The server is busy with other texts; try again in a moment.")] * 2
    assert len(answer(queue, {"texts": ["later"]})) == 1, "those who left make room"
