"""The BiLSTM against PyTorch's, run one sentence at a time."""

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models.encoders import BiLSTMOptions, make_encoder


@pytest.mark.parametrize("layers", [1, 2])
def test_encoder_equals_one_sentence_at_a_time(layers, double_encoder, encode):
    encoder = double_encoder(BiLSTMOptions(hidden=8, layers=layers))
    _, inputs, outputs = encode(encoder, 8)
    reference = torch.nn.LSTM(8, 4, num_layers=layers, batch_first=True, bidirectional=True).double()
    reference.load_state_dict(encoder.lstm.state_dict())
    for tokens, output in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(output, reference(tokens.unsqueeze(0))[0][0], rtol=0, atol=1e-10)


def test_gradients_equal_one_sentence_at_a_time(double_encoder, encode):
    encoder = double_encoder(BiLSTMOptions(hidden=6))
    _, inputs, outputs = encode(encoder, 6)
    sum((output**3).sum() for output in outputs).backward()
    reference = torch.nn.LSTM(6, 3, batch_first=True, bidirectional=True).double()
    reference.load_state_dict(encoder.lstm.state_dict())
    for tokens in inputs:
        (reference(tokens.unsqueeze(0))[0] ** 3).sum().backward()
    for (name, ours), theirs in zip(encoder.lstm.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9, msg=name)


def test_dropout_between_layers_only():
    assert make_encoder(BiLSTMOptions(hidden=8, layers=1, dropout=0.4)).lstm.dropout == 0.0
    assert make_encoder(BiLSTMOptions(hidden=8, layers=2, dropout=0.4)).lstm.dropout == 0.4


def test_no_attention_to_show(double_encoder, encode):
    layers = []
    encode(double_encoder(BiLSTMOptions(hidden=8)), 8, weights=layers)
    assert layers == []


def test_odd_width_is_refused():
    with pytest.raises(ConfigError) as caught:
        BiLSTMOptions(hidden=7).check()
    assert str(caught.value) == "hidden 7 is odd; half of it goes to each direction"
