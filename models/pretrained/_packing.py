"""Texts one after another in one row of a model of ``transformers``, and whether the model keeps them apart."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn._ragged import Ints, count_up
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models.pretrained._contexts import LayerWatcher, watching
from graphattn.models.pretrained._interface import NAME, packed

_TOLERANCE = 1e-3
"""Difference of states, relative to the largest, that rounding explains."""
_PROBE_LENGTHS = np.array([5, 9, 4])


@dataclass(frozen=True)
class Packing:
    """How a model reads packed texts: the position of a first token, and whether it takes positions and segments."""

    first_position: int
    takes_positions: bool
    takes_segments: bool

    def run(self, model: nn.Module, lengths: Ints, segments: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """(N, width) states of texts; ``inputs`` are (N,) ``input_ids`` or (N, D) ``inputs_embeds``."""
        device = next(iter(inputs.values())).device
        count = int(lengths.sum())
        options: dict[str, Any] = {name: values[None] for name, values in inputs.items()}
        options["attention_mask"] = torch.ones(1, count, dtype=torch.long, device=device)
        if self.takes_positions:
            positions = torch.from_numpy(count_up(lengths)).to(device)
            options["position_ids"] = positions[None].long() + self.first_position
        if self.takes_segments and segments is not None:
            options["token_type_ids"] = segments[None].long()
        if "use_cache" in _parameters(model):
            options["use_cache"] = False
        with packed(lengths), watching(model, LayerWatcher(model, "packed texts")):
            states: Tensor = model(**options).last_hidden_state
        return states[0]


def _parameters(model: nn.Module) -> Any:
    return inspect.signature(model.forward).parameters


def find_packing(model: nn.Module, pad: int | None) -> Packing:
    """How a model reads packed texts, tried with three short ones.

    ``pad`` is the id of padding, after which RoBERTa-like models number their positions.

    Raises
    ------
    ModelDirectoryError
        when states of packed texts are not those of single texts
    """
    config: Any = model.config
    family = config.model_type
    parameters = _parameters(model)
    takes = {name: name in parameters for name in ("position_ids", "token_type_ids")}
    firsts = [0] if pad is None or not takes["position_ids"] else [0, pad + 1]
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), watching(model, LayerWatcher(model, "packed texts")):
            ids = torch.from_numpy(_draw_ids(config, pad)).to(next(model.parameters()).device)
            singles = [
                model(input_ids=part[None], attention_mask=torch.ones_like(part)[None]).last_hidden_state[0]
                for part in ids.split(_PROBE_LENGTHS.tolist())
            ]
            expected = torch.cat(singles)
            for first in firsts:
                packing = Packing(first, takes["position_ids"], takes["token_type_ids"])
                states = packing.run(model, _PROBE_LENGTHS, input_ids=ids)
                if states.shape == expected.shape and _are_close(states, expected):
                    return packing
    except ConfigError as error:
        raise ModelDirectoryError(explain(family, str(error))) from error
    except Exception as error:  # a family's own code may fail on edges in place of a mask in any way
        raise ModelDirectoryError(explain(family, f"{type(error).__name__}: {error}")) from error
    finally:
        model.train(training)
    raise ModelDirectoryError(explain(family, "it mixes texts that are next to each other"))


def _draw_ids(config: Any, pad: int | None) -> npt.NDArray[np.int64]:
    """Ids of text, without those of special tokens, which come first or last in most vocabularies."""
    generator = np.random.default_rng(0)
    low, high = config.vocab_size // 4, config.vocab_size * 3 // 4
    ids = generator.integers(low, high, int(_PROBE_LENGTHS.sum()))
    return np.where(ids == pad, ids + 1, ids)


def _are_close(states: Tensor, expected: Tensor) -> bool:
    scale = expected.abs().max().clamp(min=1e-6)
    return bool(((states - expected).abs().max() <= _TOLERANCE * scale).item())


def explain(family: str, reason: str) -> str:
    """The error of a model that cannot run on graphs."""
    return (
        f"its model_type is {family!r}, whose texts cannot be one graph ({reason}). Choose another model, or stay in "
        f"transformers with its own attention; {NAME} needs one that attends through AttentionInterface in all layers"
    )
