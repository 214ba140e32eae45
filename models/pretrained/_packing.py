"""Texts one after another in one row of a model of ``transformers``, and whether the model keeps them apart."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphattn._ragged import Ints, count_up
from graphattn.exceptions import ConfigError
from graphattn.models.pretrained._contexts import LayerWatcher, read_config, watching, watching_alone
from graphattn.models.pretrained._interface import WATCHERS, packed
from graphattn.models.pretrained._layers import position_rows

_CONTEXT = "pack(...)"
_TOLERANCE = 1e-3, 8.0
"""Difference of states that rounding explains, relative to the largest: at least, and in units of rounding."""
_PROBE_LENGTHS = np.array([5, 9, 4])

Ids = Sequence[int] | Tensor
"""Ids of a text."""


@dataclass(frozen=True, eq=False)
class PackedModel:
    """A model of ``transformers`` that reads texts without padding; :func:`pack` makes it.

    Call it with the ids of texts, also inside :func:`edges` and :func:`capture`. Gradients flow to the model, and its
    training mode decides on dropout.
    """

    model: nn.Module
    first_position: int
    """Number of a text's first position: 0, or that after padding in RoBERTa-like models."""

    def __call__(
        self,
        input_ids: Sequence[Ids],
        token_type_ids: Sequence[Ids] | None = None,
        attention_mask: Sequence[Ids] | None = None,
    ) -> list[Tensor]:
        """Compute the states of texts.

        Parameters
        ----------
        input_ids : the ids of each text with special tokens, as tokenizers return them
        token_type_ids : those of each text, zeros if the model takes them and they are not given
        attention_mask : of a padded batch, zero for padding, which is left out

        Returns
        -------
        (L, width) last hidden states of each text of L tokens

        Raises
        ------
        ConfigError
            for a text without ids, padding without ``attention_mask``, other numbers of ``token_type_ids``, or a model
            that does not take them
        """
        _check_ids(input_ids)
        if attention_mask is not None:
            real = [torch.as_tensor(mask).bool() for mask in attention_mask]
            input_ids = _keep(input_ids, real)
            token_type_ids = None if token_type_ids is None else _keep(token_type_ids, real)
        elif isinstance(input_ids, Tensor) and self._is_padded(input_ids):
            raise ConfigError("input_ids is padded; give its attention_mask, too, or ids without padding")
        lengths = np.array([len(ids) for ids in input_ids], dtype=np.int64)
        if not lengths.all():
            raise ConfigError(f"text {int(lengths.argmin())} has no ids; leave it out, or give it special tokens")
        if not len(lengths):
            return []
        device = next(self.model.parameters()).device
        segments = None
        if token_type_ids is not None:
            self._check_segments(token_type_ids, lengths)
            segments = _join(token_type_ids, device)
        inputs = self.make_inputs(lengths, _join(input_ids, device), segments)
        with packed(lengths), watching_alone(self.model, LayerWatcher(self.model, _CONTEXT)):
            states = last_states(self.model(**inputs))
        return list(states[0].split(lengths.tolist()))

    def make_inputs(self, lengths: Ints, ids: Tensor, segments: Tensor | None) -> dict[str, Any]:
        """The arguments of the model for texts of these (B,) lengths, whose ids and segments are (1, N)."""
        names, inputs = list_parameters(self.model), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "position_ids" in names:
            positions = torch.from_numpy(count_up(lengths)).to(ids.device).long()
            inputs["position_ids"] = position_rows(positions, ids[0], self.first_position)[None]
        if segments is not None:
            inputs["token_type_ids"] = segments
        return {**inputs, "use_cache": False} if "use_cache" in names else inputs

    def _is_padded(self, input_ids: Tensor) -> bool:
        pad = getattr(self.model.config, "pad_token_id", None)
        return pad is not None and input_ids.numel() > 0 and bool((input_ids[:, [0, -1]] == pad).any())

    def _check_segments(self, token_type_ids: Sequence[Ids], lengths: Ints) -> None:
        if "token_type_ids" not in list_parameters(self.model):
            raise ConfigError(f"a {type(self.model).__name__} takes no token_type_ids; leave them out")
        if [len(ids) for ids in token_type_ids] != lengths.tolist():
            raise ConfigError("token_type_ids has other numbers of tokens than input_ids; give one for each id")


def _check_ids(input_ids: Any) -> None:
    """Reject what are no ids of several texts."""
    if isinstance(input_ids, Mapping):
        raise ConfigError("a mapping is given for input_ids; unpack what a tokenizer returns: packed(**inputs)")
    for ids in input_ids:
        if isinstance(ids, str) or not hasattr(ids, "__len__") or (isinstance(ids, Tensor) and ids.dim() == 0):
            raise ConfigError(
                f"input_ids has the item {ids!r}; give a list of the ids of each text, such as [[1, 7, 2]]"
            )


def _keep(rows: Sequence[Ids], masks: Sequence[Tensor]) -> list[Tensor]:
    """The numbers of each row where its mask is true."""
    return [torch.as_tensor(row)[mask.cpu()] for row, mask in zip(rows, masks, strict=True)]


def pack(model: nn.Module, pad: int | None = None) -> PackedModel:
    """Let a model read texts one after another in one row, so that no time goes to padding.

    Models differ in where positions begin and what connects neighbours. So this function reads three short texts,
    together and one by one, and compares their states.

    Parameters
    ----------
    model : a base model of ``transformers`` (``AutoModel``) with ``attn_implementation="graphattn"``; of a model that
        PEFT wraps, ``model.get_base_model()``
    pad : id of padding, after which RoBERTa-like models number their positions; by default that of the model's
        configuration

    Raises
    ------
    ConfigError
        when states of packed texts are not those of single texts, with the reason; inside :func:`edges` or
        :func:`capture` of the same model

    Examples
    --------
    >>> import transformers, graphattn.transformers
    >>> sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    >>> config = transformers.BertConfig(**sizes, attn_implementation="graphattn")
    >>> packed = graphattn.transformers.pack(transformers.BertModel(config).eval())
    >>> [tuple(states.shape) for states in packed([[2, 7, 8, 3], [2, 9, 3]])]
    [(4, 16), (3, 16)]
    """
    config = read_config(model, _CONTEXT)
    if WATCHERS.get(model):
        raise ConfigError(f"call {_CONTEXT} before `with edges(model, ...)` and `with capture(model)`")
    try:
        return PackedModel(model, find_first_position(model, pad))
    except ConfigError as error:
        raise ConfigError(
            f"texts cannot be packed for a model of type {config.model_type!r} ({error}); give the model padded batches"
        ) from error


def find_first_position(model: nn.Module, pad: int | None = None, *, context: str = _CONTEXT) -> int:
    """Find the number of a text's first position for :class:`PackedModel`; arguments as for :func:`pack`.

    ``context`` is what errors say cannot be used.

    Raises
    ------
    ConfigError
        with the reason why states of packed texts are not those of single texts
    """
    config = read_config(model, context)
    pad = getattr(config, "pad_token_id", None) if pad is None else pad
    firsts = [0] if pad is None or "position_ids" not in list_parameters(model) else [0, pad + 1]
    try:
        texts = _draw_texts(config.vocab_size, (pad, getattr(config, "mask_token_id", None)))
        with torch.no_grad(), _evaluating(model):
            with watching(model, LayerWatcher(model, context)):  # so that layers without edges are the reason
                expected = [_read_alone(model, ids) for ids in texts]
            for first in firsts:
                states = PackedModel(model, first)(texts)
                if _are_close(torch.cat(states), torch.cat(expected)):
                    return first
        if "position_ids" not in list_parameters(model) and _are_close(states[0], expected[0]):
            raise ConfigError("it takes no position_ids, so the positions of a text begin where the last one ends")
    except ConfigError:
        raise
    except Exception as error:  # a family's own code may fail on edges in place of a mask in any way
        raise ConfigError(f"{type(error).__name__}: {error}") from error
    raise ConfigError("it mixes texts that are next to each other")


def _read_alone(model: nn.Module, ids: Tensor) -> Tensor:
    row = ids[None].to(next(model.parameters()).device)
    return last_states(model(input_ids=row, attention_mask=torch.ones_like(row)))[0]


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Turn dropout off, and restore the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def list_parameters(model: nn.Module) -> Any:
    """The parameters of a model's ``forward``, by name."""
    return inspect.signature(model.forward).parameters


def _join(texts: Sequence[Ids], device: torch.device) -> Tensor:
    """(1, N) ids of all texts."""
    return torch.cat([torch.as_tensor(ids, dtype=torch.long, device=device) for ids in texts])[None]


def last_states(output: Any) -> Tensor:
    """The states of the last layer in the output of a base model."""
    if not hasattr(output, "last_hidden_state"):
        raise ConfigError("its output has no last_hidden_state; give its base model, model.base_model")
    states: Tensor = output.last_hidden_state
    return states


def _draw_texts(vocabulary: int, special: Sequence[int | None]) -> list[Tensor]:
    """Ids of texts, with special ones in the first text, since families count or scale by them."""
    generator = np.random.default_rng(0)
    ids = generator.integers(vocabulary // 4, vocabulary * 3 // 4, int(_PROBE_LENGTHS.sum()))
    known = [each for each in special if each is not None and 0 <= each < vocabulary]
    ids[1 : 1 + len(known)] = known
    return list(torch.from_numpy(ids).split(_PROBE_LENGTHS.tolist()))


def _are_close(states: Tensor, expected: Tensor) -> bool:
    if states.shape != expected.shape:
        return False
    least, units = _TOLERANCE
    tolerance = max(least, units * torch.finfo(expected.dtype).eps)
    return bool((states - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1e-6))
