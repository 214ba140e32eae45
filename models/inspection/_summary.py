"""Attention statistics of a corpus by head and layer, in constant memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphattn._ragged import Ints
from graphattn._scales import Scale
from graphattn._schema import TOKEN
from graphattn.builders import BudgetBatches, Sentence
from graphattn.builders._atomic import write_text
from graphattn.builders._paths import resolve_path
from graphattn.exceptions import ConfigError, DataError, warn_caller
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._estimators.inputs import as_collection
from graphattn.models._estimators.inspectable import Inspectable
from graphattn.models._prediction import count_truncation, run_model
from graphattn.models.inspection import limits
from graphattn.models.inspection._attention_map import Floats, scale_of
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection._branch_scores import BranchSums
from graphattn.models.inspection._capture import CROSS, ForwardCapture, edge_types
from graphattn.models.inspection._edge_kinds import (
    ITSELF,
    EdgeKinds,
    begins_with_cls,
    is_dependency,
)
from graphattn.models.inspection._files import write_by_suffix, write_csv
from graphattn.models.inspection._head_sums import HeadKey, HeadSums
from graphattn.models.inspection._typed_edges import CROSS_KINDS, TypedEdges, add_relation, typed_edges_of
from graphattn.models.inspection._word_arcs import ArcCounts

CHUNK = 512
"""Texts that are encoded together."""
MAX_TOKENS, MAX_EDGES = 8192, 2_000_000
"""Size of a batch; all its weights are in memory at once."""
COVERAGE = 0.9
"""Share of a head's weight that its effective width covers."""
_KEYS = ("layer", "head", "relation", "distance", "offset", "kind", "branch")
_ARC_COLUMNS = ["layer", "head", "relation", "kind", "dependents", "share", "baseline_offset", "baseline"]


def summarise(
    estimator: Inspectable | Iterable[AttentionWeights],
    X: Iterable[Any] | None = None,
    *,
    targets: Iterable[str] | None = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> AttentionSummary:
    """Summarise the attention of a model over a corpus, a chunk of texts at a time.

    A translator's summary also has its decoder's attention to the source, relation ``cross``.

    Parameters
    ----------
    estimator : a fitted estimator; or the :class:`Attention` of each text by any model, read lazily, once
    X : inputs of an estimator, as for ``predict``; they are read lazily, once
    targets : for a translator, the target texts, read lazily; its own outputs when None
    progress : wraps the inputs to show progress

    Raises
    ------
    ConfigError
        when the model has no attention weights, there are targets and it is not a translator, or there are no inputs
        for an estimator
    NotFittedError
        before ``fit``
    DataError
        when there are no inputs, or their number differs from that of the targets
    """
    summary = AttentionSummary()
    if isinstance(estimator, Iterable):
        if X is not None or targets is not None:
            raise ConfigError("{X} and {targets} are for an estimator; these weights are of their own texts")
        for attention in progress(estimator):
            summary.add_attention(attention)
        if not summary.texts:
            raise DataError("there are no texts to summarise")
        return summary
    if X is None:
        raise ConfigError("give the texts to summarise as {X}", options=("X",))
    inputs = iter(progress(as_collection(X, estimator.task_)))
    references = None if targets is None else iter(as_collection(targets))
    cut = tokens = 0
    while chunk := list(islice(inputs, CHUNK)):
        chunk_targets = None if references is None else list(islice(references, len(chunk)))
        with count_truncation() as counts:  # not around inputs, which may be predictions of another model
            _add_chunk(summary, estimator, chunk, chunk_targets)
        cut, tokens = cut + counts[0], tokens + counts[1]
        summary.texts += len(chunk)
    if cut:
        warn_caller(estimator.describe_truncation(cut, tokens))
    if references is not None and next(references, None) is not None:
        raise DataError(f"there are more targets than {summary.texts} sources")
    if not summary.texts:
        raise DataError("there are no texts to summarise")
    if not summary.heads:
        raise ConfigError(f"encoder {estimator.encoder_name!r} has no attention weights")
    return summary


def _add_chunk(
    summary: AttentionSummary, estimator: Inspectable, chunk: Sequence[Any], targets: Sequence[str] | None
) -> None:
    encoded = estimator.encode_inputs(chunk, targets=targets)
    model, relations = estimator.model_, estimator.model_.encoder.relations()
    sentences = [encoded.sentences[name] for name in encoded.graph_texts]
    heads = sum(model.encoder.heads_along().values()) + model.cross_heads

    def add_batch(batch: Batch, numbers: list[int]) -> None:
        texts = [column[number] for column in sentences for number in numbers]
        capture = estimator.explainer_.capture(batch)
        summary.add(capture, batch, texts, relations)
        summary.branch_sums.add(estimator.explainer_.score_branches_of_texts(batch, capture.scores.detach()))

    run_model(model, encoded, add_batch, batches=_batches(encoded, heads))


def _batches(corpus: Corpus, heads: int) -> BudgetBatches:
    """Batches whose weights fit into memory; a text with too many is a batch of its own."""
    edges = corpus.num_edges()
    if isinstance(corpus.targets, tuple):  # each target token attends to each source token
        edges = edges + corpus.layouts[0].lengths * corpus.targets[1]
    most = min(MAX_EDGES, limits.MOST_WEIGHTS // max(1, heads))
    return BudgetBatches(corpus.lengths, max_tokens=MAX_TOKENS, max_edges=most, edges=edges, shuffle=False)


class AttentionSummary:
    """Attention statistics of a corpus, as tables.

    Distances are counted in tokens; those of heads between words (``all:word``) in words, where ``[CLS]`` is one.

    Examples
    --------
    >>> from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions
    >>> encoder = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"), alpha=0.0)
    >>> classifier = TextClassifier(encoder, training=TrainingOptions(epochs=1))
    >>> texts = ["good film", "bad film"]
    >>> summary = summarise(classifier.fit(texts * 4, ["pos", "neg"] * 4), texts)
    >>> summary.scales()[["head", "relation", "allotted"]]
       head  relation  allotted
    0     0  window:1       1.0
    1     1  window:3       3.0
    """

    def __init__(self) -> None:
        self.texts = 0
        """Number of texts."""
        self.heads: dict[HeadKey, HeadSums] = {}
        """Layer, head and relation -> sums."""
        self.units: dict[str, str] = {}
        """Relation -> the unit of its distances, token or word; relations without distances are missing."""
        self.branch_sums = BranchSums()
        """How much of the scores each branch gives; without items if the model has no linear branch."""
        self.arc_counts = ArcCounts()
        """Dependencies of parsed texts, and the offsets of their heads."""
        self._widths: dict[str, float] = {}
        self._sentences = 0

    def add(
        self, capture: ForwardCapture, batch: Batch, sentences: Sequence[Sentence], relations: Iterable[Any]
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        capture : of a pass over it
        batch : the batch
        sentences : its texts in order
        relations : of the encoder
        """
        types, graph = edge_types(relations), batch.graph
        lengths = graph.batch_num_nodes(TOKEN).numpy()
        self._sentences += len(lengths)
        edge_kinds = EdgeKinds(sentences, cls=begins_with_cls(graph))
        if edge_kinds.is_parsed:
            self.arc_counts.add(edge_kinds)
        edges = {
            name: [TypedEdges.of_batch(graph, edge_type, edge_kinds) for edge_type in group]
            for name, group in types.items()
        }
        self.units |= {name: part.unit for name, parts in edges.items() for part in parts if part.unit is not None}
        self._add_widths(types, lengths)
        for layer, weights in enumerate(capture.layers):
            first_head = 0
            for relation, tensor in weights.items():
                if relation == CROSS:
                    self._add_cross(layer, tensor, batch)
                    continue
                values = tensor.detach().double().cpu().numpy()
                add_relation(self._sums_of(layer, first_head, relation, values.shape[1]), values, edges[relation])
                first_head += values.shape[1]

    def add_attention(self, attention: AttentionWeights) -> None:
        """Add the weights of one text by any model.

        Parameters
        ----------
        attention : all its weights, not a selection
        """
        self.texts += 1
        self._sentences += len(attention.sentences)
        self.branch_sums.add([attention.branches])
        lengths = np.array([len(attention.tokens[text]) for text in attention.sentences])
        for text in attention.sentences:
            kinds, _ = attention.edge_kinds[text]
            if kinds.is_parsed:
                self.arc_counts.add(kinds)
        self._add_widths({each.relation for each in attention.maps}, lengths)
        grouped: dict[tuple[int, int, str, int], list[tuple[TypedEdges, Floats]]] = {}
        for each in attention.maps:
            edges, weights = typed_edges_of(attention, each)
            if edges.unit is not None:
                self.units[each.relation] = edges.unit
            key = each.layer, each.first_head, each.relation, each.weights.shape[1]
            grouped.setdefault(key, []).append((edges, weights))
        for key, parts in grouped.items():
            edges_of_key, weights_of_key = zip(*parts, strict=True)
            add_relation(self._sums_of(*key), np.concatenate(weights_of_key), edges_of_key)

    def _add_widths(self, relations: Iterable[str], lengths: Ints) -> None:
        """Add the widths of windows in texts of these lengths."""
        for relation in relations:
            if (scale := scale_of(relation)) is not None:
                self._widths[relation] = self._widths.get(relation, 0.0) + float(Scale(scale).widths(lengths).sum())

    def _sums_of(self, layer: int, first_head: int, relation: str, heads: int) -> list[HeadSums]:
        """The sums of some heads of a layer, zero for new ones."""
        keys = [(layer, first_head + column, relation) for column in range(heads)]
        return [self.heads.setdefault(key, HeadSums()) for key in keys]

    def _add_cross(self, layer: int, weights: Tensor, batch: Batch) -> None:
        """Add (B, H, T, S) weights of a decoder's layer; there are no distances between source and target."""
        assert batch.target_counts is not None
        counts = batch.target_counts
        is_target = torch.arange(int(counts.max())) < counts.unsqueeze(1)  # (B, T)
        degrees = batch.graph.batch_num_nodes(TOKEN).repeat_interleave(counts).numpy()
        rows = weights.transpose(1, 2).cpu()[is_target].double().numpy()  # (targets, H, S)
        for head in range(rows.shape[1]):
            sums = self.heads.setdefault((layer, head, CROSS), HeadSums())
            sums.add_entropy(rows[:, head], degrees)
            sums.add_kinds(
                dict(zip(CROSS_KINDS, [float(rows[:, head, 0].sum()), float(rows[:, head, 1:].sum())], strict=True))
            )

    def distances(self) -> pd.DataFrame:
        """Columns layer, head, relation, distance, mass and strongest (MS-Trans, Figure 3a).

        ``mass`` is the share of the weight at a distance, ``strongest`` the share of targets whose largest weight is at
        that distance, which the figure shows. Heads between words count words.
        """
        return pd.concat([self._distances(key, sums) for key, sums in self.heads.items()], ignore_index=True)

    def offsets(self) -> pd.DataFrame:
        """Columns layer, head, relation, offset, mass and strongest: as :meth:`distances`, before and after apart.

        An offset is the position of the source minus that of the target: -1 is the node before.
        """
        return pd.concat([self._offsets(key, sums) for key, sums in self.heads.items()], ignore_index=True)

    def layers(self) -> pd.DataFrame:
        """Columns layer, distance, mass and strongest: means over the heads of a layer (MS-Trans, Figure 3b).

        Each head uses its own unit, tokens or words.
        """
        table = self.distances()
        sums = table.groupby(["layer", "distance"])[["mass", "strongest"]].sum()
        counts = table.groupby("layer")["head"].nunique()
        return sums.div(counts, level="layer", axis=0).reset_index()

    def entropy(self) -> pd.DataFrame:
        """Columns layer, head, relation, entropy (nats, mean over targets), evenness: 0 for one edge, 1 for uniform."""
        rows = [
            (*key, sums.entropy / max(sums.targets, 1), sums.entropy / (sums.largest_entropy or np.nan))
            for key, sums in self.heads.items()
        ]
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "entropy", "evenness"])

    def relations(self) -> pd.DataFrame:
        """Columns layer, relation, heads, share (of the layer's weight), elsewhere (weight not on the target itself).

        ``elsewhere`` is NaN for edges that connect neither two tokens nor two words.
        """
        rows: dict[tuple[int, str], list[float]] = {}
        for (layer, _, relation), sums in self.heads.items():
            row = rows.setdefault((layer, relation), [0.0, 0.0, 0.0])
            total = sum(sums.kinds.values())
            row[0] += 1
            row[1] += sums.targets
            row[2] += (1 - sums.kinds.get(ITSELF, 0.0) / total) if total else np.nan
        table = pd.DataFrame([(*key, *row) for key, row in rows.items()])
        table.columns = ["layer", "relation", "heads", "share", "elsewhere"]
        table["elsewhere"] /= table["heads"]
        table["share"] /= table.groupby("layer")["share"].transform("sum")
        return table.astype({"heads": int})

    def dependencies(self) -> pd.DataFrame:
        """Columns layer, head, relation, kind and mass: the share of a head's weight on each kind of edge.

        See :class:`~graphattn.models.inspection._edge_kinds.EdgeKinds`.
        """
        rows = [
            (*key, kind, mass / sum(sums.kinds.values()))
            for key, sums in self.heads.items()
            for kind, mass in sorted(sums.kinds.items(), key=lambda item: -item[1])
        ]
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "kind", "mass"])

    def arcs(self) -> pd.DataFrame:
        """Columns layer, head, relation, kind, dependents, share, baseline_offset, baseline: what heads follow.

        ``share`` is that of the dependents whose strongest edge is their dependency arc (Clark et al. 2019): for the
        kind ``nsubj<`` subjects that attend most to their heads, for ``nsubj>`` subjects to which, of all words, their
        heads attend most. Weights of sub-words are summed over the attended word and averaged over the attending one;
        a word itself, ``[CLS]`` and other special tokens are left out. ``baseline`` is the share that always choosing
        the word at ``baseline_offset`` from the dependent gives. Without rows for texts without a parse.
        """
        baselines = {label: self.arc_counts.baseline(label) for label in sorted(self.arc_counts.offsets)}
        rows = [
            (*key, f"{label}{mark}", count, sums.followed.get(f"{label}{mark}", 0.0) / count, offset, baseline)
            for key, sums in self.heads.items()
            if self.units.get(key[2]) is not None
            for label, (count, offset, baseline) in baselines.items()
            for mark in "<>"
        ]
        table = pd.DataFrame(rows, columns=_ARC_COLUMNS)
        return table.astype({"dependents": int, "share": float, "baseline_offset": int, "baseline": float})

    def scales(self) -> pd.DataFrame:
        """Columns layer, head, relation, allotted, effective and mean_distance.

        ``allotted`` is the mean width of the head's window, NaN for other relations; ``effective`` the odd width that
        covers 90 % of the head's weight, NaN without distances. It and ``mean_distance`` are in tokens, or in words for
        heads between words.
        """
        rows = []
        for key, sums in self.heads.items():
            allotted = self._widths[key[2]] / self._sentences if key[2] in self._widths else np.nan
            mass, total = np.cumsum(sums.mass), sums.mass.sum()
            effective = 2 * int(np.searchsorted(mass, COVERAGE * total - 1e-9)) + 1 if total else np.nan
            mean = float((sums.mass * np.arange(len(sums.mass))).sum() / total) if total else np.nan
            rows.append((*key, allotted, effective, mean))
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "allotted", "effective", "mean_distance"])

    def branches(self) -> pd.DataFrame:
        """Columns branch, size and share: who decides. Without rows if the model has no linear branch.

        ``size`` is the mean absolute number that a branch gives to the score of a text, or word, see
        :class:`BranchScores`; ``share`` its share in the sum over the branches.
        """
        sums = self.branch_sums
        rows = [(name, sums.numbers[name] / sums.items, share) for name, share in sums.shares().items()]
        return pd.DataFrame(rows, columns=["branch", "size", "share"]).astype({"size": float, "share": float})

    def tables(self) -> dict[str, pd.DataFrame]:
        """Name -> table, for all tables."""
        methods = (
            self.layers,
            self.distances,
            self.offsets,
            self.entropy,
            self.relations,
            self.dependencies,
            self.arcs,
            self.scales,
            self.branches,
        )
        return {method.__name__: method() for method in methods}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all tables to a ``.json`` file or a folder of ``.csv`` files; see :func:`save_tables`."""
        return save_tables(self.tables(), path)

    def _distances(self, key: HeadKey, sums: HeadSums) -> pd.DataFrame:
        layer, head, relation = key
        count = len(sums.mass)
        columns = {"layer": layer, "head": head, "relation": relation, "distance": np.arange(count)}
        shares = {"mass": sums.mass / (sums.mass.sum() or 1), "strongest": sums.strongest / (sums.strongest.sum() or 1)}
        return pd.DataFrame({**columns, **shares})

    def _offsets(self, key: HeadKey, sums: HeadSums) -> pd.DataFrame:
        layer, head, relation = key
        count = len(sums.signed_mass)
        columns = {"layer": layer, "head": head, "relation": relation, "offset": np.arange(1 - count, count)}
        values = {"mass": sums.signed_mass, "strongest": sums.signed_strongest}
        ordered = {name: np.concatenate([each[:0:-1, 1], each[:, 0]]) for name, each in values.items()}
        return pd.DataFrame({**columns, **{name: each / (each.sum() or 1) for name, each in ordered.items()}})


def compare_summaries(
    first: AttentionSummary, second: AttentionSummary, names: tuple[str, str] = ("one", "other")
) -> dict[str, pd.DataFrame]:
    """Merge the tables of two models on layer, head, relation, distance, offset, kind and branch.

    Parameters
    ----------
    first, second : summaries of the same texts
    names : suffixes of the columns

    Returns
    -------
    Name -> table with two columns per statistic, ``mass_one`` and ``mass_other``; NaN where one model has no such row.
    """
    tables = {}
    for (name, left), right in zip(first.tables().items(), second.tables().values(), strict=True):
        keys = [key for key in _KEYS if key in left]
        suffixes = (f"_{names[0]}", f"_{names[1]}")
        tables[name] = left.merge(right, on=keys, how="outer", suffixes=suffixes).sort_values(keys, ignore_index=True)
    return tables


def strongest_dependencies(table: pd.DataFrame, k: int) -> pd.DataFrame:
    """The ``k`` rows of :meth:`AttentionSummary.dependencies`, or of two models, with the most weight along arcs."""
    arcs = table[table.kind.map(is_dependency)]
    masses = arcs.filter(regex="^mass").max(axis=1)
    return arcs.loc[masses.sort_values(ascending=False, kind="stable").index[:k]]


def best_followers(arcs: pd.DataFrame, k: int) -> pd.DataFrame:
    """Of :meth:`AttentionSummary.arcs`, the head with the largest share for each of the ``k`` most frequent kinds."""
    best = arcs.sort_values("share", ascending=False, kind="stable").drop_duplicates("kind")
    return best.sort_values(["dependents", "kind"], ascending=[False, True], kind="stable").head(k)


def save_tables(tables: Mapping[str, pd.DataFrame], path: str | os.PathLike[str]) -> Path:
    """Write tables to one ``.json`` file, or to a folder with one ``.csv`` file per table."""
    path = Path(path)
    if path.suffix:
        plain = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        text = json.dumps(plain, indent=1) + "\n"
        return write_by_suffix(path, {".json": lambda temporary: write_text(temporary, text)})
    try:
        resolve_path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created ({error.strerror})", path=path, hint="Give another folder.") from error
    for name, table in tables.items():
        write_by_suffix(path / f"{name}.csv", {".csv": partial(write_csv, table)})
    return path
