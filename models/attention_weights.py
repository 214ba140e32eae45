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
from graphattn.schema import TOKEN

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
    sources, targets : (E,) positions in that text; ``[CLS]`` is 0
    weights : (E, heads); for each head the weights of the edges into one target sum to one
    """

    texts: Ints
    sources: Ints
    targets: Ints
    weights: Floats


@dataclass(frozen=True, eq=False)
class Attention:
    """One prediction and the attention weights that made it; layers and heads count from 0.

    The heads of a layer count in the order in which their outputs are concatenated: relation after relation, in
    the order of ``layers[layer]``.

    Parameters
    ----------
    prediction : the label, as ``predict`` gives it
    tokens : for the text, or for both texts of a pair, its tokens, the first of them ``[CLS]``
    layers : for each layer relation -> weights
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
    layers: tuple[Mapping[str, RelationWeights], ...] = field(repr=False)
    input_graph: DGLGraph = field(repr=False)

    def table(self) -> pd.DataFrame:
        """Every weight as a row, by layer, head and edge id.

        Returns
        -------
        Columns layer, head (``table["head"]``, since ``table.head`` is a method of pandas), relation, source, target
        (positions in the text), source_token, target_token, weight; for a pair also text (0 or 1), before source.
        """
        parts = []
        for layer in range(len(self.layers)):
            for head, (relation, seen, column) in enumerate(self._heads(layer)):
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
        relation, seen, column = heads[head]
        weights = {relation: seen.weights[:, column]}
        return to_networkx(self.input_graph, tokens=self.tokens, weights=weights, relations=[relation])

    def _heads(self, layer: int) -> Iterator[tuple[str, RelationWeights, int]]:
        """For each head of a layer its relation, the relation's weights, and the head's column among them."""
        for relation, seen in self.layers[layer].items():
            for column in range(seen.weights.shape[1]):
                yield relation, seen, column

    def _ends(self, seen: RelationWeights) -> dict[str, npt.NDArray]:
        """The columns of the table that say which edge it is."""
        tokens = np.array([token for text in self.tokens for token in text], dtype=object)
        begins = np.cumsum([0, *map(len, self.tokens)])[seen.texts]
        return {
            **({"text": seen.texts} if len(self.tokens) > 1 else {}),
            "source": seen.sources,
            "target": seen.targets,
            "source_token": tokens[begins + seen.sources],
            "target_token": tokens[begins + seen.targets],
        }


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


def _with_ends(layers: list[LayerWeights], graph: DGLGraph) -> tuple[dict[str, RelationWeights], ...]:
    """Weights with the ends of their edges, which layers share."""
    text = torch.repeat_interleave(lengths_of(graph, TOKEN))
    position = graph.nodes[TOKEN].data["position"]
    ends = {}
    for relation in {relation for layer in layers for relation in layer}:
        sources, targets = (ids.long() for ids in graph.edges(etype=relation, order="eid"))
        ends[relation] = (text[targets].numpy(), position[sources].numpy(), position[targets].numpy())
    return tuple(
        {relation: RelationWeights(*ends[relation], weights.cpu().numpy()) for relation, weights in layer.items()}
        for layer in layers
    )
