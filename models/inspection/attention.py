"""One prediction with the attention weights that made it: as a table, a graph, a matrix, a file, a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd

from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError
from graphattn.models.inspection import limits
from graphattn.models.inspection.attention_map import AttentionMap, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GROUPS = ("layer", "head", "relation", "source_part", "target_part")


@dataclass(frozen=True, eq=False)
class Attention:
    """One prediction and the attention weights that made it; layers and heads count from 0.

    The heads of a layer count in the order in which their outputs are concatenated: relation after relation.

    Parameters
    ----------
    title : the words of the text, or of both texts of a pair; of a translator, of the source
    prediction : the label, the labels, the tags or the text, as ``predict`` gives them
    probabilities : class -> probability; for a tagger one of these for each word
    tokens : name of a part of the input -> what its nodes say. A text is the part ``text``, the two of a pair are
        ``first`` and ``second``, each with ``[CLS]`` first; nodes that relations bring along are parts of their own,
        such as ``text relay``
    sentences : name of a text -> its sentence, which knows words and, if it was parsed, dependencies
    maps : the weights, by layer and head

    Examples
    --------
    >>> from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions
    >>> encoder = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"), alpha=0.0)
    >>> classifier = TextClassifier(encoder, training=TrainingOptions(epochs=1))
    >>> attention = classifier.fit(["good film", "bad film"] * 4, ["pos", "neg"] * 4).attention("good film")
    >>> attention.tokens
    {'text': ('[CLS]', 'good', 'film')}
    >>> attention.only(head=0).table().drop(columns=["scale", "layer"])
       head  relation  source  target source_token target_token  weight
    0     0  window:1       0       0        [CLS]        [CLS]     1.0
    1     0  window:1       1       1         good         good     1.0
    2     0  window:1       2       2         film         film     1.0
    >>> attention.matrix(layer=0, head=1).shape
    (3, 3)
    """

    title: str = field(repr=False)
    prediction: Any
    probabilities: Mapping[Any, float] | Sequence[Mapping[Any, float]] = field(repr=False)
    tokens: Mapping[str, tuple[str, ...]]
    sentences: Mapping[str, Sentence] = field(repr=False)
    maps: tuple[AttentionMap, ...] = field(repr=False)

    def only(self, *, layer: int | None = None, head: int | None = None, relation: str | None = None) -> Attention:
        """The same prediction with a part of the weights.

        Parameters
        ----------
        layer, head, relation : which to keep; None keeps all

        Raises
        ------
        ConfigError
            when there is no such layer, head or relation
        """
        layers = sorted({one.layer for one in self.maps})
        if layer is not None and layer not in layers:
            raise ConfigError(f"layer {layer!r} does not exist; layers count from 0 to {layers[-1]}")
        relations = list(dict.fromkeys(one.relation for one in self.maps))
        if relation is not None and relation not in relations:
            raise ConfigError(f"no head looks along {relation!r}; heads look along: {', '.join(relations)}")
        chosen = [one for one in self.maps if layer in (None, one.layer)]
        if head is not None:
            last = max(one.heads.stop for one in chosen) - 1
            if not 0 <= head <= last:
                place = "a layer" if layer is None else f"layer {layer}"
                raise ConfigError(f"{place} has no head {head}; its heads count from 0 to {last}")
            chosen = [one.of_head(head) for one in chosen if head in one.heads]
        kept = tuple(one for one in chosen if relation in (None, one.relation))
        if not kept:
            who = "no head looks" if head is None else f"head {head} does not look"
            raise ConfigError(f"{who} along {relation!r}" + ("" if layer is None else f" in layer {layer}"))
        return replace(self, maps=kept)

    def table(self) -> pd.DataFrame:
        """Every weight as a row, by layer, head and target.

        Returns
        -------
        Columns layer, head (``table["head"]``, since ``table.head`` is a method of pandas), relation, scale, source,
        target (positions), source_token, target_token, weight; where the input has several parts also source_part and
        target_part, before source. In place of a token, nodes of another type have their type and number:
        ``[relay 0]``.

        Raises
        ------
        ConfigError
            when there are more weights than :data:`graphattn.models.inspection.limits.MOST_ROWS`
        """
        limits.refuse_large("table", self.num_weights, limits.MOST_ROWS)
        return self._rows(list(self._single()))

    @property
    def num_weights(self) -> int:
        """How many weights there are, over all layers and heads."""
        return sum(one.weights.size for one in self.maps)

    def weights(self) -> Floats:
        """The weights alone, in the order of :meth:`table`."""
        return np.concatenate([one.weights[:, 0] for one in self._single()])

    def graph(self, layer: int | None = None, head: int | None = None) -> nx.MultiDiGraph:
        """Nodes and the edges of one head, or of all, as a networkx graph.

        Nodes are (part, position) with the attributes ``part``, ``index`` and ``text``. Edges lead to the target that
        attends; they have ``layer``, ``head``, ``relation`` and ``weight``, and the first three are their key.

        Raises
        ------
        ConfigError
            when there is no such layer or head, or more edges than
            :data:`graphattn.models.inspection.limits.MOST_LINKS`
        """
        chosen = self.only(layer=layer, head=head)
        limits.refuse_large("networkx graph", chosen.num_weights, limits.MOST_LINKS)
        found = nx.MultiDiGraph()
        for part, texts in self.tokens.items():
            found.add_nodes_from(
                ((part, index), {"part": part, "index": index, "text": text}) for index, text in enumerate(texts)
            )
        for one in chosen._single():
            key = {"layer": one.layer, "head": one.first_head, "relation": one.relation}
            columns = (one.sources.tolist(), one.targets.tolist(), one.weights[:, 0].tolist())
            found.add_edges_from(
                ((one.source_part, source), (one.target_part, target), tuple(key.values()), {**key, "weight": weight})
                for source, target, weight in zip(*columns, strict=True)
            )
        return found

    def matrix(self, layer: int, head: int) -> csr_array:
        """The weights of one head as a sparse matrix: rows are targets, columns sources.

        Parts follow each other in the order of ``tokens``: the matrix of a pair has two blocks.

        Raises
        ------
        ConfigError
            when there is no such layer or head
        """
        from scipy.sparse import coo_array

        first, size = self._offsets
        chosen = list(self.only(layer=layer, head=head)._single())
        rows = np.concatenate([one.targets + first[one.target_part] for one in chosen])
        columns = np.concatenate([one.sources + first[one.source_part] for one in chosen])
        weights = np.concatenate([one.weights[:, 0] for one in chosen])
        return coo_array((weights, (rows, columns)), shape=(size, size)).tocsr()

    def features(self, layer: int, head: int) -> Floats:
        """(E, F) weights of one head for each edge, in the order of :meth:`table`, and each feature (MTSA).

        Raises
        ------
        ConfigError
            when there is no such layer or head, its weights do not differ by feature, or they were not asked for
        """
        chosen = list(self.only(layer=layer, head=head)._single())
        if any(one.features is None for one in chosen):
            raise ConfigError(
                "there are no weights by feature; ask for them with attention(x, features=True), of a model with the "
                "encoder mtsa"
            )
        return np.concatenate([one.features[:, 0] for one in chosen if one.features is not None])

    def top(self, k: int = 10, *, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """The strongest edges, as rows of :meth:`table`.

        The only edge into a target has the weight one whatever the model thinks; such edges are left out.

        Parameters
        ----------
        k : how many
        by : of which columns each combination has k of its own: ``"head"``, ``["layer", "head"]``; of layer, head,
            relation, source_part, target_part

        Raises
        ------
        ConfigError
            when ``k`` is below 1, or there is no such column
        """
        columns = [by] if isinstance(by, str) else list(by)
        if not isinstance(k, Integral):
            raise ConfigError(f"k is {k!r}; it must be a whole number")
        if k < 1:
            raise ConfigError(f"k is {k}; it must be at least 1")
        unknown = next((name for name in columns if name not in GROUPS), None)
        if unknown is not None:
            raise ConfigError(f"by is {unknown!r}; choose among: {', '.join(GROUPS)}")
        degrees, ones, best = self._degrees(), list(self._single()), []
        for one in ones:
            free = (degrees[_softmax(one)] > 1)[one.targets].nonzero()[0]
            best.append(free[np.argsort(-one.weights[free, 0], kind="stable")[:k]])
        found = self._rows(ones, best).sort_values("weight", ascending=False, kind="stable")
        columns = [name for name in columns if name in found]
        if columns:
            found = found.groupby(columns, sort=True).head(k).sort_values(columns, kind="stable")
        else:
            found = found.head(k)
        return found.reset_index(drop=True)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights into a file that appears when it is complete.

        Parameters
        ----------
        path : ``.parquet`` and ``.csv`` hold :meth:`table`, ``.graphml`` holds :meth:`graph`, ``.json`` :meth:`to_page`

        Raises
        ------
        ConfigError
            for another suffix, or as :meth:`table` and :meth:`graph`
        DataError
            when the file cannot be written
        """
        from graphattn.models.inspection.files import save_attention

        return save_attention(self, Path(path))

    def to_page(self, *, arrays: bool = False) -> dict[str, Any]:
        """Prediction, tokens and weights for JSON, as :mod:`graphattn.models.inspection.page` tells.

        Parameters
        ----------
        arrays : leave edges and weights in arrays, which take a tenth of the memory and are no JSON
        """
        from graphattn.models.inspection.page import to_page

        return to_page(self, arrays=arrays)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphattn.models.inspection.notebook import attention_html

        return attention_html(self)

    def _single(self) -> Iterator[AttentionMap]:
        """The maps, one for each head, by layer and head."""
        ones = [one for several in self.maps for one in several.by_head()]
        return iter(sorted(ones, key=lambda one: (one.layer, one.first_head)))

    @cached_property
    def _offsets(self) -> tuple[dict[str, int], int]:
        """Where each part begins when all stand in one row, and how long that is."""
        sizes = [len(nodes) for nodes in self.tokens.values()]
        return dict(zip(self.tokens, np.cumsum([0, *sizes]).tolist(), strict=False)), sum(sizes)

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        return {part: np.array(nodes, dtype=object) for part, nodes in self.tokens.items()}

    def _degrees(self) -> dict[tuple, Ints]:
        """For each softmax the number of edges into each target."""
        degrees: dict[tuple, Any] = {}
        for one in self._single():
            own = np.bincount(one.targets, minlength=len(self.tokens[one.target_part]))
            degrees[_softmax(one)] = degrees.get(_softmax(one), 0) + own
        return degrees

    def _rows(self, ones: Sequence[AttentionMap], chosen: Sequence[Ints] | None = None) -> pd.DataFrame:
        """Edges of maps of one head each: all, or some of each map."""
        picked: Sequence[Any] = [slice(None)] * len(ones) if chosen is None else chosen
        sources = [one.sources[own] for one, own in zip(ones, picked, strict=True)]
        targets = [one.targets[own] for one, own in zip(ones, picked, strict=True)]
        counts = [len(own) for own in sources]

        def each(name: str) -> Any:
            return np.repeat(np.array([getattr(one, name) for one in ones], dtype=object), counts)

        def said(part: str, places: Sequence[Ints]) -> Any:
            return np.concatenate([self._arrays[getattr(one, part)][o] for one, o in zip(ones, places, strict=True)])

        parts = {"source_part": each("source_part"), "target_part": each("target_part")}
        return pd.DataFrame(
            {
                "layer": each("layer").astype(np.int64),
                "head": each("first_head").astype(np.int64),
                "relation": each("relation"),
                "scale": pd.Series(each("scale"), dtype=object),
                **(parts if len(self.tokens) > 1 else {}),
                "source": np.concatenate(sources),
                "target": np.concatenate(targets),
                "source_token": said("source_part", sources),
                "target_token": said("target_part", targets),
                "weight": np.concatenate([one.weights[own, 0] for one, own in zip(ones, picked, strict=True)]),
            }
        )


def _softmax(one: AttentionMap) -> tuple[int, int, str]:
    """What tells whose weights sum to one together: all edges of a head into a part."""
    return one.layer, one.first_head, one.target_part
