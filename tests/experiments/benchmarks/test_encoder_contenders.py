"""Encoders that are timed against each other compute what they say."""

import pytest
import torch

from graphattn.experiments.benchmarks.encoder_contenders import (
    CONTENDERS,
    DenseTransformer,
    DGLEncoder,
    EncoderProblem,
    MaskedDense,
    OursEncoder,
)
from graphattn.experiments.benchmarks.workloads import uniform
from graphattn.models.padding import unpad


@pytest.fixture
def problem(workload, small):
    return EncoderProblem(workload, small)


def encoded(kind, problem):
    torch.manual_seed(0)
    job = kind().job(problem, backward=False)
    return job.run(job.fresh())


def test_masks_and_dgl_give_the_numbers_of_the_graph(problem):
    ours = encoded(OursEncoder, problem)
    for own, other in zip(ours, encoded(DGLEncoder, problem), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)
    for own, other, batch in zip(ours, encoded(MaskedDense, problem), problem.workload.batches, strict=True):
        torch.testing.assert_close(own, unpad(other, torch.tensor(batch)), rtol=1e-5, atol=1e-5)


def test_the_transformer_is_pytorchs_and_padding_changes_nothing(problem):
    contender = DenseTransformer()
    torch.manual_seed(0)
    encoder = contender.encoder(problem).eval()
    assert len(encoder.layers) == problem.options.layers
    assert encoder.layers[0].linear1.out_features == 1200
    assert not any(module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout))
    found = encoded(DenseTransformer, problem)
    for tokens, rows, batch in zip(problem.tokens, found, problem.workload.batches, strict=True):
        flat = unpad(rows, torch.tensor(batch))
        for own, alone in zip(flat.split(batch), tokens.split(batch), strict=True):
            torch.testing.assert_close(own, encoder(alone.unsqueeze(0)).squeeze(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", CONTENDERS)
def test_inference_keeps_nothing_for_gradients(problem, kind):
    assert all(output.is_inference() for output in encoded(kind, problem))


@pytest.mark.parametrize("kind", CONTENDERS)
def test_a_training_step_changes_the_weights_and_is_in_training_mode(problem, kind, monkeypatch):
    contender, made = kind(), []
    make = contender.encoder

    def remembered(given):
        made.append(make(given))
        return made[-1]

    monkeypatch.setattr(contender, "encoder", remembered)
    job = contender.job(problem, backward=True)
    (encoder,) = made
    before = [parameter.detach().clone() for parameter in encoder.parameters()]
    job.run(job.fresh())
    assert encoder.training
    changed = [not torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True)]
    assert sum(changed) > 0.7 * len(changed)  # biases of keys cancel in the softmax
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_masks_of_long_texts_need_memory():
    problem = EncoderProblem(uniform(1, 4096))
    assert MaskedDense().needs(problem, backward=False) >= 3 * 10 * 4096**2
    assert MaskedDense().needs(problem, backward=True) > MaskedDense().needs(problem, backward=False)
    assert DGLEncoder().needs(problem, backward=False) > 0
    assert OursEncoder().needs(problem, backward=True) == DenseTransformer().needs(problem, backward=True) == 0
