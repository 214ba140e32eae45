"""What a user's encoder returns is checked once per fit."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from graphattn import TextClassifier, Translator
from graphattn._edges import edges_of
from graphattn.builders.relations import Window
from graphattn.exceptions import ConfigError
from graphattn.models import Encoder, EncoderOptions, HeadOptions, SubwordOptions, TrainingOptions, TranslationTraining
from graphattn.models import _encoders as encoders

TEXTS, LABELS = ["a good film", "bad", "so good", "a bad film"] * 3, ["pos", "neg", "pos", "neg"] * 3


class PlainOptions(EncoderOptions):
    name = "plain"
    change: ClassVar = None
    """(states, weights) -> states."""


class PlainEncoder(Encoder):
    runs = 0

    def __init__(self, options):
        super().__init__()
        self.width = options.hidden
        self.layer = nn.Linear(options.hidden, options.hidden)

    def relations(self):
        return [Window(3)]

    def forward(self, graph, tokens, *, weights=None):
        PlainEncoder.runs += 1
        (edges,) = edges_of(graph, ["window:3"], tokens.device).values()
        layer = {"window:3": tokens.new_ones(edges.num_edges, 1)}
        states = self.layer(tokens)
        if PlainOptions.change is not None:
            states = PlainOptions.change(states, layer, graph)
        if weights is not None:
            weights.append(layer)
        return states


class Means(PlainEncoder):
    def means(self, graph, tokens, *, weights=None):
        return self(graph, tokens)


@pytest.fixture
def fit(monkeypatch):
    """Fit a classifier with the plain encoder, whose states and weights a function changes."""

    def run(change=None, encoder=PlainEncoder, inputs=TEXTS, **arguments):
        monkeypatch.setattr(encoders, "ENCODERS", {**encoders.ENCODERS, "plain": (PlainOptions, encoder)})
        monkeypatch.setattr(PlainOptions, "change", change)
        training = TrainingOptions(epochs=1, progress=False, dev_fraction=0.0)
        head = HeadOptions(linear_branch=False, pooling="mean")
        classifier = TextClassifier(PlainOptions(hidden=8), head=head, training=training, **arguments)
        return classifier.fit(inputs, LABELS)

    return run


def rename(states, layer, graph):
    layer["windows"] = layer.pop("window:3")
    return states


def cut(states, layer, graph):
    layer["window:3"] = layer["window:3"][1:]
    return states


def look_up(states, layer, graph):
    return states + len(graph.edges["windows"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda states, *_: states[1:], r"PlainEncoder.forward returns \(\d+, 8\); it must return \(\d+, 8\), a row "),
        (lambda states, *_: torch.cat([states, states[:1]]), r"returns \(\d+, 8\); it must return \(\d+, 8\)"),
        (lambda states, *_: states[:, 1:], r"returns \(\d+, 7\); it must return \(\d+, 8\)"),
        (lambda states, *_: states[None], r"returns \(1, \d+, 8\); it must return \(\d+, 8\)"),
        (lambda states, *_: states.double(), "returns numbers of type torch.float64; .* of type torch.float32"),
        (lambda states, *_: (states, None), "returns tuple, not a tensor"),
        (rename, "PlainEncoder.forward gives weights of 'windows'; its relations are: window:3"),
        (cut, r"gives weights \(\d+, 1\) of window:3 in layer 1; they must be \(\d+, heads\), a row for each edge"),
        (look_up, "PlainEncoder.forward looks up 'windows', which its graphs lack; its relations are: window:3"),
    ],
)
def test_rows_and_weights_that_do_not_fit(change, message, fit):
    with pytest.raises(ConfigError, match=message):
        fit(change)


def test_means_and_heads_that_do_not_fit(fit, monkeypatch):
    with pytest.raises(ConfigError, match=r"Means.means returns \(\d+, 8\); it must return \(2, 8\), a row for each"):
        fit(encoder=Means)
    monkeypatch.setattr(PlainEncoder, "heads_along", lambda self: {"windows": 1})
    with pytest.raises(ConfigError, match=r"PlainEncoder.heads_along names 'windows'; its relations are: window:3"):
        fit()


def test_a_translator(fit, monkeypatch):
    fit()
    monkeypatch.setattr(PlainOptions, "change", lambda states, *_: states[1:])
    training = TranslationTraining(epochs=1, progress=False)
    translator = Translator(PlainOptions(hidden=8), inputs=SubwordOptions(vocabulary_size=40), training=training)
    with pytest.raises(ConfigError, match=r"PlainEncoder.forward returns"):
        translator.fit(TEXTS, TEXTS)


def test_an_encoder_that_fits_runs_once_more(fit):
    PlainEncoder.runs = 0
    fit()
    assert PlainEncoder.runs == 2, "one check and one batch"
    fit(inputs=["", *TEXTS[1:]])
