"""Sentence nodes and the tree of tokens, sentences and document."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from graphattn.builders import DocumentTree, Sentence, SentenceNodes, TextGraphBuilder, Vocabulary


@st.composite
def texts_of_sentences(draw):
    """A text of words of one or two tokens, with sentence ids."""
    sentences = draw(st.lists(st.integers(1, 3), max_size=4))
    sentence_ids = [sentence for sentence, size in enumerate(sentences) for _ in range(size)]
    sizes = [draw(st.integers(1, 2)) for _ in sentence_ids]
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    return Sentence(["x"] * len(word_ids), word_ids=word_ids, sentence_ids=sentence_ids)


def sentence_of_tokens(text, cls):
    """The sentence of each token; [CLS] belongs to the first."""
    return [0] * cls + [text.sentence_ids[word] for word in text.word_ids]


def sentence_graph(sentence_ids, num_sentences):
    tokens = range(len(sentence_ids))
    return {
        ("token", "sentence", "token"): [(i, j) for i in tokens for j in tokens if sentence_ids[i] == sentence_ids[j]],
        ("sentence", "sentence", "token"): [(i, sentence_ids[i]) for i in tokens],
        ("token", "sentence", "sentence"): [(sentence_ids[i], i) for i in tokens],
        ("sentence", "sentence", "sentence"): [(s, t) for s in range(num_sentences) for t in range(num_sentences)],
    }


def document_tree(sentence_ids, num_sentences):
    tokens, sentences = range(len(sentence_ids)), range(num_sentences)
    return {
        ("token", "document", "token"): [(i, i) for i in tokens],
        ("sentence", "document", "token"): [(i, sentence_ids[i]) for i in tokens],
        ("token", "document", "sentence"): [(sentence_ids[i], i) for i in tokens],
        ("sentence", "document", "sentence"): [(s, s) for s in sentences],
        ("document", "document", "sentence"): [(s, 0) for s in sentences],
        ("sentence", "document", "document"): [(0, s) for s in sentences],
        ("document", "document", "document"): [(0, 0)],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "definition"), [(SentenceNodes(), sentence_graph), (DocumentTree(), document_tree)]
)
@settings(max_examples=50)
@given(texts=st.lists(texts_of_sentences(), max_size=4), cls=st.booleans())
def test_relations_equal_their_definitions(follows, relation, definition, texts, cls):
    def of_text(text):
        sentence_ids = sentence_of_tokens(text, cls)
        return definition(sentence_ids, max(sentence_ids, default=-1) + 1)

    follows(relation, texts, of_text, cls=cls)


def test_both_relations_share_the_sentence_nodes():
    graph = TextGraphBuilder([SentenceNodes(), DocumentTree()]).text_batch([["a", ".", "b"], []])
    assert graph.batch_num_nodes("sentence").tolist() == [2, 1]
    assert graph.batch_num_nodes("document").tolist() == [1, 1]
    assert graph.node_features["sentence"]["position"].tolist() == [0, 1, 0]


def test_sentences_end_at_punctuation(pairs):
    graph = TextGraphBuilder([SentenceNodes()], cls=False).text_batch([["no", ".", "we", "stay", "."]])
    assert pairs(graph, ("sentence", "sentence", "token")) == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)]


def test_selected_texts_keep_their_sentences():
    builder = TextGraphBuilder([SentenceNodes()])
    layout = builder.layout([["a", ".", "b", ".", "c"], ["a"], [".", "b"]]).take([2, 0])
    assert builder.text_batch(layout).batch_num_nodes("sentence").tolist() == [2, 3]


@pytest.mark.parametrize("alphabet", [pre_tokenizers.ByteLevel.alphabet(), ["a", "b", "Ġ"]], ids=["Ġ.", "[UNK]"])
def test_sub_words_without_the_text_of_the_punctuation(alphabet):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["[PAD]", "[UNK]", "[CLS]"]
    tokenizer.train_from_iterator(
        ["ab ab ba"], trainers.BpeTrainer(initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    )
    builder = TextGraphBuilder([SentenceNodes()], vocabulary=Vocabulary(tokenizer))
    words = ["ab", "ba", ".", "ab", "!", "b"]
    texts = ["ab ba. ab! b", words, Sentence(words), Sentence(words, sentence_ids=[0] * 6)]
    assert builder.text_batch(texts).batch_num_nodes("sentence").tolist() == [3, 3, 3, 1]


@pytest.mark.parametrize("level", ["word", "bpe"])
def test_a_blank_line_of_a_raw_text_ends_a_sentence(level):
    vocabulary = Vocabulary.train(["a b c d"], level=level)
    graph = TextGraphBuilder("sentence", cls=False, vocabulary=vocabulary).text_batch(["a b\n\nc . d"])
    assert graph.num_nodes("sentence") == 3
