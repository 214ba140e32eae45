"""Sampling: shares of tokens, cuts, and independence of sources."""

import numpy as np
import pytest
import torch

from graphattn.models._decoders.options import SearchOptions
from graphattn.models._decoders.search import Rules, draw_tokens, sample

END = 2


class Constant:
    """The same distribution after any prefix."""

    def __init__(self, shares, sources, texts):
        self.row, self.shape = torch.tensor(shares).log(), (sources, texts)

    def scores(self, tokens):
        assert tokens.shape == self.shape
        return self.row.expand(*self.shape, -1).clone()

    def keep(self, sources, beams):
        self.shape = tuple(beams.shape)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 0.5}, np.array([1, 4, 9, 16]) / 30),
        ({"top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.5}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.71}, [0, 2 / 9, 3 / 9, 4 / 9]),
        ({"top_k": 1}, [0, 0, 0, 1]),
        ({"top_k": 3, "top_p": 0.4}, [0, 0, 0, 1]),
    ],
    ids=str,
)
def test_shares(options, expected):
    scores = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(1, 10_000, 4).clone()
    chances = ((torch.arange(10_000) + 0.5) / 10_000).unsqueeze(0)
    counts = torch.bincount(draw_tokens(scores, chances, SearchOptions(**options)).flatten(), minlength=4)
    np.testing.assert_allclose(counts / 10_000, expected, atol=2e-4)


@pytest.mark.parametrize("chance", [0.0, 1.0 - 2**-24, 1.0])
def test_the_ends_of_the_range_give_allowed_tokens(chance):
    scores = torch.tensor([[[float("-inf"), 0.0, float("-inf"), -3.0]]])
    assert int(draw_tokens(scores, torch.tensor([[chance]]), SearchOptions())) in (1, 3)


def test_texts_have_the_distribution_of_the_model():
    chances = torch.tensor(np.random.default_rng(0).random((1, 4000, 6)), dtype=torch.float32)
    rules = Rules(SearchOptions(sample=True, length_penalty=0.0, min_length=0), END)
    (texts,) = sample(Constant([0.2, 0.3, 0.5], 1, 4000), torch.tensor([5]), rules, chances)
    lengths = np.array([len(text.ids) for text in texts])
    np.testing.assert_allclose(
        [(lengths == n).mean() for n in range(6)], [*(0.5 ** (n + 1) for n in range(5)), 0.5**5], atol=0.03
    )
    first = np.array([text.ids[0] for text in texts if text.ids])
    assert (first == 1).mean() == pytest.approx(0.6, abs=0.03)
    for text in texts[:50]:
        ends = 0.0 if len(text.ids) == 5 else np.log(0.5)
        assert text.score == pytest.approx(sum(np.log([0.2, 0.3][token]) for token in text.ids) + np.log(0.5), abs=1e-4)
        assert ends <= 0


def test_a_sample_does_not_depend_on_other_sources():
    chances = torch.tensor(np.random.default_rng(1).random((3, 2, 9)), dtype=torch.float32)
    rules, shares = Rules(SearchOptions(sample=True), END), [0.3, 0.3, 0.2, 0.2]
    together = sample(Constant(shares, 3, 2), torch.tensor([8, 3, 6]), rules, chances)
    for number, limit in enumerate([8, 3, 6]):
        part = chances[number : number + 1]
        assert sample(Constant(shares, 1, 2), torch.tensor([limit]), rules, part) == [together[number]]
