"""User errors: each prints one line, sets an exit code and leaves no files."""

import json
import shutil

import pytest


@pytest.fixture
def train(graphattn, tmp_path, tiny):
    """Train on a file with this content, check that no files remain, and return the error message."""

    def run(task, name, content, *flags):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        answer = graphattn("train", task, path, "--out", tmp_path / "model", *tiny, *flags)
        assert not (tmp_path / "model").exists()
        assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
        return answer.err.replace(str(path), name).replace(" Or leave out such lines with --skip-bad.", "")

    return run


def test_a_missing_file(train, graphattn, tmp_path):
    answer = graphattn("train", "classify", "no-such.tsv", "--out", tmp_path / "model")
    assert (answer.code, answer.err) == (1, "error: no-such.tsv: there is no such file. Check the path.\n")


def test_a_missing_column(train):
    assert train("classify", "a.csv", "review,stars\ngood,5\n", "--text-column", "text") == (
        "error: a.csv, line 1: there is no column 'text'; the columns are 'review', 'stars'. Set --text-column to one "
        "of them; if the first line is no header, set --columns.\n"
    )
    assert train("classify", "a.csv", "review,stars\ngood,5\n", "--text-column", "review") == (
        "error: a.csv, line 1: there is no column 'label'; the columns are 'review', 'stars'. Set --label-column to "
        "one of them; if the first line is no header, set --columns.\n"
    )


def test_braces_of_a_file_are_no_options(train):
    assert train("classify", "{label}.csv", "{text},stars\ngood,5\n", "--label-column", "stars") == (
        "error: {label}.csv, line 1: there is no column 'text'; the columns are '{text}', 'stars'. Set --text-column "
        "to one of them; if the first line is no header, set --columns.\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "options", "problem"),
    [
        ("a.csv", "text,a,b\ngood,{label},1\n", ["--label-column", "a,b"], "'{label}' where 0 or 1 was expected"),
        ("a.jsonl", '{"text": "good", "label": {"{format}": 1}}\n', [], "an object with the keys {format} where"),
        ("a.tsv", "x\ta{text_separator}b\n", ["--columns", "label,text", "--text-separator", "{text_separator}{"],
         "'{text_separator}{' occurs 0 times"),
    ],
)  # fmt: skip
def test_braces_of_fields_are_no_options(train, name, content, options, problem):
    assert problem in train("pair" if "x\t" in content else "classify", name, content, *options)


def test_braces_in_hints_are_no_options(graphattn, tmp_path):
    rows = "".join(f"w{number}\tB-X\nv\tO\n\n" for number in range(12))
    (tmp_path / "{header}.txt").write_text("word\ttag\n" + rows)
    answer = graphattn("build", tmp_path / "{header}.txt", "--out", tmp_path / "store", "--tag-column", "1")
    assert "{header}.txt: read 'word, tag' as a header; --no-header keeps it" in answer.err


ROWS = [f"{'pos' if number % 2 else 'neg'}\ta film {number}\n" for number in range(20)]


@pytest.mark.parametrize(
    ("line", "content", "error"),
    [
        (
            3,
            "neg a film\n",
            "1 field, 2 expected (label, text). Complete the line, or set --columns to what each field",
        ),
        (3, "neg\ta\tfilm\n", "3 fields, 2 expected (label, text). Set --columns to what"),
        (5, "\ta film\n", "the label is empty. Fill it in, or read the file without its label column;"),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.txt"])
def test_one_wrong_line_of_a_file_of_labels_and_texts(train, name, line, content, error):
    rows = [*ROWS[: line - 1], content, *ROWS[line:]]
    assert train("classify", name, "".join(rows)).startswith(f"error: {name}, line {line}: {error}")


def test_many_empty_labels(train):
    assert train("classify", "a.tsv", "".join([*ROWS[:6], *["\ta film\n"] * 3])) == (
        "error: a.tsv, line 7: its 2 fields per line do not show which is the text and which the label. The first "
        "empty field is on this line; fill it in, or set --columns to what each field holds: 'label', 'text', "
        "'second', or None to skip one.\n"
    )


def test_an_empty_file(train):
    assert train("classify", "a.tsv", "") == "error: a.tsv: is empty. Give a file with at least one line.\n"


def test_a_binary_file(train):
    assert train("classify", "a.tsv", b"label\ttext\n\x00\x01\x02\n") == (
        "error: a.tsv, line 2: holds a NUL byte, so it is binary. "
        "Give UTF-8 text, plain or compressed as .gz, .xz or .bz2.\n"
    )


@pytest.mark.parametrize(
    ("name", "good", "broken", "message"),
    [
        (
            *("a.tsv", "pos\ta film\n", "neg a film\n"),
            "1 field, the header names 2. A text that contains a tab must not be in this table.",
        ),
        (
            *("a.jsonl", '{"text": "a", "label": "x"}\n', '{"text": "a", "label": }\n'),
            "broken JSON: Expecting value at column 24. JSON Lines have one object in braces on each line.",
        ),
    ],
)
def test_a_broken_line_in_the_middle_of_ten_thousand(train, name, good, broken, message):
    header = "label\ttext\n" if name == "a.tsv" else good
    lines = [header, *[good] * 9_999]
    lines[5_000] = broken
    assert train("classify", name, "".join(lines)) == f"error: {name}, line 5001: {message}\n"


@pytest.mark.parametrize(
    ("good", "broken", "message"),
    [
        (
            "pos\ta film",
            "neg a film",
            "1 field, 2 expected (label, text). "
            "Complete the line, or set --columns to what each field holds, None to skip one.",
        ),
        ("__label__pos a film", "a film", "no word begins with '__label__'. Add the label."),
    ],
)
def test_a_broken_line_near_the_top_does_not_affect_detection(train, good, broken, message):
    assert train("classify", "a.txt", "\n".join([good, broken, *[good] * 8])) == f"error: a.txt, line 2: {message}\n"


@pytest.mark.parametrize(
    ("heads", "line", "message"),
    [
        ("2 9", 2, "word 2 ('b') has head 9, the sentence has 2 words. Heads are 1-based word numbers, 0 for a root."),
        ("2 1", 1, "heads form a cycle through word 1 ('a'). Each word must lead to a root."),
    ],
)
def test_heads_outside_the_sentence(train, heads, line, message):
    first, second = heads.split()
    rows = [f"1 a _ DET _ _ {first} det _ _", f"2 b _ NOUN _ _ {second} root _ _"]
    content = "\n".join(row.replace(" ", "\t") for row in rows) + "\n\n"
    assert train("tag", "a.conllu", content) == f"error: a.conllu, line {line}, field 'heads': {message}\n"


def test_one_class_is_not_enough(train):
    assert train("classify", "a.tsv", "label\ttext\n" + "pos\ta film\n" * 8) == (
        "error: all 8 labels are 'pos'; training needs at least two different ones\n"
    )


def test_a_dev_set_with_unseen_labels(train, tmp_path):
    (tmp_path / "dev.tsv").write_text("label\ttext\nneutral\ta film\n")
    train_set = "label\ttext\n" + "pos\tgood\nneg\tbad\n" * 8
    assert train("classify", "a.tsv", train_set, "--dev", tmp_path / "dev.tsv") == (
        "error: the dev set has label 'neutral', which the training set lacks. Known are: neg, pos.\n"
    )


def test_a_missing_tag_column(train):
    assert train("tag", "a.conll", "Ada B-PER\nsaw O\n\n", "--tag-column", "5") == (
        "error: a.conll, line 1: there is no column 5 for the tag: the line has 2 columns, counted from 0. "
        "Set --tag-column to one of them, -1 for the last.\n"
    )


def test_a_word_without_its_tag(train):
    assert train("tag", "a.conll", "Ada B-PER\nsaw\n\n") == (
        "error: a.conll, line 2: 1 column, but 2 on the lines before. "
        "Complete the line, or set --comment if it is one.\n"
    )


def test_empty_texts_are_kept_and_predicted(graphattn, classifier, tagger):
    answer = graphattn("predict", classifier, "--probabilities", stdin="\n\n")
    (first, second) = [json.loads(line) for line in answer.out.splitlines()]
    assert first == second
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=2e-6)
    assert graphattn("predict", tagger, stdin="\n").out == '{"words": [], "tags": []}\n'


def test_a_corpus_of_texts_without_words_can_be_trained_on(graphattn, tmp_path, tiny):
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "pos\t\nneg\t\n" * 8)
    assert graphattn("train", "classify", tmp_path / "a.tsv", "--out", tmp_path / "model", *tiny).code == 0


@pytest.fixture
def copied(classifier, tmp_path):
    """A model directory for a test to damage."""
    return shutil.copytree(classifier, tmp_path / "copy")


def test_a_model_directory_of_another_version(graphattn, copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "format_version": 99}))
    answer = graphattn("predict", copied, stdin="a")
    assert (answer.code, answer.err) == (
        1,
        f"error: {copied} has format 99, this GraphAttn reads format {config['format_version']}. "
        "Install the GraphAttn that wrote it, or train again\n",
    )


def test_a_corrupted_weight_file(graphattn, copied):
    weights = copied / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    answer = graphattn("predict", copied, stdin="a")
    assert (answer.code, answer.err) == (
        1,
        f"error: {weights} is damaged: its checksum is not the one in config.json. Copy the directory again\n",
    )


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "labels.json"])
def test_an_incomplete_model_directory(graphattn, copied, name):
    (copied / name).unlink()
    answer = graphattn("predict", copied, stdin="a")
    assert answer.err == f"error: {copied} is incomplete: {name} is missing. Copy the whole directory again\n"


def test_a_folder_that_is_no_model(graphattn, tmp_path):
    answer = graphattn("predict", tmp_path, stdin="a")
    assert (answer.code, answer.err) == (
        1,
        f"error: {tmp_path} is no model directory: it has no config.json. Give one that `save` or `train` wrote\n",
    )


def test_a_loss_that_is_no_number(train):
    content = "label\ttext\n" + "pos\ta good film\nneg\ta bad film\n" * 20
    error = train("classify", "a.tsv", content, "--learning-rate", "1e20")
    assert error.startswith("error: the loss is ")
    assert "Lower --learning-rate or --clip, or set --precision 32" in error
