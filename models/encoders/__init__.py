"""Encoders, one file each: a choice of relations and a layer. Heads, training and data do not belong here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphattn.exceptions import ConfigError
from graphattn.models.encoders.base import Encoder, EncoderOptions
from graphattn.models.encoders.bilstm import BiLSTMEncoder, BiLSTMOptions
from graphattn.models.encoders.duo import DuoEncoder, DuoOptions
from graphattn.models.encoders.duo_transformer import DuoTransformerEncoder, DuoTransformerOptions
from graphattn.models.encoders.ms_trans import MSTransEncoder, MSTransOptions
from graphattn.models.encoders.mtsa import MTSAEncoder, MTSAOptions
from graphattn.models.encoders.multi_stage import MultiStageEncoder, MultiStageOptions
from graphattn.models.encoders.tnt import TNTEncoder, TNTOptions
from graphattn.models.encoders.transformer import TransformerEncoder, TransformerOptions
from graphattn.models.encoders.umst import UMSTEncoder, UMSTOptions

ENCODERS: dict[str, tuple[type[EncoderOptions], type[Encoder]]] = {
    "ms-trans": (MSTransOptions, MSTransEncoder),
    "mtsa": (MTSAOptions, MTSAEncoder),
    "duo": (DuoOptions, DuoEncoder),
    "duo-transformer": (DuoTransformerOptions, DuoTransformerEncoder),
    "umst": (UMSTOptions, UMSTEncoder),
    "tnt": (TNTOptions, TNTEncoder),
    "multi-stage": (MultiStageOptions, MultiStageEncoder),
    "transformer": (TransformerOptions, TransformerEncoder),
    "bilstm": (BiLSTMOptions, BiLSTMEncoder),
}
"""Name -> its options and its module."""


def encoder_options(encoder: str | EncoderOptions | Mapping[str, Any]) -> EncoderOptions:
    """Options from a name, from plain values with a ``name``, or as they are.

    Raises
    ------
    ConfigError
        for an unknown name, or something else
    """
    if isinstance(encoder, EncoderOptions):
        return encoder
    if not isinstance(encoder, (str, Mapping)):
        raise ConfigError(
            f"{{encoder}} is {encoder!r}; give one of {', '.join(ENCODERS)}, or its options", options=("encoder",)
        )
    values = {"name": encoder} if isinstance(encoder, str) else dict(encoder)
    name = values.pop("name", None)
    if name not in ENCODERS:
        raise ConfigError(
            f"{{encoder}} {name!r} does not exist; choose one of: {', '.join(ENCODERS)}", options=("encoder",)
        )
    return ENCODERS[name][0].from_dict(values)


def make_encoder(options: EncoderOptions) -> Encoder:
    """The encoder that the options describe, with fresh weights."""
    return ENCODERS[options.name][1](options)


__all__ = [
    "ENCODERS",
    "BiLSTMEncoder",
    "BiLSTMOptions",
    "DuoEncoder",
    "DuoOptions",
    "DuoTransformerEncoder",
    "DuoTransformerOptions",
    "Encoder",
    "EncoderOptions",
    "MSTransEncoder",
    "MSTransOptions",
    "MTSAEncoder",
    "MTSAOptions",
    "MultiStageEncoder",
    "MultiStageOptions",
    "TNTEncoder",
    "TNTOptions",
    "TransformerEncoder",
    "TransformerOptions",
    "UMSTEncoder",
    "UMSTOptions",
    "encoder_options",
    "make_encoder",
]
