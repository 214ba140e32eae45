import pytest

from graphattn.builders._sentence import Sentence
from graphattn.builders.readers import read_conllu
from graphattn.exceptions import ConfigError

SENTENCE = """\
# sent_id = 1
# text = They don't sleep
1	They	they	PRON	PRP	Case=Nom	4	nsubj	4:nsubj	_
2-3	don't	_	_	_	_	_	_	_	_
2	do	do	AUX	VBP	_	4	aux	4:aux	_
3	n't	not	PART	RB	_	4	advmod	4:advmod	_
3.1	ever	ever	ADV	RB	_	_	_	4:advmod	CopyOf=-1
4	sleep	sleep	VERB	VB	_	0	root	0:root	SpaceAfter=No
"""


def row(number="1", form="word", upos="NOUN", xpos="NN", head="0", deprel="root"):
    return "\t".join([number, form, "_", upos, xpos, "_", head, deprel, "_", "_"])


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\x1c"])
def test_a_line_of_other_blanks_is_not_blank(corpus, broken, blank):
    path = corpus("a.conllu", row("1", form=blank), blank, row("1"))
    broken(read_conllu(path), path, 2)
    assert [sentence.tokens for sentence in read_conllu(corpus("b.conllu", row(form=blank), " \t", row()))] == [
        (blank,),
        ("word",),
    ]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("upos", ("PRON", "AUX", "PART", "VERB")),
        ("xpos", ("PRP", "VBP", "RB", "VB")),
        (None, None),
        ("lemma", ("they", "do", "not", "sleep")),
        ("deprel", ("nsubj", "aux", "advmod", "root")),
        ("DEPREL", ("nsubj", "aux", "advmod", "root")),
        ("feats", ("Case=Nom", "_", "_", "_")),
        ("feats:Case", ("Nom", "_", "_", "_")),
        ("FEATS:Case", ("Nom", "_", "_", "_")),
        ("feats:case", ("_", "_", "_", "_")),
        ("misc:SpaceAfter", ("O", "O", "O", "No")),
    ],
)
def test_words_heads_relations_and_tags(corpus, tags, expected):
    path = corpus("a.conllu", *SENTENCE.splitlines(), "", *SENTENCE.splitlines())
    sentence = Sentence(
        ("They", "do", "n't", "sleep"),
        heads=(4, 4, 4, 0),
        deprels=("nsubj", "aux", "advmod", "root"),
        tags=expected,
    )
    sentences = list(read_conllu(path, tags=tags))
    assert sentences == [sentence, sentence]
    assert [sentence.origin for sentence in sentences] == [(str(path), 3), (str(path), 12)]


def test_entities_in_misc(corpus):
    """As in NorNE; a sentence without any has tags, too."""
    rows = [row()[:-1] + misc for misc in ("SpaceAfter=No|name=B-PER", "name=O", "_")]
    path = corpus("a.conllu", *(line for misc in rows for line in (misc, "")))
    assert [sentence.tags for sentence in read_conllu(path, tags="misc:name")] == [("B-PER",), ("O",), ("O",)]
    assert [sentence.tags for sentence in read_conllu(path, tags="misc")][1:] == [("name=O",), ("_",)]


def test_a_sentence_can_start_with_an_empty_node(corpus):
    path = corpus("a.conllu", "0.1\tgone" + "\t_" * 8, row())
    assert [sentence.tokens for sentence in read_conllu(path)] == [("word",)]


def test_forms_can_contain_blanks_hashes_and_underscores(corpus):
    path = corpus("a.conllu", row(form="20  000"), row("2", form="#", head="1"), row("3", form="_", head="1"))
    assert next(read_conllu(path)).tokens == ("20  000", "#", "_")


def test_unspecified_columns_are_none(corpus):
    bare = row(upos="_", xpos="_", head="_", deprel="_")
    assert list(read_conllu(corpus("a.conllu", bare))) == [Sentence(("word",))]
    without_head = row(upos="_", xpos="_", head="_", deprel="nsubj")
    assert list(read_conllu(corpus("a.conllu", without_head))) == [Sentence(("word",))]
    path = corpus("a.conllu", row(upos="_", deprel="_"), row("2", head="1", upos="X", deprel="_"))
    assert list(read_conllu(path)) == [Sentence(("word", "word"), heads=(0, 1), tags=("_", "X"))]


def test_comments_and_blank_lines_are_not_sentences(corpus):
    path = corpus("a.conllu", "# newdoc", "", "", row(), "", "# end")
    (sentence,) = read_conllu(path)
    assert sentence.origin == (str(path), 4)


@pytest.mark.parametrize("tags", ["parseme:mwe", "ner", "misc:", ":NER"])
def test_unknown_tags(tags):
    with pytest.raises(ConfigError) as caught:
        read_conllu("missing", tags=tags)
    assert caught.value.options == ("tags",)


def test_further_columns_are_features(corpus, broken):
    sentence = next(
        read_conllu(corpus("a.conllu", SENTENCE), feature_columns=["xpos", "case=feats:Case", "misc:CopyOf"])
    )
    assert sentence.features == {
        "xpos": ("PRP", "VBP", "RB", "VB"),
        "case": ("Nom", "_", "_", "_"),
        "misc:CopyOf": ("O",) * 4,
    }
    assert next(read_conllu(corpus("a.conllu", SENTENCE))).features is None
    path = corpus("b.conllu", row(xpos=""))
    broken(read_conllu(path, feature_columns=["xpos"]), path, 1)


@pytest.mark.parametrize(("columns", "tags"), [(["pos"], "upos"), (["upos"], "upos"), (["n=feats:Case"], "feats:Case")])
def test_features_that_are_no_columns_or_tags(columns, tags):
    with pytest.raises(ConfigError) as caught:
        read_conllu("missing", tags=tags, feature_columns=columns)
    assert caught.value.options[0] == "feature_columns"
