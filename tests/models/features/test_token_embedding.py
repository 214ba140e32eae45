"""The input layer: trained and frozen vectors, and dropout."""

import numpy as np
import pytest
import torch

from graphattn.models._features.characters import CharacterVocabulary, TokenTypeIndex
from graphattn.models._features.token_embedding import TokenEmbedding
from graphattn.models._options import InputOptions

IDS = torch.tensor([2, 1, 0, 3, 5, 3])
VECTORS = np.random.default_rng(0).normal(2, 3, (7, 4)).astype(np.float32)


def layer(vectors=VECTORS, num_trained=0, **options):
    torch.manual_seed(0)
    options = InputOptions(embedding=4, vectors=None if vectors is None else "vectors.txt", **options)
    return TokenEmbedding(options, 7, 6, vectors=vectors, num_trained=num_trained)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("num_trained", [0, 4, 7])
def test_output_follows_the_formula(num_trained, normalize):
    embedding = layer(num_trained=num_trained, normalize_vectors=normalize).eval()
    scaled = torch.from_numpy(VECTORS) / (VECTORS[3:].std(ddof=1) if normalize else 1)
    rows = torch.stack([embedding.trained[i] if i < 3 else scaled[i] for i in IDS])
    expected = rows @ embedding.project.weight.T + embedding.project.bias
    torch.testing.assert_close(embedding(IDS), expected)


def test_given_vectors_are_not_changed():
    before = VECTORS.copy()
    embedding = layer(num_trained=5, normalize_vectors=False)
    with torch.no_grad():
        embedding.trained.zero_()
        embedding.table.zero_()
    assert np.array_equal(VECTORS, before)


@pytest.mark.parametrize(("num_trained", "trained", "touched"), [(0, 3, [0, 1, 2]), (5, 5, [0, 1, 2, 3])])
def test_frozen_vectors_are_no_parameters_and_are_not_saved(num_trained, trained, touched):
    """The special tokens are trained even if vectors are frozen."""
    embedding = layer(num_trained=num_trained, embedding_dropout=0.0)
    embedding(IDS).sum().backward()
    assert (len(embedding.trained), len(embedding.table)) == (trained, 7 - trained)
    assert {name for name, _ in embedding.named_parameters()} == {"trained", "project.weight", "project.bias"}
    assert set(embedding.state_dict()) == {"trained", "project.weight", "project.bias"}
    assert not embedding.table.requires_grad
    assert embedding.trained.grad.abs().sum(1).gt(0).nonzero().flatten().tolist() == touched


def test_special_tokens_can_be_frozen():
    options = InputOptions(vectors=("file",), embedding_dropout=0.0)
    frozen = TokenEmbedding(options, 7, None, vectors=VECTORS, trains_special=False)
    assert not frozen(IDS).requires_grad
    assert set(frozen.state_dict()) == {"trained"}  # drawn at random: a saved model needs them
    for others in ({"num_trained": 5}, {"vectors": None}):
        kept = InputOptions() if "vectors" in others else options
        given = {"vectors": VECTORS, "trains_special": False, **others}
        assert TokenEmbedding(kept, 7, None, **given)(IDS).requires_grad


def test_without_vectors_all_are_trained():
    embedding = layer(None, embedding_dropout=0.0)
    embedding(IDS).sum().backward()
    assert (len(embedding.trained), len(embedding.table)) == (7, 0)
    assert embedding.trained.grad.abs().sum(1).gt(0).tolist() == [True, True, True, True, False, True, False]


def test_word_dropout_keeps_special_tokens():
    embedding = layer(word_dropout=0.5, embedding_dropout=0.0).train()
    ids = torch.tensor([0, 1, 2] * 50 + [4] * 400)
    unknown, word = embedding.eval()(torch.tensor([1, 4]))
    clean = embedding(ids)
    embedding.train()
    torch.manual_seed(0)
    out = embedding(ids)
    torch.testing.assert_close(out[:150], clean[:150])
    lost = torch.isclose(out[150:], unknown).all(1)
    kept = torch.isclose(out[150:], word).all(1)
    assert bool((lost ^ kept).all())
    assert 150 < int(lost.sum()) < 250


def test_no_dropout_in_evaluation():
    embedding = layer(word_dropout=0.5, embedding_dropout=0.5)
    ids = torch.arange(7).repeat(20)
    embedding.eval()
    assert torch.equal(embedding(ids), embedding(ids))
    embedding.train()
    torch.manual_seed(0)
    assert not torch.equal(embedding(ids), embedding(ids))


def test_predictions_project_a_word_once():
    embedding, projected = layer(embedding_dropout=0.0, word_dropout=0.0), []
    embedding.project.register_forward_hook(lambda module, inputs, output: projected.append(len(output)))
    ids = torch.arange(7).repeat(20)
    outputs = [embedding.train(mode)(ids) for mode in (True, False)]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*[torch.autograd.grad(output.square().sum(), embedding.trained) for output in outputs])
    assert projected == [140, 7]


def test_characters_are_concatenated_with_the_vectors():
    vocabulary = CharacterVocabulary.of(["ab"])
    index = TokenTypeIndex()
    (numbers,) = index.encode([["ab", "b"]])
    options = InputOptions(embedding=4, characters=True, character_embedding=3, character_filters=2)
    embedding = TokenEmbedding(options, 7, 6, num_characters=len(vocabulary)).eval()
    batch = vocabulary.encode(index).take(numbers)
    rows = torch.cat([embedding.trained[[4, 5]], embedding.characters(batch)], dim=1)
    assert rows.shape[1] == 4 + 2 + 10
    expected = rows @ embedding.project.weight.T + embedding.project.bias
    torch.testing.assert_close(embedding(torch.tensor([4, 5]), batch), expected)


@pytest.mark.parametrize("combine", ["concatenation", "average", "projection"])
def test_sets_of_vectors_are_combined(combine):
    """Two sets of width 2 and 3: concatenated, averaged after padding the narrower one with zeros, or projected."""
    torch.manual_seed(0)
    vectors = np.arange(35, dtype=np.float32).reshape(7, 5)
    options = InputOptions(vectors=("a", "b"), combine=combine, normalize_vectors=False)
    embedding = TokenEmbedding(options, 7, None, vectors=vectors, widths=(2, 3)).eval()
    first, second = torch.from_numpy(vectors[4:]).split((2, 3), dim=1)
    expected = {
        "concatenation": lambda: torch.cat([first, second], 1),
        "average": lambda: (torch.nn.functional.pad(first, (0, 1)) + second) / 2,
        "projection": lambda: ((embedding.of_sets[0](first) + embedding.of_sets[1](second)) / 2).tanh(),
    }[combine]()
    torch.testing.assert_close(embedding(torch.tensor([4, 5, 6])), expected)
    projected = TokenEmbedding(options, 7, 11, vectors=vectors, widths=(2, 3))
    assert projected.project.in_features == expected.shape[1]
    assert projected(torch.tensor([0, 6])).shape == (2, 11)


@pytest.mark.parametrize("which", ["word_dropout", "embedding_dropout"])
def test_each_dropout_alone(which):
    embedding = layer(**{"word_dropout": 0.0, "embedding_dropout": 0.0, which: 0.5})
    ids = torch.arange(7).repeat(20)
    assert not torch.equal(embedding.train()(ids), embedding(ids))
    assert torch.equal(embedding.eval()(ids), embedding(ids))


def test_normalized_equal_vectors_are_finite():
    embedding = layer(np.full((7, 4), 2.0, dtype=np.float32), normalize_vectors=True).eval()
    assert torch.isfinite(embedding.table).all()


@pytest.mark.parametrize("normalize", [True, False])
def test_special_tokens_have_the_deviation_of_the_words(normalize):
    vectors = np.random.default_rng(0).normal(0, 0.05, (200, 300)).astype(np.float32)
    options = InputOptions(vectors="vectors.txt", normalize_vectors=normalize)
    embedding = TokenEmbedding(options, 200, None, vectors=vectors)
    assert embedding.trained.std().item() == pytest.approx(embedding.table.std().item(), rel=0.1)


@pytest.mark.parametrize(("hidden", "projects"), [(4, False), (6, True)])
def test_vectors_of_the_encoders_width_need_no_projection(hidden, projects):
    options = InputOptions(vectors="vectors.txt", always_project=False, normalize_vectors=False)
    embedding = TokenEmbedding(options, 7, hidden, vectors=VECTORS).eval()
    assert isinstance(embedding.project, torch.nn.Linear) is projects
    assert embedding(IDS).shape == (6, hidden)
    if not projects:
        torch.testing.assert_close(embedding(torch.tensor([3, 6])), torch.from_numpy(VECTORS[[3, 6]]))


def test_special_tokens_are_random_for_any_vectors():
    embedding = layer(np.full((7, 4), 1e6, dtype=np.float32), normalize_vectors=False)
    assert embedding.trained.abs().max() < 10


@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_that_come_later_are_those_that_come_at_once(normalize):
    options = InputOptions(normalize_vectors=normalize, embedding=4)
    vectors = np.random.default_rng(0).normal(1.0, 3.0, (9, 4)).astype(np.float32)
    torch.manual_seed(0)
    expected = TokenEmbedding(options, 9, 5, vectors=vectors, num_trained=9)
    torch.manual_seed(0)
    embedding = TokenEmbedding(options, 9, 5, num_trained=9)
    embedding.start(vectors)
    torch.testing.assert_close(embedding.state_dict(), expected.state_dict(), rtol=0, atol=0)
