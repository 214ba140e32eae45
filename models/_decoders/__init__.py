"""Decoders, beam search and sampling, and their options."""

from __future__ import annotations

from torch import nn

from graphattn.models._decoders.duo import DuoSoftmax, make_duo_decoder
from graphattn.models._decoders.model import TiedSoftmax
from graphattn.models._decoders.options import DecoderOptions
from graphattn.models._decoders.transformer import Decoder, make_transformer_decoder
from graphattn.models._encoders import DuoTransformerOptions, Encoder, EncoderOptions


def make_decoder(
    encoder: Encoder, encoder_options: EncoderOptions, options: DecoderOptions
) -> tuple[Decoder, nn.Module]:
    """A decoder and an output layer with fresh weights; the Duo Transformer has its own, all others share one kind."""
    if isinstance(encoder_options, DuoTransformerOptions):
        output = DuoSoftmax(encoder_options.hidden) if encoder_options.fusion_layer else TiedSoftmax()
        return make_duo_decoder(encoder_options.hidden, options, encoder_options), output
    return make_transformer_decoder(encoder_options.hidden, encoder.width, options), TiedSoftmax()
