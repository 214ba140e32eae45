"""``bench serve``: clients get answers from a server in another process, and times are compared with ``predict``."""

import asyncio
import json
from contextlib import suppress

import pytest

from graphattn.experiments.benchmarks import _serve as serve
from graphattn.experiments.benchmarks._contenders import Settings

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def report(small):
    return serve.measure(
        Settings(("6x7",), repeats=2), options=small, clients=[serve.Clients(3, 1), serve.Clients(2, 2)]
    )


@pytest.mark.slow
def test_rows(report):
    predict, one, two = report.rows
    assert [row["contender"] for row in report.rows] == ["predict", "serve", "serve"]
    assert {row["texts"] for row in report.rows} == {6}
    assert one["share"] == predict["median_ms"] / one["median_ms"]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in (one, two))
    assert min(row["cpu_ms"] for row in report.rows) >= 0
    assert [cell(one) for cell in report.columns.values()][:2] == ["6x7", "serve, 3 clients, 1 text a request"]


@pytest.mark.parametrize("texts", [1, 2])
def test_each_text_is_sent_once(texts):
    sent, clients = [], serve.Clients(3, texts)

    async def answer(reader, writer):
        with suppress(asyncio.IncompleteReadError):  # at the end
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                sent.extend(json.loads(await reader.readexactly(length))["texts"])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def run():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            texts = [f"text {number}" for number in range(7)]
            return texts, await serve.send_texts(server.sockets[0].getsockname(), texts, clients)

    expected, latencies = asyncio.run(run())
    assert sorted(sent) == expected
    assert len(latencies) == -(-7 // texts)
