"""Transformer in Transformer against dense blocks in double precision, written from UMST's appendix B.1."""

import pytest
import torch

from graphattn.models import TNTOptions
from graphattn.models._encoders.base import sinusoids

from .dense import count_parameters, norm, run_block


@pytest.mark.parametrize("shared", [False, True])
def test_two_streams_and_their_weights(double_encoder, encode, check_maps, sentences, shared):
    encoder = double_encoder(TNTOptions(hidden=12, layers=2, heads=3, ffn=16, share_blocks=shared))

    def run(sentence, tokens):
        word_of, seen = torch.tensor([0, *(word + 1 for word in sentence.word_ids)]), []
        y = x = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        for inner, outer in zip(encoder.outer if shared else encoder.inner, encoder.outer, strict=True):
            y = run_block(inner, y, seen, word_of.unsqueeze(1) == word_of)
            x = run_block(outer, x + y, seen)
        return norm(encoder.norm, x), seen

    for sentence, tokens, actual in zip(sentences, *encode(encoder, 12)[1:], strict=True):
        torch.testing.assert_close(actual, run(sentence, tokens)[0], rtol=0, atol=1e-9)
    check_maps(encoder, 12, lambda *text: run(*text)[1])


def test_inner_blocks_have_as_many_parameters_as_outer_ones():
    both, shared = (count_parameters(TNTOptions(share_blocks=own)) for own in (False, True))
    assert both - shared == shared - 2 * TNTOptions().hidden  # all but the last norm
