"""Masks of padded texts: the edges of the same relation."""

import pytest
import torch

from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import parse_relation
from graphattn.models._files.masks import can_draw, make_masks

LENGTHS = 5, 2


@pytest.mark.parametrize("name", ["all", "window:3", "window:N/2", "causal", "causal:2", "window:5&causal"])
def test_masks_are_edges(name):
    relation = parse_relation(name)
    batch = TextGraphBuilder([relation], cls=False).text_batch([["a"] * length for length in LENGTHS])
    mask = torch.tensor([[1] * 5, [1, 1, 0, 0, 0]])
    (drawn,) = make_masks([relation], mask).values()
    numbers = torch.full(mask.shape, -1)
    numbers[mask.bool()] = torch.arange(sum(LENGTHS))
    expected = torch.zeros(2, 5, 5, dtype=torch.bool)
    for source, target in zip(*batch.edges["token", relation.name, "token"].ends_by_id(), strict=True):
        (text,), (column,) = (numbers == source).nonzero(as_tuple=True)
        expected[text, (numbers[text] == target).nonzero().item(), column] = True
    assert can_draw(relation)
    assert torch.equal(drawn & mask.bool()[:, :, None], expected)
    assert drawn.any(2).all(), "padding attends to something"


def test_other_relations_have_no_mask():
    assert not any(can_draw(parse_relation(name)) for name in ("global", "window:3|global", "window:3&group"))
