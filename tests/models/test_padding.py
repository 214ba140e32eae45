"""Padding and back."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.models.padding import pad, padded_together, prefix_mask, turned_around, unpad


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


def test_whole_numbers_stay_whole():
    assert pad(torch.tensor([4, 5, 6]), torch.tensor([1, 2])).tolist() == [[4, 0], [5, 6]]


@given(lengths=st.lists(st.integers(0, 6), max_size=8))
def test_sentences_are_turned_around_one_by_one(lengths):
    flat = torch.arange(sum(lengths))
    turned = turned_around(torch.tensor(lengths, dtype=torch.long))
    for own, back in zip(flat.split(lengths), flat[turned].split(lengths), strict=True):
        assert back.tolist() == own.tolist()[::-1]
    assert torch.equal(turned[turned], flat)


@given(lengths=st.lists(st.integers(0, 40) | st.integers(0, 20_000), max_size=9))
def test_half_of_what_is_padded_together_is_no_padding(lengths):
    groups = padded_together(torch.tensor(lengths, dtype=torch.long)).tolist()
    assert sorted(set(groups)) == list(range(len(set(groups))))
    rows = {group: [max(1, own) for own, its in zip(lengths, groups, strict=True) if its == group] for group in groups}
    assert sum(len(own) * max(own) for own in rows.values()) <= 2 * sum(map(sum, rows.values()))
    alike = not lengths or len(lengths) * max(1, *lengths) <= 2 * sum(max(1, own) for own in lengths)
    assert len(rows) <= 1 or not alike
