"""The multi-stage Transformer against dense blocks in double precision, written from UMST's appendix B.1."""

import torch

from graphattn.models import MultiStageOptions
from graphattn.models._encoders.base import sinusoids

from .dense import connect, convolve, norm, run_block


def test_three_stages_and_their_weights(double_encoder, encode, check_maps, sentences):
    encoder = double_encoder(MultiStageOptions(hidden=12, layers=2, heads=3, ffn=16))

    def run(sentence, tokens):
        seen = []
        x = tokens + sinusoids(torch.arange(len(tokens)), 12, tokens.dtype)
        for block in encoder.token_blocks:
            x = run_block(block, x, seen)
        word_of = [0, *(word + 1 for word in sentence.word_ids)]
        rows = [[token for token, own in enumerate(word_of) if own == word] for word in range(sentence.num_words + 1)]
        x = torch.stack([x[row].mean(0) for row in rows])
        for block in encoder.word_blocks:
            x = run_block(block, x, seen)
        x = x + convolve(encoder.convolution, connect(sentence), norm(encoder.arc_norm, x))
        for block in encoder.phrase_blocks:
            x = run_block(block, x, seen)
        return norm(encoder.norm, x)[word_of], seen

    for sentence, tokens, actual in zip(sentences, *encode(encoder, 12)[1:], strict=True):
        torch.testing.assert_close(actual, run(sentence, tokens)[0], rtol=0, atol=1e-9)
    check_maps(encoder, 12, lambda *text: run(*text)[1])


def test_stages_divide_the_depth_of_a_translator():
    assert MultiStageOptions.for_translation({"layers": 6, "hidden": 512, "norm": "pre"}).layers == 2
    assert MultiStageOptions.for_translation({"layers": 2}).layers == 1
    assert MultiStageOptions.for_translation({}) == MultiStageOptions()
