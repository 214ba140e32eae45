"""Padding and back."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.models._padding import pad, padding_groups, prefix_mask, reversal, unpad


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    features=st.lists(st.integers(1, 3), max_size=2),
    value=st.sampled_from([0.0, -7.0]),
)
def test_unpad_undoes_pad(lengths, features, value):
    flat = torch.arange(1.0, 1 + sum(lengths) * int(torch.tensor(features).prod())).view(sum(lengths), *features)
    rows = pad(flat, torch.tensor(lengths), value)
    assert rows.shape == (len(lengths), max(1, *lengths), *features)
    assert torch.equal(unpad(rows, torch.tensor(lengths)), flat)
    assert int((rows == value).sum()) == rows.numel() - flat.numel()
    for row, own in zip(rows, flat.split(lengths), strict=True):
        assert torch.equal(row[: len(own)], own)


def test_mask():
    assert prefix_mask(torch.tensor([0, 2]), 3).tolist() == [[False] * 3, [True, True, False]]
    assert prefix_mask(torch.tensor([], dtype=torch.long)).shape == (0, 1)


def test_integers_stay_integers():
    assert pad(torch.tensor([4, 5, 6]), torch.tensor([1, 2])).tolist() == [[4, 0], [5, 6]]


@given(lengths=st.lists(st.integers(0, 6), max_size=8))
def test_reversal_reverses_each_sentence(lengths):
    flat = torch.arange(sum(lengths))
    turned = reversal(torch.tensor(lengths, dtype=torch.long))
    for own, back in zip(flat.split(lengths), flat[turned].split(lengths), strict=True):
        assert back.tolist() == own.tolist()[::-1]
    assert torch.equal(turned[turned], flat)


@given(lengths=st.lists(st.integers(0, 9) | st.integers(0, 2000), max_size=9))
def test_at_most_half_of_a_group_is_padding(lengths):
    groups = padding_groups(torch.tensor(lengths, dtype=torch.long))
    own = torch.arange(sum(lengths)).split(lengths)
    sentences = {tuple(one.tolist()) for one in own}
    actual = [tuple(one.tolist()) for elements, sizes in groups for one in elements.split(sizes.tolist())]
    assert sorted(filter(None, actual)) == sorted(filter(None, sentences))
    assert len(actual) == len(lengths)
    rows = [sizes.clamp(min=1) for _, sizes in groups if len(sizes)]
    assert sum(len(sizes) * int(sizes.max()) for sizes in rows) <= 2 * sum(int(sizes.sum()) for sizes in rows)
    filled = [max(1, length) for length in lengths]
    assert len(groups) == 1 or len(filled) * max(filled) > 2 * sum(filled)


def test_groups_with_exactly_half_padding():
    assert len(padding_groups(torch.tensor([1, 1, 4]))) == 1
    assert len(padding_groups(torch.tensor([1, 1, 5]))) == 2
    assert len(padding_groups(torch.tensor([0, 0, 3]))) == 1


def test_rows_wider_than_the_longest():
    rows = torch.arange(8).view(2, 4)
    assert unpad(rows, torch.tensor([1, 2])).tolist() == [0, 4, 5]


def test_lengths_may_be_on_the_cpu_and_rows_elsewhere():
    lengths, flat = torch.tensor([2, 0, 3]), torch.empty(5, 4, device="meta")
    rows = pad(flat, lengths)
    assert (rows.shape, rows.device.type) == ((3, 3, 4), "meta")
    assert (unpad(rows, lengths).shape, unpad(rows, lengths).device.type) == ((5, 4), "meta")
