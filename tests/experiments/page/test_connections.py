"""Connections whose clients are late, and more of them than the server accepts."""

import asyncio
import json
import logging
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from graphattn.experiments._serving.requests import Limits
from graphattn.experiments.page._live_models import LiveModel

SECONDS = 0.25
HEAD = b"POST /attention HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def port(make_result, serve_models, request):
    def explain(texts):
        time.sleep(SECONDS * 1.5 if "slow" in texts[0] else 0)
        return make_result(texts[0].split()).page

    model = LiveModel("toy", lambda text: len(text.split()), explain)
    run = asyncio.run if request.param == "asyncio" else pytest.importorskip("uvloop").run
    with serve_models([model], run=run, limits=Limits(connections=4, seconds=SECONDS)) as port:
        yield port


def connect(port, sent=b""):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(120)
    client.connect(("127.0.0.1", port))
    client.sendall(sent)
    return client


def make_request(text, headers=b""):
    body = json.dumps({"texts": [text]}).encode()
    return HEAD + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_all(client):
    """Read until the server closes the connection."""
    received = b""
    try:
        while data := client.recv(100_000):
            received += data
    except ConnectionResetError:
        pass
    return received


def ask(port, text):
    with connect(port, make_request(text, b"Connection: close\r\n")) as client:
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return json.loads(body)["results"][0]["tokens"]["text"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"GET / HT", b""),
        (HEAD, b""),
        (PAGE, b"HTTP/1.1 200 "),
        (PAGE + b"GET", b"HTTP/1.1 200 "),
        (PAGE[:-2] + b"Content-Length: 9\r\n\r\n", b"HTTP/1.1 200 "),
        (make_request("a film")[:-3], b"HTTP/1.1 408 "),
    ],
    ids=["nothing", "part of a line", "part of a header", "a request", "two requests", "no body", "part of a body"],
)
def test_a_late_client_is_disconnected(port, sent, status):
    with connect(port, sent) as client:
        assert read_all(client)[: len(status) or None] == status


def test_a_client_that_does_not_read_is_disconnected(port):
    with connect(port) as client, pytest.raises((ConnectionResetError, BrokenPipeError)):
        client.sendall(PAGE * 1_000_000)


def test_a_late_body_is_an_error(port):
    with connect(port, make_request("a film")[:-3]) as client:
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert json.loads(body) == {"error": f"The text did not arrive within {SECONDS} seconds."}
    assert b"connection: close" in head.lower()


@pytest.mark.parametrize("head", [PAGE[:-2] + b"A: " + b"a" * 300_000, HEAD + b"A: a\r\n" * 20_000, b"GET /" * 30_000])
def test_a_long_header_is_an_error(port, head):
    with connect(port) as client:
        with suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(head)
        assert read_all(client)[:13] in (b"", b"HTTP/1.1 400 "), "none if the client sends after its end"
    assert ask(port, "a film") == ["a", "film"]


def test_time_for_the_answer_does_not_count(port):
    assert ask(port, "a slow film") == ["a", "slow", "film"]


def test_more_clients_than_connections_wait(port):
    with ExitStack() as stack:
        for sent in (b"", b"POST /att", HEAD, PAGE) * 3:
            stack.enter_context(connect(port, sent))
        assert ask(port, "a good film") == ["a", "good", "film"]


def test_pipelined_requests(port):
    with connect(port, make_request("one film") + make_request("another", b"Connection: close\r\n")) as client:
        answer = read_all(client)
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.index(b'["one","film"]') < answer.index(b'["another"]')


def test_a_client_that_leaves_before_its_answers_is_no_defect(port, caplog):
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    with connect(port, PAGE * 50):
        time.sleep(0.1)  # until the answers fill the buffers
    assert ask(port, "a film") == ["a", "film"]
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert caplog.text == ""


def test_a_request_behind_others_has_its_time_for_the_body(port):
    whole, late = make_request("a slow film"), make_request("another", b"Connection: close\r\n")
    with connect(port, whole + late[:-3]) as client:
        time.sleep(SECONDS * 1.2)  # the first one is computed
        client.sendall(late[-3:])
        assert read_all(client).count(b"HTTP/1.1 200 ") == 2


def test_bytes_after_the_last_request(port):
    with connect(port, make_request("a slow film", b"Connection: close\r\n")) as client:
        time.sleep(0.1)
        client.sendall(b"\r\n")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
