"""Corpora of sources and targets: two files, or one whose rows have both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphattn.builders import Example, Sentence
from graphattn.builders.files import open_text, split_suffix
from graphattn.builders.readers import read_labelled_lines, read_parallel, read_table
from graphattn.builders.store import Store
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.cli.corpus_options import CorpusOptions

Pairs = tuple[list[str | Sentence], list[str]]
"""Sources, and as many targets."""

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def read_pairs(
    paths: Sequence[Path], *, text_column: str = "text", second_column: str = "second", what: str = "TRAIN"
) -> Pairs:
    """Read sources and targets.

    Parameters
    ----------
    paths : a file of sources, or a store that ``graphattn build`` made of them, and a file of targets; or one CSV, TSV
        or JSON Lines with both. A TSV whose first line does not name the columns has sources in the first of two
    text_column, second_column : names of the columns of sources and targets
    what : what errors call the paths

    Raises
    ------
    ConfigError
        when there are neither one nor two paths
    DataError
        when the files are not as they must be; it names the file and the line
    """
    if len(paths) == 2:
        source, target = paths
        pairs = _with_store(source, target) if (source / "store.json").is_file() else read_parallel(source, target)
        sources, targets = zip(*pairs, strict=True)
        return list(sources), list(targets)
    if len(paths) != 1:
        raise ConfigError(f"{what} has {len(paths)} paths; give sources and targets, or one table of both")
    (path,) = paths
    if split_suffix(path)[0] not in _TABLES:
        raise ConfigError(
            f"{what} is {path} alone, which is no table; give sources and targets, or a CSV, TSV or JSON Lines of both"
        )
    examples = list(_rows(path, text_column, second_column))
    for row, example in enumerate(examples, 1):
        for name, text in (("source", example.text), ("target", example.second)):
            if not (text or "").strip():
                raise DataError(f"the {name} in row {row} is empty", path=path, hint="Delete the row, or complete it.")
    return [example.text for example in examples], [example.second or "" for example in examples]


def _rows(path: Path, source: str, target: str) -> list[Example]:
    if split_suffix(path)[0] == ".tsv":
        with open_text(path) as lines:
            header = next(lines, "").rstrip("\n").split("\t")
        usual = (source, target) == (CorpusOptions.text_column, CorpusOptions.second_column)  # else a table is meant
        if usual and not {source, target} <= {name.strip() for name in header}:
            return list(read_labelled_lines(path, columns=("text", "second")))
    return list(read_table(path, text=source, second=target, label=None))


def _with_store(source: Path, target: Path) -> list[tuple[Sentence, str]]:
    sentences = list(Store(source))
    targets = [other for _, other in read_parallel(target, target)]
    if len(sentences) != len(targets):
        raise DataError(
            f"holds {len(sentences)} texts, {target} has {len(targets)} lines",
            path=source,
            hint="Sources and targets must be as many.",
        )
    return list(zip(sentences, targets, strict=True))
