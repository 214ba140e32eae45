"""The BiLSTM against PyTorch's, run one sentence at a time."""

import pytest
import torch

from graphattn.builders import TextGraphBuilder
from graphattn.models._encoders import BiLSTMEncoder, BiLSTMOptions, make_encoder


@pytest.fixture
def torch_lstm():
    """PyTorch's bidirectional LSTM with the weights of an encoder."""

    def make(encoder: BiLSTMEncoder) -> torch.nn.LSTM:
        hidden, layers = encoder.options.hidden, encoder.options.layers
        reference = torch.nn.LSTM(hidden, hidden // 2, layers, batch_first=True, bidirectional=True).double()
        with torch.no_grad():
            for own, parameter in zip(weights_of(encoder), reference.parameters(), strict=True):
                parameter.copy_(own)
        return reference

    return make


def weights_of(encoder: BiLSTMEncoder) -> list[torch.nn.Parameter]:
    """Weights in PyTorch's order: by layer, forward before backward."""
    pairs = zip(encoder.forwards, encoder.backwards, strict=True)
    return [parameter for pair in pairs for lstm in pair for parameter in lstm.parameters()]


@pytest.mark.parametrize("layers", [1, 2])
def test_encoder_equals_one_sentence_at_a_time(layers, double_encoder, encode, torch_lstm):
    encoder = double_encoder(BiLSTMOptions(hidden=8, layers=layers))
    _, inputs, outputs = encode(encoder, 8)
    reference = torch_lstm(encoder)
    for tokens, output in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(output, reference(tokens.unsqueeze(0))[0][0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_equal_one_sentence_at_a_time(layers, double_encoder, encode, torch_lstm):
    encoder = double_encoder(BiLSTMOptions(hidden=6, layers=layers))
    _, inputs, outputs = encode(encoder, 6)
    sum((output**3).sum() for output in outputs).backward()
    reference = torch_lstm(encoder)
    for tokens in inputs:
        (reference(tokens.unsqueeze(0))[0] ** 3).sum().backward()
    for ours, (name, theirs) in zip(weights_of(encoder), reference.named_parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9, msg=name)


def test_initial_weights_equal_those_of_pytorch():
    torch.manual_seed(3)
    encoder = make_encoder(BiLSTMOptions(hidden=8, layers=2))
    torch.manual_seed(3)
    reference = torch.nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)
    for own, theirs in zip(weights_of(encoder), reference.parameters(), strict=True):
        assert torch.equal(own, theirs)


@pytest.mark.parametrize("layers", [1, 2])
def test_dropout_between_layers_only(layers, encode):
    encoder = make_encoder(BiLSTMOptions(hidden=8, layers=layers, dropout=0.4)).double()
    trained, evaluated = encode(encoder.train(), 8)[2], encode(encoder.eval(), 8)[2]
    assert all(map(torch.equal, trained, evaluated)) == (layers == 1)
    assert all(output.all() for output in trained)  # no dropout after the last layer


def test_outputs_keep_the_order_of_sentences(double_encoder, torch_lstm):
    """Sentences of similar length are processed together, not in the order of the batch, with little padding."""
    encoder = double_encoder(BiLSTMOptions(hidden=8))
    sizes = (5, 90, 1, 40, 3, 2)
    graph = TextGraphBuilder(encoder.relations()).text_batch([["x"] * (size - 1) for size in sizes])
    tokens = torch.randn(sum(sizes), 8, dtype=torch.float64)
    read = []
    encoder.forwards[0].register_forward_pre_hook(lambda _, given: read.append(given[0].shape[:2].numel()))
    outputs = encoder(graph, tokens).split(sizes)
    reference = torch_lstm(encoder)
    for own, output in zip(tokens.split(sizes), outputs, strict=True):
        torch.testing.assert_close(output, reference(own.unsqueeze(0))[0][0], rtol=0, atol=1e-10)
    assert sum(read) <= 2 * sum(sizes)
