"""A small model that writes text."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch


@pytest.fixture
def make_model(toy_pairs: Callable[..., tuple[list[str], list[str]]]) -> Callable[..., tuple[Any, Any]]:
    """A model with fresh weights and a corpus: ``make_model("umst", share_scores=True)``."""
    from graphattn.builders import Sentence, TextGraphBuilder
    from graphattn.builders._subwords import Subwords
    from graphattn.models._corpus import Corpus
    from graphattn.models._decoders import make_decoder
    from graphattn.models._decoders.model import SharedEmbedding, TranslationModel
    from graphattn.models._decoders.options import DecoderOptions
    from graphattn.models._encoders import ENCODERS, make_encoder

    def make(
        encoder: str = "transformer", count: int = 12, dtype: torch.dtype = torch.float32, **changes: Any
    ) -> tuple[Any, Any]:
        torch.manual_seed(3)
        sizes = {"hidden": 16, "layers": 2, "heads": 4, "ffn": 24, "dropout": 0.1}
        options = replace(ENCODERS[encoder][0].for_translation(sizes), **changes)
        options = options.for_parts([16] * options.streams)
        made = make_encoder(options)
        decoder, output = make_decoder(made, options, DecoderOptions(2, 4, 24, 0.1))
        sources, targets = toy_pairs(count)
        sources[1] = "the dog"
        trees = [Sentence(source.split(), heads=range(len(source.split()))) for source in sources]
        subwords = Subwords.train([*trees, *targets], size=90)
        builder = TextGraphBuilder(made.relations(), vocabulary=subwords.vocabulary)
        model = TranslationModel(
            SharedEmbedding(len(subwords.vocabulary), 16 * options.streams, 0.1),
            made,
            decoder,
            output,
            label_smoothing=0.1,
        )
        corpus = Corpus.of_pairs(builder, subwords.sources(trees), subwords.ids(targets))
        return model.to(dtype).eval(), corpus

    return make
