"""Check once that an encoder from outside of this package returns what it must."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import ConfigError, verbatim
from graphattn.models._corpus import Corpus
from graphattn.models._encoders.base import Encoder, LayerWeights
from graphattn.models._text_model import in_evaluation

_OWN_PACKAGE = __name__.partition(".")[0]


def check_encoder(model: Any, corpus: Corpus) -> None:
    """Run the encoder of a model on two texts, if it is the user's, and reject rows and weights that do not fit.

    Raises
    ------
    ConfigError
        naming the method of the encoder, what it returned and what it must return
    """
    encoder: Encoder = getattr(model.encoder, "upper", None) or model.encoder  # of a pretrained model
    numbers = np.flatnonzero(corpus.lengths)
    if type(encoder).__module__.partition(".")[0] == _OWN_PACKAGE or not len(numbers):
        return
    name, layers, calls = type(encoder).__name__, list[LayerWeights](), list[tuple[TextBatch, Tensor]]()
    below = 0

    def count_layers_below(*_: Any) -> None:
        nonlocal below
        below = len(layers)

    def check(_: Any, inputs: tuple[TextBatch, Tensor], states: Any) -> None:
        graph, tokens = inputs
        _check_rows(f"{name}.forward", states, (len(tokens), encoder.width), tokens, "a row for each token")
        _check_weights(encoder, layers[below:], graph)
        calls.append(inputs)

    shortest = numbers[np.argsort(corpus.lengths[numbers], kind="stable")]
    batch = corpus.batch([int(shortest[0]), int(shortest[len(shortest) // 2])])
    hooks = [encoder.register_forward_pre_hook(count_layers_below), encoder.register_forward_hook(check)]
    with torch.random.fork_rng(), torch.no_grad(), in_evaluation(model):
        try:
            model.encode(batch, weights=layers)
        except KeyError as error:
            missing = error.args[0] if error.args else ""
            if missing in batch.graph.edges:
                raise
            known = verbatim(", ".join(relation.name for relation in encoder.relations()))
            problem = f"{name}.forward looks up {verbatim(repr(missing))}, which its graphs lack"
            raise ConfigError(f"{problem}; its relations are: {known}") from error
        finally:
            for hook in hooks:
                hook.remove()
        if type(encoder).means is not Encoder.means:
            graph, tokens = calls[0]
            texts = len(graph.batch_num_nodes(TOKEN))
            means = encoder.means(graph, tokens)
            _check_rows(f"{name}.means", means, (texts, encoder.width), tokens, "a row for each text")


def _check_rows(method: str, rows: Any, shape: tuple[int, int], tokens: Tensor, what: str) -> None:
    """Reject rows of another number, width or type."""
    expected = f"it must return {shape}, {what} and a column for each of its width, of type {tokens.dtype}"
    if not isinstance(rows, Tensor):
        raise ConfigError(f"{method} returns {type(rows).__name__}, not a tensor; {expected}")
    if tuple(rows.shape) != shape:
        raise ConfigError(f"{method} returns {tuple(rows.shape)}; {expected}")
    if rows.dtype != tokens.dtype:
        raise ConfigError(f"{method} returns numbers of type {rows.dtype}; {expected}")


def _check_weights(encoder: Encoder, layers: list[LayerWeights], graph: TextBatch) -> None:
    """Reject weights of unknown relations, or of another number of edges."""
    method, relations = f"{type(encoder).__name__}.forward", {each.name: each for each in encoder.relations()}
    named = [(method, "gives weights of", name) for layer in layers for name in layer]
    named += [(f"{type(encoder).__name__}.heads_along", "names", name) for name in encoder.heads_along()]
    for where, verb, name in named:
        if name not in relations:
            known = verbatim(", ".join(relations))
            raise ConfigError(f"{where} {verb} {verbatim(repr(name))}; its relations are: {known}")
    for number, layer in enumerate(layers, 1):
        for name, weights in layer.items():
            edges = sum(graph.edges[part.canonical].num_edges for part in relations[name].parts())
            if not isinstance(weights, Tensor) or weights.ndim != 2 or len(weights) != edges:
                shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
                raise ConfigError(
                    f"{method} gives weights {shape} of {verbatim(name)} in layer {number}; they must be ({edges}, "
                    "heads), a row for each edge"
                )
