"""Corpora of graphs on disk: shards in DGL's own format, the sentences they were built of, and counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from graphattn import __version__
from graphattn.builders import Example, Sentence, TextGraphBuilder, Vocabulary
from graphattn.exceptions import DataError, GraphError
from graphattn.graphs import save_graphs

if TYPE_CHECKING:
    from dgl import DGLGraph

SENTENCES_FILE, COUNTS_FILE, TOKENIZER_FILE = "sentences.jsonl", "corpus.json", "tokenizer.json"
MOST_EDGES = 20_000_000
"""Edges after which a shard is closed, so that a corpus of long texts fits into memory too."""

_CHUNK = 1024


def write_graph_corpus(
    items: Iterable[Example | Sentence], builder: TextGraphBuilder, folder: Path, *, shard: int
) -> dict[str, Any]:
    """Build one graph for each text and write it all into a folder.

    Parameters
    ----------
    items : texts or sentences; the two texts of a pair become two graphs, one after the other
    builder : with a vocabulary, which is written to ``tokenizer.json``
    folder : an empty folder
    shard : most graphs in a file

    Returns
    -------
    What ``corpus.json`` holds; ``[CLS]`` is not counted as a word or token.

    Raises
    ------
    DataError
        when a relation needs heads and a sentence has none
    OSError
        when the folder cannot be written to
    """
    assert builder.vocabulary is not None
    builder.vocabulary.save(folder / TOKENIZER_FILE)
    with open(folder / SENTENCES_FILE, "w", encoding="utf-8") as rows:
        writer = _ShardWriter(builder, folder, rows, shard)
        for sentence in _sentences(items, builder.vocabulary):
            writer.add(sentence)
        counts = writer.finish()
    (folder / COUNTS_FILE).write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return counts


def texts_of(items: Iterable[Example | Sentence]) -> Iterator[str | Sentence]:
    """The texts of a corpus, those of a pair one after the other."""
    for item in items:
        if isinstance(item, Sentence):
            yield item
        else:
            yield item.text
            if item.second is not None:
                yield item.second


def _sentences(items: Iterable[Example | Sentence], vocabulary: Vocabulary) -> Iterator[Sentence]:
    """Sentences in the vocabulary's tokens; labels are those of the items."""
    waiting = iter(items)
    while chunk := list(islice(waiting, _CHUNK)):
        labels = [item.label for item in chunk for _ in texts_of([item])]
        for sentence, label in zip(vocabulary.sentences(list(texts_of(chunk))), labels, strict=True):
            yield Sentence(
                sentence.tokens, sentence.word_ids, sentence.heads, sentence.deprels, label=label, tags=sentence.tags
            )


class _ShardWriter:
    """Collects graphs until a shard is full."""

    def __init__(self, builder: TextGraphBuilder, folder: Path, rows: TextIO, shard: int):
        self.builder, self.folder, self.rows, self.shard = builder, folder, rows, shard
        self.needs_heads = any(relation.needs_heads for relation in builder.relations)
        self.graphs: list[DGLGraph] = []
        self.edges_in_shard = 0
        self.shards: list[int] = []
        self.counts: Counter[str] = Counter()
        self.edges: Counter[str] = Counter({relation.name: 0 for relation in builder.relations})
        self.labels: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()

    def add(self, sentence: Sentence) -> None:
        """Build the graph of a sentence, and write it down with it."""
        if self.needs_heads and sentence.heads is None and sentence.num_words:
            raise DataError(
                f"sentence {self.counts['sentences'] + 1} has no heads, which the relation 'dependency' needs",
                hint="Give a parsed corpus (CoNLL-U), or leave dependency out of --relations.",
            )
        graph = self.builder.build(sentence)
        self._count(sentence, graph)
        fields = {name: getattr(sentence, name) for name in Sentence.__dataclass_fields__}
        row = {name: value for name, value in fields.items() if value is not None}
        print(json.dumps(row, ensure_ascii=False), file=self.rows)
        self.graphs.append(graph)
        self.edges_in_shard += graph.num_edges()
        if len(self.graphs) >= self.shard or self.edges_in_shard >= MOST_EDGES:
            self._write()

    def finish(self) -> dict[str, Any]:
        """Write the last shard; what was counted."""
        if self.graphs:
            self._write()
        return {
            "graphattn": __version__,
            "relations": [relation.name for relation in self.builder.relations],
            "cls": self.builder.cls,
            "sentences": self.counts["sentences"],
            "words": self.counts["words"],
            "tokens": self.counts["tokens"],
            "edges": dict(self.edges),
            "labels": dict(self.labels.most_common()),
            "tags": dict(self.tags.most_common()),
            "shards": {_shard_name(number): size for number, size in enumerate(self.shards)},
        }

    def _count(self, sentence: Sentence, graph: DGLGraph) -> None:
        self.counts.update(sentences=1, words=sentence.num_words, tokens=len(sentence))
        self.edges.update({relation.name: graph.num_edges(relation.canonical) for relation in self.builder.relations})
        label = sentence.label
        self.labels.update(label if isinstance(label, tuple) else [] if label is None else [label])
        self.tags.update(sentence.tags or ())

    def _write(self) -> None:
        name = _shard_name(len(self.shards))
        try:
            save_graphs(self.graphs, str(self.folder / name))
        except GraphError as error:  # it names a folder that goes away
            raise OSError(f"DGL could not write {name}") from error
        self.shards.append(len(self.graphs))
        self.graphs, self.edges_in_shard = [], 0


def _shard_name(number: int) -> str:
    return f"graphs-{number:05d}.dgl"
