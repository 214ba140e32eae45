"""The command line as a whole: help, versions, exit codes, and interruptions."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import fields

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import graphattn as package
from graphattn.exceptions import DataError, GraphAttnWarning
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.main import COMMANDS, app, main, print_plain_warnings
from graphattn.models import TextClassifier
from graphattn.models._encoders import ENCODERS, encoder_options


def list_commands(command, path=()):
    """Yield the path of each command, and the command."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            called = command.resolve_command(typer.Context(command), [name])[1]
            yield from list_commands(called, (*path, name))
    else:
        yield path, command


MAIN = get_command(app)
ALL_COMMANDS = dict(list_commands(MAIN))


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_lists_the_commands_in_order(graphattn, words):
    answer = graphattn(*words)
    names = re.findall(r"^\W*(demo|train|evaluate|predict|build) ", answer.out + answer.err, re.MULTILINE)
    assert names == ["demo", "train", "evaluate", "predict", "build"]


def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help():
    for name, summary in COMMANDS.items():
        command = MAIN.resolve_command(typer.Context(MAIN), [name])[1]
        assert command.help.partition("\n\n")[0] == summary
        assert "\n" not in command.help.replace("\n\n", ""), "the help wraps a paragraph"


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples_of_flags_that_exist(graphattn, path):
    answer, name = graphattn(*path, "--help"), f"graphattn {' '.join(path)}"
    assert answer.code == 0
    assert re.search(rf"{name}\b", answer.out.partition("Options")[2]), "no example below the options"
    command = ALL_COMMANDS[path]
    known = {word for parameter in command.params for word in [*parameter.opts, *parameter.secondary_opts]}
    examples = [line for line in command.epilog.split("\n") if name in line]
    assert set(re.findall(r"(?<!\S)--[\w-]+", " ".join(examples))) <= known


def test_our_warnings_print_one_line(graphattn, tmp_path, monkeypatch):
    def warn(_):
        warnings.warn("something\nelse", GraphAttnWarning, stacklevel=1)
        raise DataError("no store")

    monkeypatch.setattr("graphattn.builders.store.Store", warn)
    (tmp_path / "store.json").write_text("{}")
    answer = graphattn("info", tmp_path)
    assert (answer.code, answer.err) == (1, "warning: something else\nerror: no store\n")
    with pytest.warns(UserWarning, match="of others"), print_plain_warnings():
        warnings.warn("of others", UserWarning, stacklevel=1)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classify", "pair", "tag", "translate"])
def test_help_of_training_is_short_and_help_all_complete(graphattn, task, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 160)  # a narrow table shortens long names

    def listed(*flags):
        return set(re.findall(r"^\W*(--[\w-]+)", graphattn("train", task, *flags).out, re.MULTILINE))

    command = ALL_COMMANDS["train", task]
    usual, complete = listed("--help"), listed("--help-all")
    assert complete == {parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")} | {
        "--help"
    }
    assert 15 <= len(usual - {"--help", "--help-all"}) <= 28
    assert {"--out", "--dev", "--encoder", "--epochs", "--learning-rate", "--hidden", "--heads"} <= usual < complete


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_help_of_an_encoder_lists_its_options_and_defaults(graphattn, encoder):
    options = encoder_options(encoder)
    answer = graphattn("train", "classify", "--help", f"--encoder={encoder}").out
    text = " ".join(answer.replace("│", " ").split())
    assert f"Encoder {encoder}" in text
    for item in fields(options):
        assert as_flag(item.name) in text
    width = TextClassifier(encoder).resolve_options()["encoder"].hidden
    assert f"width of the encoder [default: {width}]" in text
    names = {item.name for item in fields(options)}
    others = {item.name for other in ENCODERS for item in fields(encoder_options(other))}
    assert not [name for name in others - names if re.search(rf"{as_flag(name)}\s", text)]
    assert "--epochs" not in text


def test_help_of_a_pretrained_model_lists_its_options(graphattn):
    text = " ".join(graphattn("train", "tag", "--encoder", "pretrained", "--help").out.replace("│", " ").split())
    assert "Encoder pretrained" in text
    assert "maximum learning rate of the pretrained weights [default: 0.0001]" in text
    assert "--hidden" not in text


def test_help_of_a_misspelled_encoder_suggests_one(graphattn):
    answer = graphattn("train", "classify", "--encoder", "umts", "--help")
    assert (answer.code, answer.err.partition("? ")[0]) == (
        1,
        "error: --encoder is 'umts'; did you mean 'umst' or 'mtsa'",
    )


def test_an_error_prints_one_line(graphattn, monkeypatch, classifier, corpora_folder):
    from graphattn.models import TextClassifier

    def fail(*_arguments, **_keywords):
        raise DataError("broken\nin two", path="x.tsv", line=3, hint="Mend it.")

    monkeypatch.setattr(TextClassifier, "report", fail)
    answer = graphattn("evaluate", classifier, corpora_folder / "reviews.tsv")
    assert (answer.code, answer.out, answer.err) == (1, "", "error: x.tsv, line 3: broken in two. Mend it.\n")


def test_a_bug_keeps_its_traceback(monkeypatch, classifier):
    from graphattn.models import TextClassifier

    monkeypatch.setattr(TextClassifier, "predict", lambda *_: 1 / 0)
    result = CliRunner().invoke(app, ["predict", str(classifier)], input="a")
    assert isinstance(result.exception, ZeroDivisionError)


def test_an_unknown_command_is_a_usage_error(graphattn):
    answer = graphattn("trian")
    assert answer.code == 2
    assert "No such command 'trian'" in answer.err


def test_an_unknown_task_lists_the_known_ones(graphattn):
    answer = graphattn("train", "clasify", "train.tsv", "--out", "model")
    assert answer.code == 2
    assert "no task 'clasify'; did you mean 'classify'?" in answer.err
    assert all(task in answer.err for task in ("classify", "pair", "tag", "translate"))


def test_a_closed_pipe_ends_quietly(start_command, classifier, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\n" * 20_000)
    process = start_command("predict", classifier, tmp_path / "texts.txt", "--chunk", "20")
    assert json.loads(process.stdout.readline())["text"] == "a good film"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


def test_a_pipe_that_closes_after_the_work_ends_quietly(start_command, classifier, corpora_folder, tmp_path):
    reviews, store = corpora_folder / "reviews.tsv", tmp_path / "store"
    for words in (["build", reviews, "--out", store], ["predict", classifier, reviews, "--out", "/dev/stdout"]):
        process = start_command(*words)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
    assert (store / "store.json").exists()


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


FULL = "error: the output cannot be written (No space left on device)\n"


def test_output_to_a_full_device_is_an_error():
    """The output is short enough to stay in Python's buffer until the command ends."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphattn", "--version"]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=BUFFERED)
    assert (answer.returncode, answer.stderr) == (1, FULL)


def test_scores_for_a_full_device_are_an_error(classifier, corpora_folder, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(
            sys, "argv", ["graphattn", "evaluate", str(classifier), str(corpora_folder / "reviews.tsv")]
        )
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code, capsys.readouterr().err) == (1, FULL)


def test_ctrl_c_without_a_resumable_run(graphattn, classifier, monkeypatch):
    def interrupted(*_arguments, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("graphattn.models._estimators.loading.load_files", interrupted)
    answer = graphattn("predict", classifier)
    assert (answer.code, answer.err) == (130, "stopped\n")


class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("in_finalizer", [False, True])
def test_sigterm_ends_a_command_like_ctrl_c(in_finalizer, classifier, monkeypatch, capsys):
    """So that no temporary file and no process of it remains."""

    def terminate(*_arguments, **_keywords):
        if not in_finalizer:
            signal.raise_signal(signal.SIGTERM)
        Finalized()
        time.sleep(1)

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restores pytest's after the test
    monkeypatch.setattr("graphattn.models._estimators.loading.load_files", terminate)
    monkeypatch.setattr(sys, "argv", ["graphattn", "predict", str(classifier)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "stopped\n")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "the next one ends the process at once"


def test_ctrl_c_keeps_the_model_so_far(start_command, corpora_folder, tmp_path, tiny):
    checkpoint = tmp_path / "model.run" / "last.ckpt"
    flags = [*tiny, "--epochs", "100000"]
    process = start_command("train", "tag", corpora_folder / "tags.conll", "--out", tmp_path / "model", *flags)
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 0
    kept = r"stopped; kept (epoch \d+ of 100000|the linear model): dev f1 [\d.]+\. Ctrl-C again aborts\n"
    assert re.match(kept, errors)
    assert package.load(tmp_path / "model").history_
    assert checkpoint.exists(), "training can go on"


@pytest.mark.parametrize("words", [["--version"], ["predict", "--help"]])
def test_a_closed_pipe_after_buffered_output_ends_quietly(words):
    """The version stays in Python's buffer until the command ends; Rich writes and flushes a help text itself."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "graphattn", *words]
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=BUFFERED)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (141, "")


def test_json_is_utf_8_whatever_the_locale(classifier, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("ein schöner film\n", encoding="utf-8")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["graphattn", "predict", str(classifier), str(tmp_path / "texts.txt")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert json.loads(out.buffer.getvalue().decode("utf-8"))["text"] == "ein schöner film"


def test_without_standard_input(classifier, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)  # as after <&- in a shell
    monkeypatch.setattr(sys, "argv", ["graphattn", "predict", str(classifier)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_ctrl_c_while_loading_ends_without_a_traceback():
    script = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'graphattn.experiments._cli.main': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from graphattn.experiments._cli.entry import main; main()\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (130, "stopped\n")


def test_output_can_be_captured_in_a_string(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["graphattn", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert out.getvalue() == f"graphattn {package.__version__}\n"
