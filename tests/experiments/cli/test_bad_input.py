"""User errors: each prints one line, sets an exit code and leaves no files."""

import json

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


ROW = "pos\ta film\n"
LOSS = "label\ttext\n" + "pos\ta good film\nneg\ta bad film\n" * 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "name", "content", "flags", "message"),
    [
        (
            *("classify", "a.csv", "review,stars\ngood,5\n", "--text-column text"),
            "a.csv, line 1: there is no column 'text'; the columns are 'review', 'stars'. Set --text-column to one of "
            "them; if the first line is no header, set --columns.\n",
        ),
        (
            *("classify", "a.csv", "review,stars\ngood,5\n", "--text-column review"),
            "a.csv, line 1: there is no column 'label'; the columns are 'review', 'stars'. Set --label-column to one "
            "of them; if the first line is no header, set --columns.\n",
        ),
        # braces of a user's names and texts are no placeholders
        (
            *("classify", "{label}.csv", "{text},stars\ngood,5\n", "--label-column stars"),
            "{label}.csv, line 1: there is no column 'text'; the columns are '{text}', 'stars'. Set --text-column to "
            "one of them; if the first line is no header, set --columns.\n",
        ),
        (
            *("classify", "a.csv", "text,a,b\ngood,{label},1\n", "--label-column a,b"),
            "a.csv, line 2, field 'a': '{label}' where 0 or 1 was expected",
        ),
        (
            *("classify", "a.jsonl", '{"text": "good", "label": {"{format}": 1}}\n', ""),
            "a.jsonl, line 1, field 'label': an object with the keys {format} where",
        ),
        (
            *("pair", "a.tsv", "x\ta{text_separator}b\n", "--columns label,text --text-separator {text_separator}{"),
            "a.tsv, line 1: '{text_separator}{' occurs 0 times",
        ),
        (
            *("classify", "a.tsv", "neg\ta\npos\tb\n" * 3 + "\ta film\n" * 3, ""),
            "a.tsv, line 7: its 2 fields per line do not show which is the text and which the label. The first empty "
            "field is on this line; fill it in, or set --columns to what each field holds: 'label', 'text', 'second', "
            "or None to skip one.\n",
        ),
        (
            *("classify", "a.tsv", "".join(["label\ttext\n", *[ROW] * 4_999, "neg a film\n", *[ROW] * 4_999]), ""),
            "a.tsv, line 5001: 1 field, the header names 2. A text that contains a tab must not be in this table.\n",
        ),
        # a broken line near the top does not affect the detection of the format
        (
            *("classify", "a.txt", f"{ROW}neg a film\n" + ROW * 8, ""),
            "a.txt, line 2: 1 field, 2 expected (label, text). Complete the line, or set --columns to what each field "
            "holds, None to skip one.\n",
        ),
        (
            *("tag", "a.conll", "Ada B-PER\nsaw O\n\n", "--tag-column 5"),
            "a.conll, line 1: there is no column 5 for the tag: the line has 2 columns, counted from 0. "
            "Set --tag-column to one of them, -1 for the last.\n",
        ),
        (
            *("classify", "a.tsv", "label\ttext\n" + ROW * 8, ""),
            "all 8 labels are 'pos'; training needs at least two different ones\n",
        ),
        ("classify", "a.tsv", LOSS, "--learning-rate 1e20", "the loss is "),
    ],
)
def test_training_rejects_a_corpus(train, task, name, content, flags, message):
    error = train(task, name, content, *flags.split())
    assert error.startswith(f"error: {message}")
    if content is LOSS:
        assert "Lower --learning-rate or --clip, or set --precision 32" in error


def test_a_missing_file(graphattn, tmp_path):
    answer = graphattn("train", "classify", "no-such.tsv", "--out", tmp_path / "model")
    assert answer.error == "no-such.tsv: there is no such file. Check the path."


def test_braces_in_hints_are_no_options(graphattn, tmp_path):
    rows = "".join(f"w{number}\tB-X\nv\tO\n\n" for number in range(12))
    (tmp_path / "{header}.txt").write_text("word\ttag\n" + rows)
    answer = graphattn("build", tmp_path / "{header}.txt", "--out", tmp_path / "store", "--tag-column", "1")
    assert "{header}.txt: read 'word, tag' as a header; --no-header keeps it" in answer.err


def test_a_dev_set_with_unseen_labels(train, tmp_path):
    (tmp_path / "dev.tsv").write_text("label\ttext\nneutral\ta film\n")
    train_set = "label\ttext\n" + "pos\tgood\nneg\tbad\n" * 8
    assert train("classify", "a.tsv", train_set, "--dev", tmp_path / "dev.tsv") == (
        "error: the dev set has label 'neutral', which the training set lacks. Known: neg, pos.\n"
    )


@pytest.mark.slow
def test_empty_texts_are_kept_and_predicted(graphattn, classifier, tagger):
    answer = graphattn("predict", classifier, "--probabilities", stdin="\n\n")
    (first, second) = [json.loads(line) for line in answer.out.splitlines()]
    assert first == second
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=2e-6)
    assert graphattn("predict", tagger, stdin="\n").out == '{"words": [], "tags": []}\n'


def test_a_corpus_of_texts_without_words_can_be_trained_on(graphattn, tmp_path, tiny):
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "pos\t\nneg\t\n" * 8)
    assert graphattn("train", "classify", tmp_path / "a.tsv", "--out", tmp_path / "model", *tiny).code == 0


def test_a_folder_that_is_no_model(graphattn, tmp_path):
    answer = graphattn("predict", tmp_path, stdin="a")
    assert (
        answer.error
        == f"{tmp_path} is no model directory: it has no config.json. Give one that `save` or `train` wrote"
    )


def test_taggers_read_words_and_tags_from_one_file(graphattn, tmp_path):
    paths = tmp_path / "seq.in", tmp_path / "seq.out"
    for path in paths:
        path.write_text("O O\n")
    both = ",".join(map(str, paths))
    error = graphattn("train", "tag", both, "--out", tmp_path / "model").error
    assert error.startswith(f"{both}: are two files; a tagger reads one, a word and its tag on each line. Write it: ")


@pytest.mark.parametrize(("task", "is_told"), [("classify", True), ("regress", True), ("pair", False)])
def test_texts_without_labels_may_have_them_in_another_file(train, task, is_told):
    error = train(task, "texts.txt", "a good film\na bad film\n")
    assert error.startswith("error: texts.txt: has no format that the first lines show. Set --format to one of ")
    hint = "'tsv'. If another file has a label on each line, give both with a comma: texts.txt,LABELS.\n"
    assert error.endswith(hint) == is_told
