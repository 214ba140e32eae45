"""Tests of every encoder in ENCODERS."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import _dynamo, func

import graphattn
from graphattn.builders import TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.training_plan import training_flags
from graphattn.models import TASKS
from graphattn.models._encoders import ENCODERS, encoder_options, make_encoder
from graphattn.models._estimators.state import make_corpus
from graphattn.options import list_options

HIDDEN = 20  # a multiple of every encoder's heads

slow = pytest.mark.slow
every_encoder = pytest.mark.parametrize("encoder", ENCODERS)


def small(encoder):
    return replace(encoder_options(encoder), hidden=HIDDEN)


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [
        *(("classifier", encoder) for encoder in ENCODERS),
        *(pytest.param(kind, "ms-trans", marks=slow) for kind in ("pair", "crf")),
        *(pytest.param("translator", encoder, marks=slow) for encoder in ENCODERS),  # with options of their own
    ],
)
def test_a_saved_model_is_identical(kind, encoder, corpus, fitted, figures, same_weights, tmp_path):
    inputs, _ = corpus(kind, 16)
    estimator = fitted(kind, encoder)
    loaded = graphattn.load(estimator.save(tmp_path / "model"))
    assert type(loaded.model_.encoder) is ENCODERS[encoder][1]
    assert all(map(np.array_equal, figures(estimator, inputs), figures(loaded, inputs)))
    assert loaded.history_ == estimator.history_
    assert "parts" not in loaded.changed_options()
    assert "parts" not in estimator.changed_options()
    again = graphattn.load(loaded.save(tmp_path / "again"))
    assert same_weights(again, estimator)


@slow
@pytest.mark.parametrize("encoder", ["umst", "bilstm"])  # test_checkpoints.py has the default one, in every task
def test_a_killed_run_resumes_with_identical_results(encoder, corpus, tiny, tmp_path, killed_at, same_weights):
    texts, labels = corpus("classifier", 20)
    settings = {"epochs": 2, "dev_fraction": 0.2, "batch_size": 8}
    undisturbed = tiny("classifier", small(encoder), training=settings).fit(texts, labels)
    disturbed = tiny("classifier", small(encoder), training={**settings, "run_dir": str(tmp_path / "run")})
    with killed_at(1, 1):
        disturbed.fit(texts, labels)
    disturbed.fit(texts, labels)
    assert disturbed.history_ == undisturbed.history_
    assert same_weights(disturbed, undisturbed)


@every_encoder
def test_every_weight_is_trained(encoder, corpus, fitted):
    texts, labels = corpus("classifier", 16)
    estimator = fitted("classifier", encoder)
    model = deepcopy(estimator.model_).train()
    loss, _ = model.loss(make_corpus(estimator, texts, labels)[list(range(16))])
    loss.backward()
    idle = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    assert idle == []


@every_encoder
def test_training_lowers_the_loss(encoder, corpus, tiny):
    texts, labels = corpus("classifier", 40)
    options = {"inputs": {"embedding_dropout": 0.0}, "head": {"head_dropout": 0.0}}
    settings = {"epochs": 25, "dev_fraction": 0.0, "learning_rate": 0.01}
    estimator = tiny("classifier", replace(small(encoder), dropout=0.0), training=settings, **options)
    low_enough = EarlyStopping("train_loss", patience=25, stopping_threshold=0.6, check_on_train_epoch_end=True)
    losses = [row["train_loss"] for row in estimator.fit(texts, labels, callbacks=[low_enough]).history_]
    assert min(losses) < 0.9 * losses[0]


@every_encoder
def test_attention_weights_of_a_prediction(encoder, corpus, fitted):
    texts, _ = corpus("classifier", 16)
    estimator = fitted("classifier", encoder)
    if encoder == "bilstm":
        with pytest.raises(ConfigError, match="encoder 'bilstm' has no attention"):
            estimator.attention(texts[0])
        return
    attention = estimator.attention(texts[0])
    assert attention.prediction == estimator.predict(texts[:1])[0]
    sums = attention.table().groupby(["layer", "head", "relation", "target"]).weight.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-5)


@slow
@every_encoder
@pytest.mark.parametrize("task", TASKS)
def test_every_option_is_a_flag(task, encoder):
    flags = {flag.name: flag for flag in training_flags(TASKS[task])}
    for flag in list_options(encoder_options(encoder)):
        assert flag.name in flags
        own = flags[flag.name]
        assert own.panel == "Encoder"
        assert (own.value_type, own.choices) == (flag.value_type, flag.choices) or own.value_type is object, (
            "encoders with the same flag parse it in the same way"
        )


@every_encoder
def test_name_options_and_plain_values_are_equivalent(encoder):
    options = encoder_options(encoder)
    options.validate()
    assert encoder_options(options) is options
    assert encoder_options(options.to_dict()) == options
    made = make_encoder(options)
    assert made.width >= 1
    graph = TextGraphBuilder(made.relations()).text_batch([["a", "b", "c"], []])
    assert {relation.name for relation in made.relations()} <= {etype for _, etype, _ in graph.edges}


@every_encoder
def test_the_docs_mention_it(encoder, request):
    pages = sorted((request.config.rootpath / "docs").glob("encoder*.md"))
    if not pages:
        pytest.skip("the pages are not part of an installed package")
    assert any(f"`{encoder}`" in page.read_text(encoding="utf-8") for page in pages)


@slow
@every_encoder
def test_compiled_equals_eager(encoder, corpus, fitted):
    """The encoder inside a function of one's own, and the whole model."""
    texts, labels = corpus("classifier", 16)
    estimator = fitted("classifier", encoder)
    model, data = deepcopy(estimator.model_), make_corpus(estimator, texts, labels)
    _dynamo.reset()

    def states(batch, vectors):
        return torch.tanh(model.encoder(batch.graph, vectors)) + 1

    def run(function, *inputs):
        model.zero_grad()
        torch.manual_seed(0)
        out = function(*inputs)
        if torch.is_grad_enabled():
            out.square().sum().backward()
        return out, [parameter.grad for parameter in model.parameters()]

    compiled_states, compiled_model = (torch.compile(function, backend="aot_eager") for function in (states, model))
    for mode in (torch.enable_grad, torch.inference_mode):
        model.train(mode is torch.enable_grad)
        for count in (2, 5, 9):
            batch = data[list(range(count))]
            with mode(), _dynamo.config.patch(error_on_recompile=count > 5):
                vectors = model.embed_tokens(batch.graph.node_features["token"]["id"], batch).detach()
                torch.testing.assert_close(run(compiled_states, batch, vectors), run(states, batch, vectors))
                torch.testing.assert_close(run(compiled_model, batch), run(model, batch))


@slow
@every_encoder
def test_func_grad_of_the_parameters(encoder, corpus, fitted):
    texts, labels = corpus("classifier", 16)
    estimator = fitted("classifier", encoder)
    model, batch = estimator.model_, make_corpus(estimator, texts, labels)[list(range(16))]
    parameters = dict(model.named_parameters())
    found = func.grad(lambda values: func.functional_call(model, values, batch).square().sum())(parameters)
    expected = torch.autograd.grad(model(batch).square().sum(), list(parameters.values()), materialize_grads=True)
    torch.testing.assert_close(found, dict(zip(parameters, expected, strict=True)), rtol=1e-4, atol=1e-4)
