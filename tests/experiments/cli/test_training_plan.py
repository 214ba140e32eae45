"""Plans of trainings: what flags, file and defaults come to, for every task and encoder."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.corpus_options import TASKS
from graphattn.experiments.cli.training_plan import RUN_DIR, TrainingPlan, training_flags
from graphattn.models import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.encoders import ENCODERS


@pytest.mark.parametrize("task", TASKS)
def test_names_of_flags_are_distinct(task):
    names = [flag.name for flag in training_flags(task)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_nothing_given_means_the_estimators_defaults(task, encoder):
    plan = TrainingPlan.of(task, {"encoder": encoder})
    plan.check()
    estimator = plan.estimator(run_dir=None)
    assert estimator.task == task
    assert estimator.resolved_encoder() == type(estimator)(encoder=encoder).resolved_encoder()
    assert estimator.inputs == InputOptions()
    assert estimator.head == HeadOptions()
    assert estimator.training == TrainingOptions()
    assert plan.values["run_dir"] == RUN_DIR


def test_given_options_reach_the_estimator():
    values = {"hidden": 20, "heads": 5, "scales": ("1", "7"), "epochs": 3, "characters": True, "crf": True}
    estimator = TrainingPlan.of("tag", {**values, "scheme": "IOB2", "class_weight": None}).estimator()
    assert (estimator.encoder.hidden, estimator.encoder.heads, estimator.encoder.scales) == (20, 5, ("1", "7"))
    assert (estimator.training.epochs, estimator.inputs.characters, estimator.head.crf) == (3, True, True)
    assert estimator.scheme == "IOB2"


@pytest.mark.parametrize(
    ("given", "several"), [({}, False), ({"multilabel": True}, True), ({"label_separator": "|"}, True)]
)
def test_a_separator_says_that_there_are_several_labels(given, several):
    assert TrainingPlan.of("classify", given).estimator().multilabel is several


@pytest.fixture
def config(tmp_path):
    def write(text):
        (tmp_path / "settings.yaml").write_text(text)
        return tmp_path / "settings.yaml"

    return write


def test_flags_win_over_the_file_and_the_file_over_defaults(config):
    plan = TrainingPlan.of("classify", {"epochs": 1}, config("epochs: 2\nseed: 3\n"))
    assert (plan.values["epochs"], plan.values["seed"], plan.values["batch_size"]) == (1, 3, 32)


def test_the_file_cannot_set_what_its_encoder_has_not(config):
    path = config("encoder: bilstm\nscales: 1,3\n")
    with pytest.raises(ConfigError) as error:
        TrainingPlan.of("classify", {}, path)
    assert str(error.value) == (
        f"{path}: scales is no option of the encoder bilstm; ms-trans has it. Leave it out, or choose another --encoder"
    )


def test_options_of_the_files_encoder_go_with_it(config):
    plan = TrainingPlan.of("classify", {"encoder": "transformer"}, config("scales: 1,3\nhidden: 20\n"))
    assert "scales" not in plan.values
    assert plan.values["hidden"] == 20


@pytest.mark.parametrize("task", TASKS)
def test_options_of_other_tasks_are_unknown(task, config):
    foreign = {"classify": "crf: true", "pair": "multilabel: true", "tag": "pooling: max"}[task]
    with pytest.raises(ConfigError, match="there is no option"):
        TrainingPlan.of(task, {}, config(foreign))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tune_vectors": True}, "--tune-vectors is of no use without --vectors; give that too, or leave it out"),
        ({"combine": "average"}, "--combine is of no use without --vectors; give that too, or leave it out"),
        (
            {"character_filters": 7},
            "--character-filters is of no use without --characters; give that too, or leave it out",
        ),
    ],
)
def test_options_of_what_is_not_there(given, message):
    with pytest.raises(ConfigError) as caught:
        TrainingPlan.of("tag", given).check()
    assert str(caught.value) == message
    TrainingPlan.of("tag", {**given, "vectors": ("v.txt",), "characters": True}).check()
