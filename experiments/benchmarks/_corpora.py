"""``bench corpora``: stores of real corpora: the size of IMDB, and the cost of a parser with and without its cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from graphattn.builders import Sentence
from graphattn.builders.readers import read_conllu
from graphattn.builders.store import Store
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.benchmarks._fresh_processes import build_in_subprocess
from graphattn.experiments.benchmarks._harness import column
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._store import make_row
from graphattn.experiments.papers._data_sets import data_folder

DESCRIPTION = """\
`graphattn build` of corpora in the data folder. IMDB (Maas et al. 2011): raw texts with the windows of MS-Trans; the
size of the store is that of all its files, beside that of the corpus as packed by `xz -9`. Stanza (Qi et al. 2020): the
words of the first sentences of the test set of UD English-EWT, parsed by small models without embeddings in one
process, including the time to load them; first without a cache of parses, then with an empty cache, then with the cache
of that run. `attachment` is the score of the heads in the store by the scorer of the CoNLL shared tasks, `Stanza alone`
that of Stanza's pipeline on the same words without GraphAttn."""
_COLUMNS = {name: column(name) for name in ("corpus", "step", "seconds", "result")}
_IMDB = ("imdb/train.tsv.xz", "imdb/test.tsv.xz")
_PROCESSORS = "tokenize,pos,lemma,depparse"
_TREEBANK, _MODELS = "ud_english_ewt/en_ewt-ud-test.conllu", "stanza_en_ewt_small"


def measure(jobs: int, *, data: Path | None = None, folder: Path | None = None, parsed: int = 2000) -> BenchmarkReport:
    """Build stores of the corpora in the data folder, parse some sentences, and remove the stores."""
    data = (data or data_folder()).absolute()
    report = BenchmarkReport("corpora", DESCRIPTION, _COLUMNS, {"jobs": jobs, "parsed": parsed})
    with tempfile.TemporaryDirectory(dir=None if folder is None else folder.absolute()) as name:
        measurements: dict[str, Callable[[], list[Record]]] = {
            "IMDB": lambda: _measure_imdb(data, Path(name), jobs),
            "EWT by Stanza": lambda: _measure_stanza(data, Path(name), parsed),
        }
        for corpus, run in measurements.items():
            try:
                report.rows += [{"corpus": corpus, **row} for row in run()]
            except UnableError as error:
                report.left_out.append(f"{corpus}: {error}")
    return report


def _measure_imdb(data: Path, folder: Path, jobs: int) -> list[Record]:
    _require_files(data, _IMDB)
    corpora, store = [data / name for name in _IMDB], folder / "imdb"
    columns = ("--columns", "label,none,none,text", "--format", "labelled")
    built = build_in_subprocess(corpora, store, "--jobs", str(jobs), *columns)
    manifest = Store(store).manifest
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    packed = sum(path.stat().st_size for path in corpora)
    counts = f"{manifest.sentences:,} texts, {manifest.tokens:,} tokens"
    rate = f"{manifest.tokens / built.seconds:,.0f} tokens a second, {jobs} processes"
    return [
        make_row("build", built.seconds, f"{counts}; {rate}"),
        make_row("size", None, f"{size / 1e6:.1f} MB, {size / packed:.2f} times {packed / 1e6:.1f} MB of xz"),
    ]


def _measure_stanza(data: Path, folder: Path, count: int) -> list[Record]:
    if find_spec("stanza") is None:
        raise UnableError("not installed: pip install 'graphattn[stanza]'")
    _require_files(data, (_TREEBANK, _MODELS))
    gold = list(islice(read_conllu(data / _TREEBANK), count))
    words = folder / "words.conll"
    lines = ("".join(f"{word}\tX\n" for word in sentence.words) for sentence in gold)
    words.write_text("".join(f"{block}\n" for block in lines), encoding="utf-8")
    rows = []
    for step, cache in (("no cache", "none"), ("empty cache", "parses.sqlite"), ("full cache", "parses.sqlite")):
        store = folder / step.replace(" ", "-")
        flags = ("--relations", "dependency", "--format", "conll", "--separator", "\\t", "--parser", "stanza")
        models = ("--parser-model", str(data / _MODELS), "--parser-device", "cpu")
        built = build_in_subprocess([words], store, *flags, *models, "--parse-cache", cache)
        rows.append(
            make_row(step, built.seconds, f"{len(gold):,} sentences, {len(gold) / built.seconds:,.0f} a second")
        )
    stored = list(Store(store))
    scores = {
        "attachment": _score_arcs(gold, stored),
        "Stanza alone": _score_arcs(gold, _parse_with_stanza(gold, data / _MODELS)),
    }
    return [*rows, *(make_row(step, None, f"UAS {uas:.2f}, LAS {las:.2f}") for step, (uas, las) in scores.items())]


def _parse_with_stanza(gold: Sequence[Sentence], models: Path) -> list[Sentence]:
    """The same words through Stanza's own pipeline."""
    import stanza

    options: dict[str, Any] = {"dir": str(models), "download_method": None, "verbose": False, "device": "cpu"}
    pipeline = stanza.Pipeline("en", processors=_PROCESSORS, tokenize_pretokenized=True, **options)
    document = pipeline([list(sentence.words) for sentence in gold])
    return [
        Sentence(
            sentence.words,
            heads=tuple(word.head for word in parsed.words),
            deprels=tuple(word.deprel for word in parsed.words),
        )
        for sentence, parsed in zip(gold, document.sentences, strict=True)
    ]


def _score_arcs(gold: Sequence[Sentence], parsed: Sequence[Sentence]) -> tuple[float, float]:
    """Unlabelled and labelled attachment score in percent, by the scorer of the CoNLL shared tasks."""
    from stanza.models.common.utils import ud_scores

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gold.conllu"
        path.write_text(_to_conllu(gold), encoding="utf-8")
        scores = ud_scores(str(path), StringIO(_to_conllu(parsed)))
    return 100 * scores["UAS"].f1, 100 * scores["LAS"].f1


def _to_conllu(sentences: Sequence[Sentence]) -> str:
    blocks = []
    for sentence in sentences:
        columns = zip(sentence.words, sentence.heads or (), sentence.deprels or (), strict=True)
        blocks += [
            f"{n}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_\n" for n, (word, head, name) in enumerate(columns, 1)
        ]
        blocks.append("\n")
    return "".join(blocks)


def _require_files(data: Path, names: Sequence[str]) -> None:
    for name in names:
        if not (data / name).exists():
            raise UnableError(f"there is no {name} in the data folder")
