"""What all functions that draw share: the figure they return, the file they write, and their errors."""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from graphattn.builders import Sentence, TextGraphBuilder, Window
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments import drawing
from graphattn.experiments.drawing._curves import Panel, draw_panels
from graphattn.experiments.drawing._sentence_picture import draw_sentence
from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._figures import draw_experiment
from graphattn.models._results.coverage import Coverage
from graphattn.models._results.reports import ClassProbabilities, Outcomes
from graphattn.models.inspection import summarise
from graphattn.models.inspection.attributions import word_attributions

CURVES = {"a": [(1.0, 2.0), (10.0, 3.0)]}
FIGURE = Experiment("some", "figure 1", "", (Row("duo / 10", "cr", "duo"),), ("mse",), curves="K")
PROBABILITIES = ClassProbabilities.of(
    ["x", "y"], list(np.array([[0.9, 0.1], [0.4, 0.6]])), ["x", "y"], multilabel=False
)
SENTENCE = Sentence(["time", "flies"], heads=[2, 0], deprels=["nsubj", "root"])

DRAWINGS = {
    "draw_arcs": lambda model, *path: drawing.draw_arcs(model.attention(["dogs", "bark"]), *path),
    "draw_confusion": lambda _, *path: drawing.draw_confusion(Outcomes.of([(0, "x", "y")], 1, ["x", "y"]), *path),
    "draw_coverage": lambda _, *path: drawing.draw_coverage(Coverage.of([0.9, 0.8, 0.6], [True, True, False]), *path),
    "draw_distances": lambda model, *path: drawing.draw_distances(summarise(model, [["dogs", "bark"]]), *path),
    "draw_graph": lambda _, *path: drawing.draw_graph(
        TextGraphBuilder([Window(3)]).text_batch([SENTENCE]), SENTENCE, *path
    ),
    "draw_matrices": lambda model, *path: drawing.draw_matrices(model.attention(["dogs", "bark"]), *path),
    "draw_probability_curves": lambda _, *path: drawing.draw_probability_curves(PROBABILITIES, *path),
    "draw_words": lambda model, *path: drawing.draw_words(word_attributions(model, ["dogs", "bark"], steps=2), *path),
    "draw_sentence": lambda _, *path: draw_sentence(["time", "flies"], {"dependency": [(0, 1), (1, 0)]}, *path),
    "draw_panels": lambda _, *path: draw_panels([Panel("costs", "tokens", CURVES)], *path, logarithmic=True),
    "draw_experiment": lambda _, *path: draw_experiment(FIGURE, {"duo / 10": [{"mse": 1.0}]}, *path),
}
"""Name of a function -> a call of it, with a model and perhaps a path."""


@pytest.fixture(params=DRAWINGS)
def draw(request, classifier):
    """Draws something, to a path if it gets one."""
    return lambda *path: DRAWINGS[request.param](classifier, *path)


def test_all_functions_are_tested():
    assert set(drawing.__all__) <= set(DRAWINGS)


@pytest.mark.slow
def test_without_a_path_a_figure_is_shown_and_nothing_is_written(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(matplotlib.rcParams)
    figure = draw()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG"), "the image that notebooks ask for"
    assert not [*tmp_path.iterdir()]
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "suffix"),
    [*((name, "svg") for name in DRAWINGS), ("draw_arcs", "png"), ("draw_arcs", "PDF")],
    indirect=["draw"],
)
def test_files_are_those_of_the_figure_and_the_same_each_time(draw, suffix, tmp_path):
    figure = draw(first := tmp_path / "new" / "folder" / f"a.{suffix}")
    assert isinstance(figure, Figure)
    with matplotlib.rc_context({"text.usetex": True, "savefig.bbox": "tight", "font.size": 30, "lines.linewidth": 9}):
        draw(os.fspath(tmp_path / f"b.{suffix}"))
    content = first.read_bytes()
    assert (tmp_path / f"b.{suffix}").read_bytes() == content
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    if suffix == "svg":
        assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    else:
        assert content.startswith(b"\x89PNG" if suffix == "png" else b"%PDF-")


@pytest.mark.parametrize("name", ["graph.gif", "graph", "graph.png.txt"])
def test_other_suffixes_are_errors(draw, name, tmp_path):
    with pytest.raises(ConfigError) as caught:
        draw(tmp_path / name)
    assert str(caught.value) == f"cannot draw to '{name}'; the name must end in .png, .svg or .pdf"
    assert not list(tmp_path.iterdir())


def test_unwritable_files(draw, tmp_path):
    path = Path(tmp_path / "file" / "a.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as caught:
        draw(path)
    assert str(caught.value).startswith(f"{path}: cannot write the picture: ")
