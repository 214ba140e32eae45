"""Texts with and without [CLS], for every encoder and task."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import graphattn
from graphattn.builders import TextGraphBuilder
from graphattn.exceptions import ConfigError, DataError
from graphattn.models import TASKS, HeadOptions, InputOptions, TextClassifier
from graphattn.models._encoders import ENCODERS, encoder_options, make_encoder
from graphattn.models.heads._tagging import first_tokens

WITHOUT = {"mtsa", "duo", "duo-transformer"}
"""Encoders whose papers have no [CLS]."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "cls"), [*((encoder, None) for encoder in ENCODERS), *product(("ms-trans", "mtsa"), (True, False))]
)
def test_the_default_depends_on_the_encoder(corpus, tiny, encoder, cls):
    options = replace(encoder_options(encoder), hidden=20)
    model = tiny("classifier", options, training={"epochs": 1}, inputs={"cls": cls}).fit(*corpus("classifier", 8))
    expected = encoder not in WITHOUT if cls is None else cls
    assert model.inputs_.cls is model.builder_.cls is expected
    assert model.count_tokens("a b") == 2 + expected
    assert model.head_.pooling == {"mtsa": "source2token", "duo": "mean"}.get(encoder, "cls+max" if expected else "max")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "encoder"),
    [*product(("classifier", "translator"), ENCODERS), ("pair", "ms-trans"), ("crf", "ms-trans"), ("tagger", "bilstm")],
)
def test_a_batch_equals_single_inputs(corpus, tiny, figures, tmp_path, kind, encoder):
    """Also without words, of which there may be no token in the whole batch; a saved model keeps the choice."""
    made = encoder if kind == "translator" else replace(encoder_options(encoder), hidden=20)
    arguments = {"inputs": {"cls": False}, "training": {"epochs": 1}}
    X, y = corpus(kind, 12)
    model = tiny(kind, made, **arguments).fit(X, y)
    empty = {"classifier": "", "pair": ("", ""), "crf": [], "tagger": [], "translator": ""}[kind]
    inputs = [empty, X[0], empty, X[1], X[2]]
    together = figures(model, inputs)
    for number, x in enumerate(inputs):
        np.testing.assert_allclose(figures(model, [x])[0], together[number], atol=1e-5)
    assert all(map(np.array_equal, figures(graphattn.load(model.save(tmp_path / "model")), inputs), together))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_texts_without_tokens_in_a_batch(double_encoder_without_cls, encoder):
    encode = double_encoder_without_cls(encoder)
    texts = [[], ["x"] * 3, [], [], ["x"], []]
    together = encode(texts)
    torch.testing.assert_close(together, torch.cat([encode([texts[1]]), encode([texts[4]], skip=3)]), atol=1e-9, rtol=0)


@pytest.fixture
def double_encoder_without_cls():
    """Make a function that encodes texts in float64, with token vectors from a fixed table."""

    def make(name):
        torch.manual_seed(0)
        encoder = make_encoder(replace(encoder_options(name), hidden=20)).double().eval()
        table = torch.randn(9, 20 * encoder.options.streams, dtype=torch.float64)

        def encode(texts, skip=0):
            graph = TextGraphBuilder(encoder.relations(), cls=False).text_batch(texts)
            with torch.no_grad():
                return encoder(graph, table[skip : skip + graph.num_nodes("token")])

        return encode

    return make


def test_words_begin_at_the_first_token(corpus, tiny):
    """Also if a text of one word follows another."""
    model = tiny("classifier", training={"epochs": 1}, inputs={"cls": False}).fit(*corpus("classifier", 8))
    graph = model.builder_.text_batch(["a", "a", "", "a b", "a"])
    assert first_tokens(graph).tolist() == [0, 1, 2, 3, 4]
    model.builder_.cls = True
    assert first_tokens(model.builder_.text_batch(["a", "", "a b"])).tolist() == [1, 4, 5]


@pytest.mark.parametrize("pooling", ["cls", "concat", "cls+max"])
def test_pooling_that_needs_it(pooling):
    classifier = TextClassifier("ms-trans", inputs=InputOptions(cls=False), head=HeadOptions(pooling=pooling))
    with pytest.raises(ConfigError) as caught:
        classifier.fit(["a", "b"], [0, 1])
    assert caught.value.options == ("pooling", "cls")


def test_attention_and_attributions_without_it(corpus, tiny):
    from graphattn.models.inspection.attributions import integrated_gradients, word_attributions

    model = tiny("classifier", "transformer", training={"epochs": 1}, inputs={"cls": False})
    model.fit(*corpus("classifier", 12))
    attention = model.attention("a dull film")
    assert attention.tokens == {"text": ("a", "dull", "film")}
    assert set(attention.table().target_word) == {"a", "dull", "film"}
    assert word_attributions(model, "a dull film").table.word.tolist() == ["a", "dull", "film"]
    assert integrated_gradients(model, "a dull film").token.tolist() == ["a", "dull", "film"]
    assert attention.to_page()["words"] == {"text": [0, 1, 2]}
    with pytest.raises(DataError, match="the text has no words, so there is no attention"):
        model.attention("")


@pytest.mark.parametrize("task", TASKS)
def test_it_is_a_flag(task):
    from graphattn.experiments._cli.training_plan import training_flags

    assert "cls" in {flag.name for flag in training_flags(TASKS[task])}
