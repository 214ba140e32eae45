"""``bench serve``: many clients of ``graphattn serve``, each with one text at a time, and ``predict`` of all texts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from graphattn._optional_packages import import_optional
from graphattn.experiments.benchmarks._contenders import Job, Settings
from graphattn.experiments.benchmarks._harness import TIMES, column, format_number, time_jobs
from graphattn.experiments.benchmarks._predict import make_predict_job, make_texts, train_model
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads
from graphattn.models import MSTransOptions

LENGTHS = ("2048x22", "512x109", "mr")
QUICK = ("400x22",)
CLIENTS = 200

DESCRIPTION = f"""\
`serve`: {CLIENTS} clients of `graphattn serve MODEL`, each of which sends its share of the texts, one after the other,
over one connection. The server is another process on the same machine, so clients and server share its cores.
`predict`: `graphattn predict MODEL TEXTS --out FILE` on the same texts, as in `bench predict`. The model is MS-Trans
(three layers, 300 wide, ten heads). Latency is the time from a request to its answer, over all runs."""
_COLUMNS = {
    "workload": column("workload"),
    "what": column("title"),
    **TIMES,
    "texts a second": lambda row: format_number(1000 * row["texts"] / row["median_ms"]),
    "as fast as predict": column("share", ".0%"),
    "latency p50, ms": column("p50_ms", ",.0f"),
    "latency p99, ms": column("p99_ms", ",.0f"),
}


def measure(settings: Settings, *, options: MSTransOptions | None = None, clients: int = CLIENTS) -> BenchmarkReport:
    """Train a model for one epoch, serve it, and time the clients."""
    import_optional("fastapi", "graphattn bench serve needs", "serve")
    workloads, missing = parse_workloads(settings.lengths)
    report = BenchmarkReport("serve", DESCRIPTION, _COLUMNS, settings, left_out=missing)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        estimator = train_model(folder / "model", options or MSTransOptions())
        with run_server(folder / "model") as address:
            for workload in workloads:
                report.rows += _measure_workload(estimator, address, workload, folder, settings, clients)
    return report


@contextmanager
def run_server(model: Path) -> Iterator[tuple[str, int]]:
    """Host and port of a server of a model, in another process."""
    command = [sys.executable, "-m", "graphattn", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline().partition(" ")[0])
            assert url.hostname is not None and url.port is not None
            yield url.hostname, url.port
        finally:
            process.terminate()


def _measure_workload(
    estimator: object,
    address: tuple[str, int],
    workload: Workload,
    folder: Path,
    settings: Settings,
    clients: int,
) -> list[Record]:
    texts, latencies = make_texts(workload), list[float]()
    jobs = {
        "predict": make_predict_job(estimator, texts, folder),
        "serve": Job(lambda _: latencies.extend(asyncio.run(send_texts(address, texts, clients)))),
    }
    times = time_jobs(jobs, settings, base="predict")
    row = {"workload": workload.name, "texts": len(texts)}
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    share = times["predict"]["median_ms"] / times["serve"]["median_ms"]
    served = {"contender": "serve", "title": f"serve, {clients} clients", "share": share, "p50_ms": p50, "p99_ms": p99}
    return [row | {"contender": "predict", "title": "predict"} | times["predict"], row | served | times["serve"]]


async def send_texts(address: tuple[str, int], texts: Sequence[str], clients: int) -> list[float]:
    """Send each text in a request, from so many clients at the same time; return the milliseconds of each."""
    shares = (texts[number::clients] for number in range(clients))
    latencies = await asyncio.gather(*(_send_share(address, share) for share in shares))
    return [latency for each in latencies for latency in each]


async def _send_share(address: tuple[str, int], texts: Sequence[str]) -> list[float]:
    reader, writer = await asyncio.open_connection(*address)
    latencies = []
    for text in texts:
        body = json.dumps({"texts": [text]}).encode()
        head = f"POST /predict HTTP/1.1\r\nHost: {address[0]}\r\nContent-Type: application/json\r\n"
        start = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length:")[2].split()[0]))
        assert answer.split()[1] == b"200", answer.decode()
        latencies.append(1000 * (time.perf_counter() - start))
    writer.close()
    return latencies
