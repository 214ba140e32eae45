"""The attention weights that made one prediction: each edge's, in each layer and head, as arrays, table and graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from graphattn.exceptions import ConfigError
from graphattn.graphs import lengths_of
from graphattn.models.batches import Corpus
from graphattn.models.encoders.base import LayerWeights
from graphattn.models.text_model import TextModel
from graphattn.networkx_export import to_networkx
from graphattn.schema import TOKEN, CanonicalRelation, find_relation

if TYPE_CHECKING:
    from dgl import DGLGraph

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class RelationWeights:
    """What one layer's heads on one relation give to each edge, in the order of edge ids.

    Parameters
    ----------
    texts : (E,) text the edge lies in: 0, or 1 in the second text of a pair
    sources, targets : (E,) positions among the text's nodes of their types; the token ``[CLS]`` is 0
    weights : (E, heads); for each head the weights of the edges into one target sum to one, over all of the relation's
        types of edges
    source_type, target_type : node types
    """

    texts: Ints
    sources: Ints
    targets: Ints
    weights: Floats
    source_type: str = TOKEN
    target_type: str = TOKEN


@dataclass(frozen=True, eq=False)
class Attention:
    """One prediction and the attention weights that made it; layers and heads count from 0.

    The heads of a layer count in the order in which their outputs are concatenated: relation after relation, in
    the order of ``layers[layer]``.

    Parameters
    ----------
    prediction : the label, as ``predict`` gives it
    tokens : for the text, or for both texts of a pair, its tokens, the first of them ``[CLS]``
    layers : for each layer relation -> weights; by canonical edge type where one head looks along several
    input_graph : the DGL graph that the model saw

    Examples
    --------
    >>> from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions
    >>> encoder = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"), alpha=0.0)
    >>> classifier = TextClassifier(encoder, training=TrainingOptions(epochs=1))
    >>> attention = classifier.fit(["good film", "bad film"] * 4, ["pos", "neg"] * 4).attention("good film")
    >>> attention.tokens
    (('[CLS]', 'good', 'film'),)
    >>> table = attention.table()
    >>> table[table.relation == "window:1"].drop(columns="relation")
       layer  head  source  target source_token target_token  weight
    0      0     0       0       0        [CLS]        [CLS]     1.0
    1      0     0       1       1         good         good     1.0
    2      0     0       2       2         film         film     1.0
    >>> attention.graph(layer=0, head=1).number_of_edges()
    7
    """

    prediction: Any
    tokens: tuple[tuple[str, ...], ...]
    layers: tuple[Mapping[str | CanonicalRelation, RelationWeights], ...] = field(repr=False)
    input_graph: DGLGraph = field(repr=False)

    def table(self) -> pd.DataFrame:
        """Every weight as a row, by layer, head and edge id.

        Returns
        -------
        Columns layer, head (``table["head"]``, since ``table.head`` is a method of pandas), relation, source, target
        (positions in the text), source_token, target_token, weight; for a pair also text (0 or 1), before source. In
        place of a token, nodes of another type have their type and position: ``[relay 0]``.
        """
        parts = []
        for layer in range(len(self.layers)):
            for head, (relation, column) in enumerate(self._heads(layer)):
                for seen in self._along(layer, relation).values():
                    ends = {"layer": layer, "head": head, "relation": relation, **self._ends(seen)}
                    parts.append(pd.DataFrame({**ends, "weight": seen.weights[:, column]}))
        return pd.concat(parts, ignore_index=True)

    def graph(self, layer: int, head: int) -> nx.MultiDiGraph:
        """Tokens and the edges of one head, each with its ``weight``, as :func:`to_networkx` writes them.

        Raises
        ------
        ConfigError
            when there is no such layer or head
        """
        if layer not in range(len(self.layers)):
            raise ConfigError(f"layer {layer} does not exist; layers count from 0 to {len(self.layers) - 1}")
        heads = list(self._heads(layer))
        if head not in range(len(heads)):
            raise ConfigError(f"layer {layer} has no head {head}; its heads count from 0 to {len(heads) - 1}")
        relation, column = heads[head]
        weights: dict[Any, Floats] = {
            kind: seen.weights[:, column] for kind, seen in self._along(layer, relation).items()
        }
        return to_networkx(self.input_graph, tokens=self.tokens, weights=weights, relations=list(weights))

    def _heads(self, layer: int) -> Iterator[tuple[str, int]]:
        """For each head of a layer its relation, and its column among the relation's weights."""
        counts = {_name(kind): seen.weights.shape[1] for kind, seen in self.layers[layer].items()}
        for relation, count in counts.items():
            for column in range(count):
                yield relation, column

    def _along(self, layer: int, relation: str) -> dict[str | CanonicalRelation, RelationWeights]:
        """The weights of a relation, by type of edge where it has several."""
        return {kind: seen for kind, seen in self.layers[layer].items() if _name(kind) == relation}

    def _ends(self, seen: RelationWeights) -> dict[str, npt.NDArray]:
        """The columns of the table that say which edge it is."""
        return {
            **({"text": seen.texts} if len(self.tokens) > 1 else {}),
            "source": seen.sources,
            "target": seen.targets,
            "source_token": self._said(seen.source_type, seen.texts, seen.sources),
            "target_token": self._said(seen.target_type, seen.texts, seen.targets),
        }

    def _said(self, kind: str, texts: Ints, positions: Ints) -> npt.NDArray:
        """What nodes say: the token, or the type and the position."""
        if kind != TOKEN:
            return np.array([f"[{kind} {position}]" for position in positions], dtype=object)
        tokens = np.array([token for text in self.tokens for token in text], dtype=object)
        return tokens[np.cumsum([0, *map(len, self.tokens)])[texts] + positions]


def _name(relation: str | CanonicalRelation) -> str:
    return relation if isinstance(relation, str) else relation[1]


def attention_of(
    model: TextModel,
    corpus: Corpus,
    tokens: Sequence[Sequence[str]],
    decided: Callable[[list[Any]], Sequence[Any]],
) -> Attention:
    """Run a model over one item, once, without gradients and in evaluation mode, and keep the weights.

    Parameters
    ----------
    model : left in the mode it was in
    corpus : one sentence or pair
    tokens : those of its text or texts, ``[CLS]`` first
    decided : class ids of items -> their labels
    """
    batch = corpus[[0]]
    weights: list[LayerWeights] = []
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            decisions = model.head.decide(model(batch, weights=weights), batch.graph).cpu().numpy()
    finally:
        model.train(was_training)
    label = decided([decisions if model.head.per_word else decisions[0]])[0]
    return Attention(
        prediction=label.item() if isinstance(label, np.generic) else label,
        tokens=tuple(tuple(text) for text in tokens),
        layers=_with_ends(weights, batch.graph),
        input_graph=batch.graph.dgl,
    )


def _with_ends(
    layers: list[LayerWeights], graph: DGLGraph
) -> tuple[dict[str | CanonicalRelation, RelationWeights], ...]:
    """Weights with the ends of their edges, which layers share."""
    ends: dict[str | CanonicalRelation, dict[str, Any]] = {}
    for relation in {relation for layer in layers for relation in layer}:
        source, _, target = find_relation(graph.canonical_etypes, relation)
        sources, targets = (ids.long() for ids in graph.edges(etype=relation, order="eid"))
        texts = torch.repeat_interleave(lengths_of(graph, target))[targets]
        places = (graph.nodes[kind].data["position"][ids] for kind, ids in ((source, sources), (target, targets)))
        columns = (column.numpy() for column in (texts, *places))
        names = ("texts", "sources", "targets", "source_type", "target_type")
        ends[relation] = dict(zip(names, (*columns, source, target), strict=True))
    return tuple(
        {relation: RelationWeights(weights=own.cpu().numpy(), **ends[relation]) for relation, own in layer.items()}
        for layer in layers
    )
