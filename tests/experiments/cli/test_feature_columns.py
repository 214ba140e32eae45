"""Further columns as features of words: train, predict, evaluate, info, export, and each wrong input in one line."""

import json

import pytest

TRAINING = "the DT B-NP\ndog NN I-NP\nbarks VBZ B-VP\n\nit PRP B-NP\nruns VBZ B-VP\n\n" * 8
SHORT = (
    "--hidden 12 --heads 2 --layers 1 --scales 1,3 --embedding 8 --epochs 1 --no-logs --quiet --dev-fraction 0".split()
)


@pytest.fixture(scope="module")
def model(graphattn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    (folder / "a.conll").write_text(TRAINING)
    flags = ["--no-linear-branch", "--feature-columns", "pos=1", "--out", folder / "model"]
    answer = graphattn("train", "tag", folder / "a.conll", *SHORT, *flags)
    assert answer.code == 0, answer
    return folder / "model"


@pytest.fixture
def predict(graphattn, model, tmp_path):
    """Predict the content of a file with flags."""

    def run(name, content, *flags):
        (tmp_path / name).write_text(content)
        return graphattn("predict", model, tmp_path / name, *flags)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("a.conll", "a DT\nzebra NN\n\n", []),
        ("a.conll", "a DT B-NP\nzebra NN I-NP\n\n", []),
        ("a.txt", "a DT B-NP\nzebra NN I-NP\n\n", []),
        ("a.conll", "B-NP DT a\nI-NP NN zebra\n\n", ["--token-column", 2]),
        ("a.conll", "a x DT\nzebra y NN\n\n", ["--feature-columns", "pos=2"]),
        ("a.jsonl", '{"tokens": ["a", "zebra"], "xpos": ["DT", "NN"]}\n', ["--feature-columns", "pos=xpos"]),
        ("a.conllu", "1 a _ _ DT _ 2 det _ _\n2 zebra _ _ NN _ 0 root _ _\n\n", ["--feature-columns", "pos=xpos"]),
    ],
)
def test_all_formats_give_the_same_tags(predict, name, content, flags):
    content = content.replace(" ", "\t") if name.endswith("u") else content
    expected = predict("expected.conll", "a DT\nzebra NN\n").out
    assert json.loads(expected)["words"] == ["a", "zebra"]
    assert predict(name, content, *flags).out == expected


def test_tables_keep_the_columns(predict, tmp_path):
    out = tmp_path / "out.jsonl"
    assert predict("a.jsonl", '{"tokens": ["a"], "pos": ["DT"]}\n', "--feature-columns", "pos", "--out", out).code == 0
    assert json.loads(out.read_text()).keys() == {"tokens", "pos", "tags"}


def test_a_table_in_which_every_row_is_bad(predict, tmp_path):
    out = tmp_path / "out.jsonl"
    error = predict("a.jsonl", '{"tokens": ["a"]}\n', "--feature-columns", "pos", "--out", out).error
    assert error.startswith('1 text could not be processed (line 1). See the rows with "error". The first error: ')
    assert "field 'pos': there is no such field." in error
    assert json.loads(out.read_text())["tokens"] == ["a"]


NEEDED = (
    "has no columns for the features of words pos (column 1). Give a file in CoNLL columns, CoNLL-U, or JSON Lines "
)
NEEDED += "with tokens; --feature-columns says which of its columns have them."


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("a.txt", "a text\nanother\n", "", f"{{path}}: read as 'text', which {NEEDED}"),
        ("a.pos", "a/DT dog/NN\n" * 3, "--format word/tag", f"{{path}}: read as 'word/tag', which {NEEDED}"),
        (
            *("a.conll", "a\nzebra\n", ""),
            '1 text could not be processed (line 1). See the rows with "error". The first error: {path}, line 1: there '
            "is no column 1 for the feature 'pos': the line has 1 column, counted from 0. Set --feature-columns to one "
            "of them, -1 for the last.",
        ),
        (
            *("a.conll", "a DT\nb NN\n", "--feature-columns 1"),
            '1 text could not be processed (line 1). See the rows with "error". The first error: {path}, line 1: this '
            "sentence has no feature 'pos' of words, which the model needs. Give Sentence(words, features={{'pos': "
            "...}}) or rows with this column, one value for each word; of files, --feature-columns pos=COLUMN says "
            "which column has it.",
        ),
        (
            *("a.jsonl", '{"tokens": ["a"], "pos": ["DT"]}\n{"tokens": ["a"]}\n', "--feature-columns pos"),
            '1 text could not be processed (line 2). See the rows with "error". The first error: {path}, line 2, field '
            "'pos': there is no such field. Give one value for each word; --feature-columns pos=FIELD reads another "
            "field of files.",
        ),
        (
            *("a.jsonl", '{"tokens": ["a", "b"], "pos": ["DT"]}\n', "--feature-columns pos"),
            '1 text could not be processed (line 1). See the rows with "error". The first error: {path}, line 1, field '
            "'pos': 1 values for 2 words. Give a list with one for each word.",
        ),
    ],
)
def test_texts_without_columns(predict, tmp_path, name, content, flags, message):
    assert predict(name, content, *flags.split()).error == message.format(path=tmp_path / name)


def test_a_text_without_columns(graphattn, model):
    assert graphattn("predict", model, "a text").error == f"a text {NEEDED}"
    assert graphattn("inspect", model, "a text").error == f"a text {NEEDED}"


@pytest.mark.parametrize("words", ["serve", "inspect --serve"])
def test_a_server_of_texts(graphattn, model, words):
    command, *flags = words.split()
    error = "model reads the features pos of words, and a server gets texts alone. graphattn predict reads files"
    assert graphattn(command, model, *flags, "--port", 0).error == error


def test_a_store_keeps_no_columns(graphattn, model, tmp_path):
    (tmp_path / "a.conll").write_text(TRAINING)
    assert graphattn("build", tmp_path / "a.conll", "--out", tmp_path / "store", "--relations", "window:3").code == 0
    error = "the model reads the features 1 of words, and a store keeps none. Give the corpus itself."
    flags = ["--feature-columns", 1, "--out", tmp_path / "new"]
    assert graphattn("train", "tag", tmp_path / "store", *SHORT, *flags).error == error
    assert graphattn("predict", model, tmp_path / "store").error.startswith(f"{tmp_path / 'store'}: read as 'store'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("a.conll", "pos=9", "{path}, line 1: there is no column 9 for the feature 'pos': the line has 3 columns"),
        (
            "a.conll",
            "2",
            "--feature-columns has column 2, that of the tags. Leave it out, or set --tag-column to another",
        ),
        (
            "a.conll",
            "pos",
            "--feature-columns has 'pos'. Columns of CoNLL files have numbers, from 0; pos=1 names column",
        ),
        (
            "a.conll",
            "1,1",
            "--feature-columns is ('1', '1'). Give a list of strings, each column once; pos=1 names column 1",
        ),
        (
            "a.conllu",
            "upos",
            "--feature-columns has 'upos', which are the tags. Leave it out, or set --tags to other ones",
        ),
        ("a.conllu", "pos", "--feature-columns names 'pos'. Set it to a column, one of id, form, lemma, upos, xpos,"),
    ],
)
def test_training_rejects_columns(graphattn, tmp_path, name, flags, message):
    path = tmp_path / name
    path.write_text(TRAINING if name == "a.conll" else "1\ta\t_\tDET\t_\t_\t0\troot\t_\t_\n\n" * 4)
    answer = graphattn("train", "tag", path, *SHORT, "--feature-columns", flags, "--out", tmp_path / "model")
    assert answer.error.startswith(message.format(path=path))


def test_evaluate_info_and_export(graphattn, model, tmp_path):
    for name, content, flags in (("a.conll", TRAINING, []), ("b.conll", TRAINING.replace(" ", " x "), ["pos=2"])):
        (tmp_path / name).write_text(content)
        flags = ["--feature-columns", *flags] if flags else []
        assert json.loads(graphattn("evaluate", model, tmp_path / name, *flags).out)["accuracy"] > 0
    (tmp_path / "c.conll").write_text("a\n\n")
    assert (
        "line 1: there is no column 1 for the feature 'pos'" in graphattn("evaluate", model, tmp_path / "c.conll").error
    )
    assert "\n  feature_columns: pos=1\n" in graphattn("info", model).out
    assert "features of suffixes, names and columns" in graphattn("export", model, "--onnx", tmp_path / "m.onnx").error


def test_more_training_reads_the_columns_again(graphattn, model, tmp_path):
    (tmp_path / "b.conll").write_text(TRAINING.replace("NN", "NEW"))
    more = [
        "--init-from",
        model,
        "--epochs",
        1,
        "--no-logs",
        "--quiet",
        "--dev-fraction",
        0,
        "--out",
        tmp_path / "more",
    ]
    assert graphattn("train", "tag", tmp_path / "b.conll", *more).code == 0
    config = json.loads((tmp_path / "more" / "config.json").read_text())
    assert config["feature_values"] == {"pos": ["DT", "NN", "VBZ", "PRP", "NEW"]}
