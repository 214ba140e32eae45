"""Random sentences with word groups and dependency heads, and encoders in double precision with random weights."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch.nn import functional as F

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
def maps_of() -> Callable[..., list[torch.Tensor]]:
    """Dense weights of a relation for each sentence of a batch: (heads, targets, sources), zero without an edge."""

    def split_by_sentence(graph: Any, relation: str, weights: torch.Tensor) -> list[torch.Tensor]:
        relation = find_relation(list(graph.edges), relation)
        sources, targets = graph.edges[relation].ends_by_id()
        kind = relation[2]
        whole = weights.new_zeros(weights.shape[1], graph.num_nodes(kind), graph.num_nodes(kind))
        whole[:, targets, sources] = weights.T
        ends = graph.batch_num_nodes(kind).cumsum(0).tolist()
        return [whole[:, begin:end, begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    return split_by_sentence


@pytest.fixture(scope="session")
def dense_block() -> Callable[..., torch.Tensor]:
    """A pre-norm Transformer block on one sentence (UMST, section 2), on all pairs of nodes or on those of a mask.

    ``seen`` gets its weights, (heads, targets, sources).
    """

    def run(
        block: Any, x: torch.Tensor, mask: torch.Tensor | None = None, seen: list[torch.Tensor] | None = None
    ) -> torch.Tensor:
        width, heads = x.shape[1], block.attention.num_heads
        projected = linear(block.attention.project, norm(block.attention_norm, x))
        query, key, value = (part.view(len(x), heads, -1).transpose(0, 1) for part in projected.split(width, 1))
        scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[2])
        weights = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(2)
        if seen is not None:
            seen.append(weights)
        x = x + linear(block.attention.output, (weights @ value).transpose(0, 1).reshape(len(x), width))
        return x + linear(block.narrow, F.relu(linear(block.widen, norm(block.ffn_norm, x))))

    def norm(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[1:], layer.weight, layer.bias)

    def linear(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ layer.weight.T + layer.bias

    return run
