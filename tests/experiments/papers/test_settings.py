"""Options of the runs behind the result tables."""

import json
import re
from pathlib import Path

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._data_sets import DATA_SETS
from graphattn.experiments.papers._settings import NAMED_SETTINGS, VECTOR_FILES, make_estimator, settings
from graphattn.models import InputOptions, TextClassifier
from graphattn.models._encoders import ENCODERS, encoder_options
from graphattn.models._encoders.mtsa import MTSAOptions
from graphattn.models._estimators.tasks.recipes import STAR_TRANSFORMER
from graphattn.models._features.token_embedding import part_widths


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_settings_are_valid_and_fit_their_word_vectors(encoder):
    for data_set, corpus in DATA_SETS.items():
        groups = settings(data_set, encoder)
        assert json.dumps(groups)
        make_estimator(data_set, encoder, 0, {}, Path("data")).validate()
        if corpus.task != "translate":
            inputs = InputOptions(**groups["inputs"])
            widths = [int(re.search(r"(\d+)d", Path(file).name)[1]) for file in inputs.vectors]
            parts = part_widths(inputs, widths, characters=inputs.characters)
            encoder_options({"name": encoder, **groups["encoder"]}).for_parts(parts, of_files=True).validate()


def test_the_depth_of_taggers():
    assert settings("ewt", "mtsa")["encoder"]["layers"] == MTSAOptions.for_tagging().layers
    assert "layers" not in settings("sick", "mtsa")["encoder"]


def test_sets_of_word_vectors_by_name():
    assert settings("gcn-mr", "duo=twitter+twitter")["inputs"]["vectors"] == (VECTOR_FILES["twitter"],) * 2
    assert settings("gcn-mr", "duo")["inputs"]["vectors"] == (VECTOR_FILES["cbow"], VECTOR_FILES["skipgram"])
    with pytest.raises(ConfigError) as caught:
        settings("gcn-mr", "duo=elmo+cbow")
    assert str(caught.value) == (
        "there are no word vectors 'elmo'; choose among: cbow, skipgram, fasttext, googlenews, glove, glove_6b_100d, "
        "twitter"
    )
    assert VECTOR_FILES["glove_6b_100d"].startswith("embeddings_glove_6b_100d/")


@pytest.mark.parametrize(("data_set", "min_length"), [("multi30k", 0), ("scitldr", 5)])
def test_the_search_of_the_published_rows(data_set, min_length):
    """It does not follow the defaults, which have changed since."""
    search = make_estimator(data_set, "transformer", 0, {}, Path("data")).search
    assert (search.length_penalty, search.min_length) == (0.6, min_length)


@pytest.mark.parametrize("encoder", ["mtsa", "duo", "ms-trans"])
def test_the_published_rows_have_cls(encoder):
    assert make_estimator("mr", encoder, 0, {}, Path("data")).resolve_options()["inputs"].cls


def test_another_preset_changes_all_sizes():
    small, base = (
        make_estimator("multi30k", "umst", 0, {"task": {"preset": preset}}, Path("data")).resolve_options()
        for preset in ("small", "base")
    )
    assert (small["encoder"].hidden, small["decoder"].decoder_layers) == (256, 3)
    assert (base["encoder"].hidden, base["decoder"].decoder_layers, base["training"].accumulate) == (512, 6, 8)
    assert small["training"].epochs == base["training"].epochs


def test_named_settings_are_added_to_an_encoder():
    paper, sides = settings("sst5", "ms-trans"), settings("sst5", "ms-trans+sides")
    heads = sides["encoder"].pop("heads")
    assert sides == paper
    relations = encoder_options({"name": "ms-trans", "heads": heads}).head_relations()
    reach = [relation.name for relation in relations]
    assert reach == ["window:1", "window:5&forward", "window:5&backward", "window:N/4"]
    both = settings("sst5", "ms-trans+literal+star=glove")
    assert both["encoder"] == {"literal_radius": True, **STAR_TRANSFORMER["encoder"], "layers": 2}
    assert both["training"] == {**paper["training"], **STAR_TRANSFORMER["training"]}
    assert both["inputs"]["vectors"] == (VECTOR_FILES["glove"],)
    assert "layers" not in settings("sst5", "bilstm+star")["encoder"]


@pytest.mark.parametrize("name", NAMED_SETTINGS)
def test_named_settings_are_valid(name):
    for encoder in ("ms-trans", "transformer", "bilstm"):
        if encoder == "ms-trans" or NAMED_SETTINGS[name].keys() != {"encoders"}:
            make_estimator("conll2003", f"{encoder}+{name}", 0, {}, Path("data")).validate()


@pytest.mark.parametrize(
    ("data_set", "encoder", "message"),
    [
        (
            "sst5",
            "ms-trans+side",
            "there are no settings 'side' to add to ms-trans; did you mean 'sides'",
        ),
        ("sst5", "bilstm+sides", "the settings 'sides' are not for bilstm on sst5"),
        ("multi30k", "umst+star", "the settings 'star' are not for umst on multi30k"),
        ("sst5", "tfidf+star", "tfidf is a baseline; it has no settings"),
    ],
)
def test_named_settings_that_do_not_fit(data_set, encoder, message):
    with pytest.raises(ConfigError) as caught:
        settings(data_set, encoder)
    assert str(caught.value).startswith(message)


def test_a_default_run_has_the_options_of_an_estimator_with_its_vectors():
    """The defaults of training depend on whether there are vectors."""
    run = make_estimator("sst2", "default=glove", 0, {}, Path("data")).resolve_options()
    user = TextClassifier(inputs=InputOptions(vectors=run["inputs"].vectors)).resolve_options()
    expected = {group: options.to_dict() for group, options in user.items()}
    expected["training"] |= {"seed": 0, "progress": False}
    assert {group: options.to_dict() for group, options in run.items()} == expected
    without = make_estimator("sst2", "default", 0, {}, Path("data")).resolve_options()
    assert without["training"].patience != run["training"].patience
