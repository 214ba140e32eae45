"""Modules of ``--import``: their registrations are available, and their errors are reported."""

import json
import sys
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from graphattn.builders.readers._formats import FORMATS
from graphattn.builders.relations._names import RELATION_NAMES
from graphattn.experiments._cli.bench import BENCHMARKS
from graphattn.experiments._cli.main import USER_COMMANDS
from graphattn.experiments._cli.user_modules import find_values
from graphattn.models import TASKS, load
from graphattn.models._encoders import ENCODERS
from graphattn.models._options import INPUTS as LEVELS

RELATIONS = """
import numpy as np
from graphattn.builders import RangeRelation
from graphattn.builders.relations import register_relation

class Before(RangeRelation):
    def __init__(self, reach):
        self.reach, self.name = reach, f"before:{reach}"

    def bounds(self, layout):
        tokens = np.arange(layout.num_tokens)
        return tokens - np.minimum(layout.positions, self.reach), tokens + 1

register_relation("before:REACH", lambda reach: Before(int(reach)))
"""
ENCODER = """
from dataclasses import dataclass
from graphattn.builders import Window
from graphattn.models import Encoder, EncoderOptions, register_encoder
from graphattn.options import option

@dataclass
class Options(EncoderOptions):
    name = "still"
    stillness: int = option(7, "how still it is")

class Still(Encoder):
    def __init__(self, options):
        super().__init__()
        self.width = options.hidden

    def relations(self):
        return [Window(1)]

    def forward(self, graph, tokens, *, weights=None):
        return tokens

register_encoder(Options, Still)
"""
TASK = """
from graphattn import TextClassifier, register_task
from graphattn.models import Classification

class Moods(Classification):
    name = "mood"

@register_task
class MoodClassifier(TextClassifier):
    \"\"\"Train a classifier of moods.\"\"\"
    task = Moods
"""


READER = """
from graphattn.builders import Example
from graphattn.builders.readers import read_numbered_lines, register_reader

def read_stars(path):
    for number, line in read_numbered_lines(path):
        yield Example(line.rstrip("*"), label=str(line.count("*")))

register_reader("stars", read_stars, tasks=["classify"], extensions=[".stars"])
"""
INPUTS = """
from tokenizers import Tokenizer, models, pre_tokenizers
from graphattn import register_inputs
from graphattn.builders import Vocabulary
from graphattn.models import WordInputs

class ByteInputs(WordInputs):
    def fit(self, columns, seed):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.vocabulary = Vocabulary(tokenizer)
        return columns

register_inputs("byte", ByteInputs)
"""
BENCHMARK = """
from graphattn import register_benchmark
from graphattn.experiments.benchmarks import TIMES, BenchmarkReport, Job, column, time_jobs

def measure(settings):
    \"\"\"How long summing takes.

    In Python.\"\"\"
    jobs = {f"{length}": Job(lambda _, length=int(length): sum(range(length))) for length in settings.lengths}
    columns = {"numbers": column("numbers"), **TIMES}
    times = time_jobs(jobs, settings, base=settings.lengths[0])
    return BenchmarkReport("sums", "", columns, settings, [{"numbers": name} | row for name, row in times.items()])

register_benchmark("sums", measure, lengths=["10", "1000"], quick=["10"])
"""
COMMAND = """
from graphattn import register_command
from graphattn.exceptions import DataError

@register_command
def say_hello(name: str, times: int = 1) -> None:
    \"\"\"Greet someone.\"\"\"
    if times < 1:
        raise DataError("there is nothing to say")
    print(f"hello {name}\\n" * times, end="")
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty working folder; imports and registrations of a test are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    with ExitStack() as stack:
        for registry in (RELATION_NAMES, ENCODERS, TASKS, FORMATS, LEVELS, BENCHMARKS, USER_COMMANDS):
            stack.enter_context(patch.dict(registry))
        yield tmp_path
    for name in {"mine", "project", "project.encoder"} - known:
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_a_custom_task_is_trained_and_evaluated(graphattn, folder, corpora_folder, tiny):
    (folder / "mine.py").write_text(TASK)
    reviews = corpora_folder / "reviews.tsv"
    train = ("train", "mood", reviews, *tiny, "--out", "model")
    assert graphattn(*train).code == 2
    listed = graphattn("--import", "mine", "train", "--help")
    assert "Train a classifier of moods." in listed.out
    answer = graphattn("--import", "mine", *train)
    assert answer.code == 0, answer.err
    row = json.loads(graphattn("--import", "mine", "predict", "model", stdin="a good film\n").out)
    assert row.keys() == {"text", "label"}
    assert "accuracy" in json.loads(graphattn("--import", "mine", "evaluate", "model", reviews).out)
    assert "classifies texts" in graphattn("--import", "mine", "info", "model").out

    TASKS.pop("mood")  # as in a new process
    sys.modules.pop("mine")
    answer = graphattn("predict", "model", stdin="a good film\n")
    assert (answer.code, answer.out) == (1, "")
    assert "task 'mood'; known tasks are classify, pair, tag, regress, regress-pair, translate. " in answer.err
    assert "graphattn --import MODULE" in answer.err


@pytest.mark.slow
def test_a_custom_reader_in_training_and_prediction(graphattn, folder, tiny):
    (folder / "mine.py").write_text(READER)
    (folder / "reviews.txt").write_text("a good film**\na bad film*\n" * 8)
    train = ("train", "classify", "reviews.txt", "--format", "stars", *tiny, "--out", "model")
    answer = graphattn(*train)
    assert (answer.code, "there is no format 'stars'. Set --format to one of 'conll', " in answer.err) == (1, True)
    for command in (train, ("evaluate", "model", "reviews.txt", "--format", "stars"),
                    ("build", "reviews.txt", "--format", "stars", "--out", "store")):  # fmt: skip
        answer = graphattn("--import", "mine", *command)
        assert answer.code == 0, answer.err
    (folder / "new.stars").write_text("a film*\n")
    answer = graphattn("--import", "mine", "predict", "model", "new.stars")
    assert json.loads(answer.out)["text"] == "a film", answer.err
    answer = graphattn("--import", "mine", "evaluate", "model", "reviews.txt", "--format", "starz")
    assert "'stars'" in answer.err


@pytest.mark.slow
def test_custom_inputs_are_trained_and_loaded(graphattn, folder, corpora_folder, tiny):
    (folder / "mine.py").write_text(INPUTS)
    train = ("train", "classify", corpora_folder / "reviews.tsv", *tiny, "--level", "byte", "--out", "model")
    assert "level" in graphattn(*train).err
    answer = graphattn("--import", "mine", *train)
    assert answer.code == 0, answer.err
    predict = ("predict", "model", "--probabilities")
    whole = graphattn("--import", "mine", *predict, stdin="a café\n")
    assert json.loads(whole.out)["text"] == "a café"
    assert load("model").attention("a é").tokens == {"text": ("[CLS]", "a", "Ġ", "Ã", "©")}  # "Ġ" is the blank

    LEVELS.pop("byte")  # as in a new process
    sys.modules.pop("mine")
    answer = graphattn(*predict, stdin="a café\n")
    assert (answer.code, answer.out) == (1, "")
    assert "the inputs 'byte', which is not registered. Call register_inputs before" in answer.err
    assert graphattn("--import", "mine", *predict, stdin="a café\n").out == whole.out


def test_a_custom_benchmark(graphattn, folder):
    (folder / "mine.py").write_text(BENCHMARK)
    assert "How long summing takes. " in graphattn("--import", "mine", "bench", "--help").out
    answer = graphattn("--import", "mine", "bench", "sums", "--quick", "--out", "figures")
    assert (answer.code, answer.err) == (0, "")
    assert [row["numbers"] for row in json.loads((folder / "figures" / "sums.json").read_text())["rows"]] == ["10"]
    answer = graphattn("--import", "mine", "bench", "sums", "--repeats", "2")
    assert [line.split(" | ")[0] for line in answer.out.splitlines()[-2:]] == ["| 10", "| 1000"]


def test_a_custom_command(graphattn, folder):
    (folder / "mine.py").write_text(COMMAND)
    assert graphattn("say-hello", "you").code == 2
    assert "Greet someone." in graphattn("--import", "mine", "--help").out
    assert "--times" in graphattn("say-hello", "--help", "--import", "mine").out
    assert graphattn("say-hello", "you", "--times", "2", "--import", "mine").out == "hello you\nhello you\n"
    answer = graphattn("--import", "mine", "say-hello", "you", "--times", "0")
    assert (answer.code, answer.err) == (1, "error: there is nothing to say\n")


@pytest.mark.parametrize(
    ("module", "name", "other", "message"),
    [
        (INPUTS, '"byte"', '"bpe"', "inputs 'bpe' exist already (graphattn.models._estimators.word_inputs)"),
        (BENCHMARK, '"sums", measure', '"encoder", measure', "the benchmark 'encoder' exists already"),
        (COMMAND, "say_hello", "train", "the command 'train' exists already"),
    ],
)
def test_a_name_of_the_package_is_rejected(graphattn, folder, module, name, other, message):
    (folder / "mine.py").write_text(module.replace(name, other))
    answer = graphattn("--import", "mine", "info", "store")
    assert (answer.code, f"{message}; choose another name" in answer.err) == (1, True), answer.err


@pytest.mark.slow
def test_a_custom_relation_in_training_and_prediction(graphattn, folder, corpora_folder, tiny):
    (folder / "mine.py").write_text(RELATIONS)
    more = ("--heads", "4", "--relations", "before:2:2", "--out", "model")
    train = ("train", "classify", corpora_folder / "reviews.tsv", *tiny, *more)
    answer = graphattn(*train)
    assert (answer.code, "there is no relation 'before:2'" in answer.err) == (1, True)
    answer = graphattn("--import", "mine", *train)
    assert answer.code == 0, answer.err
    assert json.loads((folder / "model" / "config.json").read_text())["encoder"]["relations"] == ["before:2:2"]
    whole = graphattn("--import", "mine", "predict", "model", stdin="a good film\n")
    assert json.loads(whole.out)["text"] == "a good film"

    for known, name in ((RELATION_NAMES, "before"), (sys.modules, "mine")):  # as in a new process
        known.pop(name)
    answer = graphattn("predict", "model", stdin="a good film\n")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: model is a model with the relation 'before:2', which is not registered. Call register_relation before "
        "you load it; on the command line, name the module that does so: graphattn --import MODULE ...\n"
    )
    assert graphattn("--import", "mine", "predict", "model", stdin="a good film\n").out == whole.out


def test_a_store_keeps_the_name_of_a_custom_relation(graphattn, folder, corpora_folder):
    (folder / "mine.py").write_text(RELATIONS)
    build = ("build", corpora_folder / "reviews.tsv", "--relations", "before:2", "--jobs", "2", "--out", "store")
    answer = graphattn("--import", "mine", *build)
    assert answer.code == 0, answer.err
    assert "before:2: " in answer.out
    assert graphattn("--import", "mine", "show", "store", "--picture", "graph.png").code == 0


@pytest.mark.parametrize(
    ("jobs", "body", "message"),
    [
        (2, "return 1 / 0", "fails with ZeroDivisionError: division by zero"),
        (1, "return np.zeros(tokens.shape, int), np.full(tokens.shape, len(tokens))", "an edge leads from one sent"),
    ],
)
def test_an_invalid_relation_leaves_no_store(graphattn, folder, corpora_folder, body, message, jobs):
    wrong = RELATIONS.replace("return tokens - np.minimum(layout.positions, self.reach), tokens + 1", body)
    assert body in wrong
    (folder / "mine.py").write_text(wrong)
    build = ("build", corpora_folder / "reviews.tsv", "--relations", "before:2", "--jobs", jobs, "--out", "store")
    answer = graphattn("--import", "mine", *build)
    assert answer.error.startswith("relation 'before:2'")
    assert message in answer.err


@pytest.mark.parametrize("place", range(5))
def test_modules_are_imported_wherever_the_flag_is(graphattn, folder, place):
    """The flag may be before or after the command, and before or after flags that the module adds."""
    (folder / "mine.py").write_text(ENCODER)
    words = ["train", "classify", "--encoder", "still", "--help"]
    words[place:place] = ["--import=mine"] if place % 2 else ["--import", "mine"]
    if place == 3:  # an option's value cannot be a flag
        words = ["train", "classify", "--encoder=still", "--import", "mine", "--help"]
    answer = graphattn(*words)
    assert answer.code == 0, answer.err
    assert "how still it is" in answer.out
    assert "--epochs" not in answer.out


def test_the_flag_needs_a_module(graphattn):
    assert graphattn("info", "model", "--import").code == 2


def test_arguments_after_two_dashes_are_not_flags():
    assert find_values("--import", ["info", "--", "--import", "x"]) == ([], ["info", "--", "--import", "x"])


def test_a_custom_encoder_has_flags(graphattn, folder, monkeypatch, corpora_folder):
    package = folder / "project"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "encoder.py").write_text(ENCODER)
    monkeypatch.setenv("GRAPHATTN_IMPORT", "project.encoder")
    flags = ("--encoder", "still", "--stillness", "9", "--epochs", "1", "--no-logs", "--out", "model")
    answer = graphattn("train", "classify", corpora_folder / "reviews.tsv", *flags)
    assert answer.code == 0, answer.err
    assert json.loads((folder / "model" / "config.json").read_text())["encoder"]["stillness"] == 9


def test_modules_of_the_flag_and_the_variable_are_imported(graphattn, folder, monkeypatch, corpora_folder):
    (folder / "mine.py").write_text(RELATIONS)
    (folder / "project.py").write_text(RELATIONS.replace("before", "until"))
    show = ("show", corpora_folder / "reviews.tsv", "--relations", "before:1,until:2", "--picture", "graph.png")
    monkeypatch.setenv("GRAPHATTN_IMPORT", "mine")
    assert graphattn("--import", "project", *show).code == 0
    monkeypatch.setenv("GRAPHATTN_IMPORT", "mine, project")
    assert graphattn(*show).code == 0


def test_another_module_does_not_replace_a_relation(graphattn, folder):
    (folder / "mine.py").write_text(RELATIONS)
    (folder / "project.py").write_text(RELATIONS)
    answer = graphattn("--import", "mine", "--import", "mine", "--import", "project", "info", "store")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"error: importing project fails in {folder}/project.py, line 14: ConfigError: relation 'before' is registered "
        "by mine.<lambda>; register project.<lambda> under another name\n"
    )


def test_installed_modules_have_priority_over_the_folder(graphattn, folder):
    (folder / "colorsys.py").write_text("raise ValueError")
    assert graphattn("--import", "colorsys", "info", "nowhere").err.startswith("error: nowhere")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.py", "", "--import takes the name of a module, such as my_relations, not 'mine.py'"),
        ("a/mine", "", "--import takes the name of a module, such as my_relations, not 'a/mine'"),
        ("not_there", "", "there is no module 'not_there', neither in this folder nor installed"),
        ("mine.inner", "", "there is no module 'mine.inner', neither in this folder nor installed"),
        (
            "mine",
            "\nimport nothing_of_it",
            "importing mine fails in {}/mine.py, line 2: ModuleNotFoundError: No module named 'nothing_of_it'",
        ),
        ("mine", "a =", "importing mine fails in {}/mine.py, line 1: SyntaxError: invalid syntax"),
        ("mine", "\nraise SyntaxError('odd')", "importing mine fails in {}/mine.py, line 2: SyntaxError: odd"),
        (
            "mine",
            "import json\njson.loads('')",
            "importing mine fails in {}/mine.py, line 2: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        ),
        ("mine", "class Odd(BaseException): pass\nraise Odd(1)", "importing mine fails in {}/mine.py, line 2: Odd: 1"),
        ("mine", "raise SystemExit(0)", "importing mine fails in {}/mine.py, line 1: SystemExit: 0"),
        ("mine", "\n\na = 1 / 0", "importing mine fails in {}/mine.py, line 3: ZeroDivisionError: division by zero"),
    ],
)
def test_modules_that_cannot_be_imported(name, text, message, graphattn, folder):
    (folder / "mine.py").write_text(text)
    answer = graphattn("--import", name, "info", "store")
    assert (answer.code, answer.out, answer.err) == (1, "", f"error: {message.format(folder)}\n")


def test_a_module_that_exits_is_an_error(graphattn, folder):
    (folder / "mine.py").write_text(
        "from graphattn import register_reader\n\n"
        "def read(path):\n    raise SystemExit(0)\n    yield\n\n"
        "register_reader('mine', read, extensions=['.mine'])\n"
    )
    (folder / "corpus.mine").write_text("a\n")
    answer = graphattn("--import", "mine", "train", "classify", "corpus.mine", "--out", "model")
    assert answer.error == f"train fails in {folder}/mine.py, line 4: SystemExit: 0"
