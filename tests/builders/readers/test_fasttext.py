import pytest

from graphattn.builders._sentence import Example
from graphattn.builders.readers import read_fasttext
from graphattn.exceptions import ConfigError, DataError

MANY = {"multilabel": True}


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        (
            ["__label__pos a  fine film", "\t__label__neg dull", "__label__neg"],
            {},
            [("a  fine film", "pos"), ("dull", "neg"), ("", "neg")],
        ),
        (
            ["__label__a __label__b what __label__a", "no label", "x__label__a"],
            MANY,
            [("what", ("a", "b")), ("no label", ()), ("x__label__a", ())],
        ),
        (["l.b:x text", "lab:x l.b:y"], {"prefix": "l.b:"}, [("text", "x"), ("lab:x", "y")]),  # no regular expression
        (["one", "", "__label__a two"], {"require_label": False}, [("one", None), ("", None), ("two", "a")]),
        (["#a#b one"], {"prefix": "#"}, [("one", "a#b")]),
        (["__label__a__label__b"], {"require_label": False}, [("", "a__label__b")]),
        (["__label__a one", "", "  ", ""], {}, [("one", "a")]),
        (["__label__a one", "", "  ", ""], MANY, [("one", ("a",))]),
        (["__label__a\u00a0 one", "__label__\u3000a two"], {}, [("one", "a"), ("two", "a")]),
        # Only ASCII blanks end a word, as in fastText.
        *(
            (
                [f"__label__New{blank}York the game", f"{blank}__label__x\v__label__a\fb{blank}"],
                MANY,
                [("the game", (f"New{blank}York",)), (f"{blank}__label__x\v\fb{blank}", ("a",))],
            )
            for blank in ("\u00a0", "\u3000", "\u0085", "\u2028", "\u1680", "\x1c")
        ),
    ],
)
def test_labels_and_texts(corpus, lines, options, expected):
    examples = [Example(text, label=label) for text, label in expected]
    assert list(read_fasttext(corpus("a.txt", *lines), **options)) == examples


@pytest.mark.parametrize(
    ("line", "problem"),
    [("__label__\u00a0 one", "has no name after it"), ("__label__a,__label__b one", "has '__label__' inside")],
)
def test_names_of_labels(corpus, line, problem):
    with pytest.raises(DataError, match=problem):
        list(read_fasttext(corpus("b.txt", line), multilabel=True))


@pytest.mark.parametrize("prefix", ["", "a b"])
def test_invalid_prefixes(prefix):
    with pytest.raises(ConfigError) as caught:
        read_fasttext("missing", prefix=prefix)
    assert caught.value.options == ("prefix",)
