"""Options of decoder, training and search, and the presets."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.models._decoders.options import (
    PRESETS,
    DecoderOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models._encoders import ENCODERS
from graphattn.models._encoders.umst import SIZES, UMSTOptions


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (SubwordOptions(vocabulary_size=0), ["vocabulary_size"]),
        (SubwordOptions(longest=0), ["longest"]),
        (SubwordOptions(split="tabs"), ["split"]),
        (DecoderOptions(decoder_layers=0), ["decoder_layers"]),
        (DecoderOptions(decoder_dropout=1.0), ["decoder_dropout"]),
        (SearchOptions(beam=0), ["beam"]),
        (SearchOptions(min_length=-1), ["min_length"]),
        (SearchOptions(min_length=5, max_length=4), ["min_length", "max_length"]),
        (SearchOptions(temperature=0.0), ["temperature"]),
        (SearchOptions(top_p=0.0), ["top_p"]),
        (SearchOptions(top_k=0), ["top_k"]),
        (TranslationTraining(max_tokens=0), ["max_tokens"]),
    ],
    ids=str,
)
def test_invalid_values(options, named):
    with pytest.raises(ConfigError) as caught:
        options.validate()
    assert list(caught.value.options) == named


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_presets_are_valid_for_every_encoder(encoder, preset):
    options = ENCODERS[encoder][0].for_translation(preset.encoder)
    options.validate()
    DecoderOptions(**preset.decoder).validate()
    TranslationTraining(**preset.training).validate()
    assert options.hidden == preset.encoder["hidden"]


def test_the_papers_widths():
    """UMST, appendix A; depths 6-6 and 12-6 in Table 5."""
    deep, big = PRESETS["deep"], PRESETS["big"]
    assert (deep.encoder["hidden"], deep.encoder["ffn"], deep.encoder["heads"]) == (512, 2048, 8)
    assert (deep.encoder["layers"], deep.decoder["decoder_layers"]) == (12, 6)
    assert (big.encoder["hidden"], big.encoder["ffn"], big.encoder["dropout"]) == (1024, 4096, 0.3)
    for size, residual in (("base", 0.1), ("deep", 0.1), ("big", 0.3)):
        options = UMSTOptions.for_translation(PRESETS[size].encoder)
        assert (options.dropout, options.ffn_dropout, options.attn_drop) == (residual, 0.1, 0.1)
        decoder = DecoderOptions(**PRESETS[size].decoder)
        assert (decoder.decoder_dropout, decoder.inner_dropout, decoder.decoder_attn_drop) == (residual, 0.1, 0.1)
    assert all(PRESETS[size].encoder == SIZES[size] for size in ("base", "deep", "big"))
    training = TranslationTraining(**deep.training)
    assert (training.learning_rate, training.warmup_steps, training.beta2) == (2e-3, 16_000, 0.997)
    assert (training.max_tokens, training.accumulate, training.label_smoothing) == (9600, 8, 0.1)
