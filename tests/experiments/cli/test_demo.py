"""``graphattn demo``: every step writes its files, and the recommended commands work."""

import shlex
import sys

import pytest

from graphattn.builders.readers import read_conllu, read_corpus
from graphattn.experiments._cli.demo import run_steps
from graphattn.experiments.demo import _steps as steps
from graphattn.experiments.demo._steps import Demo, DemoSize

SMALL = DemoSize(train=80, dev=20, test=20, hidden=16, classifier_epochs=1, tagger_epochs=1)


@pytest.fixture(scope="module")
def demo_run(graphattn, tmp_path_factory):
    """The folder of a small demo and its output."""
    patch = pytest.MonkeyPatch()
    patch.setattr(steps, "DemoSize", lambda: SMALL)
    out = tmp_path_factory.mktemp("demo") / "my demo"
    answer = graphattn("demo", "--out", out, "--text", "It was not good .")
    patch.undo()
    assert answer.code == 0
    lines = answer.err.splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("epoch ")] == ["epoch 1/1"] * 2
    return out, answer.out


def test_all_files_are_written(demo_run):
    out, _ = demo_run
    assert sorted(path.name for path in out.iterdir()) == [
        *(
            ".graphattn-demo",
            "attention.csv",
            "attention.png",
            "classifier",
            "classifier.run",
            "classify.yaml",
            "corpus",
            "graph.png",
        ),
        *("store", "tag.yaml", "tagger", "tagger.run"),
    ]
    assert (out / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "attention.csv").read_text().startswith("layer,head,relation,scale,source,target,")


def test_the_corpus_is_the_same_in_both_formats(demo_run):
    out, _ = demo_run
    for part, count in (("train", 80), ("dev", 20), ("test", 20)):
        texts = list(read_corpus(out / "corpus" / f"{part}.tsv"))
        parsed = list(read_conllu(out / "corpus" / f"{part}.conllu", tags="xpos"))
        assert len(texts) == len(parsed) == count
        assert [example.text for example in texts] == [" ".join(sentence.tokens) for sentence in parsed]
        assert all(sentence.heads and sentence.tags for sentence in parsed)


def test_the_output_has_baselines_and_models(demo_run):
    _, output = demo_run
    for words in (
        "bag of words: ",
        "most frequent tag of each word: ",
        "ms-trans: ",
        "80 sentences in the store",
        "not/",
    ):
        assert words in output


@pytest.mark.slow
def test_the_recommended_commands_work(demo_run, graphattn):
    _, output = demo_run
    commands = [shlex.split(line) for line in output.partition("Try next:\n")[2].splitlines()]
    assert [command[command.index("graphattn") + 1] for command in commands] == [
        "predict",
        "evaluate",
        "train",
        "build",
    ]
    for command in commands:
        start = command.index("graphattn")
        answer = graphattn(*command[start + 1 :], stdin=" ".join(command[1 : max(start - 1, 1)]))
        assert answer.code == 0, command
        assert "error:" not in answer.err


@pytest.mark.parametrize("text", ["", "word " * 150])
def test_any_text_can_be_predicted(demo_run, text):
    out, _ = demo_run
    demo = Demo(out, size=SMALL)
    assert len(demo.predict(text)["tags"]) == len(text.split())
    attention, table = demo.save_attention(text)
    assert table.name == "attention.csv"
    assert (demo.draw_attention(attention) is None) is bool(text)


@pytest.mark.slow
def test_it_can_be_run_again_without_matplotlib(demo_run, monkeypatch, capsys):
    """The steps replace the files of the previous run, and leave pictures out."""
    out, _ = demo_run
    for module in [name for name in sys.modules if name.startswith("graphattn.experiments.drawing")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # its import fails
    run_steps(Demo(out, seed=1, size=SMALL), "It was not good .")
    output = capsys.readouterr().out
    assert "80 sentences in the store" in output
    assert "The picture of a graph is left out: pictures need matplotlib" in output
    assert output.endswith("attention.csv shows which tokens it looked at\n")


@pytest.mark.parametrize("name", ["notes.txt", "corpus/train.tsv"])
def test_another_folder_is_not_changed(graphattn, tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    answer = graphattn("demo", "--out", tmp_path)
    assert answer.error == f"{tmp_path} exists and is not the folder of a demo; choose another --out"
    assert (file.read_text(), len([*tmp_path.iterdir()])) == ("mine", 1)
