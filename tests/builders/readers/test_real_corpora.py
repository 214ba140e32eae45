"""Each corpus is read with its format detected, and has as many examples as the README beside it says."""

from collections import Counter

import pytest

from graphattn.builders.readers import detect, read_conll, read_corpus
from graphattn.builders.tag_schemes import convert, detect_scheme, extract_spans
from graphattn.exceptions import DataError

EXAMPLES = [
    ("classify", "sst2/train.tsv", 6920, 2),
    ("classify", "sst2/dev.tsv", 872, 2),
    ("classify", "sst2/test.tsv", 1821, 2),
    ("classify", "sst5/train.tsv", 8544, 5),
    ("classify", "mr/all.tsv", 10662, 2),
    ("classify", "cr/all.tsv", 3775, 2),
    ("classify", "mpqa/all.tsv", 10606, 2),
    ("classify", "mtl16/apparel.task.train", 1600, 2),
    ("classify", "mtl16/baby.task.train", 1500, 2),
    ("classify", "mtl16/camera_photo.task.train", 1597, 2),
    ("classify", "mtl16/electronics.task.train", 1598, 2),
    ("classify", "mtl16/magazines.task.train", 1570, 2),
    ("classify", "mtl16/software.task.train", 1515, 2),
    ("classify", "mtl16/imdb.task.train.xz", 1600, 2),
    ("classify", "mtl16/MR.task.test", 400, 2),
    ("classify", "text_gcn/R8/train.tsv.xz", 5485, 8),
    ("classify", "text_gcn/R8/test.tsv", 2189, 8),
    ("classify", "text_gcn/R52/train.tsv.xz", 6532, 52),
    ("classify", "text_gcn/R52/test.clean.tsv", 2568, 52),
    ("classify", "text_gcn/ohsumed/train.tsv.xz", 3357, 23),
    ("classify", "text_gcn/ohsumed/test.tsv.xz", 4043, 23),
    ("classify", "text_gcn/20ng/train.tsv.xz", 11314, 20),
    ("classify", "text_gcn/20ng/test.tsv.xz", 7532, 20),
    ("classify", "text_gcn/MR/train.tsv", 7108, 2),
    ("classify", "text_gcn/MR/test.tsv", 3554, 2),
    ("pair", "sick/train.tsv", 4439, 3),
    ("pair", "sick/dev.tsv", 495, 3),
    ("pair", "sick/test.tsv", 4906, 3),
    ("pair", "mrpc/train.tsv", 3668, 2),
    ("pair", "mrpc/test.tsv", 408, 2),
    ("pair", "rte/train.tsv", 2490, 2),
    ("pair", "rte/test.tsv", 277, 2),
    ("pair", "snli_dev_test/dev.tsv", 9842, 3),
    ("pair", "snli_dev_test/test.tsv", 9824, 3),
]
TAGGED = [
    ("conll2003_ner/eng.train.xz", 14041, "IOB1"),
    ("conll2003_ner/eng.testa", 3250, "IOB1"),
    ("conll2003_ner/eng.testb", 3453, "IOB1"),
    ("wnut17_ner/train.conll", 3394, "IOB2"),
    ("wnut17_ner/test.conll", 1287, "IOB2"),
    ("ptb_sample_pos/train.tsv", 3396, "none"),
    ("ptb_sample_pos/dev.tsv", 273, "none"),
    ("ptb_sample_pos/test.tsv", 245, "none"),
    ("ud_english_ewt/en_ewt-ud-dev.conllu", 2001, "none"),
    ("ud_english_ewt/en_ewt-ud-test.conllu", 2077, "none"),
]


def read(path, task):
    """The items of a corpus, whose format the task does not change."""
    formats = [detect(path, given) for given in (None, task)]
    assert len({(format.name, format.columns) for format in formats}) == 1
    for format in formats:
        format.source.close()
    return list(read_corpus(path))


@pytest.mark.filterwarnings("error")  # no line is a header
@pytest.mark.parametrize(("task", "name", "count", "classes"), EXAMPLES)
def test_examples(corpora, task, name, count, classes):
    examples = read(corpora / name, task)
    assert len(examples) == count
    assert len({example.label for example in examples}) == classes
    assert all(bool(example.second) == (task == "pair") for example in examples)


def test_imdb(corpora):
    examples = read_corpus(corpora / "imdb/test.tsv.xz", columns=("label", None, None, "text"))
    assert Counter(example.label for example in examples) == {"pos": 12500, "neg": 12500}


@pytest.mark.parametrize(("name", "count", "scheme"), TAGGED)
def test_tagged_sentences(corpora, name, count, scheme):
    sentences = read(corpora / name, "tag")
    assert len(sentences) == count
    assert detect_scheme(sentence.tags for sentence in sentences) == scheme


def test_number_of_tokens_in_the_treebank_sample(corpora):
    sentences = [list(read_corpus(corpora / f"ptb_sample_pos/{part}.tsv")) for part in ("train", "dev", "test")]
    assert [sum(map(len, each)) for each in sentences] == [81793, 6327, 5964]


def test_entities_of_conll_2003(corpora):
    counts = Counter(
        name
        for sentence in read_conll(corpora / "conll2003_ner/eng.testb")
        for name, _, _ in extract_spans(sentence.tags, "IOB1")
    )
    assert counts == {"LOC": 1668, "ORG": 1661, "PER": 1617, "MISC": 702}


def test_chunks_of_conll_2003_survive_every_scheme(corpora):
    for sentence in read_conll(corpora / "conll2003_ner/eng.testb", tag_column=2):
        bioes = convert(sentence.tags, "IOB1", "BIOES")
        assert convert(convert(bioes, "BIOES", "IOB2"), "IOB2", "IOB1") == list(sentence.tags)


def test_wnut_dev_has_one_entity_that_begins_with_i(corpora):
    tags = [sentence.tags for sentence in read_corpus(corpora / "wnut17_ner/dev.conll")]
    assert len(tags) == 1009
    with pytest.raises(DataError, match=r"tag 3 \('I-creative-work'\) of sequence 96 breaks IOB2"):
        detect_scheme(tags)
    assert sum(len(extract_spans(sequence, "IOB2", repair=True)) for sequence in tags) == 836


def test_trees_of_ewt(corpora):
    sentences = list(read_corpus(corpora / "ud_english_ewt/en_ewt-ud-test.conllu", tags="xpos"))
    assert sum(len(sentence) for sentence in sentences) == 25094
    assert all(sentence.heads.count(0) == 1 for sentence in sentences)
    assert all(sentence.deprels[sentence.heads.index(0)] == "root" for sentence in sentences)
    assert all("_" not in sentence.tags for sentence in sentences)
