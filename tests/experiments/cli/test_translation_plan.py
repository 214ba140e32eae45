"""Flags and files become a translator; presets change what nobody said."""

import pytest
import typer
from typer.testing import CliRunner

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.flags import flags_of, with_flags
from graphattn.experiments.cli.translation_plan import TranslationPlan, translation_flags
from graphattn.models import DecoderOptions, ParsingOptions, SearchOptions, SubwordOptions, TranslationTraining
from graphattn.models.encoders import ENCODERS, encoder_options


def test_every_option_is_a_flag_once():
    names = [flag.name for flag in translation_flags()]
    assert len(names) == len(set(names))
    groups = [SubwordOptions(), DecoderOptions(), TranslationTraining(), SearchOptions(), ParsingOptions()]
    for options in (*groups, *map(encoder_options, ENCODERS)):
        assert {flag.name for flag in flags_of(options)} <= set(names)


def test_the_preset_changes_defaults_and_flags_win():
    small = TranslationPlan.of({}).estimator()
    assert (small.encoder.name, small.encoder.hidden, small.training.accumulate) == ("transformer", 256, 1)
    deep = TranslationPlan.of({"preset": "deep", "encoder": "ms-trans", "hidden": 64}).estimator()
    assert (deep.encoder.layers, deep.encoder.hidden, deep.encoder.heads) == (12, 64, 8)
    assert (deep.decoder.decoder_layers, deep.training.accumulate, deep.training.learning_rate) == (6, 8, 2e-3)


def test_a_file_may_name_the_preset(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("preset: base\nlayers: 2\ndev: [val.en, val.de]\n")
    plan = TranslationPlan.of({"beam": 7}, path)
    estimator = plan.estimator()
    assert (estimator.encoder.hidden, estimator.encoder.layers, estimator.search.beam) == (512, 2, 7)
    assert plan.files.dev == ("val.en", "val.de")


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ("umst", "--no-class-embedding --no-intra-group"),
        ("umst", "--no-inter-group --groups shuffled --graph-layer gat"),
        ("umst", "--share-projections block --share-scores --arcs random"),
        ("umst", "--share-projections blocks --upsampling linear --normalize --relative-positions 4"),
        ("tnt", "--share-blocks"),
        ("duo-transformer", "--no-share-weights --no-duo-norm --no-fusion-layer"),
    ],
)
def test_rows_of_the_papers_tables_are_flags(encoder, words):
    app, found = typer.Typer(), {}

    @app.command()
    @with_flags(translation_flags())
    def train(given: dict) -> None:
        found.update(given)

    result = CliRunner().invoke(app, ["--encoder", encoder, *words.split()])
    assert result.exit_code == 0, result.output
    options = TranslationPlan.of(found).estimator().encoder.to_dict()
    assert found.pop("encoder") == options["name"] == encoder
    assert len(found) == words.count("--")
    assert {name: options[name] for name in found} == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam": 0}, "beam is 0; it must be at least 1"),
        ({"hidden": 250, "heads": 5}, "hidden is 250; it must be a multiple of decoder_heads (4)"),
        ({"scales": ("3",)}, "--scales is no option of the encoder transformer; ms-trans has it. Leave it out, or "),
    ],
)
def test_impossible_options(given, message):
    with pytest.raises(ConfigError) as caught:
        TranslationPlan.of(given).check()
    assert str(caught.value).startswith(message)
