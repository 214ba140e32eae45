"""``bench corpora``: stores of real corpora: the size of IMDB's, and what a parser costs with and without its cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from graphattn.builders import Sentence
from graphattn.builders.readers import read_conllu
from graphattn.builders.store import Store
from graphattn.experiments.benchmarks.command_apart import build_in_subprocess
from graphattn.experiments.benchmarks.report import Report
from graphattn.experiments.papers.data_sets import data_folder

COMPARED = """\
`graphattn build` of corpora in the data folder. IMDB (Maas et al. 2011): raw texts with the
windows of MS-Trans; the size of the store is that of all its files, beside that of the corpus as `xz -9` packs it.
Stanza (Qi et al. 2020): the words of the first sentences of the test set of UD English-EWT, parsed by small models
without embeddings in one process, the time of loading them included; first without a cache of parses, then with one
that is empty, then with the same once more. The attachment scores are those of the heads in the store, counted by us
(of a relation its universal part counts) and by the scorer of the CoNLL shared tasks, which Stanza evaluates with; the
last line is what that scorer says of Stanza's pipeline on the same words, without GraphAttn."""

_IMDB = ("imdb/train.tsv.xz", "imdb/test.tsv.xz")
_PROCESSORS = "tokenize,pos,lemma,depparse"
_TREEBANK, _MODELS = "ud_english_ewt/en_ewt-ud-test.conllu", "stanza_en_ewt_small"
Row = dict[str, str]


def measure_corpora(jobs: int, *, data: Path | None = None, folder: Path | None = None, parsed: int = 2000) -> Report:
    """Build stores of the corpora that are there.

    Parameters
    ----------
    jobs : processes that build, where no parser is at work
    data : folder of corpora; None for the one that ``GRAPHATTN_DATA`` names
    folder : for the stores, which are removed in the end; None for the system's
    parsed : sentences to parse

    Raises
    ------
    ConfigError
        when there is no folder of corpora
    BuildError
        when a building fails
    """
    data = (data or data_folder()).absolute()
    rows: list[Row] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(dir=None if folder is None else folder.absolute()) as place:
        measures: dict[str, tuple[str | None, Callable[[], list[Row]]]] = {
            "IMDB": (_missing_files(data, _IMDB), lambda: _imdb(data, Path(place), jobs)),
            "EWT by Stanza": (_without_stanza(data), lambda: _stanza(data, Path(place), parsed)),
        }
        for name, (missing, measure) in measures.items():
            if missing is None:
                rows += measure()
            else:
                left_out.append(f"{name}: {missing}")
    columns = {name: lambda row, name=name: row[name] for name in ("corpus", "step", "seconds", "result")}
    return Report("corpora", COMPARED, columns, rows, {"jobs": jobs, "parsed": parsed}, left_out=left_out)


def attachment_scores(gold: Sequence[Sentence], found: Sequence[Sentence]) -> tuple[float, float]:
    """Unlabelled and labelled attachment score in percent; of a relation its universal part counts.

    Parameters
    ----------
    gold, found : the same sentences, both with heads and names of relations

    Examples
    --------
    >>> gold = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    >>> attachment_scores([gold], [Sentence(["Dogs", "bark"], heads=[0, 0], deprels=["nsubj:pass", "root"])])
    (50.0, 50.0)
    """
    heads = both = words = 0
    for own, other in zip(gold, found, strict=True):
        own_names, names = (sentence.deprels or ("",) * sentence.num_words for sentence in (own, other))
        for head, name, head_found, name_found in zip(
            own.heads or (), own_names, other.heads or (), names, strict=True
        ):
            right = head == head_found
            heads += right
            both += right and name.split(":")[0] == name_found.split(":")[0]
            words += 1
    return 100 * heads / max(words, 1), 100 * both / max(words, 1)


def _imdb(data: Path, place: Path, jobs: int) -> list[Row]:
    corpora, store = [data / name for name in _IMDB], place / "imdb"
    columns = ("--columns", "label,none,none,text", "--format", "labelled")
    built = build_in_subprocess(corpora, store, "--jobs", str(jobs), *columns)
    manifest = Store(store).manifest
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    packed = sum(path.stat().st_size for path in corpora)
    return [
        _row(
            "IMDB",
            "build",
            built.seconds,
            f"{manifest.sentences:,} texts, {manifest.tokens:,} tokens; {manifest.tokens / built.seconds:,.0f} tokens "
            f"a second, {jobs} processes",
        ),
        _row("IMDB", "size", None, f"{size / 1e6:.1f} MB, {size / packed:.2f} times {packed / 1e6:.1f} MB of xz"),
    ]


def _stanza(data: Path, place: Path, count: int) -> list[Row]:
    gold = list(islice(read_conllu(data / _TREEBANK), count))
    words = place / "words.conll"
    words.write_text("".join("".join(f"{word}\tX\n" for word in own.words) + "\n" for own in gold), encoding="utf-8")
    rows = []
    for step, cache in (("no cache", "none"), ("empty cache", "parses.sqlite"), ("full cache", "parses.sqlite")):
        store = place / step.replace(" ", "-")
        flags = ("--relations", "dependency", "--format", "conll", "--separator", "\\t", "--parser", "stanza")
        models = ("--parser-model", str(data / _MODELS), "--parser-device", "cpu")
        built = build_in_subprocess([words], store, *flags, *models, "--parse-cache", cache)
        rate = f"{len(gold):,} sentences, {len(gold) / built.seconds:,.0f} a second"
        rows.append(_row("EWT by Stanza", step, built.seconds, rate))
    found = list(Store(store))
    scores = {
        "attachment": attachment_scores(gold, found),
        "its scorer": _official_scores(gold, found),
        "Stanza alone": _official_scores(gold, _parsed_by_stanza(gold, data / _MODELS)),
    }
    results = {step: f"UAS {unlabelled:.2f}, LAS {labelled:.2f}" for step, (unlabelled, labelled) in scores.items()}
    return [*rows, *(_row("EWT by Stanza", step, None, result) for step, result in results.items())]


def _parsed_by_stanza(gold: Sequence[Sentence], models: Path) -> list[Sentence]:
    """The same words through Stanza's own pipeline."""
    import stanza

    options: dict[str, Any] = {"dir": str(models), "download_method": None, "verbose": False, "device": "cpu"}
    pipeline = stanza.Pipeline("en", processors=_PROCESSORS, tokenize_pretokenized=True, **options)
    document = pipeline([list(own.words) for own in gold])
    return [
        Sentence(
            own.words,
            heads=tuple(word.head for word in parsed.words),
            deprels=tuple(word.deprel for word in parsed.words),
        )
        for own, parsed in zip(gold, document.sentences, strict=True)
    ]


def _official_scores(gold: Sequence[Sentence], found: Sequence[Sentence]) -> tuple[float, float]:
    """Unlabelled and labelled attachment score in percent, by the scorer of the CoNLL shared tasks."""
    from stanza.models.common.utils import ud_scores

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "gold.conllu"
        path.write_text(_conllu(gold), encoding="utf-8")
        scores = ud_scores(str(path), StringIO(_conllu(found)))
    return 100 * scores["UAS"].f1, 100 * scores["LAS"].f1


def _conllu(sentences: Sequence[Sentence]) -> str:
    return "".join("".join(_conllu_rows(sentence)) + "\n" for sentence in sentences)


def _conllu_rows(sentence: Sentence) -> Iterator[str]:
    columns = zip(sentence.words, sentence.heads or (), sentence.deprels or (), strict=True)
    for number, (word, head, name) in enumerate(columns, start=1):
        yield f"{number}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_\n"


def _missing_files(data: Path, names: Sequence[str]) -> str | None:
    missing = next((name for name in names if not (data / name).exists()), None)
    return None if missing is None else f"there is no {missing} in the data folder"


def _without_stanza(data: Path) -> str | None:
    if find_spec("stanza") is None:
        return "not installed: pip install 'graphattn[stanza]'"
    return _missing_files(data, (_TREEBANK, _MODELS))


def _row(corpus: str, step: str, seconds: float | None, result: str) -> Row:
    return {"corpus": corpus, "step": step, "seconds": "" if seconds is None else f"{seconds:,.1f}", "result": result}
