"""Batches: every sentence once, within budgets, similar lengths together, deterministic for a seed and an epoch."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import BudgetBatches
from graphattn.exceptions import ConfigError

sizes = st.lists(st.integers(0, 40), max_size=60)
budgets = st.fixed_dictionaries(
    {},
    optional={
        "max_sentences": st.integers(1, 12),
        "max_tokens": st.integers(1, 120),
        "max_edges": st.integers(1, 900),
    },
).filter(bool)


@given(tokens=sizes, budget=budgets, shuffle=st.booleans(), seed=st.integers(0, 5), epoch=st.integers(0, 5))
def test_every_sentence_once_and_within_budgets(tokens, budget, shuffle, seed, epoch):
    tokens = np.array(tokens, dtype=np.int64)
    edges = tokens**2
    batches = BudgetBatches(tokens, edges=edges, shuffle=shuffle, seed=seed, **budget)
    batches.set_epoch(epoch)
    made = list(batches)
    assert sorted(number for batch in made for number in batch) == list(range(len(tokens)))
    assert len(batches) == len(made)
    for batch in made:
        costs = {"max_sentences": len(batch), "max_tokens": tokens[batch].sum(), "max_edges": edges[batch].sum()}
        assert len(batch) == 1 or all(costs[name] <= limit for name, limit in budget.items())


@given(tokens=sizes, budget=budgets)
def test_batches_are_full(tokens, budget):
    tokens = np.array(tokens, dtype=np.int64)
    made = list(BudgetBatches(tokens, edges=tokens**2, shuffle=False, **budget))
    for batch, following in pairwise(made):
        more = [*batch, following[0]]
        costs = {"max_sentences": len(more), "max_tokens": tokens[more].sum(), "max_edges": (tokens[more] ** 2).sum()}
        assert any(costs[name] > limit for name, limit in budget.items())


def test_unshuffled_batches_go_from_long_to_short_and_keep_the_order_of_equals():
    batches = BudgetBatches(np.array([2, 5, 2, 9, 5]), max_sentences=2, shuffle=False)
    assert list(batches) == [[3, 1], [4, 0], [2]]
    batches.set_epoch(7)
    assert list(batches) == [[3, 1], [4, 0], [2]]


def test_a_sentence_above_the_budget_is_a_batch():
    assert list(BudgetBatches(np.array([50, 3, 3]), max_tokens=10, shuffle=False)) == [[0], [1, 2]]
    assert list(BudgetBatches(np.array([3, 3]), max_edges=5, edges=np.array([9, 2]), shuffle=False)) == [[0], [1]]


def test_the_order_depends_on_seed_and_epoch():
    tokens = np.random.default_rng(0).integers(1, 50, 500)

    def order(seed, epoch):
        batches = BudgetBatches(tokens, max_tokens=200, seed=seed)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(1, 0) == order(1, 0)
    assert order(1, 3) == order(1, 3)
    orders = [order(seed, epoch) for seed in (1, 2) for epoch in (0, 1, 2)]
    assert all(one != other for i, one in enumerate(orders) for other in orders[:i])
    # The composition of batches changes, too.
    assert {frozenset(batch) for batch in order(1, 0)}.isdisjoint({frozenset(batch) for batch in order(1, 1)})


@pytest.mark.parametrize("budget", [{"max_sentences": 32}, {"max_tokens": 700}, {"max_edges": 5_000}])
def test_batches_have_sentences_of_similar_length(budget):
    tokens = np.random.default_rng(0).geometric(0.05, 20_000)
    edges = tokens * np.maximum(tokens // 4, 1)
    made = list(BudgetBatches(tokens, edges=edges, **budget))
    spread = np.mean([np.ptp(tokens[batch]) for batch in made])
    chance = np.random.default_rng(1).permutation(len(tokens))
    cuts = np.split(chance, np.cumsum([len(batch) for batch in made])[:-1])
    assert spread < 0.15 * np.mean([np.ptp(tokens[batch]) for batch in cuts])
    costs = {"max_sentences": np.ones_like(tokens), "max_tokens": tokens, "max_edges": edges}
    name, limit = next(iter(budget.items()))
    assert np.mean([costs[name][batch].sum() for batch in made]) > 0.6 * limit


def test_batches_of_an_epoch_do_not_go_from_short_to_long():
    tokens = np.arange(1, 2_001)
    first = [tokens[batch].mean() for batch in BudgetBatches(tokens, max_sentences=20)]
    assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.4


def test_an_empty_corpus_has_no_batches():
    for shuffle in (True, False):
        batches = BudgetBatches(np.empty(0, np.int64), max_tokens=5, shuffle=shuffle)
        assert (list(batches), len(batches)) == ([], 0)


def test_sentences_without_tokens_are_batched_too():
    assert list(BudgetBatches(np.zeros(3, np.int64), max_tokens=5, shuffle=False)) == [[0, 1, 2]]
    shuffled = BudgetBatches(np.zeros(3, np.int64), max_tokens=5)
    assert sorted(chain.from_iterable(shuffled)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a batch needs a limit: give max_sentences, max_tokens or max_edges"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be at least 1"),
        ({"max_sentences": -3}, "max_sentences is -3; it must be at least 1"),
        ({"max_edges": 0, "edges": [1, 2]}, "max_edges is 0; it must be at least 1"),
        ({"max_edges": 5}, "max_edges needs the edges of each sentence; give edges=builder.num_edges(layout)"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ConfigError) as caught:
        BudgetBatches(np.array([1, 2]), **options)
    assert str(caught.value) == message


def test_a_large_budget_has_no_effect():
    tokens = np.random.default_rng(0).integers(1, 50, 1_000)
    plain = list(BudgetBatches(tokens, max_sentences=4))
    assert list(BudgetBatches(tokens, max_sentences=4, max_tokens=1_000_000)) == plain
