"""Attention statistics of a pretrained model against the weights of ``transformers``."""

import numpy as np
import pytest
import torch

from graphattn import TextClassifier
from graphattn.models import TrainingOptions
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection._summary import summarise
from graphattn.models.pretrained._options import PretrainedOptions

TEXTS = ["a good film", "the plot", "b", "a bad plot of a good film"]
TRAINING = TrainingOptions(epochs=1, dev_fraction=0, progress=False, precision="32")


def summarise_frozen(folder, **options):
    pretrained = PretrainedOptions(str(folder), tuned_layers=0, **options)
    classifier = TextClassifier(pretrained=pretrained, training=TRAINING).fit(TEXTS, [*"abab"])
    return classifier, summarise(classifier, TEXTS)


def test_distances_of_each_head(make_reference, save_model):
    classifier, summary = summarise_frozen(save_model("bert"))
    reference = make_reference("bert")
    mass = np.zeros((3, 4, 40))  # layer, head, distance
    for text in TEXTS:
        ids = make_corpus(classifier, [text])[[0]].graph.node_features["token"]["id"][None].long()
        positions = torch.arange(ids.shape[1])
        distances = (positions[:, None] - positions).abs().flatten().numpy()
        for layer, weights in enumerate(reference(input_ids=ids, output_attentions=True).attentions):
            for head, rows in enumerate(weights[0].detach().flatten(1).numpy()):
                mass[layer, head] += np.bincount(distances, rows, minlength=40)
    mass /= mass.sum(2, keepdims=True)
    table = summary.distances()
    assert set(table.relation) == {"all"}
    found = np.zeros_like(mass)
    found[table.layer, table["head"], table.distance] = table.mass
    np.testing.assert_allclose(found, mass, atol=1e-5)
    means = summary.scales().set_index(["layer", "head"]).mean_distance
    expected = (mass * np.arange(40)).sum(2)
    np.testing.assert_allclose(
        [means[layer, head] for layer in range(3) for head in range(4)], expected.flatten(), 1e-3
    )


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_window_keeps_its_heads_near(save_model, family):
    _, summary = summarise_frozen(save_model(family), pretrained_heads="2:window:3=2,all=2")
    table = summary.distances()
    near = table[(table.layer == 2) & (table.relation == "window:3")]
    assert near[near.mass > 0].distance.max() == 1
    assert set(near["head"]) == {0, 1}
