"""Corpora as columns: a batch has the selected sentences, and each process a shard of it."""

import json
import math

import numpy as np
import pytest
import torch

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Vocabulary, Window
from graphattn.builders.relations import parse_relation
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.models._corpus import Corpus, digest_of
from graphattn.models._features.characters import CharacterVocabulary

TEXTS = [["a", "dog"], [], ["barks"], ["the", "dog", "barks", "loudly"], ["a"]]
TAGS = (np.array([0, 1, 2, 0, 1, 2, 3, 0]), np.array([2, 0, 1, 4, 1]))


@pytest.fixture(scope="module")
def builder():
    return TextGraphBuilder([Window(1), Window(3)], vocabulary=Vocabulary.train(TEXTS))


@pytest.mark.parametrize(
    ("target", "rows", "expected"),
    [
        ("label", [{"label": "x"}, {}, {"label": "y"}], [1, -1, 0]),
        ("label", [{"label": ["x", "y"]}, {"label": []}, {"label": ["x"]}], [[1, 0], [0, 0], [1, 1]]),
        ("tags", [{"tags": ["B"]}, {"tags": ["A"]}, {"tags": ["A"]}], [0, 0, 1]),
        (None, [{}, {}, {}], None),
    ],
)
def test_a_store_becomes_a_corpus(builder, tmp_path, target, rows, expected):
    texts = [json.dumps({"tokens": [word], **row}) for word, row in zip("abc", rows, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(texts) + "\n")
    build_store([CorpusFile(tmp_path / "a.jsonl")], tmp_path / "s", StoreSettings(builder))
    store = Store(tmp_path / "s")
    batch = Corpus.from_store(store, target=target)[[2, 1, 0]]
    assert batch.graph.node_features["token"]["id"].tolist() == ids_of(builder, ["c"], ["b"], ["a"])
    assert (batch.targets if expected is None else batch.targets.tolist()) == expected
    assert (batch.target_counts is not None) == (target == "tags")


def ids_of(builder, *texts):
    return [number for text in texts for number in (2, *builder.vocabulary.encode(text))]


def test_a_batch_has_the_selected_sentences_in_order(builder):
    corpus = Corpus.encode(builder, [TEXTS], targets=np.array([5, 6, 7, 8, 9]))
    batch = corpus[[3, 1, 0]]
    assert batch.graph.node_features["token"]["id"].tolist() == ids_of(builder, TEXTS[3], TEXTS[1], TEXTS[0])
    assert batch.graph.batch_num_nodes("token").tolist() == [5, 1, 3]
    assert batch.targets.tolist() == [8, 6, 5]
    assert (batch.size, batch.loss_normalizer, batch.token_types) == (3, 3.0, None)


def test_tags_follow_their_sentences(builder):
    batch = Corpus.encode(builder, [TEXTS], targets=TAGS)[[3, 1, 0, 4]]
    assert batch.targets.tolist() == [0, 1, 2, 3, 0, 1, 0]
    assert batch.target_counts.tolist() == [4, 0, 2, 1]
    assert batch.loss_normalizer == 7.0


def test_first_texts_of_pairs_precede_second_texts(builder):
    seconds = TEXTS[::-1]
    corpus = Corpus.encode(builder, [TEXTS, seconds])
    batch = corpus[[0, 3]]
    expected = ids_of(builder, TEXTS[0], TEXTS[3], seconds[0], seconds[3])
    assert batch.graph.node_features["token"]["id"].tolist() == expected
    assert batch.size == 2
    assert corpus.lengths.tolist() == [2 + 1 + 2, 0 + 4 + 2, 1 + 1 + 2, 4 + 0 + 2, 1 + 2 + 2]  # two [CLS] each
    assert batch.targets is None


@pytest.mark.parametrize("pairs", [False, True])
def test_sizes_equal_those_of_the_graphs(builder, pairs):
    corpus = Corpus.encode(builder, [TEXTS, TEXTS[::-1]] if pairs else [TEXTS])
    for number in range(len(TEXTS)):
        graph = corpus[[number]].graph
        assert corpus.lengths[number] == graph.num_nodes("token")
        assert corpus.num_edges()[number] == sum(edges.num_edges for edges in graph.edges.values())


@pytest.mark.parametrize("pairs", [False, True])
def test_characters_follow_their_tokens(builder, pairs):
    columns = [TEXTS, TEXTS[::-1]] if pairs else [TEXTS]
    characters = CharacterVocabulary.of(["dog", "barks"])
    corpus = Corpus.encode(builder, columns, characters=characters)
    batch = corpus[[3, 0]]
    tokens = [token for column in columns for n in (3, 0) for token in ["", *column[n]]]
    known = [*characters.characters]
    for token, form in zip(tokens, batch.token_types.index, strict=True):
        expected = [known.index(c) + 2 if c in known else 1 for c in token]
        assert [c for c in batch.token_types.characters[form].tolist() if c] == expected


def test_characters_do_not_change_tokenization():
    """Splitting words with blanks or partly known characters twice would change them."""
    known = Vocabulary.train([["abc"] * 6 + ["cd"] * 3 + ["ab"] * 2 + ["d", "i"]], level="bpe")
    builder, characters = TextGraphBuilder([Window(3)], vocabulary=known), CharacterVocabulary.of(["abcd"])
    for texts in ([["ab cd"], ["10 000", "abc"]], ["\u0130abc", "abcd \u0130"]):
        plain = Corpus.encode(builder, [texts])[[0, 1]]
        batch = Corpus.encode(builder, [texts], characters=characters)[[0, 1]]
        assert torch.equal(batch.graph.node_features["token"]["id"], plain.graph.node_features["token"]["id"])
        tokens = [token for text in texts for token in ("", *known.sentence(text).tokens)]
        widths = (batch.token_types.characters[batch.token_types.index] != 0).sum(1).tolist()
        assert widths == list(map(len, tokens))


def test_shards_partition_the_batch(builder):
    corpus = Corpus.encode(builder, [TEXTS], targets=TAGS)
    whole = [3, 0, 2]
    parts = [corpus.batch(whole[rank::2], whole=whole, processes=2) for rank in range(2)]
    assert [part.targets.tolist() for part in parts] == [[0, 1, 2, 3, 2], [0, 1]]
    assert [part.loss_normalizer for part in parts] == [3.5, 3.5]  # averaged over two processes, each word counts 1/7


def test_a_process_without_sentences_has_zero_weight(builder):
    corpus = Corpus.encode(builder, [TEXTS], targets=TAGS)
    batch = corpus.batch([], whole=[3], processes=2)
    assert batch.graph.num_nodes("token") == 5
    assert batch.loss_normalizer == math.inf


def test_batches_and_corpora_without_words(builder):
    corpus = Corpus.encode(builder, [TEXTS], targets=TAGS)
    assert corpus[[1]].targets.tolist() == []
    assert corpus[[1]].loss_normalizer > 0
    nothing = Corpus.encode(builder, [[]])
    assert (len(nothing), nothing.lengths.tolist(), nothing.num_edges().tolist()) == (0, [], [])


def test_heads_of_sentences_are_used():
    vocabulary = Vocabulary.train(TEXTS)
    builder = TextGraphBuilder([Dependency("token")], vocabulary=vocabulary)
    parsed = [Sentence(["a", "dog"], heads=[2, 0]), Sentence(["dog", "barks", "loudly"], heads=[2, 0, 2])]
    corpus = Corpus.encode(builder, [parsed, parsed[::-1]])
    batch = corpus[[1]]
    counts = batch.graph.batch_num_edges(("token", "dependency", "token"))
    assert counts.tolist() == [4 + 4, 3 + 2]


def fingerprint(texts=TEXTS, second=None, relation="window:1", lowercase=True, **options):
    vocabulary = Vocabulary.train(TEXTS, lowercase=lowercase)
    builder = TextGraphBuilder([parse_relation(relation)], vocabulary=vocabulary)
    return Corpus.encode(builder, [texts] if second is None else [texts, second], **options).fingerprint()


def parsed(**fields):
    return [Sentence(["a", "dog"], **fields)]


OTHER, TARGETS, KNOWN = [*TEXTS[:4], ["the"]], TAGS[0][:5], CharacterVocabulary.of(["Dog", "dog"])
TREE = {"relation": "dependency", "texts": parsed(heads=[2, 0], deprels=["det", "root"])}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"texts": OTHER}),
        ({}, {"texts": TEXTS[::-1]}),
        ({}, {"lowercase": False}),
        ({"second": TEXTS}, {"second": OTHER}),
        ({"targets": TARGETS}, {"targets": np.array([0, 1, 2, 0, 2])}),
        ({"targets": TARGETS}, {"targets": TAGS}),
        ({"targets": TAGS}, {"targets": (TAGS[0], np.array([2, 0, 2, 3, 1]))}),
        # the vocabulary ignores case, and character features do not, even of unknown characters
        *(({"texts": [[word]], "characters": KNOWN}, {"texts": [[word.lower()]]}) for word in ("Dog", "\u00d6")),
        (TREE, {"texts": parsed(heads=[0, 1], deprels=["det", "root"])}),
        (TREE, {"texts": parsed(heads=[2, 0], deprels=["obj", "root"])}),
        ({"relation": "sentence", "texts": parsed(sentence_ids=[0, 0])}, {"texts": parsed(sentence_ids=[0, 1])}),
        ({"relation": "links", "texts": parsed(links=[(0, 1)])}, {"texts": parsed(links=[(1, 0)])}),
    ],
)
def test_different_corpora_have_different_fingerprints(one, other):
    assert fingerprint(**one) == fingerprint(**one)
    assert fingerprint(**one) != fingerprint(**{**one, **other})


def test_digest_depends_on_the_position_of_none():
    column = np.arange(3)
    assert len({digest_of(column, None), digest_of(None, column), digest_of(column)}) == 3


def test_digest_depends_on_where_a_part_ends_and_on_its_type():
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("-",), (None,)]
    column = np.arange(4)
    arrays = [(column,), (column[:2], column[2:]), (column.reshape(2, 2),), (column.view(np.float64),), (column + 1,)]
    assert len({digest_of(*each) for each in (*parts, *arrays)}) == len(parts) + len(arrays)
    assert digest_of("ab", column[::2]) == digest_of("ab", np.array([0, 2]))


def test_normalizer_of_a_shard_with_one_target(builder):
    corpus = Corpus.encode(builder, [TEXTS], targets=np.array([5, 6, 7, 8, 9]))
    assert corpus.batch([2], processes=2).loss_normalizer == 0.5  # averaged over two processes, it counts 1
