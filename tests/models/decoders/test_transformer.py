"""The decoder against formulas in float64, and decoding by token against a whole text."""

import math

import pytest
import torch

from graphattn.models._decoders.attention import attend_rows
from graphattn.models._decoders.options import DecoderOptions
from graphattn.models._decoders.transformer import Memory, make_transformer_decoder

WIDTH, MEMORY, HEADS = 12, 10, 3


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    made = make_transformer_decoder(WIDTH, MEMORY, DecoderOptions(2, HEADS, 20, 0.3)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


@pytest.fixture
def memory():
    lengths = torch.tensor([5, 1, 3])
    mask = (torch.arange(5) < lengths.unsqueeze(1))[:, None, None]
    return Memory(torch.randn(3, 5, MEMORY, dtype=torch.float64), mask)


def norm(x, module):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * module.weight + module.bias


def attention(module, inputs, memory, allowed):
    """Vaswani et al. 2017, Eq. 1, head by head; ``allowed`` (T, S)."""
    weight, bias = module.key_value.weight, module.key_value.bias
    query = inputs @ module.query.weight.T + module.query.bias
    key = memory @ weight[:WIDTH].T + bias[:WIDTH]
    value = memory @ weight[WIDTH:].T + bias[WIDTH:]
    size, heads, seen = WIDTH // HEADS, [], []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        weights = torch.where(allowed, scores.exp(), 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        seen.append(weights)
        heads.append(weights @ value[:, part])
    return torch.cat(heads, dim=1) @ module.output.weight.T + module.output.bias, torch.stack(seen)


def by_formula(decoder, inputs, memory):
    """One text: positions, then for each layer self-attention, attention to the source, feed-forward; a last norm."""
    length, maps = len(inputs), []
    angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    states = inputs + torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).double()
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    everything = torch.ones(length, len(memory), dtype=torch.bool)
    for layer in decoder.layers:
        normed = norm(states, layer.own_norm)
        states = states + attention(layer.own, normed, normed, earlier)[0]
        actual, weights = attention(layer.source, norm(states, layer.source_norm), memory, everything)
        states, maps = states + actual, [*maps, weights]
        widen, _, _, narrow = layer.feed_forward
        inner = (norm(states, layer.feed_norm) @ widen.weight.T + widen.bias).clamp(min=0)
        states = states + inner @ narrow.weight.T + narrow.bias
    return norm(states, decoder.norm), maps


def test_it_follows_the_formulas(decoder, memory):
    inputs = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    weights = []
    outputs = decoder(inputs, decoder.start(memory), weights)
    plain = decoder(inputs, decoder.start(memory))
    for number, length in enumerate((5, 1, 3)):
        expected, maps = by_formula(decoder, inputs[number], memory.states[number, :length])
        torch.testing.assert_close(outputs[number], expected, rtol=0, atol=1e-6)  # sinusoids are float32
        torch.testing.assert_close(plain[number], outputs[number], rtol=0, atol=1e-10)
        for own, reference in zip(weights, maps, strict=True):
            torch.testing.assert_close(own[number, :, :, :length], reference, rtol=0, atol=1e-6)
            assert not own[number, :, :, length:].any()


def test_token_by_token_equals_all_at_once(decoder, memory):
    inputs = torch.randn(3, 6, WIDTH, dtype=torch.float64)
    whole = decoder(inputs, decoder.start(memory))
    state = decoder.start(memory)
    for place in range(6):
        assert state.length == place
        step = decoder(inputs[:, place : place + 1], state)
        torch.testing.assert_close(step[:, 0], whole[:, place], rtol=0, atol=1e-10)


def test_several_texts_of_a_source_share_its_keys(decoder, memory):
    inputs = torch.randn(6, 3, WIDTH, dtype=torch.float64)  # two texts of each source
    state = decoder.start(memory, beams=2)
    assert state.sources[0].shape[1] == 3
    actual = decoder(inputs, state)
    for text in range(2):
        alone = decoder(inputs[text::2], decoder.start(memory))
        torch.testing.assert_close(actual[text::2], alone, rtol=0, atol=1e-10)


def test_texts_can_be_reordered_and_sources_removed(decoder, memory):
    first, then = torch.randn(6, 2, WIDTH, dtype=torch.float64), torch.randn(4, 1, WIDTH, dtype=torch.float64)
    state = decoder.start(memory, beams=2)
    decoder(first, state)
    state.keep(torch.tensor([2, 0]), torch.tensor([[1, 1], [1, 0]]))
    actual = decoder(then, state)
    for row, (source, text) in enumerate([(2, 1), (2, 1), (0, 1), (0, 0)]):
        alone = Memory(memory.states[source : source + 1], memory.mask[source : source + 1])
        inputs = torch.cat([first[2 * source + text], then[row]]).unsqueeze(0)
        expected = decoder(inputs, decoder.start(alone))[0, -1]
        torch.testing.assert_close(actual[row, 0], expected, rtol=0, atol=1e-10)


def test_padding_is_masked(decoder, memory):
    inputs = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    before = decoder(inputs, decoder.start(memory))
    states = memory.states.masked_fill(~memory.mask[:, 0, 0].unsqueeze(2), 1e6)
    after = decoder(inputs, decoder.start(Memory(states, memory.mask)))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "options", [{"decoder_dropout": 0.5}, {"decoder_ffn_dropout": 0.5}, {"decoder_attn_drop": 0.5}], ids=str
)
def test_each_dropout_alone_in_training_only(memory, options):
    defaults = {"decoder_dropout": 0.0, "decoder_ffn_dropout": 0.0, "decoder_attn_drop": 0.0}
    decoder = make_transformer_decoder(WIDTH, MEMORY, DecoderOptions(1, HEADS, 20, **{**defaults, **options})).double()
    inputs = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    runs = [decoder(inputs, decoder.start(memory)) for _ in range(2)]
    assert not torch.equal(*runs)
    decoder.eval()
    assert torch.equal(*(decoder(inputs, decoder.start(memory)) for _ in range(2)))


def test_the_mean_over_many_dropouts_of_weights_is_without_dropout():
    """Attention is linear in its weights."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 4000, 1, 1, 8).unbind(0)
    rows = attend_rows(*(part[:1].expand(4000, 1, 3, 8) for part in (query, key, value)), dropout=0.5)
    expected = attend_rows(*(part[:1].expand(1, 1, 3, 8) for part in (query, key, value)))
    torch.testing.assert_close(rows.mean(0), expected[0], rtol=0, atol=0.1)
