"""Our likelihood and decoding against pytorch-crf; test_tagging.py compares them with all sequences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchcrf import CRF

from graphattn.models._padding import prefix_mask
from graphattn.models.heads._crf import LinearChainCRF


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), tags=st.integers(1, 4), seed=st.integers(0, 2**32 - 1)
)
def test_likelihood_and_gradients_equal_pytorch_crf(lengths, tags, seed):
    """Ours has a gradient for every parameter even if no sentence has two words, as several processes need."""
    torch.manual_seed(seed)
    ours, theirs = LinearChainCRF(tags).double(), CRF(tags, batch_first=True).double()
    ours.load_state_dict(theirs.state_dict())
    mask = prefix_mask(torch.tensor(lengths))
    scores = torch.randn(*mask.shape, tags, dtype=torch.float64, requires_grad=True)
    gold = torch.randint(tags, mask.shape)
    actual = []
    for crf, options in ((ours, {}), (theirs, {"reduction": "none"})):
        likelihood = crf(scores, gold, mask=mask, **options)
        variables = [scores, *crf.parameters()]
        gradients = torch.autograd.grad((likelihood**2).sum(), variables, materialize_grads=crf is theirs)
        actual.append([likelihood, *gradients])
    for own, other in zip(*actual, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), tags=st.integers(1, 4), seed=st.integers(0, 2**32 - 1)
)
def test_best_tags_equal_pytorch_crf(lengths, tags, seed):
    torch.manual_seed(seed)
    ours, theirs = LinearChainCRF(tags).double(), CRF(tags, batch_first=True).double()
    ours.load_state_dict(theirs.state_dict())
    lengths = torch.tensor(lengths)
    mask = prefix_mask(lengths)
    scores = torch.randn(*mask.shape, tags, dtype=torch.float64)
    best = ours.best_tags(scores, mask)
    assert [row[:length].tolist() for row, length in zip(best, lengths, strict=True)] == theirs.decode(scores, mask)
    torch.testing.assert_close(best[~mask], best.gather(1, lengths.unsqueeze(1) - 1).expand_as(best)[~mask])


def test_initial_values_equal_pytorch_crf():
    torch.manual_seed(2)
    ours = LinearChainCRF(3).state_dict()
    torch.manual_seed(2)
    torch.testing.assert_close(ours, CRF(3).state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("length", [1, 40])
def test_double_precision_scores_keep_their_precision(length):
    torch.manual_seed(4)
    crf = LinearChainCRF(3)
    scores, mask = 1000 * torch.randn(2, length, 3, dtype=torch.float64), torch.ones(2, length, dtype=torch.bool)
    gold = torch.randint(3, (2, length))
    exact = LinearChainCRF(3).double()
    exact.load_state_dict(crf.state_dict())
    single, double = (one(scores, gold, mask) for one in (crf, exact))
    torch.testing.assert_close(single, double, rtol=1e-12, atol=1e-5)


def test_the_softmax_of_marginal_scores_is_the_gradient_of_log_z():
    torch.manual_seed(0)
    crf, mask = LinearChainCRF(4).double(), prefix_mask(torch.tensor([5, 1, 3]))
    scores = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    (marginals,) = torch.autograd.grad(crf.log_partition(scores, mask).sum(), scores)
    torch.testing.assert_close(crf.marginal_scores(scores, mask)[mask].softmax(1), marginals[mask])
