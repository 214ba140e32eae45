"""Pictures of figures."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._catalogue import find_experiments
from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._figures import collect_panels, draw_experiment

ROWS = tuple(Row(f"{model} / {x}", "cr", model) for model in ("bilstm", "duo") for x in (10, 20))
FIGURE = Experiment("some", "figure 1", "", ROWS, ("mse",), curves="K")


def test_curves_are_means_over_seeds():
    found = {"bilstm / 10": [{"mse": 1.0}, {"mse": 2.0}], "bilstm / 20": [{"mse": 4.0}], "duo / 10": [], "duo / 20": []}
    assert collect_panels(FIGURE, found) == {"test MSE": {"bilstm": [(10.0, 1.5), (20.0, 4.0)]}}
    figure = draw_experiment(FIGURE, found)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["bilstm"]


def test_epochs_are_a_curve_of_each_row():
    (table,) = find_experiments("duo", table="8")
    history = [{"dev_bleu": 1.0, "dev_perplexity": 9.0}, {"dev_bleu": 2.0, "dev_perplexity": 7.0}]
    found = {"Transformer": [{"by_epoch": history}], "Duo": []}
    assert collect_panels(table, found) == {"dev perplexity": {"Transformer": [(1.0, 9.0), (2.0, 7.0)]}}


def test_distances_have_panels_of_heads_and_layers():
    (figure,) = find_experiments("ms-trans", figure="3")
    shares = {"heads": {"0 (window:3)": [0.5, 0.5]}, "layers": {"1": [0.25, 0.75]}}
    panels = collect_panels(figure, {"MS-Trans": [{"attention_distances": shares}], "Transformer": []})
    assert panels == {
        "MS-Trans, heads": {"0 (window:3)": [(0.0, 50.0), (1.0, 50.0)]},
        "MS-Trans, layers": {"1": [(0.0, 25.0), (1.0, 75.0)]},
    }


def test_nothing_to_draw():
    with pytest.raises(ConfigError, match="some figure 1 has no results to draw yet; run it first"):
        draw_experiment(FIGURE, {})
    (table,) = find_experiments("duo", table="1")
    with pytest.raises(ConfigError, match="duo table 1 is not drawn"):
        draw_experiment(table, {})
