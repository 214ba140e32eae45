"""Random sentences with word groups and dependency heads, and encoders in double precision with random weights."""

from collections.abc import Callable
from itertools import chain
from random import Random
from typing import Any

import pytest
import torch

from graphattn._schema import find_relation
from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.models._encoders import Encoder, EncoderOptions, make_encoder

LENGTHS = (0, 1, 2, 7, 31, 70)


@pytest.fixture(scope="session")
def sentences() -> list[Sentence]:
    """Sentences of 0 to 70 words, some of several tokens, each with a random tree."""
    random = Random(4)
    return [_sentence(random, length) for length in LENGTHS]


def _sentence(random: Random, num_words: int) -> Sentence:
    sizes = [random.choice([1, 1, 2, 3]) for _ in range(num_words)]
    heads = [random.randint(0, word) for word in range(num_words)]  # each word depends on an earlier one or is a root
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    return Sentence(["x"] * len(word_ids), word_ids=word_ids, heads=heads)


@pytest.fixture(scope="session")
def double_encoder() -> Callable[[EncoderOptions], Encoder]:
    """Make an encoder in float64 and evaluation mode with random parameters."""

    def make(options: EncoderOptions) -> Encoder:
        torch.manual_seed(11)
        encoder = make_encoder(options).double().eval()
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        return encoder

    return make


@pytest.fixture(scope="session")
def encode(sentences: list[Sentence]) -> Callable[..., tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]]:
    """Run an encoder on all sentences at once; return random inputs and the outputs, both split by sentence."""

    def run(encoder: Encoder, width: int, **keywords: object) -> tuple[torch.Tensor, list, list]:
        graph = TextGraphBuilder(encoder.relations()).text_batch(sentences)
        torch.manual_seed(5)
        tokens = torch.randn(graph.num_nodes("token"), width, dtype=torch.float64)
        outputs = encoder(graph, tokens, **keywords)
        sizes = [len(sentence) + 1 for sentence in sentences]
        return graph, list(tokens.split(sizes)), list(outputs.split(sizes))

    return run


@pytest.fixture(scope="session")
def check_maps(encode: Callable[..., Any], sentences: list[Sentence]) -> Callable[..., None]:
    """Compare an encoder's weights with maps, of each layer and head (targets, sources), zero without an edge.

    ``check(encoder, width, run)``, where ``run(sentence, tokens)`` returns the maps of a text.
    """

    def split_by_sentence(graph: Any, name: str, weights: torch.Tensor) -> list[torch.Tensor]:
        relation = find_relation(list(graph.edges), name)
        sources, targets = graph.edges[relation].ends_by_id()
        kind = relation[2]
        whole = weights.new_zeros(weights.shape[1], graph.num_nodes(kind), graph.num_nodes(kind))
        whole[:, targets, sources] = weights.T
        ends = graph.batch_num_nodes(kind).cumsum(0).tolist()
        return [whole[:, begin:end, begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def check(encoder: Encoder, width: int, run: Callable[..., Any]) -> None:
        layers: list[dict[str, torch.Tensor]] = []
        graph, inputs, _ = encode(encoder, width, weights=layers)
        by_relation = [split_by_sentence(graph, name, own) for layer in layers for name, own in layer.items()]
        for sentence, tokens, *maps in zip(sentences, inputs, *by_relation, strict=True):
            for actual, expected in zip(chain.from_iterable(maps), run(sentence, tokens), strict=True):
                torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)

    return check
