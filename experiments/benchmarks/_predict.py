"""``bench predict``: a file of texts to a file of predictions, the encoder alone, and one short sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphattn.builders import BudgetBatches
from graphattn.experiments._cli.corpus_options import CorpusOptions
from graphattn.experiments._cli.output import open_output
from graphattn.experiments._cli.predict import predict_lines
from graphattn.experiments._cli.resumable import CHUNK
from graphattn.experiments._cli.text_stream import read_texts
from graphattn.experiments.benchmarks._contenders import Job, Settings
from graphattn.experiments.benchmarks._harness import (
    TIMES,
    column,
    format_number,
    summarize_times,
    time_interleaved,
    time_jobs,
)
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import CORPORA, Workload, corpus_texts, parse_workloads
from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions, load
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._prediction import MAX_EDGES, MAX_TOKENS

LENGTHS = ("2048x22", "512x109", "mr", "mtl16")
QUICK = ("256x22", "64x109")
SAMPLE_TOKENS = 48_000
SHORT, LATENCY_RUNS = 10, 200
TRAINING_TEXTS, WORDS = 256, 5_000

DESCRIPTION = f"""\
`predict`: the work of `graphattn predict MODEL TEXTS --out FILE` after it has started and loaded the model: reading the
file, tokenizing, graph construction, batching, model, writing. `bare encoder`: only the MS-Trans encoder (with its
defaults) on the same sentences, in the same batches, from prepared token vectors and graphs (new graphs for each
run). `one sentence`: `predict` of a loaded model on one text of {SHORT} words, a new text each time."""
_COLUMNS = {
    "workload": column("workload"),
    "what": column("title"),
    **TIMES,
    "tokens a second": lambda row: format_number(1000 * row["tokens"] / row["median_ms"]),
    "as fast as the encoder": column("share", ".0%"),
}


def measure(settings: Settings, *, options: MSTransOptions | None = None) -> BenchmarkReport:
    """Train a model for one epoch, save and load it, and time it."""
    workloads, missing = parse_workloads(settings.lengths)
    report = BenchmarkReport("predict", DESCRIPTION, _COLUMNS, settings, left_out=missing)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        estimator = train_model(folder / "model", options or MSTransOptions())
        for workload in workloads:
            report.rows += _measure_throughput(estimator, workload, folder, settings)
        report.rows.append(_measure_latency(estimator))
    return report


def make_texts(workload: Workload) -> list[str]:
    """The texts of a corpus, or random words for a workload of one length."""
    random = np.random.default_rng(0)
    if workload.name in CORPORA:
        texts = corpus_texts(workload.name)
        shuffled = [texts[number] for number in random.permutation(len(texts))]
        count = int(np.searchsorted(np.cumsum([len(text.split()) for text in shuffled]), SAMPLE_TOKENS)) + 1
        return shuffled[:count]
    return [_make_text(length, random) for length in workload.lengths]


def _make_text(length: int, random: np.random.Generator) -> str:
    """Draw words by Zipf's law."""
    ranks = np.exp(random.uniform(0, np.log(WORDS), length)).astype(int)
    return " ".join(f"word{rank}" for rank in ranks)


def train_model(path: Path, options: MSTransOptions, texts: Sequence[str] = ()) -> Any:
    """Train a classifier for one epoch on texts, or on random ones, save it and load it."""
    random = np.random.default_rng(1)
    texts = texts or [_make_text(22, random) for _ in range(TRAINING_TEXTS)]
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, logs=False)
    TextClassifier(options, training=training).fit(texts, ["yes", "no"] * (len(texts) // 2)).save(path)
    return load(path)


def _measure_throughput(estimator: Any, workload: Workload, folder: Path, settings: Settings) -> list[Record]:
    texts = make_texts(workload)
    encoder_job, tokens = make_encoder_job(estimator, texts)
    jobs = {"predict": make_predict_job(estimator, texts, folder), "encoder": encoder_job}
    times = time_jobs(jobs, settings, base="encoder")
    whole = _make_row(workload.name, "predict", "predict, end to end", tokens) | times["predict"]
    bare = _make_row(workload.name, "encoder", "bare encoder", tokens) | times["encoder"]
    return [{**whole, "share": bare["median_ms"] / whole["median_ms"]}, bare]


def make_predict_job(estimator: Any, texts: Sequence[str], folder: Path) -> Job:
    """The command ``predict``: texts of a file to a file of predictions."""
    source = folder / "texts.txt"
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

    def run(_: None) -> None:
        items = read_texts(str(source), estimator.task.corpus_kind, CorpusOptions())
        with open_output(folder / "predictions.jsonl") as file:
            file.writelines(predict_lines(estimator, items))

    return Job(run)


def make_encoder_job(estimator: Any, texts: Sequence[str]) -> tuple[Job, int]:
    """The encoder on random token vectors, in the batches of ``predict``, and the tokens of all batches."""
    corpus, encoder = Corpus.encode(estimator.builder_, [texts]), estimator.model_.encoder
    edges, numbers = corpus.num_edges(), []
    for start in range(0, len(texts), CHUNK):
        chunk = np.arange(start, min(start + CHUNK, len(texts)))
        budgets: dict[str, Any] = {"max_tokens": MAX_TOKENS, "max_edges": MAX_EDGES, "edges": edges[chunk]}
        numbers += [chunk[batch].tolist() for batch in BudgetBatches(corpus.lengths[chunk], **budgets, shuffle=False)]
    vectors = [torch.randn(int(corpus.lengths[batch].sum()), encoder.width) for batch in numbers]

    def run(batches: list[Batch]) -> None:
        with torch.inference_mode():
            for batch, tokens in zip(batches, vectors, strict=True):
                encoder(batch.graph, tokens)

    return Job(run, lambda: [corpus.batch(batch) for batch in numbers]), sum(map(len, vectors))


def _measure_latency(estimator: Any) -> Record:
    random = np.random.default_rng(2)
    job = Job(lambda text: estimator.predict([text]), lambda: _make_text(SHORT, random))
    times = time_interleaved({"sentence": job}, LATENCY_RUNS)["sentence"]
    return _make_row(f"1x{SHORT}", "sentence", "one sentence", SHORT) | summarize_times(times)


def _make_row(workload: str, name: str, title: str, tokens: int) -> Record:
    return {"workload": workload, "contender": name, "title": title, "tokens": tokens}
