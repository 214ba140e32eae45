"""Heads of families that transformers computes, in pipelines: the same probabilities, or an error before writing."""

import numpy as np
import pytest

from graphattn import SequenceTagger, TextClassifier
from graphattn.exceptions import ConfigError
from graphattn.models import HeadOptions, PretrainedOptions, TrainingOptions

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")
TRAINING = TrainingOptions(epochs=1, learning_rate=0.5, dev_fraction=0, progress=False)
X, Y = ["a lovely film", "a dull film", "great cast", "a weak plot"] * 2, ["g", "b", "c", "b"] * 2


def fit(folder, pooling="cls"):
    head = HeadOptions(pooling=pooling, head_hidden=0, linear_branch=False)
    return TextClassifier(pretrained=PretrainedOptions(str(folder), frozen=False), head=head, training=TRAINING).fit(
        X, Y
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", ["nomic_bert", "xlm-roberta-xl", "deberta-v2"])
def test_a_classifier_in_a_pipeline(transformers, save, tmp_path, family):
    """An activation that is tanh, in the pooler or the head; and GELU."""
    classifier = fit(save(family))
    classifier.to_huggingface(tmp_path / "copy")
    rows = transformers.pipeline("text-classification", str(tmp_path / "copy"), device="cpu")(X, top_k=None)
    found = [[{row["label"]: row["score"] for row in of_text}[name] for name in "bcg"] for of_text in rows]
    np.testing.assert_allclose(found, classifier.predict_proba(X), atol=1e-5)


def test_a_tagger_in_a_pipeline(transformers, save, tmp_path):
    head, pretrained = HeadOptions(crf=False, linear_branch=False), PretrainedOptions(str(save("albert")), frozen=False)
    tagger = SequenceTagger(pretrained=pretrained, head=head, training=TRAINING)
    tagger.fit([["a", "b"], ["c"]] * 4, [["D", "N"], ["X"]] * 4).to_huggingface(tmp_path / "copy")
    rows = transformers.pipeline("token-classification", str(tmp_path / "copy"), device="cpu")("a b c")
    (expected,) = tagger.predict_proba([["a", "b", "c"]])
    np.testing.assert_allclose([row["score"] for row in rows], expected.max(1), atol=1e-5)


def test_a_head_that_the_family_lacks_is_an_error(save, tmp_path):
    """The classifiers of decoders have no bias."""
    classifier = fit(save("gpt2"))
    with pytest.raises(ConfigError, match=r"lacks parts of this model: a linear head \(gpt2\)\. encoder_only=True"):
        classifier.to_huggingface(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    classifier.to_huggingface(tmp_path / "copy", encoder_only=True)
