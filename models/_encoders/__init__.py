"""Encoders, one file each: a choice of relations and a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError
from graphattn.models._encoders.base import Encoder, EncoderOptions, NoEncoderOptions
from graphattn.models._encoders.bilstm import BiLSTMEncoder, BiLSTMOptions
from graphattn.models._encoders.duo import DuoEncoder, DuoOptions
from graphattn.models._encoders.duo_transformer import DuoTransformerEncoder, DuoTransformerOptions
from graphattn.models._encoders.ms_trans import MSTransEncoder, MSTransOptions
from graphattn.models._encoders.mtsa import MTSAEncoder, MTSAOptions
from graphattn.models._encoders.multi_stage import MultiStageEncoder, MultiStageOptions
from graphattn.models._encoders.muse import MUSEEncoder, MUSEOptions
from graphattn.models._encoders.tnt import TNTEncoder, TNTOptions
from graphattn.models._encoders.transformer import TransformerEncoder, TransformerOptions
from graphattn.models._encoders.umst import UMSTEncoder, UMSTOptions

ENCODERS: dict[str, tuple[type[EncoderOptions], type[Encoder]]] = {
    "ms-trans": (MSTransOptions, MSTransEncoder),
    "mtsa": (MTSAOptions, MTSAEncoder),
    "duo": (DuoOptions, DuoEncoder),
    "duo-transformer": (DuoTransformerOptions, DuoTransformerEncoder),
    "umst": (UMSTOptions, UMSTEncoder),
    "tnt": (TNTOptions, TNTEncoder),
    "multi-stage": (MultiStageOptions, MultiStageEncoder),
    "muse": (MUSEOptions, MUSEEncoder),
    "transformer": (TransformerOptions, TransformerEncoder),
    "bilstm": (BiLSTMOptions, BiLSTMEncoder),
}
"""Name -> class of options, class of module."""


def register_encoder(options: type[EncoderOptions], encoder: type[Encoder]) -> None:
    """Add an encoder under the name of its options.

    Parameters
    ----------
    options : dataclass with a class attribute ``name``; its fields become flags of ``graphattn train``
    encoder : module that is built from such options

    Raises
    ------
    ConfigError
        when another encoder has this name
    """
    known = ENCODERS.get(options.name, (options, encoder))[0]
    if (known.__module__, known.__qualname__) != (options.__module__, options.__qualname__):
        raise ConfigError(f"encoder {options.name!r} exists already ({known.__module__}); choose another name")
    ENCODERS[options.name] = options, encoder


def encoder_options(encoder: str | EncoderOptions | Mapping[str, Any]) -> EncoderOptions:
    """Encoder options, given as a name, plain values with a ``name``, or options; an unknown name is a ConfigError."""
    if isinstance(encoder, EncoderOptions):
        return encoder
    if isinstance(encoder, Mapping) and "name" not in encoder:
        raise ConfigError(
            f"{{encoder}} {dict(encoder)} has no name; give a name such as 'ms-trans', options such as "
            "MSTransOptions(hidden=64), or plain values with a 'name'",
            options=("encoder",),
        )
    values = dict(encoder) if isinstance(encoder, Mapping) else {"name": encoder}
    return options_class(values.pop("name")).from_dict(values)


def options_class(name: str) -> type[EncoderOptions]:
    """The class of an encoder's options; a ConfigError for an unknown name lists the known ones."""
    if name == NoEncoderOptions.name:
        return NoEncoderOptions
    if name not in ENCODERS:
        raise ConfigError(
            f"{{encoder}} {name!r} does not exist; {suggest(name, ENCODERS)}choose one of: {', '.join(ENCODERS)}",
            options=("encoder",),
        )
    return ENCODERS[name][0]


def make_encoder(options: str | EncoderOptions | Mapping[str, Any]) -> Encoder:
    """Build the encoder that the options describe, or that a name does, with its default options."""
    options = encoder_options(options)
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
    "MUSEEncoder",
    "MUSEOptions",
    "MultiStageEncoder",
    "MultiStageOptions",
    "NoEncoderOptions",
    "TNTEncoder",
    "TNTOptions",
    "TransformerEncoder",
    "TransformerOptions",
    "UMSTEncoder",
    "UMSTOptions",
    "encoder_options",
    "make_encoder",
    "options_class",
    "register_encoder",
]
