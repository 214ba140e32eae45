"""A prediction depends only on its input: not on batch, order or earlier calls."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
import torch

from graphattn.exceptions import DeviceMemoryError, DivergenceError, TruncationWarning
from graphattn.models import PairClassifier, SequenceTagger, TrainingOptions
from graphattn.models import _prediction as prediction
from graphattn.models._encoders import ENCODERS
from graphattn.models._estimators.state import make_corpus

KINDS = ("classifier", "multilabel", "pair", "tagger", "crf")
CASES = [(kind, "ms-trans") for kind in KINDS]
CASES += [("classifier", encoder) for encoder in ENCODERS if encoder != "ms-trans"]  # test_cls.py has other tasks
LONG = "the film was not very slow and never dull " * 30


def inputs_of(kind):
    texts = ["", "film", LONG, "the awful plot", "unknown words only here", "Paris was never dull", "x" * 100, "NATO"]
    if kind == "pair":
        return list(zip(texts, texts[::-1], strict=True))
    return [text.split() for text in texts] if kind in ("tagger", "crf") else texts


def chances(estimator, inputs):
    return [np.asarray(row) for row in estimator.predict_proba(inputs)]


def close(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_threads_predict_with_one_model(fitted, kind):
    estimator, inputs = fitted(kind, "ms-trans"), inputs_of(kind)
    expected = [chances(estimator, [x])[0] for x in inputs]
    order = [*range(len(inputs))] * 6
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: chances(estimator, [inputs[number]])[0], order))
    for number, result in zip(order, results, strict=True):
        np.testing.assert_array_equal(result, expected[number])


@pytest.mark.parametrize(("kind", "encoder"), CASES)
def test_batch_and_order_do_not_matter(fitted, kind, encoder, monkeypatch):
    estimator, inputs = fitted(kind, encoder), inputs_of(kind)
    together = chances(estimator, inputs)
    close(together, [chances(estimator, [one])[0] for one in inputs])
    close(together[::-1], chances(estimator, inputs[::-1]))
    close(together[1::2], chances(estimator, inputs[1::2]))
    predicted = list(estimator.predict(inputs))
    assert predicted == [estimator.predict([one])[0] for one in inputs]
    monkeypatch.setattr(prediction, "MAX_TOKENS", 20)  # several batches, and a text that exceeds the budget
    close(together, chances(estimator, inputs))
    assert predicted == list(estimator.predict(inputs))


@pytest.mark.parametrize(("kind", "encoder"), CASES)
def test_no_input_and_empty_input(fitted, kind, encoder):
    estimator = fitted(kind, encoder)
    assert list(estimator.predict([])) == []
    assert len(estimator.predict_proba([])) == 0
    empty = ("", "") if kind == "pair" else [] if kind in ("tagger", "crf") else ""
    (predicted,) = estimator.predict([empty])
    if kind in ("tagger", "crf"):
        assert predicted == []
        assert estimator.predict_proba([empty])[0].shape == (0, len(estimator.classes_))
    elif kind == "multilabel":
        assert set(predicted) <= set(estimator.classes_)
    else:
        assert predicted in estimator.classes_


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_probabilities_in_one_pass(fitted, kind):
    estimator, inputs = fitted(kind, "ms-trans"), inputs_of(kind)
    labels, rows = estimator.predict_with_probabilities(inputs)
    assert list(labels) == list(estimator.predict(inputs))
    close([np.asarray(row) for row in rows], chances(estimator, inputs))


def test_dropout_is_off_and_the_mode_does_not_change(fitted):
    estimator = fitted("classifier", "ms-trans")
    data = make_corpus(estimator, inputs_of("classifier"))
    for training in (True, False):
        estimator.model_.train(training)
        first = prediction.predict_corpus(estimator.model_, data, probabilities=True)
        assert estimator.model_.training is training
        second = prediction.predict_corpus(estimator.model_, data, probabilities=True)
        assert np.array_equal(np.stack(first.probabilities), np.stack(second.probabilities))
    assert prediction.predict_corpus(estimator.model_, data).probabilities is None


@pytest.mark.parametrize(("kind", "estimator"), [("pair", PairClassifier), ("tagger", SequenceTagger)])
def test_an_encoder_without_a_share_does_not_run(kind, estimator, corpus, monkeypatch):
    inputs, labels = corpus(kind)
    model = estimator(training=TrainingOptions(epochs=0)).fit(inputs, labels)
    data = make_corpus(model, inputs)
    with torch.no_grad():
        expected = model.model_.eval()(data.batch(range(len(data))))
    monkeypatch.setattr(model.model_.encoder, "forward", None)
    monkeypatch.setattr(model.model_.encoder, "means", None)
    scores = prediction.predict_corpus(model.model_, data, scores=True).scores
    np.testing.assert_array_equal((np.stack if kind == "pair" else np.concatenate)(scores), expected.numpy())


@pytest.mark.slow
def test_a_text_of_20000_tokens(fitted):
    text, classifier = "the film was not very slow " * 3334, deepcopy(fitted("classifier", "ms-trans"))
    classifier.inputs_.max_tokens_per_text = None
    close(chances(classifier, [text]), chances(classifier, ["film", text, ""])[1:2])


@pytest.mark.parametrize("kind", ["classifier", "pair"])
def test_vectors_are_float32_and_the_mode_does_not_change(kind, corpus, fitted):
    inputs, _ = corpus(kind)
    estimator = deepcopy(fitted(kind))
    model, data = estimator.model_, make_corpus(estimator, inputs[:3])
    actual = []
    for training in (True, False):
        model.train(training)
        actual.append(prediction.encode_corpus(model, data))
        assert model.training is training
    assert np.array_equal(*actual)
    nothing = prediction.encode_corpus(model, make_corpus(estimator, []))
    assert nothing.shape == (0, actual[0].shape[1])
    assert prediction.encode_corpus(model.bfloat16(), data).dtype == nothing.dtype == np.float32


@pytest.mark.parametrize("method", ["predict", "encode", "evaluate"])
def test_numbers_that_are_not_finite(fitted, method):
    estimator = deepcopy(fitted("classifier", "ms-trans"))
    with torch.no_grad():
        for weights in estimator.model_.parameters():
            weights.fill_(1e30)
    arguments = (["a film"], ["good"]) if method == "evaluate" else (["a film"],)
    with pytest.raises(DivergenceError):
        getattr(estimator, method)(*arguments)


def test_batches_have_the_budget_of_the_device(fitted):
    corpus = make_corpus(fitted("classifier", "ms-trans"), [LONG * 8, "film", *["a lovely plot"] * 9_000])
    cuda = torch.device("cuda")
    sizes = {}
    for device, memory in (("cpu", None), ("cuda", 8 * 2**30), ("cuda", 80 * 2**30)):
        budget = prediction.token_budget(torch.device(device), memory=memory)
        batches = prediction.BudgetBatches(corpus.lengths, max_tokens=budget, shuffle=False)
        assert max(corpus.lengths[numbers].sum() for numbers in batches) <= budget
        sizes[device, memory] = len(list(batches))
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    assert prediction.token_budget(cuda, on_cpu=7, memory=2**40) == 32_768
    assert prediction.token_budget(torch.device("mps"), on_cpu=7) == 7


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("is_deferred", [False, True])
def test_a_batch_that_does_not_fit_is_halved(fitted, is_deferred, device):
    estimator = fitted("classifier", "ms-trans")
    corpus, sizes = make_corpus(estimator, inputs_of("classifier")), []
    model = deepcopy(estimator.model_).to(device)

    def count_tokens(batch, numbers):
        if len(numbers) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        sizes.append(len(numbers))
        lengths = batch.graph.batch_num_nodes().tolist()
        return (lambda: lengths) if is_deferred else lengths

    assert prediction.run_model(model, corpus, count_tokens) == corpus.lengths.tolist()
    assert sizes == [2, 2, 2, 2]


def test_a_text_that_does_not_fit_is_named(fitted):
    estimator = fitted("classifier", "ms-trans")

    def fail(batch, numbers):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total ...")

    with pytest.raises(DeviceMemoryError) as caught:
        prediction.run_model(estimator.model_, make_corpus(estimator, ["a lovely film"]), fail)
    assert caught.value.render(lambda name: f"--{name}") == (
        "the GPU's memory is too small for a text of 4 tokens (the last tensor: 20.00 MiB). "
        "Truncate it (--max_tokens_per_text), or give --precision=bf16 or --device=cpu"
    )


def test_truncation_is_counted_in_its_own_thread_alone():
    warning = TruncationWarning(2, 512, 30)
    with prediction.count_truncation() as counts, ThreadPoolExecutor(1) as other:
        prediction.warn_of_truncation(warning)
        with pytest.warns(TruncationWarning):
            other.submit(prediction.warn_of_truncation, warning).result()
    assert counts == [2, 30]
