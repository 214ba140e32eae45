"""Models are built, loaded and trained alike, whatever the caller set in PyTorch."""

import pytest
import torch

from graphattn import load
from graphattn.models.training._plain_torch import plain_torch

KINDS = ("classifier", "tagger", "regressor")
CONTEXTS = {"inference mode": torch.inference_mode, "no gradients": torch.no_grad}


@pytest.fixture(params=[torch.bfloat16, torch.float16, torch.float64], ids=str)
def default_dtype(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.fixture(scope="module")
def saved(tiny, corpus, tmp_path_factory):
    """Kind -> a fitted estimator and its directory."""
    found = {}
    for kind in KINDS:
        estimator = tiny(kind).fit(*corpus(kind))
        folder = tmp_path_factory.mktemp("models") / kind
        estimator.save(folder)
        found[kind] = estimator, folder
    return found


def types_of(estimator):
    return {values.dtype for values in estimator.model_.state_dict().values() if values.is_floating_point()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_has_the_type_that_it_was_saved_with(kind, saved, corpus, default_dtype):
    estimator, folder = saved[kind]
    texts, _ = corpus(kind)
    loaded = load(folder)
    assert types_of(loaded) == types_of(estimator) == {torch.float32}
    assert str(loaded.predict(texts)) == str(estimator.predict(texts))
    assert torch.get_default_dtype() == default_dtype


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_training_under_another_type(kind, saved, tiny, corpus):
    texts, labels = corpus(kind)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        trained = tiny(kind).fit(texts, labels)
        found = str(trained.predict(texts))
    finally:
        torch.set_default_dtype(before)
    assert types_of(trained) == {torch.float32}
    assert found == str(saved[kind][0].predict(texts))


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_training_and_loading_without_gradients(kind, context, saved, tiny, corpus):
    estimator, folder = saved[kind]
    texts, labels = corpus(kind)
    with context():
        loaded = load(folder)
        trained = tiny(kind, warm_start=True).fit(texts, labels)
        assert str(loaded.predict(texts)) == str(trained.predict(texts)) == str(estimator.predict(texts))
    trained.fit(texts, labels)  # weights made in the context can be trained outside
    assert not any(parameter.is_inference() for parameter in loaded.model_.parameters())


def test_defaults_come_back_after_an_error():
    @plain_torch()
    def fail():
        assert torch.is_grad_enabled()
        raise ValueError("inside")

    with torch.inference_mode():
        with pytest.raises(ValueError, match="inside"):
            fail()
        assert torch.is_inference_mode_enabled()
