import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.readers import read_word_tag
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

words = st.text(st.characters(exclude_characters=" \t\n\r\0\\", exclude_categories=["Cs"]), min_size=1)
tags = st.text(st.characters(exclude_characters=" \t\n\r\0\\/", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.lists(st.tuples(words, tags), min_size=1), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, sentences):
    lines = [" ".join(word.replace("/", "\\/") + "/" + tag for word, tag in sentence) for sentence in sentences]
    path = tmp_path_factory.mktemp("pos") / "a.pos"
    path.write_text("x/X\n" + "\n".join(lines), encoding="utf-8", newline="")
    read = [list(zip(sentence.tokens, sentence.tags, strict=True)) for sentence in read_word_tag(path)]
    assert read == [[("x", "X")], *sentences]


def test_the_last_separator_counts_unless_a_backslash_stands_before_it(corpus):
    path = corpus("a.pos", r"and/or/CC  1\/2/CD //SYM \//SYM w/\/", "", r"http://x.y/URL")
    assert list(read_word_tag(path)) == [
        Sentence(("and/or", "1/2", "/", "/", "w"), tags=("CC", "CD", "SYM", "SYM", "\\/")),
        Sentence(("http://x.y",), tags=("URL",)),
    ]


@pytest.mark.parametrize(("separator", "line"), [("_", "a/b_DT c_NN"), ("|||", "a/b|||DT c|||NN")])
def test_separator(corpus, separator, line):
    assert list(read_word_tag(corpus("a", line), separator=separator)) == [Sentence(("a/b", "c"), tags=("DT", "NN"))]


@pytest.mark.parametrize(
    ("piece", "lacking"),
    [("plain", "tag"), ("word/", "tag"), ("/TAG", "word"), ("/", "word"), (r"a\/b", "tag"), (r"a\/b\/c", "tag")],
)
def test_a_word_without_its_tag(corpus, piece, lacking):
    path = corpus("a.pos", "fine/JJ", f"so/RB {piece} here/RB")
    with pytest.raises(DataError) as caught:
        list(read_word_tag(path))
    assert str(caught.value) == (f"{path}, line 2: {piece!r} has no {lacking}. Write word/TAG, or set separator.")


@pytest.mark.parametrize("separator", ["", " ", "\\", "/ /", "/\n"])
def test_impossible_separator(separator):
    with pytest.raises(ConfigError) as caught:
        read_word_tag("missing", separator=separator)
    assert str(caught.value) == f"separator is {separator!r}. Set it to what stands between word and tag, '/' say."


def test_a_backslash_before_anything_else_stays(corpus):
    assert next(read_word_tag(corpus("a.pos", r"C:\dir/NN"))) == Sentence((r"C:\dir",), tags=("NN",))
