"""What the server answers: results, limits, a queue, and refusals that say why."""

import asyncio
import json
import threading

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.page.answers import Limits, LiveModel, Refused, RequestQueue
from graphattn.experiments.page.packing import packed


class Request:
    """As much of a request as the desk reads; the body comes in pieces."""

    def __init__(self, body, kind="application/json"):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"content-type": kind}

    async def stream(self):
        for begin in range(0, len(self.body), 7):
            yield self.body[begin : begin + 7]


@pytest.fixture
def desk_of(made):
    """A desk whose model tells the words of the text; ``look`` may replace it."""

    def make(*, texts=1, look=None, **limits):
        found = look or (lambda said: made(" ".join(said).split()).page)
        model = LiveModel("toy", lambda text: 1 + len(text.split()), found)
        return RequestQueue([model], texts, Limits(**limits))

    return make


def answer(desk, *arguments):
    return asyncio.run(desk.answer(Request(*arguments)))


def refusal(desk, *arguments):
    with pytest.raises(Refused) as caught:
        answer(desk, *arguments)
    return caught.value.status, str(caught.value)


def test_the_result_of_every_model(desk_of, made):
    assert answer(desk_of(), {"texts": ["a good film"]}) == [packed(made(["a", "good", "film"]).page)]


def test_a_pair_is_two_texts(desk_of):
    (result,) = answer(desk_of(texts=2), {"texts": ["it rains", "it is wet"]})
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
def test_what_is_refused(desk_of, body, status, reason):
    assert refusal(desk_of(characters=20, tokens=5), body) == (status, reason)


def test_half_a_pair(desk_of):
    assert refusal(desk_of(texts=2), {"texts": ["a"]}) == (400, 'Send {"texts": ["...", "..."]}.')


def test_the_longest_text_may_come(desk_of):
    for letter in ("a", "\U0001f600"):
        assert answer(desk_of(characters=50), {"texts": [letter * 50]})[0]["tokens"] == {"text": [letter * 50]}


def test_half_a_character_is_replaced(desk_of):
    (result,) = answer(desk_of(), b'{"texts": ["a \\ud800"]}')
    assert result["tokens"] == {"text": ["a", "?"]}


def test_only_json(desk_of):
    assert refusal(desk_of(), {"texts": ["a"]}, "text/plain") == (
        415,
        "Send JSON, with the header Content-Type: application/json.",
    )


def test_an_error_of_ours_is_told(desk_of):
    def look(said):
        raise DataError("no tree for the sentence", hint="Give one.")

    assert refusal(desk_of(look=look), {"texts": ["a"]}) == (422, "toy: no tree for the sentence. Give one.")


def test_one_at_a_time_and_few_wait(desk_of, made):
    free, inside, most = threading.Event(), [], []

    def look(said):
        inside.append(said)
        most.append(len(inside))
        free.wait(10)
        inside.remove(said)
        return made(["a"]).page

    desk = desk_of(look=look, waiting=2)

    async def crowd():
        asked = [asyncio.ensure_future(desk.answer(Request({"texts": [f"text {n}"]}))) for n in range(5)]
        while not most:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        free.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(crowd())
    assert max(most) == 1
    assert len(most) == 3
    busy = [(one.status, str(one)) for one in found if isinstance(one, Refused)]
    assert busy == [(503, "The server is busy with other texts; try again in a moment.")] * 2
    assert len(answer(desk, {"texts": ["later"]})) == 1, "those who left make room"
