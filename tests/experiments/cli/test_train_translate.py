"""The command line from pairs to a translator, its outputs and its metrics."""

import json
import lzma

import pytest
import yaml

from graphattn import load
from graphattn.models.inspection.notebook import printable

TINY = (
    "--hidden 16 --heads 2 --layers 1 --ffn 16 --decoder-heads 2 --decoder-layers 1 --decoder-ffn 16 "
    "--vocabulary-size 80 --epochs 2 --max-tokens 200 --warmup-steps 5 --max-length 10 --no-logs --quiet"
).split()
WORDS = [("dog", "Hund"), ("cat", "Katze"), ("bird", "Vogel"), ("tree", "Baum")]
PAIRS = [(f"a {one} sees a {two}.", f"Ein {eins} sieht ein {zwei}.") for one, eins in WORDS for two, zwei in WORDS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """``a.en`` and ``a.de``, plain and compressed."""
    path = tmp_path_factory.mktemp("pairs")
    for side, name in enumerate(("a.en", "a.de")):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (path / name).write_text(text)
        (path / f"{name}.xz").write_bytes(lzma.compress(text.encode()))
    return path


@pytest.fixture(scope="module")
def translator(graphattn, folder):
    """A translator's directory, and the output of training."""
    dev = f"{folder / 'a.en'},{folder / 'a.de'}"
    pairs = folder / "a.en.xz", folder / "a.de.xz"
    answer = graphattn("train", "translate", *pairs, "--dev", dev, "--test", dev, "--out", folder / "model", *TINY)
    assert (answer.code, answer.err) == (0, "")
    return folder / "model", answer.out


def test_a_directory_with_metrics_and_settings(translator):
    path, printed = translator
    figures = json.loads((path / "metrics.json").read_text())
    assert figures["examples"] == {"training": 16, "dev": 16, "test": 16}
    assert figures["task"] == "translate"
    names = {"bleu", "chrf", "rouge_1", "rouge_2", "rouge_l", "exact_match"}
    assert figures["test"].keys() == figures["dev"].keys() == names
    assert printed.splitlines()[0] == f"dev (greedy search) bleu: {figures['dev']['bleu']:.2f}"
    assert printed.splitlines()[-1] == f"model: {path}"
    assert not list(path.with_name("model.run").glob("*.ckpt"))
    assert yaml.safe_load((path / "train.yaml").read_text())["decoder_ffn"] == 16


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_translator_keeps_the_names_of_its_columns(graphattn, tmp_path, suffix, separator):
    rows = [("id", "english", "german"), *((str(number), *pair) for number, pair in enumerate(PAIRS))]
    table, out = tmp_path / f"table.{suffix}", tmp_path / "outputs.csv"
    table.write_text("".join(separator.join(row) + "\n" for row in rows))
    columns = "--text-column", "english", "--second-column", "german"
    answer = graphattn("train", "translate", table, *columns, "--out", tmp_path / "model", *TINY, "--epochs", 1)
    assert answer.code == 0, answer.err
    evaluated = graphattn("evaluate", tmp_path / "model", table)
    assert (evaluated.code, "bleu: " in evaluated.err + evaluated.out) == (0, True)
    assert graphattn("predict", tmp_path / "model", table, "--out", out).code == 0
    assert out.read_text().splitlines()[1].startswith("0,a dog sees a dog.,Ein Hund sieht ein Hund.,")
    plain = tmp_path / "plain.tsv"  # without a header
    plain.write_text("".join("\t".join(pair) + "\n" for pair in PAIRS))
    assert graphattn("evaluate", tmp_path / "model", plain).code == 0


def test_the_saved_settings_repeat_the_training(translator, graphattn, folder, tmp_path):
    path, _ = translator
    pair = f"{folder / 'a.en'},{folder / 'a.de'}"
    answer = graphattn(
        "train", "translate", pair, "--config", path / "train.yaml", "--out", tmp_path / "again", "--quiet"
    )
    assert (answer.code, answer.err) == (0, "")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (path / "model.safetensors").read_bytes()


def test_predict(translator, graphattn):
    path, _ = translator
    sources = f"{PAIRS[0][0]}\n\n{PAIRS[1][0]}\n"
    answer = graphattn("predict", path, "--n-best", "2", stdin=sources)
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [row["text"] for row in rows] == sources.split("\n")[:-1]
    assert [len(row["outputs"]) for row in rows] == [2, 1, 2]
    assert rows[1]["outputs"] == [{"text": "", "score": 0.0}]
    plain = graphattn("predict", path, "--plain", "--search", "beam=4", stdin=sources)
    assert plain.out.split("\n")[:-1] == [row["outputs"][0]["text"] for row in rows]


def test_a_long_line_is_reported_with_its_number(translator, graphattn, tmp_path):
    path, _ = translator
    sources = f"{PAIRS[0][0]}\n" * 6 + "dog " * 1100
    answer = graphattn("predict", path, "--plain", "--chunk", "5", "--out", tmp_path / "outputs", stdin=sources)
    assert (answer.code, answer.out) == (1, f"6 predictions: {tmp_path / 'outputs'}\n")
    assert answer.err.startswith("error: 1 text could not be processed (line 7). ")
    assert "source 7 has 1,100 subwords; the limit is 1,024. " in answer.err
    assert (tmp_path / "outputs").read_text().count("\n") == 7
    taken = graphattn("predict", path, "--plain", "--longest", "1100", stdin=sources)
    assert (taken.code, taken.out.count("\n")) == (0, 7)


@pytest.mark.slow
def test_evaluate_and_compare(translator, graphattn, folder, tmp_path):
    path, _ = translator
    pairs = folder / "a.en", folder / "a.de"
    answer = graphattn("evaluate", path, *pairs, "--compare", folder / "a.de", "--out", tmp_path / "figures.json")
    figures = json.loads(answer.out)
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    estimator = load(path)
    expected = estimator.evaluate(*zip(*PAIRS, strict=True))
    assert {name: figures[name] for name in expected} == expected
    assert figures["signatures"]["bleu"].startswith("nrefs:1|case:mixed")
    assert figures["compared"]["bleu"][str(folder / "a.de")]["score"] == pytest.approx(100)
    assert figures["compared"]["bleu"][str(folder / "a.de")]["p_value"] < 0.05
    assert f"against 100.00 of {folder / 'a.de'}: -" in answer.err
    with_itself = json.loads(graphattn("evaluate", path, *pairs, "--compare", path).out)
    assert with_itself["compared"]["bleu"][str(path)]["p_value"] == 1.0
    searched = json.loads(graphattn("evaluate", path, *pairs, "--compare", path, "--search", "max_length=3").out)
    rows = searched["compared"]["chrf"]
    assert rows[str(path)]["score"] == rows["model"]["score"] == searched["chrf"] != figures["chrf"]


def test_a_pair_of_files_is_written_as_for_dev_sets(translator, graphattn, folder):
    model, (source, target) = translator[0], (folder / "a.en", folder / "a.de")
    pair, packed = f"{source},{target}", f"{source}.xz,{target}.xz"
    expected = graphattn("evaluate", model, source, target).out
    assert graphattn("evaluate", model, pair).out == expected
    both = json.loads(graphattn("evaluate", model, pair, packed).out)
    assert both == {pair: json.loads(expected), packed: json.loads(expected)}
    answer = graphattn("evaluate", model, pair, "--out", target)
    assert answer.error == f"{target}: would be written over what is read. Choose another file."
    missing = folder / "none.de"
    answer = graphattn("evaluate", model, f"{source},{missing}")
    assert answer.error == f"{missing}: there is no such file. Check the path."


def test_evaluate_with_another_tokenizer(translator, graphattn, folder):
    path, _ = translator
    pairs = folder / "a.en", folder / "a.de"
    answer = graphattn("evaluate", path, *pairs, "--compare", folder / "a.de", "--bleu-tokenizer", "char")
    figures = json.loads(answer.out)
    assert "|tok:char|" in answer.err
    assert figures["signatures"]["bleu"] in answer.err
    assert figures["compared"]["bleu"]["model"]["score"] == figures["bleu"]
    assert figures["bleu"] != load(path).evaluate(*zip(*PAIRS, strict=True))["bleu"]
    wrong = graphattn("evaluate", path, *pairs, "--bleu-tokenizer", "chars")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert wrong.err.startswith("error: --bleu-tokenizer is 'chars'; did you mean 'char'? choose one of: auto, 13a, ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "MODEL", "--probabilities"], "--probabilities does not apply to MODEL, which writes texts; "),
        (
            ["evaluate", "MODEL", "EN"],
            "EN: not a table of sources and targets. Give sources and targets, or a CSV, TSV or J",
        ),
        (
            ["evaluate", "MODEL", "EN", "DE", "--compare", "OTHER"],
            "OTHER classifies texts; give --compare a model that writes texts, or a file of predictions",
        ),
        (["evaluate", "MODEL", "EN", "DE", "--compare", "SHORT"], "SHORT: 1 outputs for 16 sources. Give one on each "),
        (["predict", "OTHER", "--plain"], "--plain does not apply to OTHER, which classifies texts; "),
        (["train", "translate", "EN", "SHORT", "--out", "x"], "EN, line 2: text 2 has no target, since SHORT ends be"),
        (
            ["train", "translate", "EN", "DE", "--run-dir", "RUN", "--out", "SHORT/model"],
            "SHORT/model cannot be written (Not a directory); choose another --out",
        ),
        (
            ["train", "translate", "EN", "DE", "--dev", "a,b,c", "--out", "x"],
            "3 paths are given: a, b, c. Give sources and targets, or one table of both.",
        ),
        (
            ["train", "translate", "EN", "DE", "--hidden", "18", "--decoder-heads", "4", "--heads", "2", "--out", "x"],
            "--hidden is 18; it must be a multiple of --decoder-heads (4)",
        ),
    ],
    ids=range(9),
)
def test_user_errors(words, message, translator, classifier, graphattn, folder, tmp_path):
    (tmp_path / "short").write_text("only one line\n")
    names = {"MODEL": translator[0], "OTHER": classifier, "EN": folder / "a.en", "DE": folder / "a.de"}
    names |= {"SHORT": tmp_path / "short", "SHORT/model": tmp_path / "short" / "model", "RUN": tmp_path / "run"}
    answer = graphattn(*(names.get(word, word) for word in words), stdin="a dog\n")
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    error = answer.err.removeprefix("error: ")
    for name, path in names.items():
        error = error.replace(str(path), name)
    assert error.startswith(message)


def test_inspect(translator, graphattn, tmp_path):
    path, _ = translator
    answer = graphattn("inspect", path, "a dog sees a cat.", "--relation", "cross", "--out", tmp_path / "cross.csv")
    assert (answer.code, answer.err) == (0, "")
    attention = load(path).attention("a dog sees a cat.")
    title, said, header, *_ = answer.out.splitlines()
    assert title == "a dog sees a cat."
    assert said == f"{printable(attention.prediction, 500)} ({attention.probabilities[attention.prediction]:.3f})"
    assert {"source_part", "target_part"} <= set(header.split())
    rows = (tmp_path / "cross.csv").read_text().splitlines()[1:]
    assert len(rows) == len(attention.only(relation="cross").table())


def test_info_shows_what_differs_from_the_preset(graphattn, translator):
    path, _ = translator
    answer = graphattn("info", path)
    assert (answer.code, answer.err) == (0, "")
    about, options, epochs = answer.out.split("\n\n")
    assert about.startswith(f"{path}: writes texts, encoder transformer\n")
    subwords = len(json.loads((path / "tokenizer.json").read_text())["model"]["vocab"])
    assert about.splitlines()[3] == f"vocabulary: {subwords} sub-words"
    assert options.splitlines()[:3] == ["options that are not the defaults:", "  preset: small", "  hidden: 16"]
    assert "  decoder_ffn: 16" in options.splitlines()
    assert "schedule" not in options
    assert epochs.splitlines()[0].split()[:3] == ["epoch", "train", "loss"]
