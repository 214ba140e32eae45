"""Outputs of a model: cached against uncached, batch against single, and their order."""

from dataclasses import replace

import pytest
import torch

from graphattn.builders import Sentence
from graphattn.builders._subwords import BLANK
from graphattn.models._corpus import Corpus
from graphattn.models._decoders import generation
from graphattn.models._decoders.generation import ModelScores
from graphattn.models._decoders.model import EOS
from graphattn.models._decoders.options import SearchOptions

APART = {"share_weights": False, "duo_norm": False, "fusion_layer": False}
every_decoder = pytest.mark.parametrize(
    ("encoder", "changes"),
    [
        *((name, {}) for name in ("transformer", "umst", "duo-transformer")),
        *(("duo-transformer", changes) for changes in ({"share_weights": False}, APART)),
    ],
    ids=str,
)
SEARCH = SearchOptions(beam=3, min_length=2, max_length=7)


class Uncached(ModelScores):
    """Recomputes the scores of all tokens at each step."""

    def __init__(self, model, batch, beams):
        self.model, self.beams = model, beams
        self.memory = model.encode(batch)
        self.prefixes = torch.empty(batch.size, beams, 0, dtype=torch.int64)

    def scores(self, tokens):
        self.prefixes = torch.cat([self.prefixes, tokens.unsqueeze(2)], dim=2)
        state = self.model.decoder.start(self.memory, self.beams)
        scores = self.model.advance(self.prefixes.flatten(0, 1), state)[:, -1]
        return scores.log_softmax(1).unflatten(0, tokens.shape)

    def keep(self, sources, beams):
        self.prefixes = self.prefixes[sources.unsqueeze(1), beams]
        self.memory = replace(self.memory, states=self.memory.states[sources], mask=self.memory.mask[sources])


def generate(model, corpus, options, **counts):
    """Outputs with the vocabulary of the sources."""
    return generation.generate(model, corpus, options, corpus.builder.vocabulary, **counts)


def assert_same(some, others):
    for one, other in zip(some, others, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.slow
@every_decoder
def test_a_batch_with_a_cache_equals_single_sources_without_one(encoder, changes, make_model, monkeypatch):
    model, corpus = make_model(encoder, **changes)
    options = replace(SEARCH, sample=bool(changes))
    together = generate(model, corpus, options, count=3)
    monkeypatch.setattr(generation, "ModelScores", Uncached)
    monkeypatch.setattr(generation, "MAX_TOKENS", 1)
    assert_same(together, generate(model, corpus, options, count=3))


@pytest.mark.slow
def test_samples_do_not_depend_on_the_limits_of_others(make_model, monkeypatch):
    model, corpus = make_model()
    options = SearchOptions(sample=True, temperature=2.0)  # the number of draws that the longest source allows
    assert len(set(corpus.layouts[0].lengths)) > 1
    together = generate(model, corpus, options, count=3)
    monkeypatch.setattr(generation, "MAX_TOKENS", 1)
    assert_same(together, generate(model, corpus, options, count=3))


def test_the_encoder_runs_once_for_each_source(make_model):
    model, corpus = make_model()
    seen = []
    model.encoder.register_forward_hook(lambda _, given, __: seen.append(len(given[0].batch_num_nodes("token"))))
    generate(model, corpus, SEARCH)
    assert sum(seen) == len(corpus)


def test_a_source_without_words_gets_an_empty_text(make_model):
    model, corpus = make_model()
    words = [Sentence(["the", "dog"]), Sentence([]), Sentence(["a"])]
    actual = generate(model, Corpus.of_pairs(corpus.builder, words), SEARCH, count=2)
    assert [(h.ids, h.score) for h in actual[1]] == [((), 0.0)]
    assert len(actual[0]) == len(actual[2]) == 2
    assert generate(model, Corpus.of_pairs(corpus.builder, []), SEARCH) == []


def test_count_widens_the_beam(make_model):
    model, corpus = make_model()
    assert [len(own) for own in generate(model, corpus, SearchOptions(beam=1, max_length=4), count=6)] == [6] * 12


def test_limits_depend_on_the_source_by_default(make_model):
    model, corpus = make_model()
    with torch.no_grad():  # a model that never generates the end
        model.decoder.norm.bias[0] = 100.0
        model.embedding.trained[:, 0] = 1.0
        model.embedding.trained[EOS, 0] = -1.0
    actual = generate(model, corpus, SearchOptions(beam=1))
    words = corpus.layouts[0].lengths - 1
    assert [len(own[0].ids) for own in actual] == [2 * count + 10 for count in words]
    assert {len(own[0].ids) for own in generate(model, corpus, SearchOptions(beam=1, max_length=3))} == {3}
    assert {len(own[0].ids) for own in generate(model, corpus, SearchOptions(beam=1, min_length=60))} == {60}


def test_padding_and_unknown_tokens_are_not_generated(make_model):
    model, corpus = make_model()
    for options in (SEARCH, replace(SEARCH, sample=True, temperature=5.0, max_length=30)):
        for own in generate(model, corpus, options, count=3):
            assert all(token > 2 for hypothesis in own for token in hypothesis.ids)


def test_samples_are_deterministic_for_a_seed(make_model):
    model, corpus = make_model()
    options = replace(SEARCH, sample=True, temperature=2.0)
    first = generate(model, corpus, options)
    assert generate(model, corpus, options) == first
    assert generate(model, corpus, replace(options, sample_seed=1)) != first


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_does_not_change(training, make_model):
    model, corpus = make_model()
    model.train(training)
    generate(model, corpus, SEARCH)
    assert model.training == training


def test_outputs_have_text(make_model):
    """A model that prefers the end, then the blank of which a text could consist."""
    model, corpus = make_model()
    (blank,) = corpus.builder.vocabulary.ids([BLANK])
    with torch.no_grad():
        model.decoder.norm.bias[0] = 10.0
        model.embedding.trained[:, 0] = -1.0
        model.embedding.trained[EOS, 0], model.embedding.trained[blank, 0] = 1.0, 0.9
    for options in (SearchOptions(), SearchOptions(beam=1), SearchOptions(sample=True)):
        for (best,) in generate(model, corpus, options):
            assert {*best.ids} - {blank}
    assert [best.ids for (best,) in generate(model, corpus, SearchOptions(min_length=0))] == [()] * len(corpus)
