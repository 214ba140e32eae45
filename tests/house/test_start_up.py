"""Slow modules that imports, help and predictions do not load."""

import json
import subprocess
import sys

import pytest

SLOW = {
    "dgl",
    "gensim",
    "lightning",
    "matplotlib",
    "networkx",
    "numba",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "torch",
}
NOT_FOR_PREDICTION = {"dgl", "lightning", "matplotlib", "networkx", "pandas", "sklearn", "tensorboard"}


def list_loaded(script):
    """The packages that a new process has loaded at the end of a script."""
    ending = "\nimport json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    command = [sys.executable, "-c", script + ending]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


# Several commands in one process: none of them may load a slow module.
COMMANDS = """
import sys
from graphattn.experiments._cli.main import main
for words in {}:
    sys.argv = ["graphattn", *words]
    try: main()
    except SystemExit as ended: assert not ended.code
"""


def test_importing_the_package_loads_nothing_slow():
    assert list_loaded("import graphattn") & SLOW == set()


@pytest.mark.slow
def test_estimators_and_optimizers_load_no_compiler_and_no_trainer():
    modules = ("models._estimators.fitting", "models._estimators.tuning", "models.training.callbacks")
    script = "".join(f"import graphattn.{module}\n" for module in modules)
    script += """
from torch import nn
from graphattn import TextClassifier
from graphattn.models import TrainingOptions
from graphattn.models.training._optimizer import make_optimizer
layer = nn.Linear(2, 2)
for name in ("adam", "adamw", "sgd"):
    optimizer = make_optimizer(layer, {}, TrainingOptions(optimizer=name))
    layer.weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
"""
    slow = {"lightning", "llvmlite", "numba", "pandas", "scipy", "sklearn", "sympy", "transformers", "triton"}
    assert list_loaded(script) & slow == set()


@pytest.mark.slow
def test_a_fit_on_one_device_loads_no_lightning(tmp_path):
    script = f"""
from graphattn.models import TextClassifier, TrainingOptions
training = TrainingOptions(epochs=1, run_dir={str(tmp_path)!r})
TextClassifier(training=training).fit(["good film", "bad film"] * 8, ["pos", "neg"] * 8)
"""
    assert list_loaded(script) & {"lightning", "sympy", "torchmetrics", "transformers"} == set()
    assert (tmp_path / "last.ckpt").exists()


def test_help_loads_nothing_slow():
    commands = [[], ["train"], ["predict"], ["evaluate"], ["build"], ["demo"], ["bench"]]
    assert list_loaded(COMMANDS.format([[*words, "--help"] for words in commands])) & SLOW == set()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions

    encoder = MSTransOptions(hidden=8, heads=2, layers=1)
    training = TrainingOptions(epochs=1, dev_fraction=0)
    classifier = TextClassifier(encoder, training=training).fit(["good film", "bad film"] * 2, ["pos", "neg"] * 2)
    return classifier.save(tmp_path_factory.mktemp("start") / "model")


@pytest.mark.slow
def test_predicting_loads_little_beyond_pytorch(model, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\n", encoding="utf-8")
    api = f"import graphattn\ngraphattn.load({str(model)!r}).predict(['a good film'])"
    loaded = list_loaded(api + COMMANDS.format([["predict", str(model), str(tmp_path / "texts.txt")]]))
    assert "torch" in loaded
    assert loaded & NOT_FOR_PREDICTION == set()
