"""Model cards: front matter, data and results are those of the model, and what a user writes stays."""

import re

import pytest
import yaml

from graphattn import SequenceTagger, TextClassifier, load
from graphattn.models import InputOptions, MSTransOptions, TrainingOptions
from graphattn.models._files.model_card import add_results, set_name
from graphattn.models._results.reports import Report

TINY = MSTransOptions(hidden=8, heads=2, layers=1)
TEXTS = [f"a {word} film of {number} scenes" for number in range(15) for word in ("good", "bad")]
LABELS = ["pos", "neg | not `pos`"] * 15


def read_tables(card, heading):
    """The tables of a section: rows of cells by first cell."""
    section = card.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    tables = [table for table in section.split("\n\n") if table.strip().startswith("|")]
    rows = [[re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in table.strip().splitlines()] for table in tables]
    return [{row[0]: row[1:] for row in table[2:]} for table in rows]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier with word vectors from a file, trained with a dev set."""
    file = tmp_path_factory.mktemp("vectors") / "small.txt"
    file.write_text("good 1 2 3 4 5 6 7 8\nbad 8 7 6 5 4 3 2 1\n")
    inputs, training = InputOptions(vectors=str(file)), TrainingOptions(epochs=2, seed=3)
    model = TextClassifier(TINY, inputs=inputs, training=training)
    return model.fit(TEXTS, LABELS, dev=(TEXTS[:9], [*LABELS[:8], "neg | not `pos`"]))


@pytest.fixture(scope="module")
def card(fitted):
    return fitted.make_card(corpora={"training": ["folder/train.tsv", "more.tsv"], "dev": ["dev.tsv"]})


def test_the_front_matter_is_that_of_the_hub(card):
    _, front_matter, _ = card.split("---\n", 2)
    assert yaml.safe_load(front_matter) == {
        "library_name": "graphattn",
        "pipeline_tag": "text-classification",
        "tags": ["graphattn", "classify", "ms-trans"],
    }


def test_data_and_options(card, fitted, tmp_path):
    (data,) = read_tables(card, "Data")
    assert data == {"training": ["`train.tsv`, `more.tsv`", "30"], "dev": ["`dev.tsv`", "9"]}
    options = dict(re.findall(r"^- `(\w+)`: `(.*)`$", card, re.MULTILINE))
    assert options.keys() == fitted.changed_options().keys()
    assert (options["hidden"], options["vectors"]) == ("8", "small.txt")
    assert str(tmp_path.parent) not in card
    assert "Labels: `` neg \\| not `pos` ``, `pos`" in card


def test_dev_results_are_those_of_the_final_model(card, fitted):
    report = fitted.report(TEXTS[:9], [*LABELS[:8], "neg | not `pos`"])
    metrics, classes = read_tables(card, "Results on the dev set")
    bounds = report["confidence_interval"]
    assert metrics["accuracy"] == [f"{report['accuracy']:.2f}", f"{bounds['low']:.2f} to {bounds['high']:.2f}"]
    assert metrics["macro f1"] == [f"{report['macro_f1']:.2f}", ""]
    scores = report["classes"]["neg | not `pos`"]
    assert classes["neg \\| not \\`pos\\`"] == [
        *(f"{scores[name]:.2f}" for name in ("precision", "recall", "f1")),
        str(scores["support"]),
    ]


def test_results_of_a_held_out_dev_set_are_from_before_the_refit():
    """The linear branch is fitted to the dev set at last; its results then would be too good."""
    texts = [f"{'good' if number % 2 else 'bad'} film number {number}" for number in range(40)]
    labels = ["pos" if number % 3 else "neg" for number in range(40)]
    model = TextClassifier(TINY, training=TrainingOptions(epochs=2)).fit(texts, labels)
    assert model.mixture_, "the branch is used"
    metrics, _ = read_tables(model.make_card(), "Results on the dev set")
    assert {name: row[0] for name, row in metrics.items()} == {
        name.replace("_", " "): f"{value:.2f}" for name, value in model.dev_metrics().items()
    }


def test_results_are_added_or_replaced_and_other_text_stays(card):
    edited = card.replace("## Use", "## About\n\nWritten by us.\n\n## Use") + "\n## Licence\n\nOurs.\n"
    once = add_results(edited, "a_test.tsv", Report({"accuracy": 50.0}, "accuracy"))
    assert read_tables(once, "Results on a\\_test.tsv") == [{"accuracy": ["50.00", ""]}]
    twice = add_results(once, "a_test.tsv", Report({"accuracy": 75.0}, "accuracy"))
    assert twice == once.replace("50.00", "75.00")
    assert twice.count("Written by us.") == twice.count("## Licence\n\nOurs.") == 1
    assert add_results("# Ours\n", "x", Report({"accuracy": 75.0}, "accuracy")).startswith(
        "# Ours\n\n## Results on x\n"
    )


def test_a_loaded_model_keeps_its_card(fitted, tmp_path):
    report = fitted.report(TEXTS[:4], LABELS[:4])
    fitted.save(tmp_path / "model", results={"four": report})
    file = tmp_path / "model" / "README.md"
    file.write_text(file.read_text() + "\nOurs: 日本\n")
    again = load(tmp_path / "model").save(tmp_path / "again", results={"more": report})
    card = (again / "README.md").read_text()
    assert "## Results on four\n" in card
    assert "## Results on more\n" in card
    assert card.endswith("Ours: 日本\n")
    file.unlink()
    assert "## Results on the dev set\n" in load(tmp_path / "model").make_card(), "a model without a card gets one"


def test_a_loaded_model_keeps_its_other_files(fitted, tmp_path):
    """The settings, and the scores, which may be replaced."""
    fitted.save(tmp_path / "model", notes={"train.yaml": "epochs: 1", "metrics.json": "{}"})
    load(tmp_path / "model").save(tmp_path / "model", notes={"metrics.json": "[]"})
    texts = [(tmp_path / "model" / name).read_text() for name in ("train.yaml", "metrics.json")]
    assert texts == ["epochs: 1", "[]"]
    load(tmp_path / "model").fit(TEXTS, LABELS).save(tmp_path / "model")
    assert not (tmp_path / "model" / "train.yaml").exists()


def test_the_example_of_a_card_runs(fitted, tmp_path, monkeypatch, capsys):
    folder = fitted.save(tmp_path / "model")
    (script,) = re.findall(r"```python\n(.*?)```", set_name((folder / "README.md").read_text(), str(folder)), re.DOTALL)
    exec(script)
    assert capsys.readouterr().out == f"{fitted.predict(['a text'])}\n"


def test_a_new_fit_makes_a_new_card(fitted, tmp_path):
    model = load(fitted.save(tmp_path / "model"))
    model.card_ += "old"
    assert "old" not in model.set_params(training__dev_fraction=0).fit(TEXTS, LABELS).make_card()


def test_a_tagger_without_a_dev_set():
    model = SequenceTagger(TINY, training=TrainingOptions(epochs=1, dev_fraction=0))
    card = model.fit([["Ada", "saw", "Rome"]] * 4, [["B-PER", "O", "B-LOC"]] * 4).make_card()
    assert "pipeline_tag: token-classification\n" in card
    assert "Results" not in card


def test_decisions_are_those_of_the_saved_model(tmp_path):
    texts = [f"a {word} film of {number} scenes" for number in range(40) for word in ("good", "bad")]
    labels = [("pos",), ("neg", "long")] * 40
    training = TrainingOptions(epochs=2, label_smoothing=0.3, dev_fraction=0.5)
    model = TextClassifier(TINY, multilabel=True, training=training).fit(texts, labels)
    model.save(tmp_path / "model", notes={"train.yaml": "", "metrics.json": "{}"})
    model = load(tmp_path / "model")
    assert ("## Decisions\n" in model.card_) == (model.temperature_ != 1 or model.task_.head.thresholds is not None)
    assert "after training" not in model.card_

    model.set_thresholds({"pos": 0.25}).save(tmp_path / "changed")
    assert (tmp_path / "changed" / "train.yaml").exists()
    assert not (tmp_path / "changed" / "metrics.json").exists(), "its scores are those of the old thresholds"
    card = load(tmp_path / "changed").make_card()
    (thresholds,) = read_tables(card, "Decisions")
    assert thresholds == {name: [f"{share:.3f}"] for name, share in model.thresholds_.items()}
    assert "set after training" in card
    assert card.count("## Decisions\n") == 1
    assert card.index("## Decisions\n") < card.index("## Results on the dev set\n")

    card = model.set_thresholds(None).make_card()
    assert "threshold |" not in card
    assert "above 0.5" in card
