"""``bench predict``: from a file of texts to a file of predictions, beside the bare encoder; and one short sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphattn.builders import BudgetBatches
from graphattn.experiments.benchmarks.clock import Job, Spread, interleaved
from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, figure
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import Target
from graphattn.experiments.benchmarks.workloads import CORPORA, Workload, corpus_texts, parse_workloads
from graphattn.experiments.cli.corpus_options import CorpusOptions
from graphattn.experiments.cli.output_files import new_file
from graphattn.experiments.cli.predict import CHUNK, predicted_lines
from graphattn.experiments.cli.text_stream import read_texts
from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions, load
from graphattn.models.corpus import Batch, Corpus
from graphattn.models.estimators.prediction import MAX_EDGES, MAX_TOKENS

LENGTHS = ("2048x22", "512x109", "mr", "mtl16")
QUICK = ("256x22", "64x109")
SAMPLE_TOKENS = 48_000
SHORT, LATENCY_RUNS = 10, 200
AS_FAST = Target(0.75)
LATENCY = Target(5, at_least=False, unit="ms")
TRAINING_TEXTS, WORDS = 256, 5_000

COMPARED = f"""\
`predict`: what `graphattn predict MODEL TEXTS --out FILE` does after it has started and loaded the model: reading the
file, tokenizing, making graphs, batching, model, writing. `bare encoder`: the MS-Trans encoder alone (three layers,
300 wide, ten heads) on the same sentences, in the batches that predict makes, from token vectors and graphs that lie
ready (new graphs for each run). `one sentence`: `predict` of a loaded model on one text of {SHORT} words, another
text each time."""

TABLE = {
    "workload": COLUMNS["workload"],
    "what": lambda row: row["title"],
    "median, ms": COLUMNS["median, ms"],
    "quartiles, ms": COLUMNS["quartiles, ms"],
    "runs": COLUMNS["runs"],
    "tokens a second": lambda row: figure(1000 * row["tokens"] / row["median_ms"]),
    "as fast as the encoder": lambda row: f"{row['share']:.0%}" if "share" in row else "",
    "target": lambda row: row.get("target") or "",
}


def measure(settings: Settings, *, options: MSTransOptions | None = None) -> Report:
    """Train a model for a moment, save and load it, and time it.

    Parameters
    ----------
    settings : workloads and repeats; there are no peers
    options : of the encoder; the paper's when None
    """
    workloads, left_out = parse_workloads(settings.lengths)
    rows = []
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        estimator = _loaded_model(folder / "model", options or MSTransOptions())
        for workload in workloads:
            texts = texts_of(workload)
            rows += _throughput(estimator, workload.name, texts, folder, settings)
        rows.append(_latency(estimator))
    return Report("predict", COMPARED, TABLE, rows, settings.as_row(), left_out=left_out)


def texts_of(workload: Workload) -> list[str]:
    """The texts of a corpus, or random words for a workload of one length."""
    random = np.random.default_rng(0)
    if workload.name in CORPORA:
        texts = corpus_texts(workload.name)
        shuffled = [texts[number] for number in random.permutation(len(texts))]
        count = int(np.searchsorted(np.cumsum([len(text.split()) for text in shuffled]), SAMPLE_TOKENS)) + 1
        return shuffled[:count]
    return [_random_text(length, random) for length in workload.lengths]


def _random_text(length: int, random: np.random.Generator) -> str:
    """Words as frequent as in English: the second half as often as the first, and so on."""
    ranks = np.exp(random.uniform(0, np.log(WORDS), length)).astype(int)
    return " ".join(f"word{rank}" for rank in ranks)


def _loaded_model(path: Path, options: MSTransOptions) -> Any:
    random = np.random.default_rng(1)
    texts = [_random_text(22, random) for _ in range(TRAINING_TEXTS)]
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, logs=False)
    TextClassifier(options, training=training).fit(texts, ["yes", "no"] * (len(texts) // 2)).save(path)
    return load(path)


def _throughput(estimator: Any, name: str, texts: Sequence[str], folder: Path, settings: Settings) -> list[Row]:
    source = folder / "texts.txt"
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    batches = _EncoderBatches.of(estimator, texts)
    jobs = {
        "predict": Job(lambda _: predict_file(estimator, source, folder / "predictions.jsonl")),
        "encoder": Job(batches.encode, batches.graphs),
    }
    spreads = interleaved(jobs, settings.repeats, seconds=settings.seconds)
    share = spreads["encoder"].median / spreads["predict"].median
    whole = _row(name, "predict", "predict, end to end", batches.tokens, spreads["predict"])
    bare = _row(name, "encoder", "bare encoder", batches.tokens, spreads["encoder"])
    return [{**whole, "share": share, "target": AS_FAST.verdict(share)}, bare]


def predict_file(estimator: Any, source: Path, out: Path) -> None:
    """From texts to predictions, as the command ``predict`` does."""
    items = read_texts(str(source), estimator.task, CorpusOptions())
    with new_file(out) as file:
        file.writelines(predicted_lines(estimator, items))


@dataclass(frozen=True)
class _EncoderBatches:
    """What the encoder gets, in the batches that ``predict`` makes, of so many texts at a time."""

    encoder: Any
    corpus: Corpus
    numbers: list[list[int]]
    vectors: list[torch.Tensor]

    @classmethod
    def of(cls, estimator: Any, texts: Sequence[str]) -> _EncoderBatches:
        corpus = Corpus.encode(estimator.builder_, [texts])
        edges = corpus.num_edges()
        numbers, encoder = [], estimator.model_.encoder
        for start in range(0, len(texts), CHUNK):
            own = np.arange(start, min(start + CHUNK, len(texts)))
            budgets: dict[str, Any] = {"max_tokens": MAX_TOKENS, "max_edges": MAX_EDGES, "edges": edges[own]}
            numbers += [own[batch].tolist() for batch in BudgetBatches(corpus.lengths[own], **budgets, shuffle=False)]
        sizes = [int(corpus.lengths[batch].sum()) for batch in numbers]
        return cls(encoder, corpus, numbers, [torch.randn(size, encoder.width) for size in sizes])

    @property
    def tokens(self) -> int:
        return sum(len(vectors) for vectors in self.vectors)

    def graphs(self) -> list[Batch]:
        return [self.corpus[numbers] for numbers in self.numbers]

    def encode(self, batches: Sequence[Batch]) -> None:
        with torch.inference_mode():
            for batch, vectors in zip(batches, self.vectors, strict=True):
                self.encoder(batch.graph, vectors)


def _latency(estimator: Any) -> Row:
    random = np.random.default_rng(2)
    job = Job(lambda text: estimator.predict([text]), lambda: _random_text(SHORT, random))
    spread = interleaved({"sentence": job}, LATENCY_RUNS)["sentence"]
    row = _row(f"1x{SHORT}", "sentence", "one sentence", SHORT, spread)
    return {**row, "target": LATENCY.verdict(row["median_ms"])}


def _row(workload: str, name: str, title: str, tokens: int, spread: Spread) -> Row:
    return {
        "workload": workload,
        "contender": name,
        "title": title,
        "tokens": tokens,
        "median_ms": spread.median,
        "quartiles_ms": list(spread.quartiles),
        "times_ms": list(spread.times),
    }
