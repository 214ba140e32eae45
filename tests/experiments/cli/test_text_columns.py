"""Columns beside texts on the command line: train, predict, evaluate, inspect, and each wrong input in one line."""

import json

import pytest

from graphattn.builders import Example, Sentence

ROWS = [
    f"the {thing} is late,{level},{amount},{'urgent' if level == 'high' else 'normal'}"
    for thing in ("printer", "parcel", "login")
    for level in ("high", "low", "")
    for amount in ("10", "2.5", "")
]
HEADER = "body,level,amount,team"
TABLE = "\n".join([HEADER, *ROWS, ""])
COLUMNS = ["--text-column", "body", "--label-column", "team"]
FEATURES = ["--feature-columns", "level:category,amount:number"]
SHORT = "--hidden 12 --heads 2 --layers 1 --scales 1,3 --embedding 8 --epochs 0 --no-logs --quiet".split()


@pytest.fixture(scope="module")
def folder(graphattn, tmp_path_factory):
    """A folder with a model and its training set."""
    folder = tmp_path_factory.mktemp("columns")
    (folder / "train.csv").write_text(TABLE)
    answer = graphattn(
        "train", "classify", folder / "train.csv", *COLUMNS, *FEATURES, *SHORT, "--out", folder / "model"
    )
    assert answer.code == 0, answer
    return folder


def test_a_table_keeps_its_columns(graphattn, folder, tmp_path):
    assert graphattn("predict", folder / "model", folder / "train.csv", "--out", tmp_path / "a.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows[0].keys() == {"body", "level", "amount", "team", "label", "confidence"}
    assert [row["label"] for row in rows] == [row["team"] for row in rows]


@pytest.mark.parametrize("flags", [[], ["--chunk", 4]])
def test_gaps_are_counted_over_the_whole_file(graphattn, folder, tmp_path, flags):
    (tmp_path / "a.csv").write_text(TABLE.replace(",low,", ",medium,"))
    answer = graphattn("predict", folder / "model", tmp_path / "a.csv", "--out", tmp_path / "b.csv", *flags)
    assert answer.err.count("hint: ") == 3
    assert "9 of 27 texts have no level, which is a category of its own" in answer.err
    assert "9 of 27 texts have a level that the training set lacks, such as 'medium'; it counts as none" in answer.err
    assert "9 of 27 texts have no amount; the mean, " in answer.err


def test_results_of_other_cells_are_not_reused(folder):
    """Resumable commands tell chunks of texts apart by their representation."""
    assert repr(Example("a", cells={"level": "low"})) != repr(Example("a", cells={"level": "high"}))
    assert repr(Sentence(["a"], cells={"level": "low"})).endswith(", features=None, cells={'level': 'low'})")
    assert repr(Example("a")) == "Example(text='a', second=None, label=None)"


def test_a_file_with_other_names(graphattn, folder, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE.replace(HEADER, "body,Urgency,amount,team"))
    answer = graphattn(
        "evaluate", folder / "model", tmp_path / "a.csv", "--feature-columns", "level=Urgency", "--quiet"
    )
    assert json.loads(answer.out)["accuracy"] == 100.0, answer


def test_the_parts_of_a_score(graphattn, folder, tmp_path):
    (tmp_path / "a.csv").write_text(f"{HEADER}\n{ROWS[0]}\n")
    line = graphattn("inspect", folder / "model", tmp_path / "a.csv").out.splitlines()[2]
    assert line.startswith("log-odds of urgent against normal: n-grams ")
    assert ", level=high +" in line
    assert ", amount=10 " in line


def test_training_says_the_rule(graphattn, folder, tmp_path):
    flags = [flag for flag in SHORT if flag != "--quiet"]
    answer = graphattn(
        "train", "classify", folder / "train.csv", *COLUMNS, *FEATURES, *flags, "--out", tmp_path / "model"
    )
    assert (
        "features beside the text: level: 2 categories, and one for empty cells and new values; amount: mean "
        in answer.err
    )
    assert "texts have no amount; the mean, " in answer.err


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (
            "body,level\na,low\n",
            "",
            "{path}, line 1: there is no column 'amount', a feature beside the text; the columns are 'body', 'level'. "
            "Add it, empty where it is unknown, or name the column that has it: --feature-columns amount=COLUMN.",
        ),
        (
            "body,level,amount\na,low,many\n",
            "",
            '1 text could not be processed (line 2). See the rows with "error". The first error: {path}, line 2, field '
            "'amount': 'many' is not a number. Write a number such as 12.5, or leave the cell empty.",
        ),
        (
            "body,level,amount\na,low,1\n",
            "--feature-columns size=amount",
            "--feature-columns has 'size', and the model reads level, amount; write NAME=COLUMN",
        ),
    ],
)
def test_tables_without_the_columns(graphattn, folder, tmp_path, content, flags, message):
    (tmp_path / "a.csv").write_text(content)
    answer = graphattn("predict", folder / "model", tmp_path / "a.csv", *flags.split())
    assert answer.error == message.format(path=tmp_path / "a.csv")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_in_which_every_row_is_bad(graphattn, folder, tmp_path, suffix):
    table, out = tmp_path / "a.csv", tmp_path / f"out{suffix}"
    table.write_text("body,level,amount\na,low,lots\nb,high,many\n")
    answer = graphattn("predict", folder / "model", table, "--out", out)
    assert answer.error == (
        f"2 texts could not be processed (line 2, 3). {'They have no prediction.' if suffix != '.jsonl' else SEE} The "
        f"first error: {table}, line 2, field 'amount': 'lots' is not a number. Write a number such as 12.5, or leave "
        "the cell empty."
    )
    if suffix == ".csv":
        assert out.read_text() == "body,level,amount,label,confidence\na,low,lots,,\nb,high,many,,\n"
    if suffix == ".jsonl":
        assert json.loads(out.read_text().splitlines()[1])["amount"] == "many"


SEE = 'See the rows with "error".'
ALONE = (
    "has no columns level, amount, features beside the text. Give a CSV, TSV, JSON Lines or Parquet with these names "
    "of columns; --format reads a file as one."
)


def test_texts_without_columns(graphattn, folder, tmp_path):
    (tmp_path / "a.txt").write_text("a text\nanother\n")
    assert graphattn("predict", folder / "model", "a text").error == f"a text alone {ALONE}"
    assert graphattn("inspect", folder / "model", "a text").error == f"a text alone {ALONE}"
    text = tmp_path / "a.txt"
    assert graphattn("predict", folder / "model", text).error == f"{text}: read as 'text', which {ALONE}"


def test_the_page_of_inspect_gets_texts_alone(graphattn, folder):
    error = (
        "model reads the columns level, amount beside the text, and a server gets texts alone. graphattn predict reads"
    )
    assert graphattn("inspect", "--serve", folder / "model", "--port", 0).error.startswith(error)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("level", "--feature-columns has 'level'; write level:category or level:number"),
        ("level:word", "--feature-columns has 'level:word'; write level:category or level:number"),
        ("body:category", "--feature-columns has 'body', the column of the text; leave it out"),
        ("team:category", "--feature-columns has 'team', the column of the label; leave it out"),
        ("size:number", "{path}, line 1: there is no column 'size', a feature beside the text; the columns are 'body'"),
        ("level:number", "{path}, line 2, field 'level': 'high' is not a number. Write a number such as 12.5"),
    ],
)
def test_wrong_columns_in_training(graphattn, folder, tmp_path, given, message):
    corpus = folder / "train.csv"
    flags = [*COLUMNS, "--feature-columns", given, *SHORT, "--out", tmp_path / "model"]
    assert graphattn("train", "classify", corpus, *flags).error.startswith(message.format(path=corpus))


def test_translators_have_no_such_flag(graphattn, folder):
    answer = graphattn("train", "translate", folder / "train.csv", "--feature-columns", "level:category", "--out", "x")
    assert answer.code == 2
    assert "--feature-columns" in answer.err


def test_an_export_is_refused(graphattn, folder, tmp_path):
    error = graphattn("export", folder / "model", "--out", tmp_path / "a.onnx").error
    assert "columns beside the text cannot be exported" in error
    assert not (tmp_path / "a.onnx").exists()


def test_a_model_to_continue_from(graphattn, folder, tmp_path):
    corpus, flags = folder / "train.csv", ["--epochs", 0, "--no-logs", "--quiet", "--init-from", folder / "model"]
    answer = graphattn("train", "classify", corpus, *COLUMNS, *flags, "--out", tmp_path / "model")
    assert answer.code == 0, answer
    assert json.loads((tmp_path / "model" / "config.json").read_text())["feature_columns"] == FEATURES[1].split(",")
    answer = graphattn(
        "train", "classify", corpus, *COLUMNS, "--feature-columns", "level:category", *flags, "--out", tmp_path / "x"
    )
    assert "--feature-columns" in answer.error
    assert "the model to continue from has" in answer.error


@pytest.mark.slow
def test_comparing_and_encoding(graphattn, folder, tmp_path):
    plain = tmp_path / "plain"
    assert graphattn("train", "classify", folder / "train.csv", *COLUMNS, *SHORT, "--out", plain).code == 0
    answer = graphattn("evaluate", folder / "model", folder / "train.csv", "--compare", plain)
    assert "accuracy 100.00 against " in answer.err
    error = graphattn("evaluate", plain, folder / "train.csv", "--compare", folder / "model").error
    assert "reads columns beside the text that this model does not: level, amount" in error
    assert graphattn("encode", folder / "model", folder / "train.csv", "--out", tmp_path / "a.npy").code == 0
