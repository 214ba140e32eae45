"""The server: its answers, the hosts it rejects, and errors at its start."""

import http.client
import json
import logging
import socket
import sys
import time
from contextlib import ExitStack, closing

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments._serving.requests import Limits
from graphattn.experiments.page._live_models import LiveModel
from graphattn.experiments.page._server import serve


@pytest.fixture(scope="module")
def port(make_result, serve_models):
    def explain(texts):
        if "broken" in texts[0]:
            raise RuntimeError("a defect")
        return make_result(texts[0].split()).page

    model = LiveModel("toy", lambda text: len(text.split()), explain)
    with serve_models([model], limits=Limits(characters=100, seconds=2.0)) as port:
        yield port


def request(port, method, path, body=None, **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read().decode()


def post(port, data, **headers):
    return request(port, "POST", "/attention", json.dumps(data), Content_Type="application/json", **headers)


def test_the_page_has_security_headers(port):
    response, text = request(port, "GET", "/")
    assert response.status == 200
    assert text.startswith("<!doctype html>")
    assert "connect-src 'self'" in response.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-store"


def test_the_weights_of_a_text_or_an_error(port):
    response, text = post(port, {"texts": ["<script>alert(1)</script> film"]})
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(text)["results"][0]["tokens"] == {"text": ["<script>alert(1)</script>", "film"]}
    response, text = post(port, {"texts": ["a" * 101]})
    assert response.status == 413
    assert json.loads(text) == {"error": "The text is too long: the page takes up to 100 characters."}


def test_only_this_machine_is_accepted_as_the_host(port):
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example"):
        for response, text in (request(port, "GET", "/", Host=host), post(port, {"texts": ["a film"]}, Host=host)):
            assert response.status == 400
            name = host.partition(":")[0]
            assert json.loads(text) == {"error": f"This server does not answer for the host {name}."}
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert request(port, "GET", "/", Host=f"{host}:{port}")[0].status == 200


def test_other_routes(port):
    wrong_methods = [("POST", "/"), ("PUT", "/attention"), ("DELETE", "/attention"), ("GET", "/attention")]
    paths = ("/docs", "/openapi.json", "/../setup.cfg", "/page.html")
    routes = [(*route, 405) for route in wrong_methods] + [("GET", path, 404) for path in paths]
    reason = 'There is GET /, the page, and POST /attention, which takes {"texts": [...]}.'
    for method, path, status in routes:
        response, text = request(port, method, path)
        assert response.status == status
        assert json.loads(text) == {"error": reason}
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_pages_of_other_sites_are_rejected(port):
    response, _ = request(
        port, "OPTIONS", "/attention", Origin="http://evil.example", Access_Control_Request_Method="POST"
    )
    assert "Access-Control-Allow-Origin" not in response.headers
    assert request(port, "POST", "/attention", '{"texts": ["a"]}', Content_Type="text/plain")[0].status == 415


def test_it_keeps_running_after_an_error(port):
    assert post(port, {"texts": ["broken"]})[0].status == 500
    assert post(port, {"texts": ["a film"]})[0].status == 200


def send_part(port, stack):
    """Open a connection and send a request without the end of its body."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
    headers = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 99"
    client.sendall(f'POST /attention HTTP/1.1\r\n{headers}\r\n\r\n{{"texts":'.encode())
    return client


def test_clients_that_stall_do_not_lock_out_others(port):
    with ExitStack() as stack:
        stalled = [send_part(port, stack) for _ in range(Limits().waiting + 4)]
        time.sleep(0.2)
        assert post(port, {"texts": ["a film"]})[0].status == 200
        for client in stalled:
            answer = ""
            while not answer.endswith("}"):  # head and body may arrive apart
                answer += client.recv(10_000).decode()
            assert answer.startswith("HTTP/1.1 408 ")
            assert json.loads(answer.partition("\r\n\r\n")[2]) == {"error": "The text did not arrive within 2 seconds."}


def test_a_client_that_hangs_up_leaves_no_traceback(port):
    logger, records = logging.getLogger("uvicorn.error"), []
    handler, level = logging.Handler(), logger.level
    handler.emit = records.append
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with ExitStack() as stack:
            send_part(port, stack)
        with ExitStack() as stack:  # hangs up while its text is predicted
            send_part(port, stack).sendall(b' ["a film"]}'.ljust(90))
        time.sleep(0.3)
        assert post(port, {"texts": ["a film"]})[0].status == 200
        assert [record.getMessage() for record in records] == []
        assert post(port, {"texts": ["broken"]})[0].status == 500
        deadline = time.monotonic() + 10
        while not records and time.monotonic() < deadline:  # it is written after the answer
            time.sleep(0.01)
        assert len(records) == 1, "a defect of ours leaves one"
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            serve([], port=port)
    assert str(caught.value) == (
        f"127.0.0.1 port {port} is not available (Address already in use); name another --port, or 0 for a free one"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "0x0", "0:0::0", ""])
def test_every_address_is_rejected(host):
    with pytest.raises(ConfigError, match=r"is every address of this machine; name the one to listen on$"):
        serve([], host=host)


@pytest.mark.parametrize("package", ["fastapi", "httptools", "uvicorn"])
def test_without_the_extra(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as caught:
        serve([])
    assert str(caught.value) == (
        f"the live page needs {package}, which is not installed: pip install 'graphattn[inspect]'"
    )
