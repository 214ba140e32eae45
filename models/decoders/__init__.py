"""Decoders: networks that write text, the search for the best text, and their options."""

from __future__ import annotations

from torch import nn

from graphattn.models.decoders.duo import DuoSoftmax, duo_decoder
from graphattn.models.decoders.model import TiedSoftmax
from graphattn.models.decoders.options import DecoderOptions
from graphattn.models.decoders.transformer import Decoder, plain_decoder
from graphattn.models.encoders import DuoTransformerOptions, Encoder, EncoderOptions


def make_decoder(encoder: Encoder, of_encoder: EncoderOptions, options: DecoderOptions) -> tuple[Decoder, nn.Module]:
    """A decoder and an output layer with fresh weights: the Duo Transformer's own, or those of all others.

    Parameters
    ----------
    encoder, of_encoder : what reads the source, and its options
    options : of the decoder
    """
    if isinstance(of_encoder, DuoTransformerOptions):
        output = DuoSoftmax(of_encoder.hidden) if of_encoder.fusion_layer else TiedSoftmax()
        return duo_decoder(of_encoder.hidden, options, of_encoder), output
    return plain_decoder(of_encoder.hidden, encoder.width, options), TiedSoftmax()
