"""Attention over a corpus: distances, entropy, scales and dependencies by head and layer, in constant memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphattn.builders.batch import TextBatch
from graphattn.exceptions import ConfigError, DataError
from graphattn.models.estimators.inputs import refuse_single
from graphattn.models.inspection.attention_map import scale_of
from graphattn.models.inspection.capture import CROSS, ForwardCapture, kinds_of
from graphattn.models.inspection.edge_kinds import CLS_TOKEN, ITSELF, OTHER, EdgeKinds
from graphattn.models.inspection.files import write_beside
from graphattn.models.inspection.head_sums import HeadKey, HeadSums, shares_of_strongest
from graphattn.models.inspection.passes import check_has_passes, passes_over
from graphattn.scales import Scale
from graphattn.schema import TOKEN, WORD

if TYPE_CHECKING:
    from graphattn.builders import Sentence
    from graphattn.models.estimators import Estimator

CHUNK = 512
"""Texts that are read together."""
CROSS_KINDS = [CLS_TOKEN, OTHER]
"""Kinds of edges from a source to what is written."""
HELD = 0.9
"""Share of the mass that an effective width holds."""
IN_A_ROW = (TOKEN, WORD)
"""Types of nodes that stand in a row, so that edges among them have distances and kinds."""


def summarise(
    estimator: Estimator,
    X: Iterable[Any],
    *,
    targets: Iterable[str] | None = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> AttentionSummary:
    """Add up the attention of a model over a corpus, a chunk of texts at a time.

    Of a translator it is the encoder's and, called ``cross``, the decoder's on the source.

    Parameters
    ----------
    estimator : a fitted one
    X : inputs, as ``predict`` takes them; they are read once, as they are needed
    targets : of a translator, the texts whose writing is looked at, read alike; those that it writes when None
    progress : passes inputs on and shows that it does

    Raises
    ------
    ConfigError
        when the model has no attention weights, or there are targets and it is no translator
    NotFittedError
        before ``fit``
    DataError
        when there are no inputs, or not as many targets
    """
    check_has_passes(estimator, targets is not None)
    for given in (X, targets):
        if given is not None:
            refuse_single(given)
    summary, relations = AttentionSummary(), estimator.model_.encoder.relations()
    waiting, waiting_targets = iter(progress(X)), None if targets is None else iter(targets)
    while chunk := list(islice(waiting, CHUNK)):
        own_targets = None if waiting_targets is None else list(islice(waiting_targets, len(chunk)))
        for looked in passes_over(estimator, chunk, own_targets):
            summary.add(looked.found, looked.graph, looked.sentences, relations)
            if looked.counts is not None:
                summary.add_cross(looked.cross, looked.counts, looked.graph, first_layer=len(looked.found.layers))
        summary.texts += len(chunk)
    if waiting_targets is not None and next(waiting_targets, None) is not None:
        raise DataError(f"there are more targets than sources, of which there are {summary.texts}")
    if not summary.texts:
        raise DataError("there are no texts to summarise")
    if not summary.heads:
        raise ConfigError(f"encoder {estimator.encoder_.name!r} has no attention weights")
    return summary


class AttentionSummary:
    """What heads attended to in a corpus, as tables.

    Distances are counted in tokens, those of heads that look from word to word (``all:word``) in words, ``[CLS]`` being
    one.

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
        """How many texts went in."""
        self.heads: dict[HeadKey, HeadSums] = {}
        """Layer, head and relation -> sums."""
        self.units: dict[str, str] = {}
        """Relation -> what its distances are counted in, token or word; without those that have none."""
        self._widths: dict[str, float] = {}
        self._sentences = 0

    def add(
        self, found: ForwardCapture, graph: TextBatch, sentences: Sequence[Sentence], relations: Iterable[Any]
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        found : a pass over it
        graph : its graph
        sentences : its texts, in its order
        relations : of the encoder
        """
        kinds = kinds_of(relations)
        lengths = graph.batch_num_nodes(TOKEN).numpy()
        self._sentences += len(lengths)
        edge_kinds = EdgeKinds(sentences)
        batches = {name: [_KindOfEdges(graph, kind, edge_kinds) for kind in own] for name, own in kinds.items()}
        self.units |= {name: one.ends for name, own in batches.items() for one in own if one.ends is not None}
        for relation in kinds:
            if (scale := scale_of(relation)) is not None:
                self._widths[relation] = self._widths.get(relation, 0.0) + float(Scale(scale).widths(lengths).sum())
        for layer, weights in enumerate(found.layers):
            first_head = 0
            for relation, own in weights.items():
                values = own.detach().double().cpu().numpy()
                keys = [(layer, first_head + column, relation) for column in range(values.shape[1])]
                sums = [self.heads.setdefault(key, HeadSums()) for key in keys]
                _add_relation(sums, values, batches[relation], edge_kinds.names)
                first_head += values.shape[1]

    def add_cross(self, layers: Sequence[Tensor], counts: Tensor, graph: TextBatch, *, first_layer: int) -> None:
        """Add what a decoder gave to the tokens of the sources, between which and its own there are no distances.

        Parameters
        ----------
        layers : (B, H, T, S) weights of each layer
        counts : (B,) tokens written
        graph : of the sources
        first_layer : number of the first layer
        """
        lengths = graph.batch_num_nodes(TOKEN)
        written = torch.arange(int(counts.max())) < counts.unsqueeze(1)  # (B, T)
        degrees = lengths.repeat_interleave(counts).numpy()
        for layer, weights in enumerate(layers, first_layer):
            rows = weights.transpose(1, 2).cpu()[written].double().numpy()  # (W, H, S)
            for head in range(rows.shape[1]):
                sums = self.heads.setdefault((layer, head, CROSS), HeadSums())
                sums.add_entropy(rows[:, head], degrees)
                sums.add_kinds(CROSS_KINDS, [float(rows[:, head, 0].sum()), float(rows[:, head, 1:].sum())])

    def distances(self) -> pd.DataFrame:
        """Columns layer, head, relation, distance, mass and strongest (MS-Trans, Figure 3a).

        ``mass`` is the share of the weight on tokens so far away, ``strongest`` the share of tokens whose largest
        weight is so far away, which is what the figure counts. Of heads that look from word to word it is words.
        """
        return pd.concat([self._distances(key, sums) for key, sums in self.heads.items()], ignore_index=True)

    def layers(self) -> pd.DataFrame:
        """Columns layer, distance, mass and strongest: means over the heads of a layer (MS-Trans, Figure 3b).

        Each head counts in its own unit, tokens or words.
        """
        table = self.distances()
        sums = table.groupby(["layer", "distance"])[["mass", "strongest"]].sum()
        counts = table.groupby("layer")["head"].nunique()
        return sums.div(counts, level="layer", axis=0).reset_index()

    def entropy(self) -> pd.DataFrame:
        """Columns layer, head, relation, entropy (mean of targets, nats), evenness: 0 for one edge, 1 for all alike."""
        rows = [
            (*key, sums.entropy / max(sums.targets, 1), sums.entropy / (sums.largest_entropy or np.nan))
            for key, sums in self.heads.items()
        ]
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "entropy", "evenness"])

    def relations(self) -> pd.DataFrame:
        """Columns layer, relation, heads, share (of the layer's weight), elsewhere (weight that is not on itself).

        ``elsewhere`` is NaN where edges join neither tokens with tokens nor words with words.
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

        :class:`~graphattn.models.inspection.edge_kinds.EdgeKinds` says which there are.
        """
        rows = [
            (*key, kind, mass / sum(sums.kinds.values()))
            for key, sums in self.heads.items()
            for kind, mass in sorted(sums.kinds.items(), key=lambda item: -item[1])
        ]
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "kind", "mass"])

    def scales(self) -> pd.DataFrame:
        """Columns layer, head, relation, allotted, effective and mean_distance.

        ``allotted`` is the mean width of the head's window in the corpus, NaN for other relations; ``effective`` the
        odd width that holds 90 % of the head's weight, NaN where there are no distances. It and ``mean_distance`` are
        counted in tokens, of heads that look from word to word in words.
        """
        rows = []
        for key, sums in self.heads.items():
            allotted = self._widths[key[2]] / self._sentences if key[2] in self._widths else np.nan
            mass, total = np.cumsum(sums.mass), sums.mass.sum()
            effective = 2 * int(np.searchsorted(mass, HELD * total - 1e-9)) + 1 if total else np.nan
            mean = float((sums.mass * np.arange(len(sums.mass))).sum() / total) if total else np.nan
            rows.append((*key, allotted, effective, mean))
        return pd.DataFrame(rows, columns=["layer", "head", "relation", "allotted", "effective", "mean_distance"])

    def tables(self) -> dict[str, pd.DataFrame]:
        """All of them by name."""
        ways = (self.layers, self.distances, self.entropy, self.relations, self.dependencies, self.scales)
        return {way.__name__: way() for way in ways}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all tables, into one ``.json`` file or a folder of ``.csv`` files; errors as :func:`save_tables`."""
        return save_tables(self.tables(), path)

    def _distances(self, key: HeadKey, sums: HeadSums) -> pd.DataFrame:
        layer, head, relation = key
        count = len(sums.mass)
        columns = {"layer": layer, "head": head, "relation": relation, "distance": np.arange(count)}
        shares = {"mass": sums.mass / (sums.mass.sum() or 1), "strongest": sums.strongest / (sums.strongest.sum() or 1)}
        return pd.DataFrame({**columns, **shares})


class _KindOfEdges:
    """The edges of one kind in a batch."""

    def __init__(self, graph: TextBatch, kind: tuple[str, str, str], edge_kinds: EdgeKinds):
        edges = graph.edges[kind]
        self.targets, self.count = edges.destinations.numpy(), edges.num_destinations
        self.target_type = kind[2]
        self.ends = kind[0] if kind[0] == kind[2] and kind[0] in IN_A_ROW else None
        if self.ends is not None:
            sources = edges.sources.numpy()
            self.distances = np.abs(sources - self.targets)
            self.codes = edge_kinds.codes(sources, self.targets, self.ends)


def _add_relation(sums: Sequence[HeadSums], weights: Any, kinds: Sequence[_KindOfEdges], names: list[str]) -> None:
    """Add the edges of a relation of several kinds, for each of its heads."""
    begin, degrees = 0, {kind.target_type: np.zeros(kind.count, np.int64) for kind in kinds}
    for kind in kinds:
        own = weights[begin : begin + len(kind.targets)]
        begin += len(kind.targets)
        degrees[kind.target_type] += np.bincount(kind.targets, minlength=kind.count)
        if kind.ends is not None:
            best = shares_of_strongest(kind.targets, own, kind.count)
            for column, head in enumerate(sums):
                head.add_distances(kind.distances, own[:, column], best[:, column])
                head.add_kinds(names, np.bincount(kind.codes, own[:, column], minlength=len(names)).tolist())
    filled = np.concatenate([own[own > 0] for own in degrees.values()])
    for column, head in enumerate(sums):
        head.add_entropy(weights[:, column], filled)


def save_tables(tables: Mapping[str, pd.DataFrame], path: str | os.PathLike[str]) -> Path:
    """Write tables into one ``.json`` file, or into a folder with a ``.csv`` file for each.

    Raises
    ------
    ConfigError
        for another suffix
    DataError
        when something cannot be written
    """
    path = Path(path)
    if path.suffix:
        plain = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        text = json.dumps(plain, indent=1) + "\n"
        return write_beside(path, {".json": lambda beside: beside.write_text(text, encoding="utf-8")})
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made ({error.strerror})", path=path, hint="Choose another folder.") from error
    for name, table in tables.items():
        write_beside(path / f"{name}.csv", {".csv": partial(table.to_csv, index=False)})
    return path
