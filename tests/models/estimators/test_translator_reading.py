"""Pairs from two files, a table, or a store and a file."""

from pathlib import Path

import pytest

from graphattn.builders import Dependency, TextGraphBuilder
from graphattn.builders.store import CorpusFile, StoreSettings, build_store
from graphattn.exceptions import DataError, GraphAttnWarning
from graphattn.models import Translator

EXPECTED = (["A dog.", "A cat."], ["Ein Hund.", "Eine Katze."])


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", "A dog.\tEin Hund.\nA cat.\tEine Katze.\n", {}),
        ("a.tsv", "text\tsecond\nA dog.\tEin Hund.\nA cat.\tEine Katze.\n", {}),
        ("a.tsv", "de\tnumber\ten\nEin Hund.\t1\tA dog.\nEine Katze.\t2\tA cat.\n", {"text": "en", "second": "de"}),
        ("a.txt", "A dog.\tEin Hund.\nA cat.\tEine Katze.\n", {}),
        ("en-de", "A dog. ||| Ein Hund.\nA cat. ||| Eine Katze.\n", {}),
        ("a.tsv", "A dog.|||Ein Hund.\nA cat.|||Eine Katze.\n", {}),
        ("a.txt", "second\tid\ttext\nEin Hund.\t1\tA dog.\nEine Katze.\t2\tA cat.\n", {}),
        ("a.json", '[{"text": "A dog.", "second": "Ein Hund."}, {"text": "A cat.", "second": "Eine Katze."}]', {}),
        ("a.csv", "text,second\nA dog.,Ein Hund.\nA cat.,Eine Katze.\n", {}),
        (
            "a.jsonl",
            '{"en": "A dog.", "de": "Ein Hund."}\n{"de": "Eine Katze.", "en": "A cat."}\n',
            {"text": "en", "second": "de"},
        ),
    ],
)
def test_tables(name, content, columns, tmp_path):
    (tmp_path / name).write_text(content)
    assert Translator().read([tmp_path / name], **columns) == EXPECTED


def test_two_files(tmp_path):
    for name, lines in zip(("en", "de"), EXPECTED, strict=True):
        (tmp_path / name).write_text("\n".join(lines))
    assert Translator().read([tmp_path / "en", tmp_path / "de"]) == EXPECTED


def test_a_store_and_a_file(tmp_path):
    tree = "1\tDogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "a.conllu").write_text(tree * 2)
    (tmp_path / "a.de").write_text("Hunde bellen\nHunde tun das\n")
    build_store(
        [CorpusFile(tmp_path / "a.conllu")], tmp_path / "store", StoreSettings(TextGraphBuilder([Dependency()]))
    )
    sources, targets = Translator().read([tmp_path / "store", tmp_path / "a.de"])
    assert [(source.words, source.heads) for source in sources] == [(("Dogs", "bark"), (2, 0))] * 2
    assert targets == ["Hunde bellen", "Hunde tun das"]
    (tmp_path / "a.de").write_text("Hunde bellen\n")
    with pytest.raises(DataError) as caught:
        Translator().read([tmp_path / "store", tmp_path / "a.de"])
    assert str(caught.value) == (
        f"{tmp_path / 'store'}: has 2 texts, {tmp_path / 'a.de'} has 1 lines. Give one target per source."
    )


def test_empty_cells_are_counted_or_skipped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a ||| b\n ||| b\na ||| b\nonly\na ||| \n")
    errors = []
    assert Translator().read([path], skip=errors.append) == (["a", "a"], ["b", "b"])
    assert sorted(error.line for error in errors) == [2, 4, 5]
    path.write_text("a ||| b\n ||| b\na ||| \n")
    with pytest.raises(DataError) as caught:
        Translator().read([path])
    assert (caught.value.line, caught.value.skippable) == (2, True)
    assert caught.value.message == "the source is empty, and 1 more row has such a field"


@pytest.mark.parametrize("skip", [None, print])
def test_no_pair_remains(tmp_path, skip):
    (tmp_path / "a").write_text("\n")
    (tmp_path / "b").write_text("x\n")
    with pytest.raises(DataError):
        Translator().read([tmp_path / "a", tmp_path / "b"], skip=skip)


@pytest.mark.parametrize("name", ["a.txt", "a.tsv"])
def test_more_than_two_columns(tmp_path, name):
    """As Tatoeba's pairs have them."""
    (tmp_path / name).write_text("Go.\tGeh.\tCC-BY 2.0\nHi.\tHallo!\tCC-BY 2.0\n")
    with pytest.raises(DataError, match="cut -f1,2"):
        Translator().read([tmp_path / name])


@pytest.mark.parametrize(("text", "side"), [("1\ta\n2\tb\n", "sources"), ("en ||| id\na ||| 1\n", "targets")])
def test_numbers_of_texts(tmp_path, text, side):
    (tmp_path / "a.txt").write_text(text)
    with pytest.warns(GraphAttnWarning, match=f"the {side} are numbers"):
        assert Translator().read([tmp_path / "a.txt"])


def test_a_page_is_no_table(tmp_path):
    (tmp_path / "a.tmx").write_text('<?xml version="1.0"?>\n<tmx version="1.4">\n')
    with pytest.raises(DataError, match="is XML"):
        Translator().read([tmp_path / "a.tmx"])


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (
            ['{"text": "a", "second": "b"}', '{"text": "a", "second": " "}'],
            {},
            "line 2: the target is empty. Delete the row, or complete it.",
        ),
        (
            ['{"text": "a", "second": "b"}', '{"text": "a"}'],
            {},
            "line 2: there is no column 'second'; the columns are 'text'. Set second to one of them.",
        ),
        (
            ['{"en": "a", "de": "b"}'],
            {"second": "de"},
            "line 1: there is no column 'text'; the columns are 'en', 'de'. Set text to one of them.",
        ),
        (
            ['{"text": ["a", "b"], "second": "b"}'],
            {},
            "line 1, field 'text': a list where a string was expected. Quote the text.",
        ),
    ],
)
def test_empty_cells_missing_columns_and_lists(rows, columns, message, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(rows))
    with pytest.raises(DataError) as caught:
        Translator().read([path], **columns)
    assert str(caught.value) == f"{path}, {message}"


@pytest.mark.parametrize("count", [0, 3])
def test_invalid_numbers_of_paths(count):
    with pytest.raises(DataError, match="Give sources and targets, or one table of both"):
        Translator().read([Path("a")] * count)


def test_a_header_with_other_columns_is_not_a_pair(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("en\tde\nA dog\tEin Hund\n")
    with pytest.raises(DataError, match=r"no column 'dee'; the columns are 'en', 'de'\."):
        Translator().read([path], text="en", second="dee")
