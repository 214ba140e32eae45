"""Pretrained models as modules of padded ids, and as ONNX files."""

import json
import sys
import types

import numpy as np
import pytest
import torch

from graphattn import PairClassifier, TextClassifier
from graphattn.exceptions import ConfigError, MissingPackageError
from graphattn.models import HeadOptions, MSTransOptions, TrainingOptions
from graphattn.models.pretrained import SentenceEncoder
from graphattn.models.pretrained._options import PretrainedOptions

from ..padded import pad_batch, pad_ids
from .conftest import EXPORTED

TEXTS = ["a", "it sleeps <pad> and <pad> eats", "a dog barks at the cat " * 2]
LABELS = ["a", "b", "a"]
TRAINING = TrainingOptions(epochs=1, learning_rate=0.1, dev_fraction=0, progress=False, precision="32")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_states_and_vectors(save_trained, name):
    encoder = SentenceEncoder(save_trained(name)).fit()
    batch = encoder.encoder_.batch(TEXTS)
    ids, mask = pad_batch(batch)
    states, vectors = encoder.to_dense()(ids, mask)
    torch.testing.assert_close(states[mask.bool()], encoder.encoder_(batch).detach(), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(vectors, encoder.transform(TEXTS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_pooled_as_the_directory_says(save_sentence_model, pooling):
    encoder = SentenceEncoder(save_sentence_model(pooling=pooling, limit=48)).fit()
    found = encoder.to_dense()(*pad_batch(encoder.encoder_.batch(TEXTS)))[1]
    np.testing.assert_allclose(found, encoder.transform(TEXTS), atol=1e-5)


@pytest.mark.parametrize("encoder", [None, MSTransOptions(hidden=12, heads=2, layers=1, scales=("1", "N/2"))])
def test_pairs_as_one_sequence(save_trained, encoder):
    pairs, options = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)), PretrainedOptions(str(save_trained("bert")))
    head = HeadOptions(linear_branch=False)
    classifier = PairClassifier(encoder, pretrained=options, head=head, training=TRAINING).fit(pairs, LABELS)
    found = classifier.to_dense()(*pad_ids(classifier, pairs, segments=True)).softmax(1)
    np.testing.assert_allclose(found, classifier.predict_proba(pairs), atol=1e-5)


def test_other_edges(save_trained):
    folder = save_trained("mpnet")
    encoder = SentenceEncoder(folder, heads="window:5=2,window:N/2=2").fit()
    found = encoder.to_dense()(*pad_batch(encoder.encoder_.batch(TEXTS)))[1]
    np.testing.assert_allclose(found, encoder.transform(TEXTS), atol=1e-5)
    with pytest.raises(ConfigError, match=r"heads along window:5\|global:1 cannot be exported"):
        SentenceEncoder(folder, heads="window:5|global").to_dense()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::graphattn.exceptions.TruncationWarning")
def test_an_onnx_file(save_trained, tmp_path):
    """The tokenizer beside the file gives its inputs; other numbers of texts and tokens than in the export."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from tokenizers import Tokenizer

    classifier = TextClassifier(pretrained=str(save_trained("xlm-roberta")), training=TRAINING).fit(TEXTS, LABELS)
    classifier.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == ["a", "b"]
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("<pad>"))
    words = "a dog barks at the cat".split()
    texts = [" ".join(words[number % 6] for number in range(count)) for count in (1, 3, 8, 21, 60)]
    for batch in ([text] for text in texts), ([text, *texts[:2]] for text in texts):
        for inputs in batch:
            encoded = tokenizer.encode_batch(inputs)
            rows = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            feed = {i.name: np.array([getattr(e, rows[i.name]) for e in encoded]) for i in session.get_inputs()}
            (logits,) = session.run(["logits"], feed)
            probabilities = torch.from_numpy(logits).softmax(1)
            np.testing.assert_allclose(probabilities, classifier.predict_proba(inputs), atol=1e-4)


def test_bad_onnx_files(save_trained, tmp_path, monkeypatch):
    encoder = SentenceEncoder(save_trained("bert"))
    for module in ("onnx", "onnxscript"):  # installed or not
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    with pytest.raises(ConfigError, match="is a directory; give the name of a file"):
        encoder.to_onnx(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is that of another model; choose another folder"):
        encoder.to_onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"ONNX files need onnx, .*pip install 'graphattn\[onnx\]'"):
        encoder.to_onnx(tmp_path / "model.onnx")
