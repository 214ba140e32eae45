"""Every malformed item is one error at its line, and no other item is lost: a table of formats and their mistakes."""

import gzip
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Example
from graphattn.builders.readers import read_corpus
from graphattn.builders.readers._formats import FORMATS
from graphattn.exceptions import DataError, UnreadableError


@dataclass
class Bad:
    """A malformed item, its error, and the line of the error from the item's first one."""

    text: str | bytes
    message: str
    options: tuple[str, ...] = ()
    field: str | None = None
    offset: int = 0


@dataclass
class Case:
    """A format: the lines before its items, an item, its mistakes, and the name and options of the file."""

    head: str
    good: str
    bad: list[Bad]
    name: str = "a.txt"
    options: dict = field(default_factory=dict)


def conllu(number="1", form="word", upos="NOUN", head="0", deprel="root"):
    return "\t".join([number, form, "_", upos, "_", "_", head, deprel, "_", "_"]) + "\n"


def spans(value):
    return f'{{"text": "Berlin wall", "spans": {value}}}\n'


NOT_UTF8 = Bad(b"\xff\n", "byte 0xff at column 1 is not UTF-8", ("encoding",))
BLANK = Bad("\n", "the line is blank")
NO_OBJECT = Bad('["bad", 1]\n', "a list where an object was expected")
BROKEN_JSON = Bad("{\n", "broken JSON: Expecting property name enclosed in double quotes at column 2")
LABEL, COLUMNS = ("label_separator",), ("columns",)

CASES = {
    "csv": Case(
        "text,label\n",
        "fine,1\n",
        [
            Bad("one, too many,1\n", "3 fields, the header names 2", COLUMNS),
            Bad("alone\n", "1 field, the header names 2", COLUMNS),
            Bad('a,"1"2\n', "the row that begins here has an unpaired double quote", ("quoted",)),
            Bad("a\rb,1\n", "there is a carriage return inside the line"),
            Bad("a, \n", "the label is empty", LABEL),
            BLANK,
            NOT_UTF8,
        ],
        "a.csv",
    ),
    "tsv": Case(
        "text\tlabel\n", "fine\t1\n", [Bad("a\tb\t1\n", "3 fields, the header names 2", COLUMNS), BLANK], "a.tsv"
    ),
    "jsonl": Case(
        "",
        '{"text": "fine", "label": 1}\n',
        [
            Bad('{"text": "b", "label": }\n', "broken JSON: Expecting value at column 24"),
            Bad("[" * 100_000 + "\n", "unreadable JSON"),
            Bad('{"text": "b"}\n', "there is no column 'label'; the columns are 'text'", ("label", "label", "columns")),
            Bad('{"text": null, "label": 1}\n', "null where a string was expected", field="text"),
            Bad('{"text": ["a", 1], "label": 1}\n', "a number where a string was expected", field="text"),
            Bad('{"text": "a\\ud83d", "label": 1}\n', "half a surrogate pair at character 2", field="text"),
            Bad('{"text": "a", "label": null}\n', "null where a label was expected", ("label", "format"), "label"),
            Bad('{"text": "a", "label": NaN}\n', "NaN where a label was expected", ("label", "format"), "label"),
            Bad('{"text": "a", "label": [{}]}\n', "an object where a label was", ("label", "format"), "label"),
            Bad(b'{"text": "\xe9"}\n', "byte 0xe9 at column 11 is not UTF-8", ("encoding",)),
            NO_OBJECT,
            BLANK,
        ],
        "a.jsonl",
    ),
    "labelled": Case(
        "",
        "x\ta\n",
        [
            Bad(" \ta\n", "the label is empty", LABEL),
            Bad("x\ta\tb\n", "3 fields, 2 expected (label, text)", COLUMNS),
            Bad("alone\n", "1 field, 2 expected (label, text)", COLUMNS),
            Bad(b"y\t\xff\n", "byte 0xff at column 3 is not UTF-8", ("encoding",)),
            BLANK,
        ],
        options={"columns": ("label", "text")},
    ),
    "fasttext": Case(
        "",
        "__label__x a\n",
        [
            Bad("b\n", "no word begins with '__label__'"),
            Bad("__label__ c\n", "'__label__' has no name after it"),
            Bad("__label__x __label__y d\n", "2 labels where one is expected", ("multilabel",)),
            BLANK,
            NOT_UTF8,
        ],
    ),
    "word/tag": Case(
        "",
        "a/X b/Y\n",
        [
            *(Bad(f"so/RB {piece} a/X\n", f"{piece!r} has no tag", ("separator",)) for piece in ("c", "c/", r"a\/b")),
            *(Bad(f"{piece} a/X\n", f"{piece!r} has no ", ("separator",)) for piece in ("/X", "/")),
            NOT_UTF8,
        ],
        "a.pos",
    ),
    "conll": Case(
        "",
        "a X\nb Y\n\n",
        [
            Bad("c X\nd\nd Z Z\n\n", "1 column, but 2 on the lines before", ("comment",), offset=1),
            Bad(b"e X\n\xe9 X\n\n", "byte 0xe9 at column 1 is not UTF-8", ("encoding",), offset=1),
        ],
        "a.conll",
    ),
    "word-table": Case(
        "word,tag\n",
        "a,X\n,Y\n\n",
        [
            Bad("c,X\nd\n\n", "1 field, the header names 2", offset=1),
            Bad("c,X\nd,\nd\n\n", "the tag is empty", offset=1),
            Bad("c,X\nword,tag\n\n", "this is a header inside the table", offset=1),
            Bad(b"e,X\n\xe9,X\n\n", "byte 0xe9 at column 1 is not UTF-8", ("encoding",), offset=1),
        ],
        "a.csv",
    ),
    "conllu": Case(
        "",
        conllu() + "\n",
        [
            *(
                Bad(f"{line}\n\n", "1 column where" if " " in line else "3 columns where", COLUMNS)
                for line in ("1 word _", "1\tword\t_")
            ),
            Bad(conllu("x") + "\n", "'x' is not a valid id", field="id"),
            Bad(conllu("_") + "\n", "'_' is not a valid id", field="id"),
            Bad(conllu("2") + "\n", "word 2 where word 1 was expected", field="id"),
            *(
                Bad(conllu(head=head) + "\n", f"{head!r} is not a valid head", field="head")
                for head in ("1.1", "0_0", "")
            ),
            Bad(conllu(form="") + "\n", "the field is empty", field="form"),
            Bad(conllu(upos="") + "\n", "the field is empty", field="upos"),
            Bad(conllu(deprel="") + "\n", "the field is empty", field="deprel"),
            Bad(conllu(head="7") + "\n", "word 1 ('word') has head 7, the sentence has 1 words", field="heads"),
            Bad("# c\n" + conllu(head="1") + "\n", "heads form a cycle through word 1", field="heads", offset=1),
            Bad(conllu() + conllu("2", head="_") + "\n", "word 2 ('word') has no head, though", (), "head", 1),
            Bad(conllu().encode() + b"\xff\n\n", "byte 0xff at column 1 is not UTF-8", ("encoding",), offset=1),
            Bad("\u00a0\n\n", "1 column where CoNLL-U has 10", COLUMNS),
        ],
        "a.conllu",
    ),
    "conllup": Case(
        "# global.columns = ID FORM UPOS\n",
        "1\ta\tX\n\n",
        [
            Bad("1\ta\n\n", "2 columns where 3 are named", COLUMNS),
            Bad("1\ta\tX\ty\n\n", "4 columns where 3 are named", COLUMNS),
            Bad("2\ta\tX\n\n", "word 2 where word 1 was expected", field="id"),
            Bad(b"1\ta\t\xff\n\n", "byte 0xff at column 5 is not UTF-8", ("encoding",)),
        ],
    ),
    "sentences": Case(
        "",
        '{"tokens": ["fine"]}\n',
        [
            Bad('{"heads": [0]}\n', "there are no tokens", field="tokens"),
            Bad('{"tokens": "a b"}\n', "this is not a list of strings", field="tokens"),
            Bad('{"tokens": ["a"], "heads": [true]}\n', "this is not a list of whole numbers", field="heads"),
            Bad('{"tokens": ["a"], "links": [0, 0]}\n', "this is not a list of pairs of whole numbers", field="links"),
            Bad('{"tokens": ["a"], "label": {}}\n', "an object where a label was", ("label", "format"), "label"),
            Bad('{"tokens": ["\\ud800"]}\n', "half a surrogate pair at character 1", field="tokens"),
            Bad('{"tokens": ["a"], "heads": [1, 0]}\n', "2 heads for 1 words", field="heads"),
            Bad('{"tokens": ["a", "b"], "heads": [2, 1]}\n', "heads form a cycle", field="heads"),
            Bad('{"tokens": ["a"], "ner_tags": ["O"], "pos_tags": ["N"]}\n', "the tags are not in 'tags'", ("tags",)),
            Bad('{"tokens": ["a"], "ner_tags": [3]}\n', "these are numbers of tags, not tags", field="ner_tags"),
            Bad(b'{"tokens": ["\xff"]}\n', "byte 0xff at column 14 is not UTF-8", ("encoding",)),
            BROKEN_JSON,
            NO_OBJECT,
            BLANK,
        ],
        "a.jsonl",
    ),
    "spans": Case(
        "",
        '{"text": "a", "spans": [[0, 1, "X"]]}\n',
        [
            Bad(spans('[[0, 3, "LOC"]]'), "the span 'LOC' from 0 to 3 cuts the word 'Berlin'", field="spans"),
            Bad(spans('[[0, 6, "X"], [0, 11, "Y"]]'), "the span 'Y' from 0 to 11 overlaps", (), "spans"),
            Bad(spans('[[6, 7, "X"]]'), "the span 'X' from 6 to 7 covers no word", field="spans"),
            *(
                Bad(spans(ends), "the span 'X' from ", field="spans")
                for ends in ('[[0, 99, "X"]]', '[[1, 1, "X"]]', '[[-1, 1, "X"]]')
            ),
            Bad(spans('[{"start": "0", "end": 1, "label": "X"}]'), "the span 'X' from 0 to 1 has no two", (), "spans"),
            Bad(spans('[{"start": 0, "end": 1, "label": 4}]'), "the span 4 from 0 to 1 has no two", (), "spans"),
            Bad(spans('[{"start": 0, "end": 1, "label": "X", "text": "b"}]'), "the span 'X' from 0 ", (), "spans"),
            Bad(spans('[[0, 6, "X"]], "label": [[0, 6, "Y"]]'), "spans in 'spans' and 'label'"),
            Bad('{"text": "a b"}\n', "no spans in the fields 'text'"),
            Bad('{"body": "a b", "spans": []}\n', "there is no 'text' among the fields 'body', 'spans'"),
            Bad('{"text": 3, "spans": []}\n', "a number where a string was expected", field="text"),
            Bad('{"data": {"t": "a"}, "annotations": [{"result": []}, {"result": []}]}\n', "2 annotations of one text"),
            BLANK,
        ],
        "a.jsonl",
    ),
    "webanno": Case(
        "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.NamedEntity|identifier|value\n\n",
        "1-1\t0-1\ta\t*\tLOC\t\n\n",
        [
            Bad("1-2\t2-3\tb\t*[1]|*[2]\tLOC[1]|PER\\|X[2]\t\n\n", "the spans 'LOC' and 'PER|X' overlap", (), "F"),
            Bad("1-1.1\t0-1\ta\t*\tLOC\t\n\n", "the span 'LOC' cuts a word", (), "F"),
            Bad("1-2\t2-3\tb\t*\t*\t\n\n", "the span has no value", (), "F"),
            Bad("1-2\t2-3\tb\n\n", "3 fields, but the header announces 5"),
            Bad(b"1-2\t2-3\t\xff\t*\t*\t\n\n", "byte 0xff at column 9 is not UTF-8", ("encoding",)),
        ],
        "a.tsv",
    ),
}
FEATURE = "NamedEntity.value"


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def test_every_format_has_its_mistakes():
    assert CASES.keys() == FORMATS.keys() - {"folder"}


@pytest.mark.parametrize("name", CASES)
def test_malformed_items_are_reported_and_all_others_read(tmp_path, name):
    case, path = CASES[name], tmp_path / CASES[name].name
    content, expected = as_bytes(case.head + case.good), []
    for bad in case.bad:
        expected.append((content.count(b"\n") + 1 + bad.offset, bad))
        content += as_bytes(bad.text) + as_bytes(case.good)
    path.write_bytes(content)
    errors = []
    items = list(read_corpus(path, format=name, skip=errors.append, **case.options))
    assert items == items[:1] * (len(case.bad) + 1)
    for error, (line, bad) in zip(errors, expected, strict=True):
        assert (error.path, error.line, error.options) == (str(path), line, bad.options), bad
        assert error.field == (FEATURE if bad.field == "F" else bad.field)
        assert error.problem.startswith(bad.message)


@pytest.mark.parametrize("name", CASES)
def test_the_first_malformed_item_is_raised_after_those_before_it(tmp_path, name):
    case, path = CASES[name], tmp_path / CASES[name].name
    for bad in case.bad:
        before = as_bytes(case.head + case.good * 3)
        path.write_bytes(before + as_bytes(bad.text) + as_bytes(case.good))
        items = read_corpus(path, format=name, **case.options)
        assert len([next(items) for _ in range(3)]) == 3
        with pytest.raises(DataError) as caught:
            next(items)
        assert (caught.value.path, caught.value.line) == (str(path), before.count(b"\n") + 1 + bad.offset)
        assert str(caught.value).startswith(f"{path}, line ")


QUOTE = "the row that begins here has an unpaired double quote"


@pytest.mark.parametrize(
    ("content", "texts", "errors"),
    [
        (b'a,x\n"b,x\n"c, d",x\ne,x\n"f\ng",x\n"h,x\n', ["a", "c, d", "e", "f\ng"], [(3, QUOTE), (8, QUOTE)]),
        (
            b'"a\n\xe9\nb",x\nc,x\n"d\n",x\n',
            ['b"', "c", "d\n"],
            [(3, "byte 0xe9 at column 1 is not UTF-8"), (2, QUOTE)],
        ),
        (b"a\n", [], [(2, "1 field, the header names 2")]),
    ],
)
def test_an_unclosed_quote_drops_one_line(tmp_path, content, texts, errors):
    path, skipped = tmp_path / "a.csv", []
    path.write_bytes(b"text,label\n" + content)
    items = list(read_corpus(path, skip=skipped.append))
    assert items == [Example(text, label="x") for text in texts]
    assert [(error.line, error.message) for error in skipped] == errors


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", '"', ",x", '"b",x', '"c\nd",x', '"e', "\xe9"]), max_size=12))
def test_every_line_of_a_quoted_table_is_read_or_reported(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = "".join(f"{row}\n" for row in ("text,label", *rows, "z,x")).encode("latin-1")
    path.write_bytes(text)
    errors = []
    items = list(read_corpus(path, skip=errors.append))
    inside = sum(item.text.count("\n") for item in items)
    assert 1 + len(items) + inside + len({error.line for error in errors}) == text.count(b"\n")


def test_errors_in_a_header_are_raised(corpus):
    with pytest.raises(DataError, match="there is no column 'label'"):
        list(read_corpus(corpus("a.csv", "text", "a"), skip=lambda error: None))


def test_a_damaged_archive_is_always_an_error(tmp_path):
    rows = "".join(f"x\ttext {number} {hash(str(number))}\n" for number in range(9000))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(rows.encode())[:-2000])
    for name in ("labelled", "fasttext", "word/tag", "conll"):
        with pytest.raises(UnreadableError, match="the archive ends too early"):
            list(read_corpus(tmp_path / "a.txt.gz", format=name, skip=lambda error: None))
