"""Models of transformers as modules of padded ids, and as ONNX files: the states of the same model on edges."""

import numpy as np
import pytest
import torch

from graphattn import TextClassifier
from graphattn.exceptions import ConfigError
from graphattn.models import HeadOptions, PretrainedOptions, TrainingOptions
from graphattn.models.pretrained import SentenceEncoder

from ..padded import pad_batch, pad_ids

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")
TEXTS = ["a dog barks at the cat", "no", "it [PAD] sleeps and eats"]


def compare(encoder):
    """The module's states and vectors are those of the encoder."""
    batch = encoder.encoder_.batch(TEXTS)
    ids, mask = pad_batch(batch)[:2]
    states, vectors = encoder.to_dense()(ids, mask)
    torch.testing.assert_close(states[mask.bool()], encoder.encoder_(batch).detach(), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(vectors, encoder.transform(TEXTS), atol=1e-5)
    return ids, mask, vectors


@pytest.mark.parametrize("family", ["albert", "gemma3_text", "xlm-roberta-xl", "t5", "gpt2", "nomic_bert"])
def test_states_and_vectors(save, family):
    compare(SentenceEncoder(save(family)).fit())


@pytest.mark.parametrize(
    ("family", "heads"), [("albert", "window:3=2,all=2"), ("qwen3", "window:3=2,all=2"), ("t5", "window:N/2")]
)
def test_other_edges_are_masks(save, family, heads):
    compare(SentenceEncoder(save(family), heads=heads).fit())


def test_edges_that_no_mask_expresses_are_an_error(save):
    with pytest.raises(ConfigError, match=r"heads along window:5\|global:1 cannot be exported"):
        SentenceEncoder(save("albert"), heads="window:5|global").to_dense()
    with pytest.raises(ConfigError, match="along different edges cannot be exported") as error:
        SentenceEncoder(save("t5"), heads="0:window:3").to_dense()
    assert error.value.options == ("heads",)


def test_a_family_that_looks_words_up_itself_is_an_error(save, tmp_path):
    with pytest.raises(ConfigError, match=r"'longformer' cannot be exported: .* \(it looks words up itself\)"):
        SentenceEncoder(save("longformer")).to_onnx(tmp_path / "onnx" / "model.onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["deberta-v2", "qwen3", "xlm-roberta-xl"])
def test_onnx_and_compiled(save, tmp_path, family):
    """Other numbers of texts and tokens than in the export."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    encoder = SentenceEncoder(save(family, num_hidden_layers=1)).fit()
    ids, mask, vectors = compare(encoder)
    compiled = torch.compile(encoder.to_dense(), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(ids, mask)[1], vectors)
    encoder.to_onnx(tmp_path / "onnx" / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    names = [each.name for each in session.get_inputs()]
    (found,) = session.run(["sentence_embedding"], {name: feed[name].numpy() for name in names})
    np.testing.assert_allclose(found, vectors, atol=1e-4)


def test_a_classifier(save):
    options = PretrainedOptions(str(save("albert")), frozen=False)
    training, head = TrainingOptions(epochs=1, dev_fraction=0), HeadOptions(linear_branch=False)
    classifier = TextClassifier(pretrained=options, head=head, training=training).fit(TEXTS * 2, ["a", "b", "a"] * 2)
    found = classifier.to_dense()(*pad_ids(classifier, TEXTS)).softmax(1)
    np.testing.assert_allclose(found, classifier.predict_proba(TEXTS), atol=1e-5)
