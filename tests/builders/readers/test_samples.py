"""Which first lines are headers, and which column holds the label."""

import random
import warnings

import pytest

from graphattn.builders._sentence import Example
from graphattn.builders.readers import detect, read_corpus, read_labelled_lines
from graphattn.builders.readers._samples import is_header
from graphattn.exceptions import DataError, Hint

TEXTS = [
    "so good, I saw it twice",
    "not for me",
    "Dull!",
    "a film like any other film of his",
    "why did they make this?",
    "great",
    "the plot is thin , but the cast is fine .",
    "I would see it again",
]


def rows_of(*columns):
    """Twelve rows, a column for each list of values, which repeat."""
    return [[values[number % len(values)] for values in columns] for number in range(12)]


@pytest.mark.parametrize(
    ("header", "columns", "task"),
    [
        ("polarity\ttweet", (["0", "1"], TEXTS), "classify"),
        ("v1\tv2", (["ham", "spam", "ham"], TEXTS), "classify"),
        ("is_spam\tmessage", (["1", "0"], TEXTS), "classify"),
        ("rating\tcomment", (["5", "1", "4"], TEXTS), "classify"),
        ("intent\tutterance", (["book_flight", "cancel"], TEXTS), "classify"),
        ("tweet\tpolarity", (TEXTS, ["0", "1"]), "classify"),
        ("sentence\tlabel", (TEXTS, ["0", "1"]), "classify"),
        ("Urteil\tSatz", (["gut", "schlecht"], TEXTS), "classify"),
        ('"Note"\t"Kommentar"', (["1", "2"], TEXTS), "classify"),
        ("Score (1-5)\tReview text:", (["1", "5"], TEXTS), "classify"),
        ("# Klasse\tSatz", (["1", "5"], TEXTS), "classify"),
        ("0\t1", (["1", "5"], TEXTS), "classify"),
        ("0\t1", (TEXTS, ["0", "1"]), "classify"),
        ("знак\tфраза", (["плюс", "минус"], TEXTS), "classify"),  # noqa: RUF001
        ("लेबल\tवाक्य", (["अच्छा", "बुरा"], ["यह फिल्म अच्छी है", "मुझे पसंद नहीं", "बहुत लंबी", "अभिनय ठीक है"]), "classify"),
        ("标签\t文本", (["好", "坏"], ["我 喜欢 这部 电影", "不 喜欢", "很 好看", "太 长 了"]), "classify"),
        ("name\tgender", (["Ada", "Bob", "Cleo", "Dan", "Eve", "Fay", "Gus"], ["F", "M", "F"]), "classify"),
        ("gold\tpremise\thypothesis", (["e", "n", "c"], TEXTS, TEXTS[1:]), "pair"),
        ("Satz 1\tSatz 2\tUrteil", (TEXTS, TEXTS[1:], ["e", "n", "c"]), "pair"),
    ],
)
def test_a_header_is_no_example(corpus, header, columns, task):
    rows = rows_of(*columns)
    lines = ["\t".join(row) for row in rows]
    path = corpus("a.tsv", header, *lines)
    with pytest.warns(Hint) as caught:
        examples = list(read_corpus(path, task=task))
    names = ", ".join(name.strip('"') for name in header.split("\t"))
    assert [str(warning.message) for warning in caught if warning.category is Hint] == [
        f"{path}: read {names!r} as a header; header=False keeps it"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examples == list(read_corpus(corpus("b.tsv", *lines), task=task))
        assert len(list(read_corpus(path, task=task, header=False))) == 13
        assert list(read_corpus(path, task=task, header=True)) == examples
    predicted = detect(path, task, "optional")
    assert (predicted.name, predicted.columns) == ("labelled", detect(path, task).columns)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["polarity,tweet", *[f'{number % 2},"so good, {number}"' for number in range(12)]]),
        ("a.csv", ["Note;Satz", *[f"{number % 2};so gut, {number}" for number in range(12)]]),
        ("a.tsv", ["label\ttext", *[f"{number % 2}\tso good, {number}" for number in range(12)]]),
        ("a.tsv", ["Klasse\tSatz", *[f"{number % 2}\tso good, {number}" for number in range(12)]]),
    ],
)
def test_a_header_is_no_example_of_given_columns(corpus, name, lines):
    separator = {"separator": ";"} if ";" in lines[0] else {}
    with pytest.warns(Hint, match="as a header"):
        examples = list(read_labelled_lines(corpus(name, *lines), columns=("label", "text"), **separator))
    assert [example.label for example in examples] == ["0", "1"] * 6


@pytest.mark.parametrize(
    "rows",
    [
        [["polarity", "tweet"]],
        [["polarity", "tweet"], ["1", "good"]] + [["polarity", "fine film"]] * 4,
        [["question", "how is it"], ["statement", "it is fine"], ["question", "why not"], ["statement", "so"]],
        [["neutral", "fine"], ["pos", "good"], ["neg", "bad film"], ["pos", "good"], ["neg", "dull"]],
        [["1", "good"], ["0", "bad film"], ["1", "a film"]],
        [["0", "1"], ["1", "2"], ["0", "a film"]],
        [["pos", "a fine film ."], ["neg", "dull"], ["neg", "so dull"]],
        [["dog", "Hund"], ["cat", "Katze"], ["mouse", "Maus"], ["house", "Haus"], ["red", "rot"]] * 5,
        [["Anna", "F"], ["Bert", "M"], ["Cleo", "F"], ["Dora", "F"], ["Emil", "M"]],
    ],
)
def test_a_first_example_is_no_header(rows):
    assert not is_header(rows)


WORDS = [f"{first}{second}" for first in "abcdefghij" for second in ("an", "el", "is", "or", "um", "est")]
GENERATED = {
    "rare class": lambda draw: (draw.choices(["pos", "neg", "mixed"], [50, 50, 1])[0], _words(draw, 1, 20)),
    "many classes": lambda draw: (f"intent_{WORDS[draw.randrange(60)]}", _words(draw, 2, 12)),
    "names": lambda draw: (draw.choice(WORDS) + draw.choice(WORDS), draw.choice("FM")),
    "phrases": lambda draw: (_words(draw, 1, 3), draw.choice(["pos", "neg"])),
    "words": lambda draw: (draw.choice(WORDS), draw.choice(WORDS)),
    "translations": lambda draw: (_words(draw, 3, 25) + " .", _words(draw, 3, 25) + " ."),
    "pairs": lambda draw: (draw.choice("enc"), _words(draw, 3, 20), _words(draw, 2, 10)),
}


def _words(draw, fewest, most):
    return " ".join(draw.choices(WORDS, k=draw.randint(fewest, most)))


@pytest.mark.parametrize("name", GENERATED)
def test_generated_tables_without_a_header(name):
    draw = random.Random(1)
    tables = [[list(GENERATED[name](draw)) for _ in range(size)] for size in (5, 10, 30, 200) for _ in range(50)]
    assert sum(map(is_header, tables)) <= 2  # of 200


@pytest.mark.parametrize(
    "lines",
    [
        ["Ada\tLovelace", "Bob\tDylan"] * 5,  # as many of both
        ["Ada\tfirst name", "Ada\tfirst name", "Bob\tfirst name", "Kant\tlast name"] * 3,  # labels of two words
        [f"{number}\tspam" for number in range(20)],  # numbers are no texts
    ],
)
def test_columns_that_hold_either(corpus, lines):
    with pytest.raises(DataError) as caught:
        read_corpus(corpus("a.tsv", *lines), task="classify")
    assert caught.value.options == ("columns",)
    text, label = lines[0].split("\t")
    first = next(read_corpus(corpus("a.tsv", *lines), task="classify", columns=("text", "label"), header=False))
    assert first == Example(text, label=label)


def test_the_columns_of_a_csv_file_without_header_are_detected(corpus):
    path = corpus("a.csv", '"so good, indeed",pos', "bad,neg", "dull,neg")
    assert next(read_corpus(path, task="classify", header=False)) == Example("so good, indeed", label="pos")


def test_a_header_that_names_another_label(corpus):
    path = corpus("a.tsv", "label\tpart", *(f"w{number}\t{number % 2}" for number in range(12)))
    with pytest.raises(DataError, match="there is no column 'text'; the columns are 'label', 'part'"):
        list(read_corpus(path, task="classify"))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)])
def test_gold_and_predicted_labels_are_no_pair(corpus, order):
    rows = rows_of(TEXTS, ["pos", "neg", "pos"], ["pos", "neg", "neg"])
    path = corpus("a.tsv", *("\t".join(row[index] for index in order) for row in rows))
    for task in ("pair", None):
        with pytest.raises(DataError) as caught:
            detect(path, task)
        assert "columns" in caught.value.options
    columns = tuple(("text", "label", None)[index] for index in order)
    assert [example.label for example in read_corpus(path, columns=columns)] == ["pos", "neg", "pos"] * 4
