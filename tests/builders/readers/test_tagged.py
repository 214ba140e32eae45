import io
import warnings
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._sentence import Sentence
from graphattn.builders.readers import read_conll, read_word_tag
from graphattn.exceptions import ConfigError, DataError, Hint

NEWS = ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "", "", "Peter NNP I-NP I-PER"]


def test_sentences_end_at_blank_lines_and_documents(corpus):
    path = corpus("a", *NEWS, "-DOCSTART- -X- O O", "BRUSSELS NNP I-NP I-LOC", " \t", "", "U.N. NNP I-NP I-ORG")
    assert list(read_conll(path)) == [
        Sentence(("EU", "rejects"), tags=("I-ORG", "O")),
        Sentence(("Peter",), tags=("I-PER",)),
        Sentence(("BRUSSELS",), tags=("I-LOC",)),
        Sentence(("U.N.",), tags=("I-ORG",)),
    ]


@pytest.mark.parametrize("separator", ["\u00a0", "\u3000", "|"])
def test_a_separator_of_words_and_tags_that_is_no_ascii_blank(corpus, separator):
    path = corpus("a", f"a{separator}DT dog\u2028s{separator}NN")
    assert list(read_word_tag(path, separator=separator)) == [Sentence(("a", "dog\u2028s"), tags=("DT", "NN"))]


@pytest.mark.parametrize(
    ("columns", "tokens", "tags"),
    [
        ({"tag_column": 1}, ("EU", "rejects"), ("NNP", "VBZ")),
        ({"tag_column": -2}, ("EU", "rejects"), ("I-NP", "I-VP")),
        ({"tag_column": -4}, ("EU", "rejects"), ("EU", "rejects")),
        ({"token_column": 1, "tag_column": 0}, ("NNP", "VBZ"), ("EU", "rejects")),
        ({"tag_column": None}, ("EU", "rejects"), None),
    ],
)
def test_any_column(corpus, columns, tokens, tags):
    assert next(read_conll(corpus("a", *NEWS), **columns)) == Sentence(tokens, tags=tags)


def test_a_tab_on_the_first_line_makes_tabs_the_separator(corpus):
    path = corpus("a", "New York\tB-LOC", "#\tO", "\u00a0\tO", "", "no tab here")
    sentences = read_conll(path)
    assert next(sentences) == Sentence(("New York", "#", "\u00a0"), tags=("B-LOC", "O", "O"))
    with pytest.raises(DataError, match=r"line 5: 1 column, but 2 on the lines before"):
        next(sentences)


def test_any_number_of_blanks_but_no_other_white_space_separates(corpus):
    path = corpus("a", " 10\u00a0000   CD", "a\u2028b NN")
    assert next(read_conll(path)) == Sentence(("10\u00a0000", "a\u2028b"), tags=("CD", "NN"))


def test_separator(corpus):
    assert next(read_conll(corpus("a", "New York|LOC"), separator="|")) == Sentence(("New York",), tags=("LOC",))


def test_comments_are_skipped_only_with_the_option(corpus):
    path = corpus("a", "# id 1", "#1 CD", "# NN", "# id 2")
    assert list(read_conll(path, comment="# id")) == [Sentence(("#1", "#"), tags=("CD", "NN"))]
    with pytest.raises(DataError) as caught:
        list(read_conll(path))
    assert str(caught.value) == (
        f"{path}, line 2: 2 columns, but 3 on the lines before. Complete the line, or set comment if it is one."
    )


@pytest.mark.parametrize("options", [{"tag_column": 4}, {"token_column": -5}])
def test_missing_column(corpus, broken, options):
    path = corpus("a", *NEWS)
    assert broken(read_conll(path, **options), path, 3) == tuple(options)


@pytest.mark.parametrize(
    ("line", "options"), [("lonely", ("comment",)), ("a\tb\tO", ("comment",)), ("a\t", ()), ("\tO", ())]
)
def test_a_broken_line_in_the_middle_of_ten_thousand(corpus, broken, line, options):
    path = corpus("a.conll", *["fine\tO", ""] * 2_500, line, *["fine\tO", ""] * 2_500)
    sentences = read_conll(path)
    assert list(islice(sentences, 2_500)) == [Sentence(("fine",), tags=("O",))] * 2_500
    assert broken(sentences, path, 5001) == options


@pytest.mark.parametrize("option", ["separator", "comment"])
def test_empty_marks(option):
    with pytest.raises(ConfigError) as caught:
        read_conll("missing", **{option: ""})
    assert caught.value.options == (option,)


def test_docstart_lines_are_detected_in_the_token_column(corpus):
    path = corpus("a.conll", "1 -DOCSTART- O", "", "1 Ada B-PER")
    assert [sentence.tokens for sentence in read_conll(path, token_column=1)] == [("Ada",)]


def test_a_document_may_begin_with_blanks_between_tabs(corpus):
    path = corpus("a.txt", "-DOCSTART- -X- O", "", "New York\tB-LOC", "", "-DOCSTART- -X- O", "", "Ada\tB-PER")
    assert [sentence.tokens for sentence in read_conll(path)] == [("New York",), ("Ada",)]


def test_the_origin_is_the_first_line(corpus):
    path = corpus("a", "", *NEWS)
    assert [sentence.origin for sentence in read_conll(path)] == [(str(path), 4), (str(path), 8)]


def test_a_no_break_space_can_be_a_word(corpus):
    assert next(read_conll(corpus("a", "a", "\u00a0", "b"), tag_column=None)) == Sentence(("a", "\u00a0", "b"))


words = st.text(st.characters(exclude_characters=" \t\n\r\0\\", exclude_categories=["Cs"]), min_size=1)
tags = st.text(st.characters(exclude_characters=" \t\n\r\0\\/", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.lists(st.tuples(words, tags), min_size=1), min_size=1))
def test_word_tag_round_trip(tmp_path_factory, sentences):
    lines = [" ".join(word.replace("/", "\\/") + "/" + tag for word, tag in sentence) for sentence in sentences]
    path = tmp_path_factory.mktemp("pos") / "a.pos"
    path.write_text("x/X\n" + "\n".join(lines), encoding="utf-8", newline="")
    read = [list(zip(sentence.tokens, sentence.tags, strict=True)) for sentence in read_word_tag(path)]
    assert read == [[("x", "X")], *sentences]


def test_the_last_unescaped_separator_splits_word_and_tag(corpus):
    path = corpus("a.pos", r"and/or/CC  1\/2/CD //SYM \//SYM w/\/", "", r"http://x.y/URL")
    assert list(read_word_tag(path)) == [
        Sentence(("and/or", "1/2", "/", "/", "w"), tags=("CC", "CD", "SYM", "SYM", "\\/")),
        Sentence(("http://x.y",), tags=("URL",)),
    ]


@pytest.mark.parametrize(("separator", "line"), [("_", "a/b_DT c_NN"), ("|||", "a/b|||DT c|||NN")])
def test_separator_of_word_and_tag(corpus, separator, line):
    assert list(read_word_tag(corpus("a", line), separator=separator)) == [Sentence(("a/b", "c"), tags=("DT", "NN"))]


@pytest.mark.parametrize("separator", ["", " ", "\\", "/ /", "/\n"])
def test_invalid_separators(separator):
    with pytest.raises(ConfigError) as caught:
        read_word_tag("missing", separator=separator)
    assert caught.value.options == ("separator",)


def test_a_backslash_before_other_characters_is_kept(corpus):
    assert next(read_word_tag(corpus("a.pos", r"C:\dir/NN"))) == Sentence((r"C:\dir",), tags=("NN",))


def test_a_column_marks_predicates(corpus):
    path = corpus("a.conll", "Ada - B-A0", "wrote write B-V", "_ _ O", "O O O", "0 0 O", "", "so 1 B-V")
    first, second = read_conll(path, predicate_column=1)
    assert (first.predicates, second.predicates) == ((0, 1, 0, 0, 0), (1,))
    assert next(read_conll(path, predicate_column=1, tag_column=None)).tags is None
    assert next(read_conll(path)).predicates is None
    with pytest.raises(DataError) as caught:
        list(read_conll(path, predicate_column=3))
    assert caught.value.options == ("predicate_column",)


EMPTY_NODES = ["1-2 du _", "1 de ADP", "2 le DET", "3 pain NOUN", "3.1 e VERB", "", "1 oui INTJ", ""]


def test_multi_word_tokens_and_empty_nodes_are_no_words(corpus):
    """As in CoNLL-U; where the first column does not count, the same spelling is a word."""
    path = corpus("a.conll", *EMPTY_NODES)
    expected = [Sentence(("de", "le", "pain"), tags=("ADP", "DET", "NOUN")), Sentence(("oui",), tags=("INTJ",))]
    with pytest.warns(Hint, match="column 0 counts the words, so token_column is 1"):
        assert list(read_conll(path)) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_conll(path, token_column=1)) == expected
        assert next(read_conll(path, token_column=0)).tokens == ("1", "2", "3")
        assert next(read_conll(corpus("b.conll", "1-2 CD", "3.1 CD"))).tokens == ("1-2", "3.1")


def test_two_columns_are_never_a_number_and_a_tag(corpus):
    assert next(read_conll(corpus("a.conll", "1 CD", "2 CD"))).tokens == ("1", "2")


@pytest.mark.parametrize("first", ["WORD\tPOS", "token\ttag", "Wort\tKlasse"])
def test_a_header_is_no_word(corpus, first):
    path = corpus("a.conll", first, "dogs\tB-X", "bark\tO", "", "cats\tB-X")
    with pytest.warns(Hint, match=f"read '{', '.join(first.split())}' as a header; header=False keeps it"):
        assert [sentence.tokens for sentence in read_conll(path)] == [("dogs", "bark"), ("cats",)]
    with pytest.warns(Hint):
        assert next(read_conll(path, tag_column=None)).tokens == ("dogs", "bark")
    assert next(read_conll(path, header=False)).tokens == (first.split()[0], "dogs", "bark")
    assert next(read_conll(corpus("b.conll", "a X", "b Y"), header=True)).tokens == ("b",)


def test_comments_before_sentences_are_found(corpus):
    path = corpus("a.conll", "# id 1\tdomain=en", "# B-PER", "anna B-PER", "# O", "", "# id 2\tdomain=en", "#1 O")
    with pytest.warns(Hint, match="comments, such as '# id 1"):
        assert [sentence.tokens for sentence in read_conll(path)] == [("#", "anna", "#"), ("#1",)]


def test_a_stream_needs_its_first_sentence_only(set_stdin):
    lines = [b"# id = 1\n", b"a b X\n", b"c d Y\n", b"\n"]

    class Typed(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            line = lines.pop(0)  # an error if more is read
            buffer[: len(line)] = line
            return len(line)

    set_stdin(Typed())
    with pytest.warns(Hint):
        assert next(read_conll("-")).tokens == ("a", "c")


CONLL_2005 = [
    "The DT * - (A0* *",
    "dog NN * - *) (A0*)",
    "barked VBD * bark (V*) *",
    "ran VBD * run * (V*)",
    "",
    "Silence NN * -",
    "",
    "It PRP * - (A0*)",
    "rains VBZ * rain (V*)",
    "",
]
CONLL_2012 = [
    "#begin document (bc/x); part 000",
    *(f"bc/x 0 {number} {line} -" for number, line in enumerate(CONLL_2005[:4])),
    "",
    "bc/x 0 0 Silence NN * - (3)",
    "",
    *(f"bc/x 0 {number} {line} (3)" for number, line in enumerate(CONLL_2005[7:9])),
    "",
    "#end document",
]
CONLL_2009 = [
    "1 The DT _ _ _",
    "2 dog NN _ A0 A0",
    "3 barked VBD Y _ _",
    "4 ran VBD Y _ _",
    "",
    "1 Silence NN _",
    "",
    "1 It PRP _ A0",
    "2 rains VBZ Y _",
    "",
]


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (CONLL_2005, {"predicate_column": 3, "tag_column": "4+"}),
        (CONLL_2012, {"token_column": 3, "predicate_column": 6, "tag_column": "7+"}),
    ],
)
def test_roles_of_each_predicate(corpus, lines, options):
    dog = ("The", "dog", "barked", "ran")
    assert list(read_conll(corpus("a.txt", *lines), **options)) == [
        Sentence(dog, tags=("B-A0", "I-A0", "B-V", "O"), predicates=(0, 0, 1, 0)),
        Sentence(dog, tags=("O", "B-A0", "O", "B-V"), predicates=(0, 0, 0, 1)),
        Sentence(("It", "rains"), tags=("B-A0", "B-V"), predicates=(0, 1)),
    ]


@pytest.mark.filterwarnings("ignore:.*counts the words")
def test_roles_of_heads(corpus):
    sentences = list(read_conll(corpus("a.txt", *CONLL_2009), predicate_column=3, tag_column="4+"))
    assert [sentence.tags for sentence in sentences] == [("_", "A0", "_", "_"), ("_", "A0", "_", "_"), ("A0", "_")]
    assert [sentence.predicates for sentence in sentences] == [(0, 0, 1, 0), (0, 0, 0, 1), (0, 1)]


def test_predicates_without_roles(corpus):
    """A file to predict may have no roles."""
    path = corpus("a.txt", *(" ".join(line.split()[:4]) for line in CONLL_2005))
    sentences = list(read_conll(path, predicate_column=3, tag_column="4+"))
    assert [sentence.predicates for sentence in sentences] == [(0, 0, 1, 0), (0, 0, 0, 1), (0, 1)]
    assert {sentence.tags for sentence in sentences} == {None}


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["a X * b (V*)", "c X * d *"], 1),
        (["a X * b (V*) *"], 1),
        (["a X * b (V*)", "c X * - *)"], 2),
        (["#begin document", "a X * b (V*) -", "c X * d * (7)"], 2),  # coreference is no role
        (["a X * b (V*)", "c X *"], 2),
    ],
)
def test_roles_that_do_not_fit_their_predicates(corpus, broken, lines, line):
    path = corpus("a.txt", *lines)
    broken(read_conll(path, predicate_column=3, tag_column="4+"), path, line)


def test_sentences_with_invalid_roles_can_be_skipped(corpus):
    skipped = []
    path = corpus("a.txt", *CONLL_2005[:5], "a X * b *)", "", *CONLL_2005[7:])
    sentences = list(read_conll(path, predicate_column=3, tag_column="4+", skip=skipped.append))
    assert ([len(sentence) for sentence in sentences], [error.line for error in skipped]) == ([4, 4, 2], [6])


@pytest.mark.parametrize("options", [{"tag_column": "4+"}, {"tag_column": "+", "predicate_column": 3}])
def test_invalid_columns_of_roles(options):
    with pytest.raises(ConfigError) as caught:
        read_conll("missing", **options)
    assert "tag_column" in caught.value.options


def test_a_column_in_brackets_has_spans(corpus):
    """The names of CoNLL-2012; sentences of this format differ in width."""
    path = corpus("a.txt", *(line.replace("It PRP *", "It PRP (X)") for line in CONLL_2012))
    tags = [sentence.tags for sentence in read_conll(path, token_column=3, tag_column=5)]
    assert tags == [("O", "O", "O", "O"), ("O",), ("B-X", "O")]
    with pytest.raises(DataError, match="so it is not the word") as caught:
        next(read_conll(path))
    assert caught.value.options == ("token_column",)
