"""``graphattn predict``: every kind of input, in order, in chunks, with complete output files."""

import gzip
import json
import os
import signal
from threading import Timer

import pytest

from graphattn import load
from graphattn.builders import Sentence
from graphattn.builders.readers import read_conll, read_table
from graphattn.exceptions import EdgeCountError
from graphattn.experiments._cli.predict import predict_lines
from graphattn.models import TextClassifier, Translator
from graphattn.models._estimators.translator import Output


def rows(answer):
    assert (answer.code, answer.err) == (0, "")
    return [json.loads(line) for line in answer.out.splitlines()]


@pytest.mark.parametrize("chunk", [1, 3, 512])
def test_lines_of_standard_input_are_texts(graphattn, classifier, chunk):
    texts = ["a good film", "", *(f"a film of {number} scenes" for number in range(8))]
    output = rows(graphattn("predict", classifier, "--chunk", chunk, stdin="\n".join(texts)))
    assert [row["text"] for row in output] == texts, "an empty line is an empty text, and the order does not change"
    assert [row["label"] for row in output] == load(classifier).predict(texts).tolist()


def test_probabilities_are_of_every_class(graphattn, classifier):
    (row,) = rows(graphattn("predict", classifier, "--probabilities", stdin="a good film"))
    assert list(row["probabilities"]) == ["neg", "pos"]
    assert sum(row["probabilities"].values()) == pytest.approx(1, abs=2e-6)
    assert row["label"] == max(row["probabilities"], key=row["probabilities"].get)


def test_typed_lines_are_answered_one_by_one(classifier, start_command):
    keyboard, terminal = os.openpty()
    process = start_command("predict", classifier, stdin=terminal)
    os.close(terminal)
    impatience = Timer(120, process.send_signal, [signal.SIGKILL])
    impatience.start()
    for text in ("a good film", "a bad film"):
        os.write(keyboard, f"{text}\n".encode())
        assert json.loads(process.stdout.readline())["text"] == text
    os.write(keyboard, b"\x04")  # Ctrl-D
    assert process.wait() == 0
    impatience.cancel()
    os.close(keyboard)


def test_input_is_read_lazily(classifier):
    taken = []

    def texts():
        for number in range(100):
            taken.append(number)
            yield "a film"

    lines = predict_lines(load(classifier), texts(), chunk=5)
    assert next(lines).count("\n") == 5
    assert len(taken) == 5


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("texts.csv", "id,review\n1,a good film\n2,bad\n", ["--text-column", "review"]),
        ("texts.tsv", "text\ta good film\n", ["--format", "labelled", "--columns", "none,text"]),
        ("texts.data", '{"body": "a good film"}\n', ["--format", "jsonl", "--text-column", "body"]),
        ("texts.xyz", "__label__pos a good film\nbad\n", ["--format", "fasttext"]),
    ],
)
def test_columns_are_detected_and_labels_optional(graphattn, classifier, tmp_path, name, content, flags):
    (tmp_path / name).write_text(content)
    output = rows(graphattn("predict", classifier, tmp_path / name, *flags))
    assert [row["text"] for row in output] == ["a good film", "bad"][: len(output)]
    assert [row["label"] for row in output] == load(classifier).predict([row["text"] for row in output]).tolist()


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("words.txt", "Ada saw Rome.\n\nthe film\n", []),
        ("words.txt", "Ada saw Rome .\n\nthe film\n", ["--format", "words"]),
        ("words.conll", "Ada X\nsaw X\nRome X\n. X\n\nthe X\nfilm X\n", []),
    ],
)
def test_words_are_tagged(graphattn, tagger, tmp_path, name, content, flags):
    (tmp_path / name).write_text(content)
    output = rows(graphattn("predict", tagger, tmp_path / name, *flags))
    words = [["Ada", "saw", "Rome", "."], ["the", "film"]]
    assert [row["words"] for row in output if row["words"]] == words
    assert [row["tags"] for row in output if row["words"]] == load(tagger).predict(words)
    assert [row["tags"] for row in output if not row["words"]] == ([[]] if name == "words.txt" else [])


def test_words_alone_are_sentences(graphattn, tagger, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("Ada\nsaw\nRome\n\nthe\nfilm\n")
    hint = "read as words, one on each line, with a blank line after each sentence; --format text reads lines as texts"
    for answer in (graphattn("predict", tagger, path), graphattn("predict", tagger, stdin=path.read_text())):
        assert [json.loads(line)["words"] for line in answer.out.splitlines()] == [
            ["Ada", "saw", "Rome"],
            ["the", "film"],
        ]
        assert answer.err.endswith(f": {hint}\n")
    assert len(rows(graphattn("predict", tagger, path, "--format", "text"))) == 6
    answer = graphattn("evaluate", tagger, path)
    assert answer.err == f"error: {path}: has one word on each line, and no tags. Write its tag behind each word.\n"


@pytest.mark.parametrize("chunk", [1, 512])
def test_entities_have_offsets(graphattn, tagger, chunk):
    texts = ["Ada  saw Rome.", "", "the film"]
    output = rows(graphattn("predict", tagger, "--output", "spans", "--chunk", chunk, stdin="\n".join(texts)))
    assert [row["text"] for row in output] == texts
    spans = [[(s["type"], s["start"], s["end"], s["text"]) for s in row["spans"]] for row in output]
    assert spans == [[span[:4] for span in tagged.spans] for tagged in load(tagger).predict_spans(texts)]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["web", "whitespace"])
def test_predicted_spans_can_be_trained_on(graphattn, corpora_folder, tmp_path, tiny, split):
    """Hostile blanks, marks and scripts keep their offsets."""
    texts = [
        "Ada\u00a0 saw\u3000Rome \U0001f600 in Rome.",
        "",
        '  Rome,\u200bwasn\'t\ufeff Ada\t"Rome"',
        "\u0e01 Ada e\u0301t\u00e9 \u2028x",
    ]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    model, spans = tmp_path / "model", tmp_path / "spans.jsonl"
    graphattn("train", "tag", corpora_folder / "tags.conll", "--out", model, *tiny, "--split", split)
    assert graphattn("predict", model, tmp_path / "texts.txt", "--output", "spans", "--out", spans).code == 0
    with open(spans, encoding="utf-8") as file:
        rows_of_spans = list(map(json.loads, file))
    assert [row["text"] for row in rows_of_spans] == texts
    rows_of_spans[0]["spans"] = [{"type": "LOC", "start": 9, "end": 13}]  # corrected
    spans.write_text("".join(json.dumps(row) + "\n" for row in rows_of_spans))
    answer = graphattn("evaluate", model, spans)
    assert answer.code == 0
    items, _ = load(model).read([spans])
    assert [list(item.tokens) for item in items] == [load(model).vocabulary_.split(text) for text in texts if text]
    assert graphattn("train", "tag", spans, "--out", tmp_path / "next", *tiny, "--split", split).code == 0
    predicted = load(model).predict_spans([texts[2]])[0].spans
    assert [row["spans"] for row in rows_of_spans][2] == [
        {**span._asdict(), "confidence": pytest.approx(span.confidence, abs=1e-6)} for span in predicted
    ]


def test_conll_output_can_be_evaluated(graphattn, tagger, corpora_folder, tmp_path):
    out = tmp_path / "predicted.conll"
    graphattn("predict", tagger, corpora_folder / "tags.conll", "--output", "conll", "--out", out)
    assert [line.split("\t")[0] for line in out.read_text().splitlines()[:4]] == ["Ada", "saw", "Rome", ""]
    assert json.loads(graphattn("evaluate", tagger, out).out)["accuracy"] == 100


def test_html_has_a_head_once(graphattn, tagger):
    answer = graphattn("predict", tagger, "--output", "html", "--chunk", 1, stdin="Ada saw Rome\nA <b> tag\n")
    assert answer.out.startswith("<!DOCTYPE html>")
    assert answer.out.count("<title>") == 1
    assert answer.out.count("<p ") == 2
    assert "&lt;" in answer.out
    assert "<b>" not in answer.out


def test_plain_tags_are_no_entities(graphattn, corpora_folder, tmp_path, tiny):
    graphattn("train", "tag", corpora_folder / "trees.conllu", "--out", tmp_path / "model", *tiny)
    answer = graphattn("predict", tmp_path / "model", "--output", "spans", stdin="Dogs bark\n")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == ("error: the model's tags, such as 'NOUN', mark no entities; --output can be json or conll\n")
    answer = graphattn("predict", tmp_path / "model", "--output", "conll", stdin="Dogs bark\n")
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == ["Dogs", "bark", ""]


def test_classifiers_have_no_spans(graphattn, classifier):
    answer = graphattn("predict", classifier, "--output", "spans", stdin="a film\n")
    assert answer.error == "--output is 'spans'; a model that classifies texts has: json, csv, tsv, parquet"


REVIEWS = [("a good film", "7"), ('dull, "so" dull', "8"), ("", "9")]


@pytest.mark.parametrize("out", ["out.csv", "out.TSV"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv", 'stars,text,id\n5,a good film,7\n1,"dull, ""so"" dull",8\n,"",9\n'),
        ("in.tsv", 'stars\ttext\tid\n5\ta good film\t7\n1\tdull, "so" dull\t8\n\t\t9\n'),
    ],
)
def test_a_table_keeps_all_columns(graphattn, classifier, tmp_path, name, content, out):
    (tmp_path / name).write_text(content)
    answer = graphattn("predict", classifier, tmp_path / name, "--out", tmp_path / out, "--chunk", 2)
    assert (answer.code, answer.err, answer.out) == (0, "", f"3 predictions: {tmp_path / out}\n")
    texts = [text for text, _ in REVIEWS]
    labels = load(classifier).predict(texts).tolist()
    for label, expected in (("id", ["7", "8", "9"]), ("label", labels)):
        examples = list(read_table(tmp_path / out, label=label))
        assert [example.text for example in examples] == texts
        assert [example.label for example in examples] == expected
    again = rows(graphattn("predict", classifier, tmp_path / out))
    assert [row["label"] for row in again] == labels


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_texts_become_a_table(graphattn, classifier, pair_classifier, tmp_path, suffix):
    out = tmp_path / f"out.{suffix}"
    graphattn("predict", classifier, "--probabilities", "--out", out, stdin="a good, film\n\n")
    header, _, last = out.read_text().splitlines()
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    assert header.split(separator) == ["text", "label", "confidence", "p(neg)", "p(pos)"]
    assert sum(map(float, last.split(separator)[3:])) == pytest.approx(1, abs=1e-4)
    assert [example.text for example in read_table(out, label="label")] == ["a good, film", ""]
    assert graphattn("predict", pair_classifier, "--output", suffix, stdin="a\tb\n").out.split(separator)[:3] == [
        "text", "second", "label",
    ]  # fmt: skip


def test_fields_without_names_and_repeated_names(graphattn, classifier, tmp_path):
    (tmp_path / "in.tsv").write_text("1\tpos\ta film\n2\tneg\ta play\n")
    columns = ["--columns", "none,label,text", "--format", "labelled"]
    answer = graphattn("predict", classifier, tmp_path / "in.tsv", *columns, "--output", "csv")
    assert answer.out.splitlines()[0] == "column 1,label,text,predicted_label,confidence"
    (tmp_path / "in.tsv").write_text("\tmood\tsentence\n1\tpos\ta film\tfine\n2\tneg\ta play\n")
    columns = ["--columns", "none,label,text,...", "--format", "labelled", "--header"]
    lines = graphattn("predict", classifier, tmp_path / "in.tsv", *columns, "--output", "csv").out.splitlines()
    assert lines[0] == "column 1,mood,sentence,label,confidence"
    assert [line.rsplit(",", 2)[0] for line in lines[1:]] == ["1,pos,a film", "2,neg,a play"]
    columns = ["--columns", "label,text,...", "--format", "labelled", "--no-header"]
    (tmp_path / "in.tsv").write_text("pos\ta film\tx\nneg\ta play\n")
    lines = graphattn("predict", classifier, tmp_path / "in.tsv", *columns, "--output", "csv").out.splitlines()
    assert lines[0] == "label,text,column 3,predicted_label,confidence"
    assert [line.rsplit(",", 2)[0] for line in lines[1:]] == ["pos,a film,x", "neg,a play,"]
    (tmp_path / "in.csv").write_text("text,label,x,x\na film,?,1,2\n")
    answer = graphattn("predict", classifier, tmp_path / "in.csv", "--output", "tsv")
    assert answer.out.splitlines()[0] == '"text"\t"label"\t"x"\t"x"\t"predicted_label"\t"confidence"'
    assert answer.out.splitlines()[1].startswith('"a film"\t"?"\t"1"\t"2"\t')


def test_rows_that_cannot_be_predicted_stay_in_a_table(graphattn, classifier, tmp_path):
    (tmp_path / "in.csv").write_text("text,id\na film\nb,2\nc\n")
    answer = graphattn("predict", classifier, tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    assert answer.code == 1
    assert "2 texts could not be processed (line 2, 4). They have no prediction." in answer.err
    header, first, second, third = (tmp_path / "out.csv").read_text().splitlines()
    assert (header, first, third) == ("text,id,label,confidence", "a film,,,", "c,,,")
    assert second.startswith("b,2,")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "x.csv", "--output", "json"], "--output is 'json', but --out ends in .csv; leave --output out"),
        (["--out", "x.jsonl", "--output", "tsv"], "--output is 'tsv', but --out ends in .jsonl"),
        (["--out", "x.conll"], "--out ends in .conll; a model that classifies texts has: json, csv, tsv, parquet"),
        (["--out", "x.csv.gz"], "--out ends in .gz; the name must end in one of .csv, .tsv, .parquet, "),
        (["--out", "x.html"], "--out ends in .html; a model that"),
    ],
)
def test_the_extension_of_a_file_decides_its_format(graphattn, classifier, flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert graphattn("predict", classifier, *flags, stdin="a film\n").error.startswith(message)


def test_the_extension_of_a_file_decides_for_taggers(graphattn, tagger, tmp_path):
    for name in ("a.conll", "a.html", "a.jsonl", "a.txt"):
        assert graphattn("predict", tagger, "--out", tmp_path / name, stdin="Ada saw Rome\n").code == 0
    assert [sentence.tokens for sentence in read_conll(tmp_path / "a.conll")] == [("Ada", "saw", "Rome")]
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "a.txt").read_text()


def test_parsed_sentences_are_tagged(graphattn, tagger, corpora_folder):
    assert [row["words"] for row in rows(graphattn("predict", tagger, corpora_folder / "trees.conllu"))] == [
        ["Dogs", "bark"]
    ] * 10


def test_each_word_has_its_probabilities(graphattn, tagger):
    (row,) = rows(graphattn("predict", tagger, "--probabilities", stdin="Ada saw"))
    assert len(row["probabilities"]) == 2
    assert all(sum(word.values()) == pytest.approx(1, abs=1e-5) for word in row["probabilities"])


def test_a_line_can_be_a_pair(graphattn, pair_classifier):
    output = rows(graphattn("predict", pair_classifier, stdin="a film\tthe film\na\tb\n"))
    assert [(row["text"], row["second"]) for row in output] == [("a film", "the film"), ("a", "b")]


BAD_PAIR = {
    "line": 2,
    "error": "standard input, line 2: 1 field, 2 expected (text, second). "
    "Complete the line, or set --columns to what each field holds, None to skip one.",
}


@pytest.mark.parametrize("chunk", [1, 2, 512])
def test_the_other_texts_are_predicted(graphattn, pair_classifier, chunk):
    pairs = ["a film\tthe film", "alone", "a\tb"]
    answer = graphattn("predict", pair_classifier, "--chunk", chunk, stdin="\n".join(pairs))
    first, bad, last = map(json.loads, answer.out.splitlines())
    assert bad == BAD_PAIR
    summary = 'error: 1 text could not be processed (line 2). See the rows with "error". The first error: '
    assert (answer.code, answer.err) == (1, f"{summary}{BAD_PAIR['error']}\n")
    undisturbed = graphattn("predict", pair_classifier, stdin="\n".join(pairs[::2]))
    assert [first, last] == rows(undisturbed)


def test_a_line_that_is_not_utf8_has_an_error(graphattn, classifier):
    answer = graphattn("predict", classifier, stdin=b"a film\na \xff\n\na film\n")
    assert [json.loads(line).get("line") for line in answer.out.splitlines()] == [None, 2, None, None]
    assert answer.code == 1


def test_lines_are_those_of_the_file(graphattn, tagger, tmp_path):
    (tmp_path / "a.conll").write_text("Ada X\nsaw X\n\nRome\n\nAda X\n")
    answer = graphattn("predict", tagger, tmp_path / "a.conll")
    assert [json.loads(line).get("line") for line in answer.out.splitlines()] == [None, 4, None]


@pytest.mark.parametrize("chunk", [2, 3, 512])
def test_a_text_that_the_model_rejects_has_an_error(monkeypatch, graphattn, classifier, chunk):
    predict = TextClassifier.predict

    def fail(self, texts):
        if any("fail" in text for text in texts):
            raise EdgeCountError("too many edges")
        return predict(self, texts)

    monkeypatch.setattr(TextClassifier, "predict", fail)
    texts = ["a good film", "fail", "a bad film", "a film", "fail too"]
    answer = graphattn("predict", classifier, "--chunk", chunk, stdin="\n".join(texts))
    output = [json.loads(line) for line in answer.out.splitlines()]
    errors = {2: {"line": 2, "error": "too many edges"}, 5: {"line": 5, "error": "too many edges"}}
    labels = load(classifier).predict([text for text in texts if "fail" not in text]).tolist()
    assert [errors.get(n) or row["label"] for n, row in enumerate(output, 1)] == [
        labels[0], errors[2], *labels[1:], errors[5]
    ]  # fmt: skip
    assert [row for row in output if "error" in row] == list(errors.values())
    summary = 'error: 2 texts could not be processed (line 2, 5). See the rows with "error".'
    assert answer.err == f"{summary} The first error: too many edges\n"


def test_a_damaged_archive_stops_the_command(graphattn, classifier, tmp_path):
    whole = gzip.compress("".join(f"a good film {number}\n" for number in range(30_000)).encode(), mtime=0)
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    answer = graphattn("predict", classifier, tmp_path / "a.txt.gz", "--chunk", 100_000)
    assert (answer.code, answer.out) == (1, "")
    assert "the archive ends too early" in answer.err


def test_a_file_appears_when_it_is_complete(graphattn, classifier, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    (tmp_path / "out.jsonl").write_text("yesterday's")
    command = ["predict", classifier, tmp_path / "texts.jsonl", "--chunk", "1", "--out", tmp_path / "out.jsonl"]
    answer = graphattn(*command)
    assert answer.code == 1
    first, bad = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["text"], bad["line"]) == ("a", 2)
    assert bad["error"] == (
        f"{tmp_path / 'texts.jsonl'}, line 2, field 'text': a number where a string was expected. Quote the text."
    )
    (tmp_path / "out.jsonl").write_text("yesterday's")
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n')
    assert graphattn(*command).out == f"1 prediction: {tmp_path / 'out.jsonl'}\n"
    assert graphattn(*command, "--quiet").out == ""
    assert json.loads((tmp_path / "out.jsonl").read_text())["text"] == "a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "texts.jsonl"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format", "xml"], "there is no format 'xml'. Set --format to one of 'conll', "),
        (["--text-column", "review"], "standard input: has no format that the first lines show. Set --format to one "),
        (["--format", "text", "--text-column", "review"], "format 'text' has no option --text-column; leave that out"),
        (["--format", "jsonl", "--columns", "text"], "format 'jsonl' has no option --columns; leave that out"),
        (["--format", "labelled"], "standard input: its 1 field per line do not show which is the text"),
    ],
)
def test_unsuitable_options_are_rejected(graphattn, classifier, flags, message):
    assert graphattn("predict", classifier, *flags, stdin="a film").error.startswith(message)


@pytest.mark.slow
def test_a_very_long_text_works(graphattn, corpora_folder, tmp_path, tiny):
    """All scales of the paper: N/4 of 20,000 tokens makes a hundred million edges."""
    flags = "--scales 1,3,N/16,N/8,N/4 --heads 5 --head-feats 4 --max-tokens-per-text 30000".split()
    graphattn("train", "classify", corpora_folder / "reviews.tsv", "--out", tmp_path / "model", *tiny, *flags)
    text = " ".join(f"a good film of {number} scenes" for number in range(3334))
    (row,) = rows(graphattn("predict", tmp_path / "model", stdin=text))
    assert len(row["text"].split()) > 20_000
    assert row["label"] in ("neg", "pos")


class EchoTranslator(Translator):
    """Writes the length of each source, and more outputs with decreasing scores."""

    def __init__(self):
        super().__init__()
        self.chunks, self.text_inputs_ = [], None

    def outputs(self, items, *, count, first):
        self.chunks.append((first, len(items)))
        return [[Output(f"{len(item)} {n}", 0.0 - 0.5 * n) for n in range(count)] for item in items]


def test_json_lines_of_a_translator():
    lines = "".join(predict_lines(EchoTranslator(), ["ä b", ["c", "d"], Sentence(["e"])], n_best=2))
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"text": "ä b", "outputs": [{"text": "3 0", "score": 0.0}, {"text": "3 1", "score": -0.5}]},
        {"words": ["c", "d"], "outputs": [{"text": "2 0", "score": 0.0}, {"text": "2 1", "score": -0.5}]},
        {"words": ["e"], "outputs": [{"text": "1 0", "score": 0.0}, {"text": "1 1", "score": -0.5}]},
    ]
    assert "ä" in lines


def test_plain_lines_a_chunk_at_a_time():
    echo = EchoTranslator()
    assert list(predict_lines(echo, iter(["a", "bb", "c"]), plain=True, chunk=2)) == ["1 0\n2 0\n", "1 0\n"]
    assert echo.chunks == [(1, 2), (3, 1)]
    assert "".join(predict_lines(echo, ["a", "bb"], n_best=2, plain=True, chunk=1)).splitlines() == [
        "1\t0.000000\t1 0",
        "1\t-0.500000\t1 1",
        "2\t0.000000\t2 0",
        "2\t-0.500000\t2 1",
    ]


def train(graphattn, tmp_path, name, content, tiny, *flags):
    (tmp_path / name).write_text(content)
    answer = graphattn("train", "tag", tmp_path / name, *flags, "--out", tmp_path / "model", *tiny)
    assert answer.code == 0, answer.err
    return tmp_path / "model", answer


def words(answer):
    assert answer.code == 0, answer.err
    return [json.loads(line)["words"] for line in answer.out.splitlines()]


@pytest.mark.slow
def test_columns_are_read_as_those_of_the_training(graphattn, tmp_path, tiny):
    """Gold tags, numbers and comments never become words, whatever the extension and the place of the words."""
    content = "# id {0}\tdomain=en\n1 _ Ada B-PER\n2 _ # O\n3 _ rief O\n\n# id {1}\tdomain=en\n1 _ Rom B-LOC\n\n"
    flags = ["--token-column", 2, "--quiet"]
    model, answer = train(graphattn, tmp_path, "a.txt", content.format(1, 2) * 8, tiny, *flags)
    assert answer.err == ""
    expected = [["Ada", "#", "rief"], ["Rom"]]
    for name in ("b.txt", "b.tsv", "b.conll", "b"):
        (tmp_path / name).write_text(content.format(3, 4))
        assert words(graphattn("predict", model, tmp_path / name)) == expected
        assert json.loads(graphattn("evaluate", model, tmp_path / name).out)["accuracy"] > 0
    (tmp_path / "b.txt").write_text(
        content.format(3, 4).replace("B-PER", "_").replace("B-LOC", "_").replace(" O", " _")
    )
    answer = graphattn("predict", model, tmp_path / "b.txt")
    assert words(answer) == expected
    assert answer.err.splitlines()[0] == (
        f"hint: {tmp_path / 'b.txt'}: read as conll, like the training corpus; --format text reads lines as texts"
    )
    assert words(graphattn("predict", model, stdin="Ada _ rief O\n")) == [["Ada", "_", "rief", "O"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "name", "flags", "content"),
    [
        ("classify", "a.label", ["--columns", "label,text", "--separator", " "], "A:b so good\nC:d so bad\n"),
        ("classify", "a.tsv", ["--columns", "none,text,label,..."], "7\tso good\tx\t1\n8\tso bad\ty\n"),
        ("classify", "a.csv", ["--text-column", "b", "--label-column", "c"], "b,c\nso good,x\nso bad,y\n"),
        ("pair", "a.jsonl", ["--text-column", "b", "--second-column", "c", "--label-column", "d"],
         '{"b": "so good", "c": "no", "d": 1}\n{"b": "so bad", "c": "no", "d": 2}\n'),
    ],
)  # fmt: skip
def test_tables_are_read_as_those_of_the_training(graphattn, tmp_path, tiny, task, name, flags, content):
    """No label becomes a word of a text."""
    lines = content.splitlines(keepends=True)
    rows = lines[name == "a.csv" :]
    (tmp_path / name).write_text("".join([*lines[: -len(rows)], *rows * 4]))
    model = tmp_path / "model"
    answer = graphattn("train", task, tmp_path / name, *flags, "--out", model, *tiny)
    assert answer.code == 0, answer.err
    answer = graphattn("predict", model, tmp_path / name)
    assert answer.code == 0, answer.err
    assert [json.loads(line)["text"] for line in answer.out.splitlines()][-2:] == ["so good", "so bad"]
    assert graphattn("evaluate", model, tmp_path / name).code == 0
    (tmp_path / "raw.txt").write_text("so good\n" if task != "pair" else "so good\tno\n")
    (row,) = map(json.loads, graphattn("predict", model, tmp_path / "raw.txt").out.splitlines())
    assert row["text"] == "so good"


def test_a_column_of_numbers_stays_one_in_short_files(graphattn, tmp_path, tiny):
    rows = "1-2\tdu\t_\n1\tde\tADP\n2\tle\tDET\n\n1\toui\tINTJ\n\n"
    tiny = [flag for flag in tiny if flag != "--quiet"]
    model, answer = train(graphattn, tmp_path, "a.conll", rows * 8, tiny)
    assert answer.err.startswith(f"hint: {tmp_path / 'a.conll'}: column 0 counts the words, so --token-column is 1\n")
    (tmp_path / "b.conll").write_text("1\tnon\tINTJ\n")
    assert words(graphattn("predict", model, tmp_path / "b.conll")) == [["non"]]


def test_a_model_of_roles_needs_no_flags_again(graphattn, tmp_path, tiny):
    """Sentences are repeated for each predicate, with roles and without."""
    rows = ["dogs - (A0* *", "and - * *", "cats - *) (A0*)", "bark Y (V*) *", "eat Y * (V*)", "", "oh - ", ""]
    flags = ["--predicate-column", 1, "--tag-column", "2+", "--no-crf"]
    model, _ = train(graphattn, tmp_path, "a.txt", "\n".join([*rows, ""]) * 8, tiny, *flags)
    assert load(model).classes_.tolist() == ["B-A0", "B-V", "E-A0", "E-V", "I-A0", "I-V", "O", "S-A0", "S-V"]
    (tmp_path / "b.conll").write_text("\n".join(" ".join(row.split()[:2]) for row in rows) + "\n")
    twice = [["dogs", "and", "cats", "bark", "eat"]] * 2
    assert words(graphattn("predict", model, tmp_path / "a.txt")) == twice * 8
    assert words(graphattn("predict", model, tmp_path / "b.conll")) == twice
    assert graphattn("predict", model, tmp_path / "b.conll", "--out", tmp_path / "c.jsonl").code == 0
    assert [json.loads(line)["words"] for line in (tmp_path / "c.jsonl").read_text().splitlines()] == twice
    assert json.loads(graphattn("evaluate", model, tmp_path / "a.txt").out)["accuracy"] > 0


def test_any_column_of_a_treebank_can_be_learnt(graphattn, tmp_path, tiny):
    header = "# global.columns = ID FORM UPOS PARSEME:MWE\n"
    rows = "1\tgive\tVERB\t1:VPC\n2\tup\tADV\t1\n\n1\tgo\tVERB\t*\n\n"
    model, _ = train(graphattn, tmp_path, "a.cupt", header + rows * 8, tiny, "--tags", "parseme:mwe")
    assert load(model).classes_.tolist() == ["*", "1", "1:VPC"]
    assert words(graphattn("predict", model, tmp_path / "a.cupt")) == [["give", "up"], ["go"]] * 8
    assert json.loads(graphattn("evaluate", model, tmp_path / "a.cupt").out)["accuracy"] > 0


def test_a_csv_file_in_single_quotes_is_predicted_as_a_standard_one(graphattn, classifier, tmp_path):
    """What is written has double quotes."""
    single, standard = tmp_path / "single.csv", tmp_path / "standard.csv"
    single.write_text("id,text\n1,'a good film, isn''t it'\n2,bad\n")
    standard.write_text('id,text\n1,"a good film, isn\'t it"\n2,bad\n')
    files = [(path, path.with_suffix(".out.csv")) for path in (single, standard)]
    answers = [graphattn("predict", classifier, path, "--out", out) for path, out in files]
    assert [answer.code for answer in answers] == [0, 0]
    assert [answer.err.count("read fields in single quotes") for answer in answers] == [1, 0]
    written, expected = (out.read_text() for _, out in files)
    assert written == expected
    assert '1,"a good film, isn\'t it",' in written
