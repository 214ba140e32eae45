"""Every example at the end of every ``--help`` runs, on small stand-ins for the files and models that it names.

The examples are collected from the commands, so that a new one runs here without a change, or fails for a file that
:func:`stage` does not have. What would take hours is made small by flags that are appended (the last value of a flag
counts), and what is outside of this machine is replaced: the Hugging Face hub and the models of Stanza.
"""

import http.client
import json
import re
import shlex
import shutil
import signal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer
from typer.main import get_command

from graphattn.builders.parsers import Parse
from graphattn.builders.parsers import _cache as parse_cache
from graphattn.experiments._cli.main import COMMANDS, app
from graphattn.experiments.benchmarks import _harness as harness
from graphattn.experiments.benchmarks import _pretrained as benchmark_of_pretrained
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._report import BenchmarkReport
from graphattn.experiments.benchmarks._workloads import parse_workloads
from graphattn.experiments.demo import _steps as demo_steps
from graphattn.experiments.demo._steps import DemoSize
from graphattn.experiments.papers._smoke import write_model

pytestmark = pytest.mark.slow

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
TINY = "--epochs 1 --hidden 12 --heads 2 --precision 32 --no-logs --quiet".split()
SHRUNK = {
    "train": "--epochs 1 --batch-size 24 --precision 32 --no-logs --quiet",
    "tune": "--trials 1 --config tiny.yaml",
    "build": "--jobs 1",  # the parser's stand-in is in this process
    "reproduce": "--seeds 1 --jobs 1 --set encoder.hidden=20 --set training.epochs=1 --set training.precision=32",
    "bench shapes": "--device cpu --precision 32",
}
"""Path of a command -> flags that make its examples small, and let them run without a GPU."""
TIMED = ("build", "predict", "serve", "inspect", "kernels", "store", "corpora", "frontier", "latency")
"""Benchmarks that do not compare contenders, or start processes for them."""
WRITTEN = ("--out", "--picture", "--curves", "--mistakes", "--html", "--coverage")
"""Flags that name what an example writes."""
PLAIN = [f"a {word} film of {number} scenes" for number in range(12) for word in ("good", "bad")]


def list_examples(command, path=()):
    """The commands in the help of a command and of its subcommands."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from list_examples(command.resolve_command(typer.Context(command), [name])[1], (*path, name))
    for line in (command.epilog or "").splitlines():
        if hasattr(command, "list_commands"):  # a sentence that has a command
            yield from re.findall(r"graphattn (?:[a-z]+ )*(?:--help|[a-z]+$)", line)
        elif line.strip():
            yield line.strip()


EXAMPLES = list(dict.fromkeys(list_examples(get_command(app))))
REQUESTS = [example for example in EXAMPLES if example.startswith("curl ")]
SERVERS = [example for example in EXAMPLES if {"serve", "--serve"} & {*example.split()[1:3]} and "bench" not in example]


def test_each_command_has_examples():
    assert {example.split()[1] for example in EXAMPLES if example not in REQUESTS} == {*COMMANDS}
    assert {example.split()[0] for example in EXAMPLES} == {"graphattn", "curl"}


class Chain:
    """Parses each text as a chain, in place of a model that would have to be downloaded."""

    name = "chain"

    def __init__(self, *settings):
        pass

    def parse(self, sentences):
        return [Parse(tuple(range(len(words))), ("dep",) * len(words)) for words in sentences]


def write_table(path, *rows):
    separator = "," if path.suffix == ".csv" else "\t"
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))


def write_json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_corpora(folder):
    """Write the corpora that examples name."""
    labels = ["pos" if "good" in text else "neg" for text in PLAIN]
    for name in ("train", "dev", "reviews"):
        write_table(folder / f"{name}.tsv", ("label", "text"), *zip(labels, PLAIN, strict=True))
    sources = ["web" if len(text) % 2 else "mail" for text in PLAIN]
    write_table(folder / "test.tsv", ("label", "text", "source"), *zip(labels, PLAIN, sources, strict=True))
    stars = [5 if label == "pos" else 1 for label in labels]
    write_table(folder / "reviews.csv", ("review", "stars"), *zip(PLAIN, stars, strict=True))
    write_table(folder / "texts.csv", ("text", "label"), *zip(PLAIN, labels, strict=True))
    columns = ("sentence_A", "sentence_B", "relatedness_score")
    write_table(
        folder / "sick.csv", columns, *((text, f"the {text}", star) for text, star in zip(PLAIN, stars, strict=True))
    )
    for name, first, second in (("train", "premise", "hypothesis"), ("pairs", "text", "second")):
        rows = ({first: text, second: text, "label": label} for text, label in zip(PLAIN, labels, strict=True))
        write_json_lines(folder / f"{name}.jsonl", rows)
    write_json_lines(folder / "abstracts.jsonl", ({"abstract": text, "tldr": text[:6]} for text in PLAIN))
    for name in ("train", "val", "test"):
        for language in ("en", "de"):
            (folder / f"{name}.{language}").write_text("\n".join(PLAIN) + "\n")
        (folder / f"{name}.conll").write_text("Ada B-PER\nsaw O\nRome B-LOC\n\nthe O\nfilm O\nended O\n\n" * 8)
    shutil.copy(folder / "val.conll", folder / "dev.conll")
    tree = "1\tDogs\t_\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
    for name in ("train", "treebank"):
        (folder / f"{name}.conllu").write_text(tree * 12)
    (folder / "reviews.txt").write_text("\n".join(PLAIN[:3]) + "\n")
    (folder / "sentences.txt").write_text("Ada saw Rome .\nThe film ended .\n")


@pytest.fixture(scope="module")
def stage(graphattn, folder, tmp_path_factory):
    """A folder with the files and models that examples name."""
    stage = tmp_path_factory.mktemp("examples") / "stage"
    stage.mkdir()
    write_corpora(stage)
    small = "hidden: 12\nheads: 2\nembedding: 8\n"
    for name, text in {"settings": small, "best": small, "tiny": f"{small}epochs: 1\nprecision: '32'\n"}.items():
        (stage / f"{name}.yaml").write_text(text)
    for name, words in {
        "model": "classify train.tsv",
        "tagger": "tag train.conll",
        "translator": "translate train.en,train.de",
        "plain": "classify train.tsv --no-linear-branch",
    }.items():
        task, corpus, *flags = words.split()
        paths = ",".join(str(stage / path) for path in corpus.split(","))
        assert graphattn("train", task, paths, "--out", stage / name, *TINY, *flags).code == 0
    for name, source in {"model2": "model", "another-model": "model", "another-translator": "translator"}.items():
        shutil.copytree(stage / source, stage / name)
    assert graphattn("build", stage / "train.tsv", "--out", stage / "store").code == 0
    pretrained = stage.parent / "hub" / MINILM
    write_model(pretrained)
    words = ("--pretrained", pretrained, "--epochs", 1, "--no-logs", "--quiet")
    assert graphattn("train", "classify", stage / "train.tsv", "--out", stage / "tuned", *words).code == 0
    shutil.copytree(stage / "model", stage.parent / "hub" / "OWNER" / "NAME")
    result = {"data_set": "mirrored-summation", "encoder": "bilstm", "seed": 0, "mse": 0.25, "mse_of_mean": 0.5}
    write_json_lines(stage / "results.jsonl", [{**result, "changes": {"task": {"terms": 10}}}])
    (stage / "DATA").symlink_to(folder)
    return stage


@pytest.fixture
def scene(stage, folder, tmp_path, monkeypatch):
    """A copy of the stage as the current folder, without a network."""
    scene = tmp_path / "scene"
    shutil.copytree(stage, scene, symlinks=True)
    monkeypatch.chdir(scene)
    monkeypatch.setenv("GRAPHATTN_DATA", str(folder))
    monkeypatch.setattr(parse_cache, "StanzaParser", Chain)
    small = DemoSize(train=80, dev=20, test=20, hidden=16, classifier_epochs=1, tagger_epochs=1)
    monkeypatch.setattr(demo_steps, "DemoSize", lambda: small)
    return scene


@pytest.fixture
def hub(example, stage, monkeypatch):
    """The Hugging Face hub as a folder; the names and the files that are uploaded to it."""
    uploads = []
    if not {"OWNER/NAME", MINILM} & {*example.split()}:
        return uploads
    library = pytest.importorskip("huggingface_hub")

    def download(name, **_):
        return str(stage.parent / "hub" / name)

    api = SimpleNamespace(
        create_repo=lambda name, **_: f"https://example.org/{name}",
        create_commit=lambda name, operations, **_: uploads.append((name, {each.path_in_repo for each in operations})),
    )
    monkeypatch.setattr(library, "snapshot_download", download)
    monkeypatch.setattr(library, "HfApi", lambda **_: api)
    return uploads


@pytest.fixture
def bench(stage, monkeypatch):
    """Benchmarks without their measurements, which have tests of their own: flags, workloads and peers are checked."""

    def parse(names):
        return [], parse_workloads(names)[1]

    def measure(name):
        def run(settings, *_, **options):
            is_compared = isinstance(settings, Settings) and name != "kernels"
            missing = parse_workloads(settings.lengths)[1] if is_compared else []
            return BenchmarkReport(name, "", {"workload": str}, {}, left_out=missing)

        return run

    monkeypatch.setattr(harness, "parse_workloads", parse)
    monkeypatch.setattr(benchmark_of_pretrained, "find_minilm", lambda: stage.parent / "hub" / MINILM)
    for name in TIMED:
        monkeypatch.setattr(import_module(f"graphattn.experiments.benchmarks._{name}"), "measure", measure(name))


@pytest.fixture
def exporter(monkeypatch):
    """PyTorch's translation to ONNX, which takes seconds and has tests of its own, writes an empty file."""
    model = SimpleNamespace(metadata_props={})
    program = SimpleNamespace(model=model, save=lambda path: Path(path).write_bytes(b""))
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: program)


def read_words(example):
    """The words of an example without ``graphattn``, and its standard input."""
    words, stdin = shlex.split(example)[1:], ""
    for sign in (">", "<"):
        if sign in words:
            position = words.index(sign)
            stdin = Path(words[position + 1]).read_text() if sign == "<" else stdin
            del words[position : position + 2]
    return words, stdin


def find_shrunk(words):
    """The flags that make an example small, of the longest path of its command."""
    if {"--help", "--show"} & {*words}:
        return []
    return next((SHRUNK[path] for path in (" ".join(words[:2]), words[0]) if path in SHRUNK), "").split()


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each not in (*SERVERS, *REQUESTS)])
def test_an_example_runs(example, graphattn, scene, hub, request):
    words, stdin = read_words(example)
    if words[0] in ("bench", "export"):
        request.getfixturevalue({"bench": "bench", "export": "exporter"}[words[0]])
    written = [words[words.index(flag) + 1] for flag in WRITTEN if flag in words]
    for path in map(Path, written):
        if path.is_dir():
            shutil.rmtree(path)
        elif words[0] != "reproduce":  # it continues its file
            path.unlink(missing_ok=True)
    other = "tagger" if "test.conll" in words else "plain" if any(word.endswith(".onnx") for word in words) else None
    if other and words[1] == "model":
        shutil.rmtree("model")
        Path(other).rename("model")
    answer = graphattn(*words, *find_shrunk(words), stdin=stdin)
    if "not installed: pip install" in answer.err:
        pytest.skip(answer.err)
    assert answer.code == 0, answer.err + answer.out
    assert "error:" not in answer.err
    assert [name for name in written if not [*Path().glob(f"{name}*")]] == []
    if words[0] == "push":
        ((name, files),) = hub
        assert (name, "config.json" in files) == (words[2], True)


@pytest.mark.parametrize("example", SERVERS)
def test_an_example_serves(example, start_command, scene, hub):
    pytest.importorskip("fastapi")
    words, _ = read_words(example)
    process = start_command(*words, "--port", 0)
    try:
        line = process.stdout.readline()
        address = re.match(r"http://127\.0\.0\.1:(\d+)/ ", line)
        assert address, line + process.stderr.read()
        if words[0] == "serve":
            assert ask(address[1], "GET", "/health")[0] == 200
        else:
            assert ask(address[1], "POST", "/attention", '{"texts": ["a lovely film"]}')[0] == 200
        if words == ["serve", "model"]:
            for request in REQUESTS:
                status, answer = ask(address[1], *read_request(request))
                assert (status, len(json.loads(answer)["predictions"])) == (200, 1)
        process.send_signal(signal.SIGTERM)
        process.wait()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def ask(port, method, path, body=None):
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=300)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def read_request(example):
    """The request that ``curl localhost:8000/PATH -H HEADER -d BODY`` makes."""
    command, address, _, header, _, body = shlex.split(example)
    assert (command, header) == ("curl", "Content-Type: application/json")
    return "POST", address.removeprefix("localhost:8000"), body
