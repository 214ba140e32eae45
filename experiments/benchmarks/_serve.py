"""``bench serve``: many clients of ``graphattn serve``, each with one text at a time, and ``predict`` of all texts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import psutil

from graphattn._optional_packages import import_optional
from graphattn.experiments.benchmarks._contenders import Job, Settings
from graphattn.experiments.benchmarks._harness import TIMES, column, format_number, time_jobs
from graphattn.experiments.benchmarks._predict import make_predict_job, make_texts, train_model
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads
from graphattn.models import MSTransOptions

LENGTHS = ("2048x22", "512x109", "mr")
QUICK = ("400x22",)
DESCRIPTION = """\
`serve`: clients of `graphattn serve MODEL`, each of which sends its share of the texts over one connection, a request
after the answer to the one before. The server is another process on the same machine, so clients and server share its
cores. `predict`: `graphattn predict MODEL TEXTS --out FILE` on the same texts, as in `bench predict`. The model is
MS-Trans with its defaults. `CPU, ms a text` is what the process that predicts uses of all cores, without that of the
clients. Latency is the time from a request to its answer, over all runs."""
_COLUMNS = {
    "workload": column("workload"),
    "what": column("title"),
    **TIMES,
    "texts a second": lambda row: format_number(1000 * row["texts"] / row["median_ms"]),
    "as fast as predict": column("share", ".0%"),
    "CPU, ms a text": column("cpu_ms", ".2f"),
    "predict's CPU / this": column("cpu_share", ".0%"),
    "latency p50, ms": column("p50_ms", ",.0f"),
    "latency p99, ms": column("p99_ms", ",.0f"),
}


@dataclass(frozen=True)
class Clients:
    """Clients of a server."""

    count: int
    texts: int  # in each request

    @property
    def title(self) -> str:
        """What they are in a table."""
        return f"serve, {self.count} clients, {self.texts} text{'s' if self.texts > 1 else ''} a request"


class Server(NamedTuple):
    """A running server."""

    process: psutil.Process
    address: tuple[str, int]


CLIENTS = (Clients(200, 1), Clients(25, 8))


def measure(
    settings: Settings, *, options: MSTransOptions | None = None, clients: Sequence[Clients] = CLIENTS
) -> BenchmarkReport:
    """Train a model for one epoch, serve it, and time the clients."""
    import_optional("fastapi", "graphattn bench serve needs", "serve")
    workloads, missing = parse_workloads(settings.lengths)
    report = BenchmarkReport("serve", DESCRIPTION, _COLUMNS, settings, left_out=missing)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        estimator = train_model(folder / "model", options or MSTransOptions())
        with run_server(folder / "model") as server:
            for workload in workloads:
                texts = make_texts(workload)
                predict = make_predict_job(estimator, texts, folder)
                report.rows += _measure_workload(workload, texts, predict, settings, server, clients)
    return report


@contextmanager
def run_server(model: Path) -> Iterator[Server]:
    """A server of a model in another process."""
    command = [sys.executable, "-m", "graphattn", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline().partition(" ")[0])
            assert url.hostname is not None and url.port is not None
            yield Server(psutil.Process(process.pid), (url.hostname, url.port))
        finally:
            process.terminate()


def _measure_workload(
    workload: Workload,
    texts: Sequence[str],
    predict: Job,
    settings: Settings,
    server: Server,
    clients: Sequence[Clients],
) -> list[Record]:
    latencies: dict[str, list[float]] = {each.title: [] for each in clients}
    seconds: dict[str, list[float]] = {name: [] for name in ("predict", *latencies)}  # of CPU

    def send(each: Clients) -> None:
        latencies[each.title] += asyncio.run(send_texts(server.address, texts, each))

    def count_seconds(name: str, process: psutil.Process, run: Callable[[], object]) -> Job:
        def run_and_count(_: None) -> None:
            start = sum(process.cpu_times()[:2])
            run()
            seconds[name].append(sum(process.cpu_times()[:2]) - start)

        return Job(run_and_count)

    jobs = {"predict": count_seconds("predict", psutil.Process(), partial(predict.run, None))}
    jobs |= {each.title: count_seconds(each.title, server.process, partial(send, each)) for each in clients}
    times = time_jobs(jobs, settings, base="predict")
    rows: list[Record] = []
    for name, of_job in times.items():
        cpu_ms = 1000 * float(np.median(seconds[name])) / len(texts)
        row: Record = {"workload": workload.name, "texts": len(texts), "title": name, "cpu_ms": cpu_ms}
        row |= {"contender": name.partition(",")[0]} | of_job
        if name in latencies:
            p50, p99 = np.percentile(latencies[name], [50, 99]).tolist()
            row |= {"share": times["predict"]["median_ms"] / of_job["median_ms"], "p50_ms": p50, "p99_ms": p99}
            row["cpu_share"] = rows[0]["cpu_ms"] / max(cpu_ms, 1e-9)
        rows.append(row)
    return rows


async def send_texts(address: tuple[str, int], texts: Sequence[str], clients: Clients) -> list[float]:
    """Send all texts from clients at the same time; return the milliseconds of each request."""
    requests = [texts[start : start + clients.texts] for start in range(0, len(texts), clients.texts)]
    shares = (requests[number :: clients.count] for number in range(clients.count))
    latencies = await asyncio.gather(*(_send_share(address, share) for share in shares))
    return [latency for each in latencies for latency in each]


async def _send_share(address: tuple[str, int], requests: Sequence[Sequence[str]]) -> list[float]:
    reader, writer = await asyncio.open_connection(*address)
    latencies = []
    for texts in requests:
        body = json.dumps({"texts": texts}).encode()
        head = f"POST /predict HTTP/1.1\r\nHost: {address[0]}\r\nContent-Type: application/json\r\n"
        start = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length:")[2].split()[0]))
        assert answer.split()[1] == b"200", answer.decode()
        latencies.append(1000 * (time.perf_counter() - start))
    writer.close()
    return latencies
