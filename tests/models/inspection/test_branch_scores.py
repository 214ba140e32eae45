"""The numbers of the branches add up to the model's score of the class, for each task."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.models._estimators.inspectable import encode_input
from graphattn.models.inspection import BranchScores, summarise
from graphattn.models.inspection._branch_scores import SMALL_SHARE, note_small_share
from graphattn.models.inspection.attributions import word_attributions
from graphattn.models.inspection.attributions._targets import select_class


@pytest.fixture(scope="module")
def fit(corpus, tiny):
    """A model with a linear branch, or without one, and one of its inputs."""

    @cache
    def make(kind, branch=True):
        inputs, labels = corpus(kind)
        training = {"epochs": 1, "dev_fraction": 0.0}  # without dev set, no branch is left out
        model = tiny(kind, head={"linear_branch": branch}, training=training).fit(inputs, labels)
        return model, max(inputs, key=len)

    return make


def add_up(branches):
    return np.sum(list(branches.scores.values()), axis=0)


@pytest.mark.parametrize("kind", ["classifier", "pair"])
def test_of_a_class_they_add_up_to_its_log_odds_against_the_other(fit, kind):
    model, text = fit(kind)
    attention = model.attention(text)
    branches, probabilities = attention.branches, attention.probabilities
    (other,) = probabilities.keys() - {attention.prediction}
    assert branches.explains == f"log-odds of {attention.prediction} against {other}"
    assert list(branches.scores) == ["n-grams", "graph encoder"]
    expected = np.log(probabilities[attention.prediction] / probabilities[other])
    assert add_up(branches) == pytest.approx([expected], abs=1e-4)
    inputs = encode_input(model, text)
    with torch.no_grad():
        linear = model.model_.linear_branch(inputs.first_batch)[0]
    label, rival = (model.classes_.tolist().index(name) for name in (attention.prediction, other))
    assert branches.scores["n-grams"] == pytest.approx([float(linear[label] - linear[rival])], abs=1e-5)


def test_of_several_classes_the_most_probable_other_one_is_the_rival(fit):
    model, _ = fit("classifier")
    scores, linear = torch.tensor([[1.0, 3.0, 2.5]]), torch.tensor([[4.0, 0.5, 0.25]])
    target = select_class(model.model_.head, ["a", "b", "c"], scores)
    branches = target.divide(scores, {"n-grams": linear})
    assert branches == BranchScores("log-odds of b against c", {"n-grams": (0.25,), "graph encoder": (0.25,)})
    only = select_class(model.model_.head, ["a"], scores[:, :1])
    assert only.divide(scores[:, :1], {"n-grams": linear[:, :1]}) is None


def test_of_several_labels_the_most_probable_one_is_explained(fit):
    model, text = fit("multilabel")
    attention = model.attention(text)
    label = max(attention.probabilities, key=attention.probabilities.get)
    chance = attention.probabilities[label]
    assert attention.branches.explains == f"log-odds of {label}"
    assert add_up(attention.branches) == pytest.approx([np.log(chance / (1 - chance))], abs=1e-4)


@pytest.mark.parametrize("kind", ["regressor", "pair regressor"])
def test_of_a_regressor_they_add_up_to_the_difference_from_the_mean(fit, kind):
    model, text = fit(kind)
    (branches, prediction) = model.attention(text).branches, model.predict([text])[0]
    assert branches.explains.startswith("the predicted value minus the mean of ")
    assert add_up(branches) + model.explainer_.mean == pytest.approx([prediction], abs=1e-5)


def test_of_a_tagger_they_add_up_to_the_ratio_of_marginals_of_each_word(fit):
    model, words = fit("crf")
    attention = model.attention(words)
    branches = attention.branches
    assert list(branches.scores) == ["word features", "graph encoder", "neighbouring tags"]
    assert str(branches).startswith(f"log-odds of each tag against the next best, mean of {len(words)} words: word ")
    decided = model.classes_[model.predict_details([words]).decisions[0]]  # before tags of entities are repaired
    expected = []
    for tag, chances in zip(decided, attention.probabilities, strict=True):
        rival = max(chance for name, chance in chances.items() if name != tag)
        expected.append(np.log(chances[tag] / rival))
    assert add_up(branches) == pytest.approx(expected, abs=1e-3)
    of_word = word_attributions(model, words, word=1, steps=1).branches
    assert of_word.explains.startswith(f"log-odds of {decided[1]} against ")
    assert add_up(of_word) == pytest.approx(expected[1:2], abs=1e-3)


def test_attributions_have_those_of_their_label(fit):
    model, text = fit("classifier")
    words = {label: word_attributions(model, text, label=label, steps=1) for label in ("good", "bad")}
    for label, explained in words.items():
        assert explained.branches.explains.startswith(f"log-odds of {label} against")
        assert add_up(explained.branches) == pytest.approx([explained.value], abs=1e-4)
        assert str(explained.branches) in explained._repr_html_()


@pytest.mark.parametrize("kind", ["classifier", "crf"])
def test_without_a_linear_branch_there_is_nothing_to_divide(fit, kind):
    model, text = fit(kind, branch=False)
    attention = model.attention(text)
    assert attention.branches is None
    assert attention.to_page()["branches"] is None
    assert word_attributions(model, text, steps=1).branches is None
    assert "graph encoder" not in attention._repr_html_()


def test_a_translator_has_no_linear_branch(translators, source):
    assert translators("transformer").attention(source).branches is None


@pytest.mark.parametrize("kind", ["classifier", "pair", "multilabel", "regressor", "crf"])
def test_a_summary_adds_up_the_numbers_of_all_texts(kind, fit, corpus):
    model, _ = fit(kind)
    texts = [text for text in corpus(kind)[0] if len(text)][:5]
    table = summarise(model, texts).branches().set_index("branch")
    numbers = [model.attention(text).branches.scores for text in texts]
    sizes = {name: np.abs(np.concatenate([scores[name] for scores in numbers])) for name in numbers[0]}
    assert table.index.tolist() == list(sizes)
    assert table["size"].to_dict() == pytest.approx({name: own.mean() for name, own in sizes.items()}, rel=1e-4)
    total = sum(own.sum() for own in sizes.values())
    assert table.share.to_dict() == pytest.approx({name: own.sum() / total for name, own in sizes.items()}, rel=1e-4)


def test_a_summary_of_a_model_without_a_linear_branch_has_no_branches(fit):
    model, text = fit("classifier", branch=False)
    assert summarise(model, [text]).branches().empty


def test_tables_in_files_have_the_share_of_the_encoder(fit, tmp_path):
    model, text = fit("classifier")
    attention = model.attention(text)
    saved = pd.read_csv(attention.save(tmp_path / "edges.csv"))
    assert saved.encoder_share.unique() == pytest.approx([attention.branches.encoder_share])
    without, _ = fit("classifier", branch=False)
    assert "encoder_share" not in pd.read_csv(without.attention(text).save(tmp_path / "edges.csv"))


def test_a_small_share_is_noted():
    small = BranchScores("log-odds of a against b", {"n-grams": (3.0,), "graph encoder": (-0.2,)})
    large = BranchScores("log-odds of a against b", {"n-grams": (-1.0,), "graph encoder": (1.0,)})
    assert small.encoder_share == pytest.approx(1 / 16)
    assert small.encoder_share < SMALL_SHARE < large.encoder_share
    assert "gives 6 % of this score; graphattn train --no-linear-branch" in small.note
    assert small.lines() == [str(small), small.note]
    assert (large.note, large.lines()) == ("", [str(large)])
    assert "gives 8 % of the scores of 3 texts" in note_small_share(
        [small, small, None, BranchScores("", {"n-grams": (1.0,), "graph encoder": (0.2,)})]
    )
    assert note_small_share([small, large]) == note_small_share([None]) == ""
    nothing = BranchScores("log-odds of a against b", {"n-grams": (9.0,), "graph encoder": (0.0,)})
    assert "less than 1 %" in nothing.note


def test_plain_values(fit):
    model, text = fit("classifier")
    branches = model.attention(text).branches
    values = model.attention(text).to_page()["branches"]
    assert list(values) == ["explains", "scores", "encoder_share", "text", "note"]
    assert (values["text"], values["note"]) == (str(branches), branches.note)
    assert values["scores"]["n-grams"] == pytest.approx(list(branches.scores["n-grams"]), abs=1e-6)


def test_a_notebook_shows_the_lines(fit):
    model, text = fit("classifier")
    attention = model.attention(text)
    assert "<br>".join(attention.branches.lines()) in attention._repr_html_()
