import io
import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders._sentence import Sentence
from graphattn.builders.readers import read_conll, read_word_tag
from graphattn.exceptions import ConfigError, DataError, GraphAttnError, GraphAttnWarning, Hint

NEWS = ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "", "", "Peter NNP I-NP I-PER"]


def test_sentences_end_at_blank_lines_and_documents(corpus):
    path = corpus("a", *NEWS, "-DOCSTART- -X- O O", "BRUSSELS NNP I-NP I-LOC", " \t", "", "U.N. NNP I-NP I-ORG")
    assert list(read_conll(path)) == [
        Sentence(("EU", "rejects"), tags=("I-ORG", "O")),
        Sentence(("Peter",), tags=("I-PER",)),
        Sentence(("BRUSSELS",), tags=("I-LOC",)),
        Sentence(("U.N.",), tags=("I-ORG",)),
    ]


@pytest.mark.parametrize(
    ("lines", "options", "tokens", "tags"),
    [
        (NEWS, {"tag_column": 1}, "EU rejects", "NNP VBZ"),
        (NEWS, {"tag_column": -2}, "EU rejects", "I-NP I-VP"),
        (NEWS, {"tag_column": -4}, "EU rejects", "EU rejects"),
        (NEWS, {"token_column": 1, "tag_column": 0}, "NNP VBZ", "EU rejects"),
        (NEWS, {"tag_column": None}, "EU rejects", None),
        ([" 10\u00a0000   CD", "a\u2028b NN"], {}, "10\u00a0000 a\u2028b", "CD NN"),  # other white space is no blank
        (["a", "\u00a0", "b"], {"tag_column": None}, "a \u00a0 b", None),
        (["1 -DOCSTART- O", "", "1 Ada B-PER"], {"token_column": 1}, "Ada", "B-PER"),
        (["-DOCSTART- -X- O", "", "Ada\tB-PER", "", "-DOCSTART- -X- O", ""], {}, "Ada", "B-PER"),  # blanks between tabs
        (["1 CD", "2 CD"], {}, "1 2", "CD CD"),  # never a number and a tag
    ],
)
def test_columns_and_separators(corpus, lines, options, tokens, tags):
    first = next(read_conll(corpus("a.conll", *lines), **options))
    assert first == Sentence(tokens.split(" "), tags=tags and tags.split(" "))


@pytest.mark.parametrize(
    ("read", "arguments", "options"),
    [
        (read_conll, {"separator": ""}, ("separator",)),
        (read_conll, {"comment": ""}, ("comment",)),
        (read_conll, {"tag_column": "4+"}, ("tag_column", "predicate_column")),
        (read_conll, {"tag_column": "+", "predicate_column": 3}, ("tag_column",)),
        *(
            (read_conll, {"feature_columns": columns}, ("feature_columns",))
            for columns in (["pos"], ["1", "1"], "1", [""], [1])
        ),
        *((read_word_tag, {"separator": separator}, ("separator",)) for separator in ("", " ", "\\", "/ /", "/\n")),
    ],
)
def test_invalid_options(read, arguments, options):
    with pytest.raises(ConfigError) as caught:
        read("missing", **arguments)
    assert caught.value.options == options


def test_further_columns_are_features(corpus, broken):
    path = corpus("a.conll", "Ada NNP PER x", "sang VBD O y", "", "yes UH O z", "")
    first, second = read_conll(path, tag_column=2, feature_columns=["1", "shape=-1"])
    assert first == Sentence(("Ada", "sang"), tags=("PER", "O"), features={"1": ("NNP", "VBD"), "shape": ("x", "y")})
    assert second.features == {"1": ("UH",), "shape": ("z",)}
    assert next(read_conll(path)).features is None
    for columns, options in ((["4"], ("feature_columns",)), (["3"], ("feature_columns", "tag_column"))):
        with pytest.raises(GraphAttnError) as caught:
            list(read_conll(path, tag_column=-1, feature_columns=columns))
        assert caught.value.options == options
    for columns in (["0"], ["pos=-2"]):  # without tags, -2 is no longer the column before them
        with pytest.raises(ConfigError, match="that of the words"):
            list(read_conll(corpus("c.conll", "Ada NNP"), tag_column=None, feature_columns=columns))
    empty = corpus("b.conll", "Ada\tNNP\tO", "sang\t\tO", "")
    broken(read_conll(empty, feature_columns=["pos=1"]), empty, 2)


def test_roles_with_further_columns(corpus):
    path = corpus("a.txt", *CONLL_2005)
    sentences = list(read_conll(path, predicate_column=3, tag_column="4+", feature_columns=["2"]))
    assert len({sentence.features["2"] for sentence in sentences[:2]}) == 1  # both predicates of the first sentence
    with pytest.raises(ConfigError, match="column 5, that of the tags"):
        list(read_conll(path, predicate_column=3, tag_column="4+", feature_columns=["5"]))


def test_a_tab_on_the_first_line_makes_tabs_the_separator(corpus):
    path = corpus("a", "New York\tB-LOC", "#\tO", "\u00a0\tO", "", "no tab here")
    sentences = read_conll(path)
    assert next(sentences) == Sentence(("New York", "#", "\u00a0"), tags=("B-LOC", "O", "O"))
    with pytest.raises(DataError, match=r"line 5: 1 column, but 2 on the lines before"):
        next(sentences)
    assert next(read_conll(corpus("b", "New York|LOC"), separator="|")) == Sentence(("New York",), tags=("LOC",))


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


def test_the_origin_is_the_first_line(corpus):
    path = corpus("a", "", *NEWS)
    assert [sentence.origin for sentence in read_conll(path)] == [(str(path), 4), (str(path), 8)]


words = st.text(st.characters(exclude_characters=" \t\n\r\0\\", exclude_categories=["Cs"]), min_size=1)
tags = st.text(st.characters(exclude_characters=" \t\n\r\0\\/", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.slow
@given(st.lists(st.lists(st.tuples(words, tags), min_size=1), min_size=1))
def test_word_tag_round_trip(tmp_path_factory, sentences):
    lines = [" ".join(word.replace("/", "\\/") + "/" + tag for word, tag in sentence) for sentence in sentences]
    path = tmp_path_factory.mktemp("pos") / "a.pos"
    path.write_text("x/X\n" + "\n".join(lines), encoding="utf-8", newline="")
    read = [list(zip(sentence.tokens, sentence.tags, strict=True)) for sentence in read_word_tag(path)]
    assert read == [[("x", "X")], *sentences]


@pytest.mark.parametrize(
    ("line", "separator", "tokens", "tags"),
    [
        (r"and/or/CC  1\/2/CD //SYM \//SYM w/\/", "/", "and/or 1/2 / / w", "CC CD SYM SYM \\/"),
        ("http://x.y/URL", "/", "http://x.y", "URL"),
        (r"C:\dir/NN", "/", r"C:\dir", "NN"),  # a backslash before other characters
        ("a/b_DT c_NN", "_", "a/b c", "DT NN"),
        ("a/b|||DT c|||NN", "|||", "a/b c", "DT NN"),
        ("a\u00a0DT dog\u2028s\u00a0NN", "\u00a0", "a dog\u2028s", "DT NN"),
        ("a\u3000DT dog\u2028s\u3000NN", "\u3000", "a dog\u2028s", "DT NN"),
    ],
)
def test_the_last_unescaped_separator_splits_word_and_tag(corpus, line, separator, tokens, tags):
    expected = Sentence(tokens.split(" "), tags=tags.split(" "))
    assert list(read_word_tag(corpus("a.pos", line, ""), separator=separator)) == [expected]


def test_a_column_marks_predicates(corpus):
    path = corpus("a.conll", "Ada - B-A0", "wrote write B-V", "_ _ O", "O O O", "0 0 O", "", "so 1 B-V")
    first, second = read_conll(path, predicate_column=1)
    assert (first.predicates, second.predicates) == ((0, 1, 0, 0, 0), (1,))
    assert next(read_conll(path, predicate_column=1, tag_column=None)).tags is None
    assert next(read_conll(path)).predicates is None
    with pytest.raises(DataError) as caught:
        list(read_conll(path, predicate_column=3))
    assert caught.value.options == ("predicate_column",)


COMMENTS = "lines before sentences that begin with # are comments, such as {!r}".format
HEADER = "read {!r} as a header; header=False keeps it".format
COUNTS = "column 0 counts the words, so token_column is 1"
PAIRS = ["dogs NNS", "bark VBP", "", "cats NNS", "sleep VBP"]
ENTITIES = ["anna _ _ B-PER", "sang _ _ O"]
HIPE = ["anna\tB-pers", "sang\tO", "", "# a = c", "bob\tB-pers"]
HASHTAGS = ["# id = 1", "#win\tNN\twin", "a\tDT\ta", "", "# id = 2", "#\tSYM\thash", "b\tDT\tb"]
EMPTY_NODES = ["1-2 du _", "1 de ADP", "2 le DET", "3 pain NOUN", "3.1 e VERB", "", "1 oui INTJ", ""]


@pytest.mark.parametrize(
    ("lines", "options", "hints", "words"),
    [
        # Comments have other columns, or no tag of an entity; without such a sign they are words.
        (["# id 0001\tdomain=en", *ENTITIES], {}, [COMMENTS("# id 0001\tdomain=en")], "anna sang"),
        (["# id 1 x", *ENTITIES], {}, [COMMENTS("# id 1 x")], "anna sang"),
        (["# newdoc", "# sent_id = 7", *PAIRS], {}, [COMMENTS("# newdoc")], "dogs bark/cats sleep"),
        (["# text = a b", "dogs\tNNS", "bark\tVBP"], {}, [COMMENTS("# text = a b")], "dogs bark"),
        (["TOKEN\tNE", "# a = b", "# c", *HIPE], {}, [HEADER("TOKEN, NE"), COMMENTS("# a = b")], "anna sang/bob"),
        (["#\ttab\tand more", "dogs\tNNS", "bark\tVBP"], {}, [COMMENTS("#\ttab\tand more")], "dogs bark"),
        (["# 1", *PAIRS[:3], "# 2", *PAIRS[:2]], {}, [COMMENTS("# 1")], "dogs bark/dogs bark"),
        (["# id 1", "# B-PER", "anna B-PER", "# O", "", "# id 2", "#1 B-LOC"], {}, [COMMENTS("# id 1")], "# anna #/#1"),
        (HASHTAGS, {}, [COMMENTS("# id = 1")], "#win a/# b"),
        (["#win NN win", "a DT a", "", "#no NN no", "b DT b"], {}, [], "#win a/#no b"),
        (["# NN", "a NN"], {}, [], "# a"),
        (["#tag O", "b B-PER"], {}, [], "#tag b"),
        (["#a NN", "b NN", "", "# NN", "c VB"], {}, [], "#a b/# c"),
        (["# O", "# O"], {}, [], "# #"),
        (["# a\tb\tc", "anna B-PER", "sang O"], {}, [COMMENTS("# a\tb\tc")], "anna sang"),
        (["# a\tb\tc", "New York\tB-LOC", "sang\tO"], {"comment": "#"}, [], "New York sang"),
        # A header names the token, or has no tag or number where all others have.
        (["WORD POS", *PAIRS], {}, [HEADER("WORD, POS")], "dogs bark/cats sleep"),
        (["Token\tTag", "dogs\tB-X", "bark\tO"], {}, [HEADER("Token, Tag")], "dogs bark"),
        (["Wort Klasse", "Ada B-PER", "singt O"], {}, [HEADER("Wort, Klasse")], "Ada singt"),
        (["Wort Klasse", "Ada B-PER", "singt O"], {"tag_column": None}, [HEADER("Wort, Klasse")], "Ada singt"),
        (["Wort Klasse", "Ada B-PER", "singt O"], {"header": False}, [], "Wort Ada singt"),
        (["nr wort klasse", "1 Ada NE", "2 . $."], {}, [COUNTS, HEADER("nr, wort, klasse")], "Ada ."),
        (["Foreword FW", *PAIRS], {}, [], "Foreword dogs bark/cats sleep"),
        (["word NNS", *PAIRS], {}, [], "word dogs bark/cats sleep"),
        (["O O", "b B-X"], {}, [], "O b"),
        (["Ada B-PER", "singt O"], {}, [], "Ada singt"),
        (["Ada B-PER", "singt O"], {"header": True}, [], "singt"),
        # A column that counts the words; then multi-word tokens and empty nodes are none.
        (["1 a X", "2 b Y", "", "1 c X"], {}, [COUNTS], "a b/c"),
        (["0 a X", "1 b Y", "", "0 c X", "1 d Y"], {}, [COUNTS], "a b/c d"),
        (EMPTY_NODES, {}, [COUNTS], "de le pain/oui"),
        (EMPTY_NODES, {"token_column": 1}, [], "de le pain/oui"),
        (EMPTY_NODES, {"token_column": 0}, [], "1 2 3/1"),
        (["1-2 CD", "3.1 CD"], {}, [], "1-2 3.1"),
        (["1 a X", "", "1 b X"], {}, [], "1/1"),  # a file of the word "1" alone
        (["1 CD", "2 CD", "", "7 CD"], {}, [], "1 2/7"),
        (["1 a X", "3 b Y"], {}, [], "1 3"),
    ],
)
def test_comments_headers_and_counts(corpus, recwarn, lines, options, hints, words):
    path = corpus("a.conll", *lines)
    sentences = list(read_conll(path, **options))
    assert "/".join(" ".join(sentence.tokens) for sentence in sentences) == words
    given = [str(warning.message) for warning in recwarn if warning.category is Hint]
    assert given == [f"{path}: {hint}" for hint in hints]


@pytest.mark.filterwarnings("ignore:.*as a header", "ignore:.*counts the words")
@pytest.mark.parametrize(
    ("lines", "options", "line"),
    [
        (["WORD POS", *PAIRS, "", "WORD POS", *PAIRS], {}, 8),
        ([*PAIRS, "", "word pos", *PAIRS], {}, 7),
        ([*PAIRS, "", "#FORM UPOS", *PAIRS], {}, 7),
        ([*PAIRS, "", "word pos", *PAIRS], {"header": False}, None),
        (["nice pos", "words pos", "bad neg", "", "words pos", "bad neg"], {}, None),
        ([*PAIRS, "word pos", *PAIRS], {}, None),
        (["Form NN", "good JJ", "", "Form NN", "good JJ"], {}, None),
    ],
)
def test_the_header_of_a_joined_file_is_no_word(corpus, broken, lines, options, line):
    path = corpus("a.conll", *lines)
    if line is None:
        words = [word for sentence in read_conll(path, **options) for word in sentence.tokens]
        assert words == [line.split()[0] for line in lines if line]
    else:
        broken(read_conll(path, **options), path, line)


def test_a_quote_as_tables_write_it(corpus):
    path = corpus("a.conll", *PAIRS, *['"""" ``'] * 2)
    with pytest.warns(GraphAttnWarning, match='line 6: the word """" is read as it is') as caught:
        assert list(read_conll(path))[1].tokens[2:] == ('""""', '""""')
    assert len(caught) == 1


def test_a_file_without_blank_lines(corpus):
    path = corpus("a.conll", *PAIRS[:3], *["dogs NNS"] * 501, "", *["cats NNS"] * 501)
    with pytest.warns(GraphAttnWarning, match="line 4: .* has 501 words") as caught:
        assert len(list(read_conll(path))) == 3
    assert len(caught) == 1


ROWS = [f"doc {number} w{number} X" for number in range(10)]


@pytest.mark.parametrize(
    ("lines", "is_word"),
    [
        (ROWS, False),
        (ROWS[:9], True),
        ([*ROWS[:5], "", *(row.replace("doc", "other") for row in ROWS)], False),
        (["#begin document (doc)", *ROWS[:3]], False),
        (["#begin document (a29)", *(row.replace("doc", "a29") for row in ROWS[:3]), "", "#end document"], False),
        (["very much X"] * 20, True),
    ],
)
def test_the_name_of_the_document_is_no_word(corpus, lines, is_word):
    sentences = read_conll(corpus("a.conll", *lines))
    if is_word:
        assert {*next(sentences).tokens} == {lines[0].split()[0]}
        return
    with pytest.raises(DataError, match="so it is not the word"):
        next(sentences)


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["O\twe", "O\tlike", "B-ACTOR\tAda", "", "B-YEAR\t1990"], ("token_column", "tag_column")),  # MIT Movie
        (["B-NP\tw[0]=we\tw[1]=a", "O\tw[0]=.\tw[1]=b"], ("token_column", "tag_column")),  # CRFsuite
        (["1\tAda\tB-PER", "1\tleft\tO", "", "1\tBob\tB-PER", "1\tcame\tO"], ("token_column", "tag_column")),
        (["Ada,B-PER", "left,O", "", "Bob,B-PER"], ("separator",)),  # one column is no tag of itself
    ],
)
def test_a_first_column_that_is_no_word(corpus, lines, options):
    with pytest.raises(DataError) as caught:
        list(read_conll(corpus("a.conll", *lines)))
    assert caught.value.options == options


@pytest.mark.parametrize(
    "lines",
    [
        ["B-PER Ada", "O left", "", "B-LOC O"],  # as tag_column=0 reads them
        ["1 CD B-X", "2 CD O", "", "2 CD O"],
    ],
)
def test_a_first_column_that_is_named(corpus, lines):
    sentences = list(read_conll(corpus("a.conll", *lines), token_column=1, tag_column=0))
    assert sentences[0].tokens == tuple(line.split()[1] for line in lines[:2])


@pytest.mark.filterwarnings("ignore:.*token_column is 1")
@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["Ada B-PER B-PER", "left O O", "", "Oslo B-LOC B-ORG"], [1, 2]),  # flair
        (["Ada\tB-PER\tS-PER", "left\tO\tO", "", "Oslo\tB-LOC\tO"], [1, 2]),
        (["Ada NNP I-NP B-PER B-PER", "left VBD I-VP O O", "", "Oslo NNP I-NP B-LOC O"], [3, 4]),  # conlleval
        (["Ada NNP NNP", "left VBD VBN", "", "Oslo NNP NNP", "was VBD VBD"], [1, 2]),
        (["Ada _ B-PER O", "left _ O O", "", "Oslo _ B-LOC O"], [2, 3]),  # a model that predicts nothing
        (["1\tAda\tB-PER\tO", "2\tleft\tO\tO", "", "1\tOslo\tB-LOC\tB-LOC"], [2, 3]),  # GermEval 2014
        (["Ada B-PER B-PER", "left O O", "so", "", "Oslo B-LOC B-ORG"], [1, 2]),  # and a broken line
        (["Ada B-PER B-PER B-PER", "left O O O", "", "Oslo B-LOC B-ORG O"], [1, 2, 3]),
    ],
)
def test_columns_of_gold_and_predicted_tags(corpus, lines, columns):
    path = corpus("a.tsv", *lines)
    with pytest.raises(DataError) as caught:
        list(read_conll(path))
    assert (caught.value.path, caught.value.options) == (str(path), ("tag_column",))
    assert [int(number) for number in re.findall(r"\d", caught.value.hint)] == columns
    for column in columns:
        sentences = list(read_conll(path, tag_column=column, skip=lambda _: None))
        assert sentences[-1].tags[0] == lines[lines.index("") + 1].split()[column]
    assert [item.tags for item in read_conll(path, tag_column=None, skip=lambda _: None)] == [None] * len(sentences)


def test_the_names_of_columns_of_gold_and_predicted_tags(corpus):
    path = corpus("a.tsv", "token\tgold\tguess", "Ada\tB-PER\tB-PER", "left\tO\tO")
    with pytest.raises(DataError, match=r"columns 1 \(gold\) and 2 \(guess\)"):
        list(read_conll(path))


@pytest.mark.parametrize("lines", [["Ada B-PER S-PER .99", "left O O 1.0"], ["Ada B-PER 9e-1", "left O 0.5"]])
def test_a_last_column_of_confidences(corpus, broken, lines):
    path = corpus("a.txt", *lines)
    assert broken(read_conll(path), path, None) == ("tag_column",)
    assert next(read_conll(path, tag_column=1)).tags == ("B-PER", "O")


@pytest.mark.parametrize(
    "lines",
    [
        ["Ada NNP B-NP B-PER", "left VBD B-VP O", "", "Oslo NNP B-NP B-LOC"],  # CoNLL-2003
        ["He PRP B-NP O", "left VBD B-VP O", "there RB O O"],
        ["Ada ada NNP", "left leave VBD", ". . .", "", ". . ."],
        ["Oh oh INTJ B-INTJ", "left leave VERB B-VP", "Ada Ada PROPN B-NP", "so so ADV B-ADVP"],
        ["Ada _ _ B-PER", "left _ _ O"],  # MultiCoNER
        ["Ada PROPN NNP B-PER", "left VERB VBD O"],
        ["Ada NNP NNP B-PER", "left VBD VBD O"],  # neither of which is read
        ["PER B-PER", "O O"],
    ],
)
def test_further_columns_of_other_sets(corpus, lines):
    (first, *_) = read_conll(corpus("a.conll", *lines))
    assert first.tags == tuple(line.split()[-1] for line in lines[: len(first)])


def test_words_that_look_like_tags(corpus):
    sentences = list(read_conll(corpus("a.conll", "U-Bahn NN", "", "E-Mail NN")))
    assert [sentence.tokens for sentence in sentences] == [("U-Bahn",), ("E-Mail",)]


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


def test_a_column_in_brackets_has_spans(corpus):
    """The names of CoNLL-2012; sentences of this format differ in width."""
    path = corpus("a.txt", *(line.replace("It PRP *", "It PRP (X)") for line in CONLL_2012))
    tags = [sentence.tags for sentence in read_conll(path, token_column=3, tag_column=5)]
    assert tags == [("O", "O", "O", "O"), ("O",), ("B-X", "O")]
    path = corpus("a.txt", "a (A0* *", "b *) 1:VID", "c * 1")
    tags = [next(read_conll(path, tag_column=column)).tags for column in range(3)]
    assert tags == [("a", "b", "c"), ("B-A0", "I-A0", "O"), ("*", "1:VID", "1")]
