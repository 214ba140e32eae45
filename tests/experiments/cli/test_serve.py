"""``graphattn serve``: a server until SIGTERM, its errors at the start, and the container of docs/serve.md."""

import configparser
import http.client
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from graphattn import load

pytest.importorskip("fastapi")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "serve.md"
TEXTS = ["a good film", "a bad film"] * 200


@contextmanager
def serving(start_command, *words):
    """A server: the command, and its port."""
    process = start_command("serve", *words)
    try:
        line = process.stdout.readline()
        match = re.fullmatch(r"http://[\d.]+:(\d+)/ serves (\w+); Ctrl-C ends it\n", line)
        assert match, (line, process.stderr.read())
        yield process, int(match[1])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def start_request(port, texts):
    """Send a request; the answer is read later."""
    client = socket.create_connection(("127.0.0.1", port), timeout=300)
    body = json.dumps({"texts": texts}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return client


def read_answer(client):
    with client:
        answer = http.client.HTTPResponse(client, method="POST")
        answer.begin()
        return answer.status, json.loads(answer.read())


@pytest.mark.slow
def test_sigterm_stops_after_what_was_accepted(start_command, classifier):
    expected = {"predictions": load(classifier).predict_rows(TEXTS)}
    with serving(start_command, classifier, "--port", 0) as (process, port):
        clients = [start_request(port, TEXTS) for _ in range(6)]
        url = f"http://127.0.0.1:{port}/metrics"
        while b"\ngraphattn_waiting_requests 6\n" not in urllib.request.urlopen(url).read():
            if b'status="200"} 6' in urllib.request.urlopen(url).read():
                break  # all are answered already
        process.send_signal(signal.SIGTERM)
        assert [read_answer(client) for client in clients] == [(200, expected)] * 6
        out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "nowhere is no model directory: it has no config.json. Give one that `save` or `train` wrote"),
        ("MODEL --host nowhere.invalid", "nowhere.invalid port 8000 is not available ("),
        ("MODEL --port PORT", "127.0.0.1 port PORT is not available (Address already in use); name another --port"),
    ],
)
def test_errors_at_the_start(graphattn, classifier, words, message):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = words.replace("MODEL", str(classifier)).replace("PORT", port)
        answer = graphattn("serve", *words.split())
    assert answer.error.startswith(message.replace("PORT", port))


def test_without_the_extra(graphattn, classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    answer = graphattn("serve", classifier)
    message = "error: graphattn serve needs fastapi, which is not installed: pip install 'graphattn[serve]'\n"
    assert (answer.code, answer.err) == (2, message)


def read_dockerfile():
    """The instructions of the Dockerfile in docs/serve.md: (name, arguments)."""
    if not PAGE.is_file():
        pytest.skip("there is no clone")
    (text,) = re.findall(r"^```dockerfile\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in text.splitlines()]


def test_the_steps_of_the_dockerfile(start_command, classifier):
    """Each is run here as far as it can be without a container, and an unknown one fails."""
    config = configparser.ConfigParser()
    config.read(PAGE.parents[1] / "setup.cfg", encoding="utf-8")
    steps = dict(read_dockerfile())
    for name, arguments in read_dockerfile():
        if name == "FROM":
            version = re.fullmatch(r"python:(3\.\d+)-slim", arguments)[1]
            assert version in SpecifierSet(config["options"]["python_requires"])
        elif name == "RUN" and arguments.startswith("pip install"):
            requirement = Requirement(shlex.split(arguments)[-1])
            assert requirement.name == config["metadata"]["name"]
            assert requirement.extras <= {*config["options.extras_require"]}
        elif name == "RUN":
            assert arguments == f"useradd --create-home {steps['USER']}"
        else:
            assert name in ("USER", "COPY", "EXPOSE", "CMD", "STOPSIGNAL", "HEALTHCHECK"), "a step without a check"
    command, *words = json.loads(steps["CMD"])
    folder, port = steps["COPY"].split()[1], steps["EXPOSE"]
    assert (command, words[0]) == ("graphattn", "serve")
    words = [{folder: str(classifier), port: "0"}.pop(word, word) for word in words[1:]]
    assert {str(classifier), "0"} <= {*words}
    with serving(start_command, *words) as (server, free_port):
        check = shlex.split(steps["HEALTHCHECK"].removeprefix("CMD ").replace(port, str(free_port)))
        check[0] = sys.executable
        assert subprocess.run(check, check=False).returncode == 0
        server.send_signal(getattr(signal, steps["STOPSIGNAL"]))
        assert server.wait() == 0
    assert subprocess.run(check, check=False, capture_output=True).returncode != 0, "the server has ended"
