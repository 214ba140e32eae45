"""Columns read from bytes equal those of the sentence reader, which gets all unusual input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._text_lines import lines_within
from graphattn.builders.readers import read_conllu
from graphattn.builders.store._conllu_columns import read_conllu_columns
from graphattn.builders.store._tables import add_null_columns, to_sentences
from graphattn.exceptions import DataError

WORD = "1\tDogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n"


def by_reader(data, tags="upos"):
    return list(read_conllu(lines_within(data, "a.conllu", 1), tags=tags))


def by_columns(data, tags="upos"):
    table = read_conllu_columns(data, tags=tags)
    return None if table is None else to_sentences(add_null_columns(table))


def test_sentences_in_columns_equal_those_of_the_reader(trees, as_conllu):
    data = "".join(map(as_conllu, trees(50))).encode()
    assert by_columns(data) == by_reader(data) == trees(50)


@pytest.mark.parametrize("tags", ["upos", "xpos", None])
def test_real_treebank(corpora, tags):
    data = (corpora / "ud_english_ewt" / "en_ewt-ud-dev.conllu").read_bytes()
    assert by_columns(data, tags) == by_reader(data, tags)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        WORD,
        WORD + "\n\n\n" + WORD,
        "# sent_id = 1\n1-2\tdon't" + "\t_" * 8 + "\n" + WORD + "1.1\tx" + "\t_" * 8 + "\n\n",
        WORD.replace("\n", "\r\n") + "\r\n" + WORD,
        WORD.replace("\t0\troot", "\t_\t_") + "\n" + WORD,
        WORD.replace("root", "_") + WORD.replace("1", "2", 1),
        WORD.replace("NOUN", "_"),
    ],
)
def test_plain_text_is_read_in_columns(text):
    assert by_columns(text.encode()) == by_reader(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "1\tDogs\n",
        WORD.replace("Dogs", ""),
        WORD.replace("root", ""),
        WORD.replace("1", "2", 1),
        WORD.replace("1", "01", 1),
        WORD.replace("\t0\t", "\t2\t"),
        WORD.replace("\t0\t", "\t1\t"),
        WORD.replace("\t0\t", "\t-1\t"),
        WORD.replace("\t0\t", "\t1234567890123\t"),
        WORD.replace("\t0\t", "\t\t"),
        WORD + WORD.replace("1", "2", 1).replace("\t0\t", "\t_\t"),
        WORD.replace("Dogs", "Do\0gs"),
        WORD[:-1] + "\t_\n",
        WORD.replace("1", "2-1", 1),
        WORD.replace("1", "1.0", 1),
    ],
)
def test_the_reader_reports_errors(text):
    assert by_columns(text.encode()) is None
    with pytest.raises(DataError):
        by_reader(text.encode())


def test_broken_encodings_and_unusual_blanks_are_delegated_to_the_reader():
    assert by_columns(WORD.replace("Dogs", "D\xf6gs").encode("latin-1")) is None
    assert by_columns((WORD + "  \n" + WORD).encode()) is None


fields = st.sampled_from(["_", "0", "1", "2", "3", "1-2", "1.1", "a", "ü", "", " ", "root", "#", "-1", "07"])
lines = st.one_of(
    st.sampled_from(["", "# comment", " ", "\r", "1\tx"]),
    st.lists(fields, min_size=10, max_size=10).map("\t".join),
    st.tuples(st.sampled_from("12"), st.sampled_from("012_")).map(lambda p: f"{p[0]}\tw\t_\tN\t_\t_\t{p[1]}\tx\t_\t_"),
)


@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_columns_equal_the_reader_on_any_input(parts, end, closed):
    data = (end.join(parts) + (end if closed else "")).encode()
    columns = by_columns(data)
    if columns is not None:
        assert columns == by_reader(data)
