"""CoNLL-U with other columns: CoNLL-U Plus, CoNLL-X, Malt-TAB and their like."""

import pytest

from graphattn.builders._sentence import Sentence
from graphattn.builders.readers import read_conllup, read_corpus
from graphattn.exceptions import ConfigError, DataError

PLUS = [
    "# source_sent_id = 1",
    "# global.columns = ID FORM UPOS HEAD DEPREL PARSEME:MWE",
    "# text = gave up",
    "1-2\tgaveup\t_\t_\t_\t*",
    "1\tgave\tVERB\t0\troot\t1:VPC",
    "2\tup\tADV\t1\tcompound\t1",
    "",
    "1\tOh\tINTJ\t_\t_\t*",
    "",
]
LIKE = ("gave", "up")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("upos", [("VERB", "ADV"), ("INTJ",)]),
        ("parseme:mwe", [("1:VPC", "1"), ("*",)]),
        ("PARSEME:MWE", [("1:VPC", "1"), ("*",)]),
        ("deprel", [("root", "compound"), None]),
        (None, [None, None]),
    ],
)
def test_any_named_column_can_be_the_tags(corpus, tags, expected):
    sentences = list(read_conllup(corpus("a.cupt", *PLUS), tags=tags))
    assert sentences == [
        Sentence(LIKE, heads=(0, 1), deprels=("root", "compound"), tags=expected[0]),
        Sentence(("Oh",), tags=expected[1]),
    ]


def test_a_file_without_parts_of_speech(corpus):
    path = corpus("a.conllup", "# global.columns = ID FORM NER", "1\tAda\tB-PER", "")
    assert list(read_conllup(path, tags="ner")) == [Sentence(("Ada",), tags=("B-PER",))]
    with pytest.raises(ConfigError) as caught:
        list(read_conllup(path))
    assert caught.value.options == ("tags",)


def test_joined_files_have_the_same_columns(corpus, broken):
    assert len(list(read_conllup(corpus("a.cupt", *PLUS, *PLUS)))) == 4
    path = corpus("a.cupt", *PLUS, "# global.columns = ID FORM HEAD UPOS DEPREL PARSEME:MWE", "1\tOh\t0\tINTJ\t_\t*")
    broken(read_conllup(path), path, len(PLUS) + 1)


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["SBJ  2 Dogs NNS", "ROOT 0 bark VBP"], ("deprel", "head", "token", "tag")),
        (["1\tDogs\tNNS\t2\tSBJ", "2\tbark\tVBP\t0\tROOT"], ("ID", "FORM", "UPOS", "HEAD", "DEPREL")),
    ],
)
def test_columns_of_trees(corpus, lines, columns):
    path = corpus("a.txt", *lines, "", *lines)
    tree = Sentence(("Dogs", "bark"), heads=(2, 0), deprels=("SBJ", "ROOT"), tags=("NNS", "VBP"))
    assert list(read_conllup(path, columns=columns)) == [tree, tree]
    assert list(read_corpus(path, task="tag", columns=columns)) == [tree, tree]
    assert list(read_corpus(path, columns=columns)) == [tree, tree]


def test_a_hash_is_a_word_where_no_column_counts(corpus):
    path = corpus("a.tab", "# a comment", "#\tSYM\t2\tdep", "1\tCD\t0\troot", "#\tSYM\t2\tdep")
    assert next(read_conllup(path, columns=("token", "tag", "head", "deprel"))).tokens == ("#", "1", "#")


def test_named_columns_are_the_first_of_each_line(corpus, broken):
    columns = ("index", "token", "tag", "head", "deprel", "mwe")
    short, long = "2\tup\tADV\t1\tcompound", "2\tup\tADV\t1\tcompound\t1\tx"
    path = corpus("b.cupt", *PLUS[3:5], short)
    broken(read_conllup(path, columns=columns), path, 3)
    assert next(read_conllup(corpus("c.cupt", *PLUS[3:5], long), columns=columns)).tokens == LIKE


def test_columns_need_names(corpus, broken):
    path = corpus("a.cupt", "# text = a", "1\ta\tX")
    assert broken(read_conllup(path), path, 2) == ("columns",)
    for columns in (("index", "tag"), ("head",)):
        with pytest.raises(ConfigError) as caught:
            list(read_conllup(path, columns=columns))
        assert caught.value.options == ("columns",)
    with pytest.raises(DataError):
        list(read_corpus(corpus("b.cupt", "1\ta\tX")))


def test_further_columns_are_features(corpus):
    lines = ["Ada\tNNP\tB-PER\tx", "sang\tVBD\tO\ty", ""]
    options = {"columns": ("token", "pos", "tag"), "feature_columns": ["pos"]}
    assert next(read_conllup(corpus("a.tab", *lines), **options)).features == {"pos": ("NNP", "VBD")}
    named = corpus("a.conllup", "# global.columns = FORM POS NER X", *lines)
    sentence = next(read_conllup(named, tags="ner", feature_columns=["X", "POS"]))
    assert (sentence.tags, sentence.features) == (("B-PER", "O"), {"X": ("x", "y"), "POS": ("NNP", "VBD")})
