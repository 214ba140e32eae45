"""Runs of pretrained models, and the same model in a plain loop with ``transformers``."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from graphattn import SequenceTagger, TextClassifier
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.papers._data_sets import find_data_set
from graphattn.experiments.papers._result_rows import read_rows
from graphattn.experiments.papers._runs import combine, execute, with_changes
from graphattn.experiments.papers._settings import MINILM, make_estimator, settings
from graphattn.experiments.papers._transformers_loop import Encoded, FineTunedModel, learning_rates
from graphattn.models._estimators.state import make_corpus
from graphattn.models.training._module import TrainingModule
from graphattn.models.training._optimizer import make_optimizer

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")
FEW = {
    "training": {"epochs": 8, "precision": "32", "batch_size": 4, "learning_rate": 0.02},
    "pretrained": {"tuning_rate": 5e-3},
}


def run(folder, out, data_set, *encoders, changes=FEW):
    runs = [with_changes(item, changes) for item in combine([data_set], encoders, [0])]
    return execute(runs, out, folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize("data_set", ["sst2", "cr", "ewt", "conll2003"])
def test_both_loops_write_the_same_fields(folder, tmp_path, data_set):
    pytest.importorskip("transformers")
    epochs = 15 if data_set == "ewt" else 1
    plain = {**FEW, "training": {**FEW["training"], "epochs": epochs}, "head": {"crf": False}}
    plain |= {"inputs": {"characters": False}}
    ours, theirs = run(folder, tmp_path / "out.jsonl", data_set, "pretrained", "transformers", changes=plain)
    assert ours.keys() == {*theirs.keys(), "test_error"}, "only our reports have a standard error"
    for name in ("epochs", "parameters", "parameters_besides_words", "precision", "inference_texts"):
        assert ours[name] == theirs[name], name
    if data_set == "ewt":
        assert theirs["test"] == ours["test"] == 100
    assert len(read_rows(tmp_path / "out.jsonl")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("data_set", "kind"), [("sst2", TextClassifier), ("ewt", SequenceTagger)])
def test_both_models_compute_the_same_with_the_same_learning_rates(folder, tmp_path, data_set, kind):
    transformers = pytest.importorskip("transformers")
    changes = {**FEW, "training": {**FEW["training"], "epochs": 2}, "head": {"crf": False}}
    estimator = make_estimator(data_set, "pretrained", 0, changes, folder)
    assert type(estimator) is kind
    corpus = find_data_set(data_set)
    estimator.fit(corpus.load("train", folder), dev=(corpus.load("dev", folder), None))
    estimator.to_huggingface(tmp_path / "tuned", encoder_only=True)
    encoder = transformers.AutoModel.from_pretrained(tmp_path / "tuned")
    model = FineTunedModel(encoder, len(estimator.classes_), 0.1, per_word=kind is SequenceTagger).eval()
    model.classify[1].load_state_dict(estimator.model_.head.output.state_dict())
    texts = ["a good film", "bad", "the salted soup"]
    vocabulary = estimator.vocabulary_
    encoded = [
        Encoded([2, *vocabulary.encode(text.split()).tolist(), 3], list(range(1, 1 + len(text.split()))), [])
        for text in texts
    ]
    batch = make_corpus(estimator, [text.split() for text in texts])[[0, 1, 2]]
    with torch.no_grad():
        torch.testing.assert_close(model(encoded), estimator.model_(batch), atol=1e-5, rtol=1e-5)
    module = TrainingModule(estimator.model_, estimator.training_, loader=[None], dev=None, measure=None)
    ours, _ = module.make_optimizer()
    options = estimator.resolve_options()
    rates = learning_rates(estimator.text_inputs_.architecture, options["pretrained"])
    theirs = make_optimizer(model, rates, options["training"])
    assert count_by_rate(ours, "initial_lr") == count_by_rate(theirs, "lr")


def count_by_rate(optimizer, rate):
    """(learning rate, decay) -> number of parameters."""
    counts = Counter()
    for group in optimizer.param_groups:
        counts[round(group[rate], 12), group["weight_decay"]] += sum(map(nn.Parameter.numel, group["params"]))
    return counts


def test_settings_of_pretrained_runs():
    assert settings("sst2", "pretrained")["pretrained"] == {"pretrained": MINILM, "frozen": False}
    assert settings("sst2", "pretrained=bert")["pretrained"] == {"pretrained": "bert", "frozen": False}
    assert settings("conll2003", "pretrained")["inputs"] == {"characters": True}
    frozen = make_estimator("apparel", "frozen-ms-trans", 0, {}, Path("data"))
    assert (frozen.encoder, frozen.pretrained.tuned_layers) == ("ms-trans", 0)
    assert frozen.pretrained.pretrained == str(Path("data") / MINILM)
    options = frozen.resolve_options()
    assert (options["training"].optimizer, options["head"].linear_branch) == ("adamw", False)


def test_impossible_runs(folder, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="is for the tasks classify and tag, not pair"):
        run(folder, tmp_path / "out.jsonl", "sick", "transformers")
    with pytest.raises(ConfigError, match=r"has no option tuned_layers; leave pretrained\.tuned_layers out"):
        run(folder, tmp_path / "out.jsonl", "sst2", "transformers", changes={"pretrained": {"tuned_layers": 0}})
    with pytest.raises(DataError, match=r"lacks bert-base"):
        run(folder, tmp_path / "out.jsonl", "sst2", "pretrained=bert-base")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'graphattn\[bench\]"):
        run(folder, tmp_path / "out.jsonl", "sst2", "transformers")
