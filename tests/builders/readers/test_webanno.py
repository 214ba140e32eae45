"""WebAnno TSV 3, in which spans of several words share a number."""

import pytest

from graphattn.builders.readers import read_corpus, read_webanno
from graphattn.exceptions import DataError

NER = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value"
POS = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|coarseValue|PosValue"
DEPENDENCY = "#T_RL=de.tudarmstadt.ukp.dkpro.core.api.syntax.type.dependency.Dependency|DependencyType|BT_POS"
SENTENCE = [
    "#Text=New York's Ada_B sat .",
    "1-1\t0-3\tNew\tNOUN\tNNP\t_\t_\t*[1]\tLOC[1]\t",
    "1-2\t4-8\tYork\tNOUN\tNNP\tdep\t1-1\t*[1]\tLOC[1]\t",
    "1-2.1\t4-6\tYo\t_\t_\t_\t_\t_\t_\t",
    "1-3\t8-10\t's\tPART\tPOS\t_\t_\t_\t_\t",
    "1-4\t11-16\tAda_B\tNOUN\tNNP\t_\t_\t*\tPER\\_X\t",
    "1-5\t17-20\tC\\\\D\tNOUN\tNNP\t_\t_\t*[2]\tPER\\_X[2]\t",
    "1-6\t21-22\t#\tPUNCT\t.\t_\t_\t_\t_\t",
]


@pytest.fixture
def export(corpus):
    def write(*rows, header=(POS, DEPENDENCY, NER), name="a.tsv"):
        return corpus(name, "#FORMAT=WebAnno TSV 3.3", *header, "", "", *rows)

    return write


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a"])
def test_entities(export, name):
    path = export(*SENTENCE, "", "#Text=No", "2-1\t23-25\tNo\tINTJ\tUH\t_\t_\t_\t_\t", name=name)
    first, second = read_corpus(path, task="tag")
    assert first.tokens == ("New", "York", "'s", "Ada_B", "C\\D", "#")
    assert first.tags == ("B-LOC", "I-LOC", "O", "B-PER_X", "B-PER_X", "O")
    assert (second.tokens, second.tags) == (("No",), ("O",))
    assert [sentence.tokens for sentence in read_webanno(path, layer=None)] == [first.tokens, second.tokens]


@pytest.mark.parametrize("layer", ["PosValue", "POS.PosValue"])
def test_tags_of_words(export, layer):
    (sentence,) = read_corpus(export(*SENTENCE), task="tag", layer=layer)
    assert sentence.tags == ("NNP", "NNP", "POS", "NNP", "NNP", ".")


def test_no_blank_lines_after_the_header(corpus):
    path = corpus(
        "a.tsv",
        "#FORMAT=WebAnno TSV 3.2",
        NER,
        "#Summary=a",
        "1-1\t0-4\tBonn\t_\tLOC\t",
        "",
        "#Text=b",
        "2-1\t5-6\tb\t_\t_",
    )
    assert [sentence.tags for sentence in read_corpus(path, task="tag")] == [("B-LOC",), ("O",)]


@pytest.mark.parametrize(("header", "value", "tag"), [("Place|", "*", "B-Place"), ("Place|kind", "CITY", "B-CITY")])
def test_the_only_layer(export, header, value, tag):
    (sentence,) = read_webanno(export(f"1-1\t0-3\tBonn\t{value}\t", header=[f"#T_SP=webanno.custom.{header}"]))
    assert sentence.tags == (tag,)


@pytest.mark.parametrize(
    ("header", "layer"), [([POS], "auto"), ([DEPENDENCY], "auto"), ([NER], "POS"), ([POS, NER], "POS")]
)
def test_no_choice_of_a_layer(export, header, layer):
    with pytest.raises(DataError) as caught:
        list(read_webanno(export(*SENTENCE, header=header), layer=layer))
    assert caught.value.options == ("layer",)


def test_joined_files_have_the_same_layers(export, broken):
    text = export(*SENTENCE, "").read_text(encoding="utf-8")
    path = export(*SENTENCE, "", text.rstrip("\n"))
    assert [sentence.tags[:2] for sentence in read_webanno(path)] == [("B-LOC", "I-LOC")] * 2
    path = export(*SENTENCE, "", text.replace(f"{POS}\n", "").rstrip("\n"))
    broken(read_webanno(path), path, len(SENTENCE) + 8)
