"""Flags, a YAML file and defaults become an estimator, for every task and encoder."""

import pytest
import typer
from typer.testing import CliRunner

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.flags import with_flags
from graphattn.experiments._cli.training_plan import RUN_DIR, TrainingPlan, training_flags
from graphattn.models import TASKS
from graphattn.models._encoders import ENCODERS, encoder_options
from graphattn.options import list_options


def plan(task, given, config=None):
    return TrainingPlan.of(TASKS[task], given, config)


@pytest.fixture
def config(tmp_path):
    def write(text):
        (tmp_path / "settings.yaml").write_text(text)
        return tmp_path / "settings.yaml"

    return write


@pytest.mark.parametrize("task", TASKS)
def test_each_option_of_the_task_and_of_all_encoders_is_one_flag(task):
    names = [flag.name for flag in training_flags(TASKS[task])]
    assert len(names) == len(set(names))
    groups = {name: kind for name, kind in TASKS[task].option_groups.items() if name != "encoder"}
    for options in (*(kind() for kind in groups.values()), *map(encoder_options, ENCODERS)):
        assert {flag.name for flag in list_options(options)} <= {*names, *TASKS[task].unused_options}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_without_flags_the_estimator_has_its_defaults(task, encoder):
    training_plan = plan(task, {"encoder": encoder})
    estimator, expected = training_plan.estimator(run_dir=None), TASKS[task](encoder)
    estimator.validate()
    assert estimator.resolve_options()["encoder"] == expected.resolve_options()["encoder"]
    expected.encoder = estimator.encoder
    assert estimator.get_params() == expected.get_params()
    assert training_plan.values["run_dir"] == RUN_DIR


def test_flags_reach_the_estimator():
    given = {"hidden": 20, "heads": 5, "scales": ("1", "7"), "epochs": 3, "characters": True, "crf": True}
    estimator = plan("tag", {**given, "scheme": "IOB2"}).estimator()
    assert (estimator.encoder.hidden, estimator.encoder.heads, estimator.encoder.scales) == (20, 5, ("1", "7"))
    assert (estimator.training.epochs, estimator.inputs.characters, estimator.head.crf) == (3, True, True)
    assert estimator.scheme == "IOB2"


def test_heads_by_relation_need_an_encoder_that_has_them(config):
    for encoder in ("ms-trans", "mtsa"):
        estimator = plan("classify", {"encoder": encoder, "heads": "window:3=4", "head_feats": 8}).estimator()
        assert estimator.encoder.num_heads == 4
    for given, file in (({"encoder": "umst", "heads": "window:3=4"}, None), ({"encoder": "umst"}, "heads: window:3=4")):
        with pytest.raises(ConfigError) as caught:
            plan("classify", given, file and config(file))
        assert str(caught.value) == "heads is 'window:3=4'; it must be a whole number"


@pytest.mark.parametrize(
    ("given", "several"),
    [({}, False), ({"multilabel": True}, True), ({"label_separator": "|"}, True), ({"label_column": "a,b"}, True)],
)
def test_a_separator_implies_several_labels(given, several):
    assert plan("classify", given).estimator().multilabel is several


def test_flags_override_the_file_and_the_file_overrides_defaults(config):
    values = plan("classify", {"epochs": 1}, config("epochs: 2\nseed: 3\n")).values
    assert (values["epochs"], values["seed"], values["batch_size"]) == (1, 3, 32)


def test_options_of_the_files_encoder_are_dropped_with_it(config):
    values = plan("classify", {"encoder": "transformer"}, config("scales: 1,3\nhidden: 20\n")).values
    assert "scales" not in values
    assert values["hidden"] == 20


def test_a_preset_changes_defaults_and_flags_override_it(config):
    small = plan("translate", {}).estimator().resolve_options()
    assert (small["encoder"].name, small["encoder"].hidden, small["training"].accumulate) == ("transformer", 256, 1)
    deep = plan("translate", {"preset": "deep", "encoder": "ms-trans", "hidden": 64}).estimator()
    options = deep.resolve_options()
    encoder = options["encoder"]
    assert (encoder.layers, encoder.hidden, encoder.heads) == (12, 64, 8)
    assert (options["decoder"].decoder_layers, options["training"].accumulate) == (6, 8)
    assert options["training"].learning_rate == 2e-3
    of_file = plan("translate", {"beam": 7}, config("preset: base\nlayers: 2\ndev: [val.en, val.de]\n"))
    options = of_file.estimator().resolve_options()
    assert (options["encoder"].hidden, options["encoder"].layers, options["search"].beam) == (512, 2, 7)
    assert of_file.values["dev"] == ("val.en", "val.de")


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
    app, used = typer.Typer(), {}

    @app.command()
    @with_flags(flag_values=training_flags(TASKS["translate"]))
    def train(flag_values: dict) -> None:
        used.update(flag_values)

    result = CliRunner().invoke(app, ["--encoder", encoder, *words.split()])
    assert result.exit_code == 0, result.output
    options = plan("translate", used).estimator().encoder.to_dict()
    assert used.pop("encoder") == options["name"] == encoder
    assert len(used) == words.count("--")
    assert {name: options[name] for name in used} == used


@pytest.mark.parametrize(
    ("task", "given", "text", "message"),
    [
        ("classify", {}, "crf: true", "there is no option 'crf'"),
        ("pair", {}, "multilabel: true", "there is no option 'multilabel'"),
        ("tag", {}, "pooling: max", "there is no option 'pooling'"),
        (
            "classify",
            {},
            "encoder: bilstm\nscales: 1,3\n",
            "scales is not an option of the encoder bilstm; ms-trans has",
        ),
    ],
)
def test_unknown_options(task, given, text, message, config):
    with pytest.raises(ConfigError) as caught:
        plan(task, given, config(text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "options"), [({"beam": 0}, ("beam",)), ({"hidden": 250, "heads": 5}, ("hidden", "decoder_heads"))]
)
def test_invalid_options(given, options):
    with pytest.raises(ConfigError) as caught:
        plan("translate", given).estimator().validate()
    assert caught.value.options == options
