import pytest

from graphattn.builders._sentence import Example
from graphattn.builders.readers import read_fasttext
from graphattn.exceptions import ConfigError, DataError


def test_one_label(corpus):
    path = corpus("a.txt", "__label__pos a  fine film", "\t__label__neg dull", "__label__neg")
    assert list(read_fasttext(path)) == [
        Example("a  fine film", label="pos"),
        Example("dull", label="neg"),
        Example("", label="neg"),
    ]


def test_labels_are_found_anywhere_in_a_line(corpus):
    path = corpus("a.txt", "__label__a __label__b what __label__a", "no label", "x__label__a")
    assert [(example.text, example.label) for example in read_fasttext(path, multilabel=True)] == [
        ("what", ("a", "b")),
        ("no label", ()),
        ("x__label__a", ()),
    ]


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u0085", "\u2028", "\u1680", "\x1c"])
def test_only_ascii_blanks_end_a_word_as_in_fasttext(corpus, blank):
    path = corpus("a.txt", f"__label__New{blank}York the game", f"{blank}__label__x\v__label__a\fb{blank}")
    assert list(read_fasttext(path, multilabel=True)) == [
        Example("the game", label=(f"New{blank}York",)),
        Example(f"{blank}__label__x\v\fb{blank}", label=("a",)),
    ]


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000"])
def test_blanks_at_the_ends_of_a_label_are_no_part_of_it(corpus, blank):
    path = corpus("a.txt", f"__label__a{blank} one", "__label__a two")
    assert {example.label for example in read_fasttext(path)} == {"a"}
    with pytest.raises(DataError):
        list(read_fasttext(corpus("b.txt", f"__label__{blank} one")))


def test_the_prefix_is_not_a_regular_expression(corpus):
    assert list(read_fasttext(corpus("a.txt", "l.b:x text", "lab:x l.b:y"), prefix="l.b:")) == [
        Example("text", label="x"),
        Example("lab:x", label="y"),
    ]


def test_labels_are_optional_for_prediction(corpus):
    path = corpus("a.txt", "one", "", "__label__a two")
    assert list(read_fasttext(path, require_label=False)) == [Example("one"), Example(""), Example("two", label="a")]


@pytest.mark.parametrize("multilabel", [True, False])
def test_blank_lines_at_the_end_are_skipped(corpus, multilabel):
    path = corpus("a.txt", "__label__a one", "", "  ", "")
    assert [example.text for example in read_fasttext(path, multilabel=multilabel)] == ["one"]
    path = corpus("b.txt", "__label__a one", "", "__label__a two")
    with pytest.raises(DataError, match="line 2: the line is blank"):
        list(read_fasttext(path, multilabel=multilabel))


@pytest.mark.parametrize("prefix", ["", "a b"])
def test_invalid_prefixes(prefix):
    with pytest.raises(ConfigError) as caught:
        read_fasttext("missing", prefix=prefix)
    assert caught.value.options == ("prefix",)
