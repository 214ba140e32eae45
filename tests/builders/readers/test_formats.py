import gzip
import warnings
from pathlib import Path

import pytest

from graphattn.builders._text_lines import open_text
from graphattn.builders.readers import DetectedFormat, detect, read_corpus
from graphattn.builders.readers._formats import resolve_like_training
from graphattn.exceptions import DataError, Hint

CONLLU = "\t".join(["1", "Dogs", "dog", "NOUN", "NNS", "_", "0", "root", "_", "_"])
PLUS = ["# id = 1", "# global.columns = ID FORM UPOS PARSEME:MWE", "1\tDogs\tNOUN\t*"]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.csv", ["text,label", "a,1"], "csv"),
        ("a.txt", ["id,text,label", "1,a,1"], "csv"),
        ("a.tsv", ["text\tlabel", "a b\t1"], "tsv"),
        ("a.txt", ["sentence_id,word,label", "0,a,1"], "word-table"),
        ("a.tsv", ["text", "a b"], "tsv"),
        ("a.tsv", ["sentence\tlabel", "a b\t1"], "labelled"),
        ("a.tsv", ["id\tsentence\tsource\tlabel", "1\ta b\tx\t1"], "tsv"),
        ("a.txt", ["\ttext\tlabel", "0\ta b\t1"], "tsv"),
        ("a.jsonl", ["anything"], "jsonl"),
        ("a.ndjson", ["anything"], "jsonl"),
        ("a", ['{"text": "a"}'], "jsonl"),
        ("a.jsonl", ['{"text": "a", "label": "x", "spans": [{"start": 0, "end": 1, "label": "X"}]}'], "jsonl"),
        ("a.jsonl", ['{"text": "a", "label": ["x"], "entities": []}'], "jsonl"),
        ("a.jsonl", ['{"text": "a", "label": []}', '{"text": "a", "label": [[0, 1, "X"]]}'], "spans"),
        ("a.jsonl", ['{"text": "a", "tokens": [{"start": 0, "end": 1}], "spans": []}'], "spans"),
        ("a.json", ["[", "{", '"text": "a", "spans": [{"start": 0, "end": 1, "label": "X"}]}]'], "spans"),
        ("a.txt", ["#FORMAT=WebAnno TSV 3.2", "", "", "1-1\t0-1\ta\t"], "webanno"),
        ("a.tsv", ["1\ta fine film", "0\tdull"], "labelled"),
        ("a.task.train", ["1\ta fine film", "0\treview"], "labelled"),
        ("a.tsv", ["0\treview", "1\ttext here", "", ""], "labelled"),
        ("a.tsv", ["1\tgood", "", "0\tbad", "0\tvery bad"], "labelled"),
        ("a.tsv", ["1\tgood", "no tab", "0\tbad", "0\tvery bad"], "labelled"),
        ("a.txt", ["good\ta film", "", "bad\ta play"], "labelled"),
        ("a.txt", ["good\ta film", "bad", "good\ta play"], "labelled"),
        ("a.tsv", ["no tab", "1\ttwo\ttabs", *["1\tgood", "0\tbad"] * 3], "labelled"),
        ("a.tsv", ["one two\tthree four\t1", "one\ttwo two\t0"], "labelled"),
        ("a.txt", ["__label__a text", "__label__b text"], "fasttext"),
        ("a.txt", ["no label", "", "", "", *["__label__a text"] * 3], "fasttext"),
        ("a.conllu", ["anything"], "conllu"),
        ("a.txt", ["# sent_id = 1", CONLLU], "conllu"),
        ("a.conll", ["# sent_id = 1", CONLLU], "conllu"),
        ("a.conll", ["Dogs\tO"], "conll"),
        ("a.txt", ["# id 1\tdomain=en", "Dogs NNS", "bark VBP", "", "Cats NNS"], "conll"),
        ("a.txt", ["Hà Nội\tX", "đẹp\tY", "", "ôi\tX"], "conll"),
        ("a.txt", ["#begin document (a)", "a 0 0 Dogs X", "", "a 0 0 Cats X -", "a 0 1 bark Y (1)"], "conll"),
        ("a.txt", ["1 Dogs X _ _", "2 bark Y Y X", "", "1 Cats X", "2 do X", "3 too Z"], None),
        ("a.txt", ["a b X _", "c d Y Y", "", "e f X _ _", "g h Y Y _", "i j Y _ Y"], "conll"),
        ("a.txt", PLUS, "conllup"),
        ("a.conllu", PLUS, "conllup"),
        ("a.conll", PLUS, "conllup"),
        ("a.cupt", PLUS, "conllup"),
        ("a.conllup", [CONLLU], "conllup"),
        ("a.txt", ["# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC", CONLLU], "conllu"),
        ("a.tsv", ["Dogs\tNNS", "bark\tVBP", "", "Cats\tNNS"], "conll"),
        ("eng.testa", ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG"], "conll"),
        ("a.pos", ["Dogs/NNS bark/VBP", "", "and\\/or/CC"], "word/tag"),
        ("a.tsv", ["New\u00a0York\ta fine film", "New\u3000Jersey\tdull", "New\u00a0York\tso"], "labelled"),
        ("a.txt", ["\u00a0__label__a text"] * 5, None),
    ],
)
def test_formats(corpus, name, lines, expected):
    path = corpus(name, *lines)
    if expected is None:
        with pytest.raises(DataError):
            detect(path)
        return
    assert detect(path).name == expected
    packed = Path(f"{path}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert detect(packed).name == expected


def test_a_text_column_of_any_name_implies_a_header(corpus):
    path = corpus("a.tsv", "Satz\tKlasse", "ein Satz\t1")
    assert detect(path).name == "labelled"
    assert detect(path, text="Satz").name == "tsv"


def test_one_long_sentence_is_conll_only_when_it_must_be_tagged(corpus):
    path = corpus("a.txt", *["word\tO", "words\tO"] * 250)
    assert detect(path).name == "labelled"
    assert detect(path, "tag").name == "conll"


def test_the_only_candidate_is_not_opened():
    assert detect("missing", predicate_column=1) == DetectedFormat("conll", "missing")


@pytest.mark.parametrize(
    "lines",
    [
        ["a line of text", "and another line"],
        ["two words", "two words"],
        ["10 000\tCD", "dogs\tNNS", "", "10 000\tCD", "", "two cats\tNNS", "", "bark\tVBP"],
        ["1\tgood", "text alone"],
        ["1\tgood", "text alone", "0\tbad", "more text"],
        ["text", "", "alone", *["0\tbad"] * 100],
        ["__label__a text", "text"],
        ["a text", "a text", "a text", *["__label__a text"] * 100],
        ["", ""],
    ],
)
def test_unknown_formats(corpus, lines):
    path = corpus("a.txt", *lines)
    with pytest.raises(DataError) as caught:
        detect(path, "classify")
    assert str(caught.value) == (
        f"{path}: has no format that the first lines show. "
        "Set format to one of 'csv', 'fasttext', 'jsonl', 'labelled', 'sentences', 'tsv'."
    )
    with pytest.raises(DataError) as caught:
        detect(path)
    assert str(caught.value).endswith("; for texts alone, one on each line, to 'labelled' with columns 'text'.")


@pytest.mark.parametrize("sign", [";", "@"])  # Kaggle's Emotions, Financial PhraseBank
@pytest.mark.parametrize("columns", [("text", "label"), ("label", "text")])
def test_the_sign_between_texts_and_labels_is_named(corpus, sign, columns):
    rows = [("i feel fine", "joy"), ("so, i feel grouchy", "anger"), ("fine now", "joy")]
    path = corpus("a.txt", *(sign.join(row if columns[0] == "text" else row[::-1]) for row in rows))
    with pytest.raises(DataError) as caught:
        detect(path, "classify")
    assert f"give columns={','.join(columns)} and separator='{sign}'." in str(caught.value)
    examples = read_corpus(path, columns=columns, separator=sign)
    assert [(example.text, example.label) for example in examples] == rows


def test_the_fields_of_a_first_line_that_may_be_a_header_are_named(corpus):
    with pytest.raises(DataError) as caught:
        detect(corpus("a.txt", '"sentence,polarity', "so good,1", "bad, very bad,0"), "classify")
    assert caught.value.hint.endswith(
        "'tsv'; if the columns are 'polarity', 'sentence', set {text} to that of the text."
    )
    assert "text" in caught.value.options


@pytest.mark.parametrize("lines", [["Ada lives here.", "Bob, too, is home."], ["Bob, too, is home.", "Ada is here."]])
@pytest.mark.parametrize("task", ["tag", "classify"])
def test_a_tsv_of_one_column_to_predict_is_not_cut_at_commas(corpus, lines, task):
    path = corpus("a.tsv", *lines)
    with pytest.raises(DataError) as caught:
        detect(path, task, "optional")
    assert caught.value.options == ("format", "text")
    assert detect(path, task, "optional", format="text").name == "text"


def test_an_extension_that_contradicts_the_task(corpus):
    with pytest.raises(DataError) as caught:
        detect(corpus("a.csv", "text,label", "a,1"), "tag")
    assert caught.value.message == "has the extension of 'csv', which does not fit"
    formats = "'conll', 'conllu', 'conllup', 'sentences', 'spans', 'webanno', 'word-table', 'word/tag'"
    assert caught.value.hint == f"Set {{format}} to one of {formats}."


def test_the_sample_is_read_again(corpus):
    path = corpus("a.txt", *(f"{number % 3}\ttext {number}" for number in range(500)))
    detected = detect(path)
    with detected.source as lines:
        assert sum(1 for _ in lines) == lines.line == 500
    with detect(path).source as lines:
        assert next(lines) == "0\ttext 0\n"
        assert lines.read(4) == b"1\tte"
        assert lines.read(1 << 20).endswith(b"\n1\ttext 499\n")


@pytest.mark.parametrize(
    ("name", "lines", "task", "expected"),
    [
        ("a.txt", ["a film", "a play"], "classify", "text"),
        ("a.json", ['{"text": "one"}'], "classify", "jsonl"),
        ("a.json", ['{"body": "one"}'], "classify", None),
        ("a.txt", ["{see below}"], "classify", "text"),
        ("a.txt", ["text,label", "one,x"], "classify", None),
        ("a.csv", ["body,label", "one,x"], "classify", "csv"),
        ("a.txt", ["label\ttext", "x\tone"], "classify", None),
        ("a.txt", ["sentence\tlabel", "one\tx"], "classify", None),
        ("a.tsv", ["sentence\tlabel", "one\tx"], "classify", "tsv"),
        ("a.txt", ["x\tone two", "x\ta"], "classify", "labelled"),
        ("a.txt", ["x\tone two", "y\ta b"], "classify", None),
        ("a.txt", ["x\tone two"], "classify", "text"),
        ("a.txt", ["one two\tthree four", "one\ttwo"], "classify", "text"),
        ("a.txt", ["a b\tc d\tx", "a b\tc\tx"], "pair", "labelled"),
        ("a.txt", ["a b\tc d"] * 2, "pair", "text"),
        ("a.txt", ["__label__x one"], "tag", "fasttext"),
        ("a.txt", ["# sent_id = 1", CONLLU], "classify", "conllu"),
        ("a.txt", ["Ada B-PER", "went O", "home O"], "tag", None),
        ("a.txt", ["# id 1\tdomain=en", "Ada _ B-PER", "went _ O"], "tag", None),
        ("a.txt", ["Ada _ _", "went _ _"], "tag", None),
        ("a.txt", ["#begin document (a)", "a 0 Ada X", "a 1 too X"], "tag", "conll"),
        ("a.txt", ["Coca Cola\tB-ORG", "is\tO", "big\tO"], "tag", None),
        ("a.txt", ["WORD\tTAG", "Coca Cola\tX", "is\tX", "big\tY"], "tag", None),
        ("a.txt", ["New York\tX", "is\tY", "", "big\tX"], "tag", None),
        ("a.tsv", ["WORD\tPOS", "dogs\tX", "bark\tY", "cats\tX"], "tag", "conll"),
        ("a.txt", ["# a comment", "a text", "", "# one more", "two words"], "tag", "text"),
        ("a.txt", PLUS, "tag", "conllup"),
        ("a.tsv", ["Ada\tN", "went\tV", "Rome\tN"], "tag", "conll"),
        ("a.tsv", ["10\u00a0000\tN", "\u3000\tV", "\u2028\tN"], "tag", "conll"),
        ("a.tsv", ["New\u00a0York\tthe game", "New\u00a0York\tso\u3000it is"], "classify", "labelled"),
        ("a.tsv", ["A dog\tEin Hund"], "translate", "labelled"),
    ],
)
def test_labels_are_optional(corpus, name, lines, task, expected):
    path = corpus(name, *lines)
    if expected is not None:
        assert detect(path, task, "optional").name == expected
        return
    with pytest.raises(DataError, match=r"could be .* or plain text") as caught:
        detect(path, task, "optional")
    assert caught.value.options == ("format",)
    assert detect(path, task, "optional", format="text").name == "text"


WORDS = ["Ada", "saw", "Rome", ".", "", "She", "left", ""]


@pytest.mark.parametrize("name", ["a.txt", "a", "a.tsv", "a.txt.gz"])
@pytest.mark.parametrize(
    "lines",
    [
        WORDS,
        ["", *WORDS, "", "Yes"],
        ["Ada ", "saw", " \t", "Rome"],
        ["# sent_id = 1", "# text = Ada left", "Ada", "left", "", "# sent_id = 2", "Yes"],
        ["-DOCSTART-", "", "EU", "rejects", "", "German", "call"],
        ["www.x.de/a,b", "3,000.50", "", "and/or"],
        ["我", "喜欢", "", "好"],
    ],
)
def test_words_alone_to_predict(tmp_path, name, lines):
    path = tmp_path / name
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.warns(Hint, match="read as words") as caught:
        assert detect(path, "tag", "optional").name == "conll"
    assert caught[0].message.options == ("format",)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Hint)
        assert detect(path, "tag", "optional", format="conll").name == "conll"
        assert detect(path, "tag", "optional", format="text").name == "text"
        for task in ("classify", "pair"):
            assert detect(path, task, "optional", format="text").name == "text"
    with pytest.raises(DataError, match="no tags"):
        detect(path, "tag")


@pytest.mark.parametrize(
    "lines",
    [["Ada", "saw"], ["Yes", "", "No", "", "Well"], ["我喜欢这部", "电影", "", "好"], ["Great!"] * 9, [*WORDS[:4], ""]],
)
def test_words_that_may_be_texts(corpus, lines):
    path = corpus("a.txt", *lines)
    with pytest.warns(Hint, match="read as a text") as caught:
        assert detect(path, "tag", "optional").name == "text"
    assert caught[0].message.options == ("format",)


@pytest.mark.parametrize(
    "lines",
    [
        ["Hello"],
        [*WORDS, "one more"],
        ["我喜欢这部电影但是它实在太长了", "不好", "", "很好"],
        ["A text.", "", "Another."],
    ],
)
def test_lines_that_are_texts(corpus, lines):
    with warnings.catch_warnings():
        warnings.simplefilter("error", Hint)
        assert detect(corpus("a.txt", *lines), "tag", "optional").name == "text"


def test_words_alone_are_texts_for_other_tasks(corpus):
    with warnings.catch_warnings():
        warnings.simplefilter("error", Hint)
        assert detect(corpus("a.txt", *WORDS), "classify", "optional").name == "text"


@pytest.mark.parametrize(
    ("lines", "task", "columns"),
    [
        (["1\ta film", "0\tdull"], "classify", ("label", "text")),
        (["a film\t1", "dull\t0"], None, ("text", "label")),
        (["pos\tfine", "neg\tdull", "pos\tgood"], "classify", ("label", "text")),
        (["a b\tc d\t1", "a\tc\t0"], "pair", ("text", "second", "label")),
        (["yes\ta b\tc d", "no\ta\tc"], None, ("label", "text", "second")),
        ([f"a{number}\ttext {number}\tpos" for number in range(20)], "pair", ("text", "second", "label")),
        # The label has fewer distinct values.
        ([f"{name}\t{'FM'[at % 2]}" for at, name in enumerate(["Ada", "Bob", "Eve"] * 4)], None, ("text", "label")),
        ([f"{'FM'[at % 2]}\t{name}" for at, name in enumerate(["Ada", "Bob", "Eve"] * 4)], None, ("label", "text")),
        ([f"Ada{number // 2}\t{'FM'[number % 2]}" for number in range(200)], "classify", ("text", "label")),
        (["1\tgood", "0\tbad"] * 3, "classify", ("label", "text")),
        (["good\t1", "bad\t0"] * 3, "classify", ("text", "label")),
    ],
)
def test_columns(corpus, lines, task, columns):
    assert detect(corpus("a.tsv", *lines), task, format="labelled").columns == columns


@pytest.mark.parametrize(
    ("lines", "task", "count"),
    [
        (["1\ta b\tc d"], "classify", "3 fields"),
        (["1\t2\ta film\t4"], None, "4 fields"),
        (["one two\tthree four"], None, "2 fields"),
        (["yes\ta b\tno"], "pair", "3 fields"),
        (["1\ta film", "0\ta play"], "pair", "2 fields"),
        (["text"], None, "1 field"),
        (["pos\tfine", "neg\tdull"], "classify", "2 fields"),
        ([f"{number}\ttext {number}" for number in range(20)], "classify", "2 fields"),
    ],
)
def test_columns_that_cannot_be_detected(corpus, lines, task, count):
    with pytest.raises(DataError) as caught:
        detect(corpus("a.tsv", *lines), task, format="labelled")
    assert count in caught.value.message
    assert caught.value.options == ("columns",)


TAGS = {"O", "B-PER", "NN"}
TRAINED = {"format": "conll", "suffix": None, "tag_column": 1}
ROLES = {"format": "conll", "suffix": ".txt", "predicate_column": 2, "tag_column": "4+"}
TREES = {"format": "conllup", "suffix": ".tab", "columns": ("index", "token", "tag", "head")}
TAGGED = ["Ada B-PER x", "sings O x", "", "Rome B-LOC x"]
TREC = {"format": "labelled", "suffix": ".label", "columns": ["label", "text"], "separator": " "}
SMALL = ["good\tpos", "good\tneg", "good\tmid"]
SWAPPED = ["so good\tx", "not good\ty", "so bad\tx"]
REVIEWS = {"format": "csv", "suffix": ".csv", "text": "review", "label": "mood"}


def resolve(path, training, *, format="auto", labels=TAGS, **options):
    task = "classify" if training.get("format") in ("labelled", "csv", "jsonl") else "tag"
    with open_text(path) as lines:
        return resolve_like_training(lines, training, task, format, options, labels=labels)


@pytest.mark.parametrize(
    ("name", "lines", "training", "labels", "fits"),
    [
        # Texts to predict, and the tags that the model knows.
        ("a.txt", TAGGED, TRAINED, TAGS, True),
        ("a.txt", ["# id 1\td=e", *TAGGED], TRAINED, TAGS, True),
        ("a.txt", ["dogs NN", "bark VB", "cats NN"], TRAINED, TAGS, True),  # tags that the model knows
        ("a.txt", ["dogs VB", "bark NNS"], TRAINED, TAGS, False),
        ("a.txt", ["type O", "blood O"], TRAINED, TAGS, False),
        ("a.txt", ["type O", "blood O", "", "plus O"], TRAINED, TAGS, True),
        ("a.txt", ["a NN"], TRAINED, TAGS, False),  # a text of two words
        ("a.txt", ["Ada B-PER"], TRAINED, TAGS, True),
        ("a.txt", ["Ada B-PER", "", "plus O"], TRAINED, TAGS, True),
        ("a.txt", ["plus O"], TRAINED, TAGS, False),
        ("a.txt", ["a text of words", "another text", "", "NN"], TRAINED, TAGS, False),
        ("a.txt", ["Ada _ _", "sings _ _"], TRAINED, TAGS, True),
        ("a.conll", ["a b"], TRAINED, TAGS, True),
        ("a.conllu", [CONLLU], TRAINED, TAGS, False),
        ("a.jsonl", ['{"text": "a"}'], TRAINED, TAGS, False),
        ("a.txt", ["a|B-PER", "b|O"], {"format": "conll", "suffix": ".txt", "separator": "|"}, TAGS, True),
        ("a.txt", ["a b - -", "c d e -", "", "f g - *", "i j k *", "l m - *"], ROLES, TAGS, True),
        ("a.txt", ["raw text - so", "and more of this"], ROLES, TAGS, False),
        ("a.txt", ["a_NN b_NN c_VB"], {"format": "word/tag", "suffix": ".txt", "separator": "_"}, TAGS, True),
        ("a.txt", ["snake_case words"], {"format": "word/tag", "suffix": ".txt", "separator": "_"}, TAGS, False),
        ("a.txt", [CONLLU], {"format": "conllu", "suffix": None, "tags": "misc:NE"}, TAGS, True),
        ("a.txt", TAGGED, {"format": "conllu", "suffix": None, "tags": "misc:NE"}, TAGS, False),
        ("a.txt", TAGGED, {}, TAGS, False),
        ("a.txt", ["## x", "1\tDogs\tX\t2", "2\tbark\tY\t0"], TREES, TAGS, True),
        ("a.txt", ["1\tDogs\tX", "2\tbark\tY"], TREES, TAGS, False),
        ("a.txt", ["a text of words"], TREES, TAGS, False),
        # Corpora with tags.
        ("a.txt", TAGGED, TRAINED, None, True),
        ("a.txt", ["a/X b/Y"], TRAINED, None, False),
        ("a.txt", ["a|X", "b|Y"], {**TRAINED, "suffix": ".txt"}, None, True),  # no rule fits
        ("a.txt", ["a|X", "b|Y"], TRAINED, None, False),
        ("a.txt", ["1\tDogs\tX\t2", "2\tbark\tY\t0"], TREES, None, True),
        ("a.txt", TAGGED, TREES, None, False),
        ("a.conllu", [CONLLU], TRAINED, None, False),
        ("a.conllu", [CONLLU], {**TRAINED, "suffix": ".conllu"}, None, True),  # as the user named it for this extension
        ("a.cupt", ["1\ta\tX"], {"format": "conllup", "suffix": ".cupt", "columns": ["index", "token"]}, None, True),
        # Texts and corpora of a classifier.
        ("a.txt", ["A:b How far ?", "C:d Where ?", "A:b No"], TREC, {"A:b", "C:d"}, True),
        ("a.txt", ["How far ?", "A:b Where ?", "No"], TREC, {"A:b", "C:d"}, False),
        ("a.txt", ["0.5 How far ?", "-1 Where ?"], TREC, (), True),
        ("a.txt", ["5 is a number", "Where ?", "So it is"], TREC, (), False),
        ("a.label", ["How far ?", "Where ?"], TREC, {"A:b", "C:d"}, False),
        ("a.label", ["A:b How far ?", "X:y Where ?"], TREC, None, True),
        ("a.tsv", SWAPPED, {"format": "labelled", "suffix": None, "columns": ["label", "text"]}, None, False),
        ("a.tsv", SWAPPED, {"format": "labelled", "suffix": ".tsv", "columns": ["label", "text"]}, None, True),  # given
        ("a.tsv", SMALL, {"format": "labelled", "suffix": None, "columns": ["text", "label"]}, None, True),
        ("a.tsv", ["7\tx\tgood"], {"format": "labelled", "columns": [None, "label", "text"]}, {"x"}, True),
        ("a.tsv", ["7\tx\tgood\tmore"], {"format": "labelled", "columns": [None, "label", "text", "..."]}, {"x"}, True),
        ("a.csv", ["id,review", "1,so good"], REVIEWS, {"x"}, True),
        ("a.csv", ["id,text", "1,so good"], REVIEWS, {"x"}, False),
        ("a.csv", ["id,text", "1,so good"], REVIEWS, None, False),
        ("a.tsv", ["id\treview", "1\tso good"], {**REVIEWS, "format": "tsv", "suffix": ".tsv"}, {"x"}, True),
        ("a.txt", ["review", "so good"], {**REVIEWS, "format": "tsv", "suffix": ".tsv"}, {"x"}, False),  # a text
        ("a.jsonl", ['{"review": "a"}'], {**REVIEWS, "format": "jsonl"}, {"x"}, True),
        ("a.jsonl", ['{"text": "a"}'], {**REVIEWS, "format": "jsonl"}, {"x"}, False),
        ("a.jsonl", ['{"x": {"review": "a"}}'], {"format": "jsonl", "text": "x.review"}, {"x"}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:.*like the training corpus")
def test_files_are_read_like_the_training_corpus(corpus, name, lines, training, labels, fits):
    options = {key: value for key, value in training.items() if key not in ("format", "suffix", "counts")}
    assert resolve(corpus(name, *lines), training, labels=labels) == (
        (training["format"], options) if fits else ("auto", {})
    )


def test_given_options_win(corpus):
    path = corpus("a.txt", *TAGGED)
    assert resolve(path, TRAINED, tag_column=-1) == ("conll", {"tag_column": -1})
    assert resolve(path, TRAINED, token_column=2) == ("conll", {"tag_column": 1, "token_column": 2})
    assert resolve(path, TRAINED, format="conll", comment="#") == ("conll", {"tag_column": 1, "comment": "#"})
    assert resolve(path, TRAINED, format="word/tag") == ("word/tag", {})


def test_a_first_column_that_counted_in_training(corpus):
    """Files of short sentences do not show it; others may lack it."""
    training = {"format": "conll", "suffix": None, "counts": True}
    assert resolve(corpus("a.conll", "1 yes X", "", "1 no X"), training) == ("conll", {"token_column": 1})
    assert resolve(corpus("b.conll", "yes X", "no X"), training) == ("conll", {})
    assert resolve(corpus("c.conll", "1 X", "1 X"), training) == ("conll", {})
    assert resolve(corpus("d.conll", "1 yes X"), training, token_column=0) == ("conll", {"token_column": 0})


@pytest.mark.parametrize(
    "lines",
    [
        ['[{"id": 0, "paragraphs": [{"sentences": [{"tokens": [{"orth": "Ada", "ner": "U-PER"}]}]}]}]'],  # spaCy 2
        ['{"sentences": [["Ada", "left"]], "ner": [[[0, 0, "Person"]]]}'],  # SciERC
        ["Ada_NNP left_VBD", "Bob_NNP came_VBD"],
        ["Ada###N\tleft###V", "Bob###N\tcame###V"],  # AllenNLP
    ],
)
def test_lines_of_other_formats_are_no_columns(corpus, lines):
    with pytest.raises(DataError, match="has no format that the first lines show"):
        detect(corpus("a.json", *lines), "tag")
