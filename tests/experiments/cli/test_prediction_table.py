"""Tables of predictions: all columns of the input come back, in every format, next to the label and its confidence."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from graphattn import load
from graphattn.builders.store import Store
from graphattn.experiments._cli.arrow_tables import read_arrow, serialize_arrow, write_parquet
from graphattn.models import TextClassifier, TextRegressor, TrainingOptions, Translator

MODELS = Path(__file__).parents[2] / "data" / "models"
TRAINING = TrainingOptions(epochs=1, dev_fraction=0.0, progress=False)
ROWS = [
    {"id": "007", "text": 'a "good", film', "note": "two\nlines"},
    {"id": "008", "text": " dull ", "note": ""},
    {"id": "", "text": "", "note": "\ttab, comma"},
    {"id": "1e5", "text": "ein großer Film \U0001f600", "note": '"quoted"'},
]


def write(path, rows):
    """Write rows with other libraries than ours."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix in (".csv", ".tsv"):
        separator = {".csv": ",", ".tsv": "\t"}[path.suffix]
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        pa.feather.write_feather(pd.DataFrame(rows), path)


def read(path):
    """Read a table with other libraries than ours; cells of CSV and TSV are strings."""
    if path.suffix == ".jsonl":
        return list(map(json.loads, path.read_text().splitlines()))
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_dict("records")
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter={".csv": ",", ".tsv": "\t"}[path.suffix]))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["csv", "tsv", "jsonl", "parquet", "feather"])
def test_every_cell_comes_back(graphattn, source, tmp_path):
    write(tmp_path / f"in.{source}", ROWS)
    estimator = load(MODELS / "classify")
    texts = [row["text"] for row in ROWS]
    for target in ("csv", "tsv", "jsonl", "parquet"):
        out = tmp_path / f"out.{target}"
        answer = graphattn("predict", MODELS / "classify", tmp_path / f"in.{source}", "--out", out, "--chunk", 3)
        assert (answer.code, answer.out, answer.err) == (0, f"4 predictions: {out}\n", ""), target
        rows = read(out)
        assert [list(row) for row in rows] == [["id", "text", "note", "label", "confidence"]] * 4
        assert [{name: row[name] for name in ("id", "text", "note")} for row in rows] == ROWS
        assert [row["label"] for row in rows] == estimator.predict(texts).tolist()
        confidences = [float(row["confidence"]) for row in rows]
        np.testing.assert_allclose(confidences, estimator.predict_proba(texts).max(1), atol=1e-6)


def test_values_of_json_and_parquet_keep_their_types(graphattn, tmp_path):
    rows = [{"text": "a film", "n": 7, "tags": ["x"], "ok": True, "none": None, "f": 0.5}, {"text": "b", "n": 8}]
    write(tmp_path / "in.jsonl", rows)
    for target in ("jsonl", "parquet"):
        answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / f"out.{target}")
        assert (answer.code, answer.err) == (0, "")
    first, second = read(tmp_path / "out.jsonl")
    assert {name: first[name] for name in rows[0]} == rows[0]
    assert list(second) == ["text", "n", "label", "confidence"]
    table = pa.parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert [table[name] for name in ("n", "tags", "ok")] == [[7, 8], [["x"], None], [True, None]]
    pd.DataFrame({"text": ["a", "b"], "n": [1.5, None]}).to_parquet(tmp_path / "in.parquet")
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.parquet", "--out", tmp_path / "out.jsonl")
    assert (answer.code, [row["n"] for row in read(tmp_path / "out.jsonl")]) == (0, [1.5, None])


def test_a_column_of_the_input_is_never_replaced(graphattn, tmp_path):
    write(tmp_path / "in.csv", [{"text": "a film", "label": "gold", "confidence": "high"}])
    for name in ("once.csv", "twice.jsonl"):
        source = tmp_path / ("in.csv" if name == "once.csv" else "once.csv")
        assert graphattn("predict", MODELS / "classify", source, "--out", tmp_path / name).code == 0
    (row,) = read(tmp_path / "twice.jsonl")
    names = ["label", "confidence", "predicted_label", "predicted_confidence"]
    assert list(row) == ["text", *names, *(f"predicted_{name}" for name in names[2:])]
    assert (row["label"], row["confidence"]) == ("gold", "high")
    assert row["predicted_label"] == row["predicted_predicted_label"]


def test_standard_output_has_texts_and_labels_alone(graphattn, tmp_path):
    write(tmp_path / "in.csv", ROWS)
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.csv")
    assert {tuple(json.loads(line)) for line in answer.out.splitlines()} == {("text", "label")}
    lines = graphattn("predict", MODELS / "classify", "--out", tmp_path / "out.jsonl", stdin="a film\n")
    assert (lines.code, list(read(tmp_path / "out.jsonl")[0])) == (0, ["text", "label", "confidence"])


@pytest.mark.slow
def test_several_labels_are_written_as_the_training_set_writes_them(graphattn, tmp_path):
    rows = [{"text": f"a {word} film", "label": word.replace(" ", "|")} for word in ("good", "bad", "good bad", "")] * 4
    write(tmp_path / "train.csv", rows)
    estimator = TextClassifier("transformer", multilabel=True, training=TRAINING)
    X, y = estimator.read([tmp_path / "train.csv"], label_separator="|")
    estimator.fit(X, y).save(tmp_path / "model")
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        assert graphattn("predict", tmp_path / "model", tmp_path / "train.csv", "--out", tmp_path / name).code == 0
    texts, predicted = [row["text"] for row in rows], estimator.predict([row["text"] for row in rows])
    in_csv, in_json = read(tmp_path / "out.csv"), read(tmp_path / "out.jsonl")
    assert [row["labels"] for row in in_csv] == list(map("|".join, predicted))
    assert [row["labels"] for row in in_json] == list(map(list, predicted))
    assert pa.parquet.read_table(tmp_path / "out.parquet")["labels"].to_pylist() == list(map(list, predicted))
    shares = estimator.predict_proba(texts)
    chosen = [np.isin(estimator.classes_, names) for names in predicted]
    exactly = np.where(chosen, shares, 1 - shares).prod(1)
    np.testing.assert_allclose([row["confidence"] for row in in_json], exactly, atol=3e-6)


@pytest.mark.slow
def test_every_task_has_a_table(graphattn, tmp_path):
    regressor = TextRegressor("transformer", training=TRAINING).fit(["a b", "c", "d e"] * 4, [1.0, 2.5, 3.0] * 4)
    regressor.save(tmp_path / "regress")
    pairs = [{"id": 1, "text": "a film", "second": "the film"}]
    cases = [
        (tmp_path / "regress", ROWS[:1], ["id", "text", "note", "value"]),
        (MODELS / "pair", pairs, ["id", "text", "second", "label", "confidence"]),
        (MODELS / "tag", [{"id": 1, "text": "Ada saw Rome."}], ["id", "text", "words", "tags"]),
        (MODELS / "tag", [{"id": 1, "tokens": ["Ada", "saw"]}], ["id", "tokens", "tags"]),
        (MODELS / "translate", [{"id": 1, "text": "a b"}], ["id", "text", "output", "score"]),
    ]
    for model, rows, columns in cases:
        write(tmp_path / "in.jsonl", rows)
        for name in ("out.parquet", "out.csv", "out.jsonl"):
            answer = graphattn("predict", model, tmp_path / "in.jsonl", "--out", tmp_path / name)
            assert answer.code == 0, answer.err
        assert list(read(tmp_path / "out.csv")[0]) == list(read(tmp_path / "out.parquet")[0]) == columns
        in_json = [name for name in columns if name not in ("output", "score")]
        assert list(read(tmp_path / "out.jsonl")[0]) == (in_json if in_json == columns else [*in_json, "outputs"])
    (row,) = read(tmp_path / "out.jsonl")
    assert row["outputs"][0]["text"] == read(tmp_path / "out.parquet")[0]["output"]
    write(tmp_path / "in.jsonl", [{"id": 1, "text": "Ada saw Rome."}])
    graphattn("predict", MODELS / "tag", tmp_path / "in.jsonl", "--output", "spans", "--out", tmp_path / "s.jsonl")
    assert list(read(tmp_path / "s.jsonl")[0]) == ["id", "text", "spans"]


def test_words_come_back_from_json(graphattn, tmp_path):
    """So that the file can be evaluated and trained on."""
    answer = graphattn("predict", MODELS / "tag", "--out", tmp_path / "out.jsonl", stdin="Ada saw Rome\n")
    assert (answer.code, list(read(tmp_path / "out.jsonl")[0])) == (0, ["words", "tags"])


@pytest.mark.parametrize(
    ("lines", "name", "error"),
    [
        (
            ['{"text": "a"}', '{"text": "b", "id": 1}'], "out.csv",
            "the input has a field 'id', which the first one lacks, so there is no such column in the .csv file. Give "
            "the first input this field, too, or write another format.",
        ),
        (
            ['{"text": "a"}', '{"text": "b", "label": 1}'], "out.jsonl",
            "the input has a field 'label', which the first one lacks, and which has the prediction. Give the first "
            "input this field, too, or write another format.",
        ),
    ],
)  # fmt: skip
def test_records_of_other_fields(graphattn, tmp_path, lines, name, error):
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / name)
    assert answer.error.endswith(f"The first error: {error}")
    assert len(read(tmp_path / name)) == 2


@pytest.mark.parametrize(
    ("content", "flags", "error"),
    [
        ('{"text": "a", "x": 1}\n{"text": "b", "x": "y"}\n', ["--out", "out.parquet"],
         "the column 'x' has values of different types, which Parquet does not have. Give all values of the column one "
         "type, or write another format."),
        ('{"text": "a", "x": 1}\n{"text": "b", "x": "y"}\n', ["--out", "out.parquet", "--chunk", "1"],
         "rows do not fit into one table (Unable to merge: Field x has incompatible types: int64 vs string). Give all "
         "values of the column one type, or write another format."),
        ("text,x,x\na,b,c\n", ["--out", "out.jsonl"],
         "the input has 2 columns 'x'; rename one, or let --out end in .csv"),
        ("text,id\n", ["--out", "out.parquet"], "there are no rows to write. Give at least one text."),
        ("text\na\n", ["--output", "parquet"], "Parquet needs a file; give --out, or another --output"),
        ("text\na\n", ["--out", "out.parquet", "--output", "csv"],
         "--output is 'csv', but --out ends in .parquet; leave --output out, or change the extension"),
        ("review\na\n", ["--out", "out.parquet", "--text-column", "txt"],
         "in.csv, line 1: there is no column 'txt'; the columns are 'review'. Set --text-column to one of them; if the "
         "first line is no header, set --columns. If each line is a text, set --format to 'text'."),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_written(graphattn, tmp_path, monkeypatch, content, flags, error):
    monkeypatch.chdir(tmp_path)
    name = "in.jsonl" if content.startswith("{") else "in.csv"
    Path(name).write_text(content)
    answer = graphattn("predict", MODELS / "classify", name, *flags)
    assert answer.error == error
    assert not (tmp_path / "out.parquet").exists()


def test_vectors_keep_ids(graphattn, tmp_path):
    write(tmp_path / "in.csv", [{**row, "vector": "x", "label": "y"} for row in ROWS])
    answer = graphattn("encode", MODELS / "classify", tmp_path / "in.csv", "--out", tmp_path / "v.parquet")
    assert (answer.code, answer.err) == (0, "")
    table = pa.parquet.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["text", "vector", "id", "note"]
    assert table["id"].to_pylist() == [row["id"] for row in ROWS]
    vectors = load(MODELS / "classify").encode([row["text"] for row in ROWS])
    np.testing.assert_allclose(table["vector"].to_pylist(), vectors, atol=1e-6)
    write(tmp_path / "pairs.jsonl", [{"id": 1, "text": "a", "second": "b"}, {"id": 2, "text": "c", "second": "d"}])
    answer = graphattn("encode", MODELS / "pair", tmp_path / "pairs.jsonl", "--out", tmp_path / "v.parquet")
    table = pa.parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert (table["text"], table["id"]) == (["a", "b", "c", "d"], [1, 1, 2, 2])


def test_vectors_of_the_columns_that_the_model_was_trained_on(graphattn, tmp_path, tiny):
    train = [{"id": n, "body": f"text {n}", "topic": ("a;b", "b")[n % 2], "rank": "x;y"} for n in range(12)]
    write(tmp_path / "train.csv", train)
    flags = ["--text-column", "body", "--label-column", "topic", "--label-separator", ";"]
    graphattn("train", "classify", tmp_path / "train.csv", "--out", tmp_path / "model", *flags, *tiny)
    for flags, label in (([], None), (["--label-column", "topic"], ["a", "b"]), (["--label-column", "rank"], "x;y")):
        graphattn("encode", tmp_path / "model", tmp_path / "train.csv", "--out", tmp_path / "v.parquet", *flags)
        row = pa.parquet.read_table(tmp_path / "v.parquet").to_pylist()[0]
        assert (row["text"], row["id"], row.get("label"), "body" in row) == ("text 0", "0", label, False)


@pytest.mark.parametrize("inner", ["", "letters/"])
def test_texts_of_a_folder_have_the_names_of_their_files(graphattn, tmp_path, inner):
    folder = tmp_path / "notes" / inner
    folder.mkdir(parents=True)
    for number, text in enumerate(["Ada wrote.", "Alan went\nto Rome."]):
        (folder / f"{number}.txt").write_text(text)
    for name, flags in (("out.csv", []), ("out.jsonl", ["--output", "spans"])):
        model = MODELS / ("classify" if name == "out.csv" else "tag")
        answer = graphattn("predict", model, tmp_path / "notes", "--out", tmp_path / name, *flags)
        assert answer.code == 0
    table = pd.read_csv(tmp_path / "out.csv")
    assert table.columns.tolist() == ["file", "text", "label", "confidence"]
    assert table["file"].tolist() == [f"{inner}0.txt", f"{inner}1.txt"]
    second = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])
    assert (second["file"], second["text"], "spans" in second) == (f"{inner}1.txt", "Alan went\nto Rome.", True)


@pytest.mark.slow
def test_files_of_another_encoding(graphattn, tmp_path, tiny):
    rows = [("café", "pos"), ("thé", "neg")] * 8
    (tmp_path / "train.csv").write_bytes(("text,label\n" + "".join(f"{a},{b}\n" for a, b in rows)).encode("cp1252"))
    encoding = ["--encoding", "cp1252"]
    answer = graphattn("train", "classify", tmp_path / "train.csv", "--out", tmp_path / "model", *tiny, *encoding)
    assert (answer.code, answer.err) == (0, "")
    assert graphattn("evaluate", tmp_path / "model", tmp_path / "train.csv", *encoding).code == 0
    out = tmp_path / "out.csv"
    assert graphattn("predict", tmp_path / "model", tmp_path / "train.csv", "--out", out, *encoding).code == 0
    assert [(row["text"], row["label"]) for row in read(out)] == rows
    assert graphattn("predict", tmp_path / "model", *encoding, stdin="café\n".encode("cp1252")).out.startswith(
        '{"text": "café"'
    )
    answer = graphattn("build", tmp_path / "train.csv", "--out", tmp_path / "store", *encoding)
    assert answer.code == 0
    (tmp_path / "trees.conllu").write_bytes("1\tcafé\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n".encode("utf-16"))
    answer = graphattn("build", tmp_path / "trees.conllu", "--out", tmp_path / "trees", "--encoding", "utf-16")
    assert [list(sentence.tokens) for sentence in Store(tmp_path / "trees")] == [["café"]]
    answer = graphattn("predict", tmp_path / "model", tmp_path / "train.csv")
    assert "If so, set --encoding WINDOWS-1252, or convert it" in answer.err
    answer = graphattn("predict", tmp_path / "model", tmp_path / "train.csv", "--encoding", "latin-9000")
    assert answer.error.startswith("--encoding is 'latin-9000', which Python does not know; use a name such as")


@pytest.mark.slow
def test_folders_of_another_encoding(graphattn, tmp_path, tiny):
    for label, word in (("pos", "thé"), ("neg", "café")):
        (tmp_path / "texts" / label).mkdir(parents=True)
        for number in range(8):
            (tmp_path / "texts" / label / f"{number}.txt").write_bytes(f"{word} {number}".encode("cp1252"))
    arguments = [tmp_path / "texts", "--encoding", "cp1252"]
    assert graphattn("train", "classify", *arguments, "--out", tmp_path / "model", *tiny).code == 0
    assert graphattn("evaluate", tmp_path / "model", *arguments).code == 0
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "pos\ta\nneg\tb\n" * 8)
    assert graphattn("train", "classify", tmp_path / "train.tsv", "--out", tmp_path / "of-file", *tiny).code == 0
    for model in (tmp_path / "model", tmp_path / "of-file"):
        rows = graphattn("predict", model, *arguments).out.splitlines()
        assert [json.loads(row)["text"] for row in (rows[0], rows[-1])] == ["café 0", "thé 7"]


def test_translators_read_other_encodings(graphattn, tmp_path):
    (tmp_path / "en").write_bytes("café\n".encode("utf-16"))
    (tmp_path / "de").write_bytes("Kaffee ß\n".encode("utf-16"))
    (tmp_path / "both.tsv").write_bytes("text\tsecond\ncafé\tKaffee ß\n".encode("utf-16"))
    for paths in (["en", "de"], ["both.tsv"]):
        X, y = Translator().read([tmp_path / path for path in paths], encoding="utf-16")
        assert (list(X), list(y)) == (["café"], ["Kaffee ß"])
    (tmp_path / "source.jsonl").write_text('{"tokens": ["café"]}\n')
    assert graphattn("build", tmp_path / "source.jsonl", "--out", tmp_path / "store").code == 0
    assert Translator().read([tmp_path / "store", tmp_path / "de"], encoding="utf-16")[1] == ["Kaffee ß"]


def test_a_parquet_column_without_values_is_one_of_texts():
    tables = [serialize_arrow({"label": [None], "labels": [[]], "score": [0.5]})] * 2
    file = io.BytesIO()
    assert write_parquet(file, lambda: read_arrow(tables)) == 2
    types = {field.name: field.type for field in pa.parquet.read_schema(file)}
    assert types == {"label": pa.string(), "labels": pa.list_(pa.string()), "score": pa.float64()}


UNREADABLE = {
    # name of the input -> its content, and the columns of the row in it that cannot be read
    "width.csv": (b"id,text,note\n1,good,x\n2,one, two,y\n3,bad,z\n", {"id": "2", "text": "one, two", "note": "y"}),
    "short.csv": (b"id,text,note\n1,good,x\n2,one\n3,bad,z\n", {"id": "2", "text": "one", "note": ""}),
    "quote.csv": (b'id,text,note\n1,good,x\n2,"one,y\n3,bad,z\n', {"id": "2", "text": "one,y", "note": ""}),
    "latin.csv": (b"id,text,note\n1,good,x\n2,caf\xe9,y\n3,bad,z\n", {"id": "2", "text": "caf\ufffd", "note": "y"}),
    "header.tsv": (
        b"id\ttext\tnote\n1\tgood\tx\nid\ttext\tnote\n3\tbad\tz\n", {"id": "id", "text": "text", "note": "note"},
    ),
    "null.jsonl": (
        b'{"id": 1, "text": "good"}\n{"id": 2, "text": null, "note": "y"}\n{"id": 3, "text": "bad"}\n',
        {"id": 2, "text": None, "note": "y"},
    ),
    "latin.jsonl": (
        b'{"id": 1, "text": "good"}\n{"id": 2, "text": "a \xe9"}\n{"id": 3, "text": "bad"}\n',
        {"id": 2, "text": "a \ufffd"},
    ),
    "number.json": (
        b'[{"id": 1, "text": "good"}, {"id": 2, "text": 7}, {"id": 3, "text": "bad"}]', {"id": 2, "text": 7},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_row_that_cannot_be_read_keeps_its_columns(graphattn, tmp_path, name):
    content, expected = UNREADABLE[name]
    (tmp_path / name).write_bytes(content)
    for target in ("csv", "tsv", "jsonl", "parquet"):
        out = tmp_path / f"out.{target}"
        answer = graphattn("predict", MODELS / "classify", tmp_path / name, "--out", out)
        assert answer.error.startswith("1 text could not be processed (line ")
        rows = read(out)
        assert [str(row["id"]) for row in rows] == ["1", str(expected["id"]), "3"]
        assert ("error" in rows[1]) == (target == "jsonl")
        if target == "parquet":
            continue
        shown = expected if target == "jsonl" else {key: str(value or "") for key, value in expected.items()}
        columns = [key for key in rows[0] if key not in ("label", "confidence")] if target != "jsonl" else list(shown)
        assert {key: rows[1][key] for key in columns} == {key: shown[key] for key in columns}


@pytest.mark.slow
def test_unreadable_rows_of_every_task(graphattn, tmp_path):
    regressor = TextRegressor("transformer", training=TRAINING).fit(["a b", "c", "d e"] * 4, [1.0, 2.5, 3.0] * 4)
    regressor.save(tmp_path / "regress")
    text, words = {"id": 1, "text": "Ada saw"}, {"id": 1, "tokens": ["Ada", "saw"]}
    cases = [
        (tmp_path / "regress", [text, {"id": 2, "text": None}], ["value"]),
        (MODELS / "pair", [{**text, "second": "a"}, {"id": 2, "text": "a", "second": None}], ["label", "confidence"]),
        (MODELS / "tag", [text, {"id": 2, "text": 3}], ["words", "tags"]),
        (MODELS / "tag", [words, {"id": 2, "tokens": "Ada saw"}], ["tags"]),
    ]  # fmt: skip
    for model, rows, added in cases:
        write(tmp_path / "in.jsonl", rows)
        for name in ("out.parquet", "out.csv", "out.tsv", "out.jsonl"):
            answer = graphattn("predict", model, tmp_path / "in.jsonl", "--out", tmp_path / name)
            assert answer.error.startswith("1 text could not be processed (line 2)"), (model, answer)
            first, second = read(tmp_path / name)
            assert [str(first["id"]), str(second["id"])] == ["1", "2"], (model, name)
            if name == "out.jsonl":
                assert second == {**rows[1], "line": 2, "error": second["error"]}
            else:
                assert list(second) == [*rows[0], *added]


def test_rows_of_spans(graphattn, tmp_path):
    spans = [{"id": 1, "text": "Ada saw", "spans": [[0, 3, "PER"]]}, {"id": 2, "text": "a", "spans": [[0, 9, "x"]]}]
    write(tmp_path / "in.jsonl", spans)
    for name in ("out.parquet", "out.csv", "out.jsonl"):
        flags = ["--format", "spans", "--out", tmp_path / name]
        answer = graphattn("predict", MODELS / "tag", tmp_path / "in.jsonl", *flags)
        assert answer.error.startswith("1 text could not be processed (line 2)")
        first, second = read(tmp_path / name)
        assert [int(first["id"]), int(second["id"]), list(first)] == [1, 2, ["id", "text", "spans", "words", "tags"]]


def test_no_row_can_be_read(graphattn, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": null}\n{"id": 2, "text": 5, "line": 7, "error": "e"}\n')
    for name in ("out.csv", "out.parquet", "out.jsonl"):
        answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / name)
        assert answer.error.startswith("2 texts could not be processed (line 1, 2)")
        assert [int(row["id"]) for row in read(tmp_path / name)] == [1, 2]
    assert {**read(tmp_path / "out.jsonl")[1], "predicted_error": ""} == {
        "id": 2, "text": 5, "line": 7, "error": "e", "predicted_line": 2, "predicted_error": "",
    }  # fmt: skip


def test_a_field_that_cannot_be_written_is_the_only_one_to_go(graphattn, tmp_path):
    rows = [
        {"text": "a", "id": 1, "note": "x"},
        {"text": "b", "id": 2, "more": "y"},
        {"text": "c", "id": 3, "note": "\0"},
    ]
    write(tmp_path / "in.jsonl", rows)
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / "out.csv")
    assert answer.error.startswith("2 texts could not be processed (line 2, 3)")
    shown = [[row[name] for name in ("text", "id", "note")] for row in read(tmp_path / "out.csv")]
    assert shown == [["a", "1", "x"], ["b", "2", ""], ["c", "3", ""]]


def test_an_undecodable_file_of_a_folder_keeps_its_name(graphattn, tmp_path):
    for name, content in {"1.txt": b"good", "2.txt": b"caf\xe9", "3.txt": b"bad"}.items():
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_bytes(content)
    for name in ("out.csv", "out.tsv", "out.parquet", "out.jsonl"):
        answer = graphattn("predict", MODELS / "classify", tmp_path / "texts", "--out", tmp_path / name)
        assert answer.error.startswith("1 text could not be processed (line 2)")
        assert [row["file"] for row in read(tmp_path / name)] == ["1.txt", "2.txt", "3.txt"]
    answer = graphattn("encode", MODELS / "classify", tmp_path / "texts", "--out", tmp_path / "v.parquet")
    assert answer.code == 1
    assert pa.parquet.read_table(tmp_path / "v.parquet")["file"].to_pylist() == ["1.txt", "2.txt", "3.txt"]


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("in.csv", "id,text,kind\n1,a,x\n2,b, c,y\n3,d,z\n", ["a", "b, c", "d"]),
        ("in.jsonl", '{"id": "1", "text": "a", "kind": "x"}\n{"id": "2", "text": 5, "kind": "y"}\n'
                     '{"id": "3", "text": "d", "kind": "z"}\n', ["a", "", "d"]),
    ],
)  # fmt: skip
def test_vectors_of_unreadable_rows_keep_their_columns(graphattn, tmp_path, name, content, texts):
    (tmp_path / name).write_text(content)
    out = tmp_path / "v.parquet"
    answer = graphattn("encode", MODELS / "classify", tmp_path / name, "--label-column", "kind", "--out", out)
    assert answer.error.startswith("1 text could not be processed (line ")
    table = pa.parquet.read_table(out).to_pydict()
    assert (table["id"], table["label"], table["text"]) == (["1", "2", "3"], ["x", "y", "z"], texts)
    assert np.isnan(table["vector"]).any(1).tolist() == [False, True, False]


def test_vectors_of_unreadable_pairs(graphattn, tmp_path):
    write(tmp_path / "in.jsonl", [{"id": 1, "text": "a", "second": "b"}, {"id": 2, "text": "c", "second": None}])
    answer = graphattn("encode", MODELS / "pair", tmp_path / "in.jsonl", "--out", tmp_path / "v.parquet")
    assert answer.code == 1
    table = pa.parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert (table["id"], table["text"]) == ([1, 1, 2, 2], ["a", "b", "c", ""])


def table_of_bytes():
    """A table whose columns are not all text; their names say which."""
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "text": ["good", None, "fine"],
            "binary": [b"\xff\0", b"ok", None],
            "struct": [{"bytes": b"\x89PNG\xff", "path": "a.png"}, None, {"bytes": None, "path": "b"}],
            "list": [[b"\xff"], [], None],
            "string": pa.array([b"a\xff", b"ok", b""], pa.binary()).view(pa.string()),
            "large": pa.array([2**64 - 1, 1, None], pa.uint64()),
            "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "day": pa.array([0, None, 1], pa.date32()),
            "utf8": [b"abc", b"", None],
        }
    )


def as_bytes(table):
    """The columns as Python's values; strings may not be text."""
    return {
        name: (table[name].cast(pa.binary()) if pa.types.is_string(table[name].type) else table[name]).to_pylist()
        for name in table.column_names
    }


@pytest.mark.slow
@pytest.mark.parametrize("source", ["in.parquet", "in.arrow"])
def test_columns_of_parquet_that_are_not_text(graphattn, tmp_path, source):
    table = table_of_bytes()
    if source.endswith("parquet"):
        pa.parquet.write_table(table, tmp_path / source)
    else:
        pa.feather.write_feather(table, tmp_path / source)
    for command, name in (("predict", "out.parquet"), ("encode", "v.parquet")):
        answer = graphattn(command, MODELS / "classify", tmp_path / source, "--out", tmp_path / name, "--chunk", 2)
        assert answer.error.startswith("1 text could not be processed (line 2)")
        written = pa.parquet.read_table(tmp_path / name)
        kept = [column for column in table.column_names if command == "predict" or column != "text"]
        assert written.select(kept).schema.types == table.select(kept).schema.types
        assert as_bytes(written.select(kept)) == as_bytes(table.select(kept))
    for name in ("out.csv", "out.tsv", "out.jsonl"):
        answer = graphattn("predict", MODELS / "classify", tmp_path / source, "--out", tmp_path / name)
        warning, error = answer.err.splitlines()
        assert warning == (
            "warning: columns that are not text are left out: 'binary', 'list', 'string', 'struct'; let --out end in "
            ".parquet to keep them"
        )
        assert error.startswith("error: 1 text could not be processed (line 2)")
        first, second, third = read(tmp_path / name)
        assert list(first) == ["id", "text", "large", "map", "day", "utf8", "label", "confidence"]
        shown = [str(first[key]) for key in ("id", "text", "large", "day", "utf8")]
        assert shown == ["1", "good", str(2**64 - 1), "1970-01-01", "abc"]
        assert [str(row["id"]) for row in (second, third)] == ["2", "3"]


def test_a_text_of_parquet_that_is_not_utf8(graphattn, tmp_path):
    texts = pa.array([b"good", b"caf\xe9 bar"], pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"id": [1, 2], "text": texts}), tmp_path / "in.parquet")
    for name in ("out.csv", "out.jsonl"):
        answer = graphattn("predict", MODELS / "classify", tmp_path / "in.parquet", "--out", tmp_path / name)
        assert "line 2, field 'text': byte 0xe9 at character 4 is not UTF-8" in answer.error
        assert [(str(row["id"]), row["text"]) for row in read(tmp_path / name)] == [
            ("1", "good"),
            ("2", "caf\ufffd bar"),
        ]
    graphattn("predict", MODELS / "classify", tmp_path / "in.parquet", "--out", tmp_path / "out.parquet")
    assert as_bytes(pa.parquet.read_table(tmp_path / "out.parquet"))["text"] == [b"good", b"caf\xe9 bar"]


def test_bytes_that_begin_after_the_first_rows(graphattn, tmp_path):
    blobs = [b"ok"] * 1500 + [b"\xff"]
    table = pa.table({"text": ["good"] * 1501, "blob": blobs})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.parquet", "--out", tmp_path / "out.csv")
    assert "the column 'blob' has bytes that are not UTF-8" in answer.error
    rows = read(tmp_path / "out.csv")
    assert (len(rows), rows[0]["blob"], rows[-1]["blob"], rows[-1]["text"]) == (1501, "ok", "", "good")


def test_large_whole_numbers_of_json(graphattn, tmp_path):
    write(tmp_path / "in.jsonl", [{"text": "a", "n": 2**64 - 1}, {"text": "b", "n": 0}])
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / "out.parquet")
    assert answer.code == 0
    assert pa.parquet.read_table(tmp_path / "out.parquet")["n"].to_pylist() == [2**64 - 1, 0]
    write(tmp_path / "in.jsonl", [{"text": "a", "n": 2**64}])
    answer = graphattn("predict", MODELS / "classify", tmp_path / "in.jsonl", "--out", tmp_path / "out.parquet")
    assert answer.error.startswith("the column 'n' has whole numbers that are too large for Parquet")
