"""The table that sources, targets and softmax share."""

import math

import torch

from graphattn.models._decoders.model import SharedEmbedding, TiedSoftmax, WordVectorEmbedding


def test_vectors_are_rows_times_the_root_of_the_width():
    embedding = SharedEmbedding(7, 9, dropout=0.5).eval()
    ids = torch.tensor([[3, 0], [6, 3]])
    torch.testing.assert_close(embedding(ids), embedding.trained[ids] * 3)


def test_vectors_begin_with_unit_variance():
    torch.manual_seed(0)
    embedding = SharedEmbedding(4000, 64, dropout=0.0)
    assert math.isclose(float(embedding(torch.arange(4000)).detach().var()), 1.0, rel_tol=0.02)


def test_dropout_in_training_only():
    embedding = SharedEmbedding(50, 64, dropout=0.5)
    assert 0.4 < float((embedding(torch.arange(50)) == 0).float().mean()) < 0.6


def test_scores_are_products_with_the_rows():
    table, states = torch.randn(7, 4), torch.randn(2, 3, 4)
    scores = TiedSoftmax()(states.bfloat16(), table.bfloat16())
    assert scores.dtype == torch.float32
    torch.testing.assert_close(TiedSoftmax()(states, table), torch.einsum("btw,vw->btv", states, table))


def test_pretrained_second_stream_against_the_formula():
    """Look-ups and the softmax's table agree up to the root of the width, as those of one table do."""
    torch.manual_seed(0)
    vectors = torch.randn(7, 5, dtype=torch.float64)
    embedding = WordVectorEmbedding(7, 4, 0.0, vectors).double()
    first, second = embedding.enter[0], embedding.enter[2]
    inner = (vectors @ first.weight.T + first.bias).clamp(min=0)
    expected = torch.cat([2 * embedding.trained, inner @ second.weight.T + second.bias], dim=1)
    ids = torch.tensor([[3, 1], [0, 6]])
    torch.testing.assert_close(embedding(ids), expected[ids])
    torch.testing.assert_close(2 * embedding.table(), expected)
    assert torch.autograd.gradcheck(
        lambda _: embedding(ids).sum() + embedding.table().sin().sum(), embedding.pretrained
    )
