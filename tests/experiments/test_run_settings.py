"""Options of the runs behind the result tables."""

import json

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.data_sets import DATA_SETS
from graphattn.experiments.run_settings import SETS, settings
from graphattn.models import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.encoders import ENCODERS, encoder_options


@pytest.mark.parametrize("data_set", DATA_SETS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_settings_are_options_that_exist(data_set, encoder):
    groups = settings(data_set, encoder)
    encoder_options({"name": encoder, **groups["encoder"]}).check()
    for options, group in (
        (InputOptions, "inputs"),
        (HeadOptions, "head"),
        (TrainingOptions, "training"),
    ):
        options(**groups[group]).check()
    assert json.dumps(groups)


def test_sets_of_word_vectors_by_name():
    assert settings("gcn-mr", "duo=twitter+twitter")["inputs"]["vectors"] == (SETS["twitter"],) * 2
    assert settings("gcn-mr", "duo")["inputs"]["vectors"] == (SETS["cbow"], SETS["skipgram"])
    with pytest.raises(ConfigError) as caught:
        settings("gcn-mr", "duo=glove+cbow")
    assert str(caught.value) == (
        "there are no word vectors 'glove'; choose among: cbow, skipgram, fasttext, googlenews, twitter"
    )
