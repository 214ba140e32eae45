"""The generated corpus: always the same, with labels, tags and trees that follow from its words."""

from collections import Counter
from hashlib import sha256

import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from graphattn.experiments.demo._grammar import corpus, explain, generate
from graphattn.experiments.demo._steps import frequent_tag_accuracy

INVARIANT = {"fish", "salmon", "trout", "shrimp", "series"}
PRAISE = {"good", "great", "superb", "lovely", "fine", "charming", "pleasant", "impressive", "remarkable", "inspired"}
PRAISE |= {"unforgettable", "unspoiled", "joyful", "tasteful", "flawless", "faultless"}
BLAME = {"bad", "awful", "dreadful", "poor", "dull", "weak", "forgettable", "spoiled", "flawed", "faulty"}
BLAME |= {"unpleasant", "unimpressive", "unremarkable", "uninspired", "joyless", "tasteless"}
RELATIONS = {"root", "nsubj", "cop", "det", "amod", "advmod", "case", "nmod", "acl", "acl:relcl", "obj", "obl", "aux"}
RELATIONS |= {"mark", "advcl", "cc", "conj", "ccomp", "punct"}
NOUNS, VERBS = {"NN", "NNS"}, {"VB", "VBD", "VBN", "VBP", "VBZ"}


@pytest.fixture(scope="module")
def parts():
    return corpus(2000, 300, 700, seed=11)


@pytest.fixture(scope="module")
def everything(parts):
    return [sentence for part in parts for sentence in part]


def test_the_corpus_never_changes():
    """Figures of the documentation are about it."""
    sentences = [part for seed in range(3) for part in generate(300, seed=seed, subwords=seed == 2)]
    content = repr([(s.tokens, s.words, s.heads, s.deprels, s.tags, s.label) for s in sentences])
    assert sha256(content.encode()).hexdigest()[:16] == "6072b5b588298339"
    assert generate(50, seed=5) == generate(80, seed=5)[:50]


def test_sentences_are_distinct_and_balanced(parts, everything):
    assert [len(part) for part in parts] == [2000, 300, 700]
    assert len({sentence.words for sentence in everything}) == len(everything)
    for part in (*parts, generate(7, seed=3)):
        labels = Counter(sentence.label for sentence in part)
        assert abs(labels["positive"] - labels["negative"]) == len(part) % 2
    lengths = [len(sentence) for sentence in everything]
    assert (min(lengths), max(lengths) >= 35, max(lengths) <= 40) == (4, True, True)


def test_trees_have_one_root_and_no_crossing_arcs(everything):
    for sentence in everything:
        assert set(sentence.deprels) <= RELATIONS
        assert [rel for head, rel in zip(sentence.heads, sentence.deprels, strict=True) if head == 0] == ["root"]
        arcs = [sorted((word, head)) for word, head in enumerate(sentence.heads, start=1) if head]
        for left, right in arcs:
            for low, high in arcs:
                assert not left < low < right < high, sentence.words


HEADS = {
    "det": ({"DT"}, NOUNS),
    "case": ({"IN"}, NOUNS),
    "cop": ({"VBD"}, {"JJ", "NN"}),
    "acl:relcl": (VERBS, NOUNS),
    "obj": ({"WDT"}, VERBS),
    "mark": ({"IN"}, {"JJ", "NN", "VBD"}),
    "cc": ({"CC"}, {"JJ", "NN", "VBD"}),
}
"""Relation -> tags of the word, and of its head."""


def test_relations_connect_the_right_words(everything):
    counts = Counter()
    for sentence in everything:
        for tag, head, name in zip(sentence.tags, sentence.heads, sentence.deprels, strict=True):
            if name in HEADS:
                tags, head_tags = HEADS[name]
                assert tag in tags
                assert sentence.tags[head - 1] in head_tags
                counts[name] += 1
    assert min(counts[name] for name in HEADS) > 100


def test_verbs_agree_with_their_subjects(everything):
    number = {"was": "NN", "were": "NNS"}
    for sentence in everything:
        for position, relation in enumerate(sentence.deprels):
            if relation != "nsubj" or sentence.tags[position] == "PRP":
                continue
            head = sentence.heads[position]
            verbs = [sentence.words[w] for w, h in enumerate(sentence.heads) if h == head and sentence.tags[w] == "VBD"]
            expected = {number[verb] for verb in verbs if verb in number}
            expected |= {{"VBZ": "NN", "VBP": "NNS"}.get(sentence.tags[head - 1], sentence.tags[position])}
            assert expected == {sentence.tags[position]}, sentence.words


def test_articles_fit_the_next_word(everything):
    for sentence in everything:
        for word, following in zip(sentence.words, sentence.words[1:], strict=False):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou")


def test_a_bag_of_words_does_not_decide(parts):
    """Unigrams are near chance, and trigrams far from the rules, which are always right."""
    train, _, test = parts
    texts, labels = [" ".join(s.words) for s in train], [s.label for s in train]
    held_out, expected = [" ".join(s.words) for s in test], [s.label for s in test]
    for longest, bound in ((1, 0.65), (3, 0.75)):
        vectorizer = TfidfVectorizer(ngram_range=(1, longest), token_pattern=r"\S+")
        model = LogisticRegression(C=10, max_iter=1000).fit(vectorizer.fit_transform(texts), labels)
        assert model.score(vectorizer.transform(held_out), expected) < bound


def test_a_word_does_not_decide_its_tag(parts):
    train, _, test = parts
    assert 90 < frequent_tag_accuracy(train, test) < 96


def neighbourhoods(sentences, radius):
    """The words around each noun whose form does not show its number, and its tag."""
    features, tags = [], []
    for sentence in sentences:
        for position, word in enumerate(sentence.words):
            if word in INVARIANT:
                window = range(max(0, position - radius), min(len(sentence), position + radius + 1))
                features.append({f"{other - position:+}": sentence.words[other] for other in window})
                tags.append(sentence.tags[position])
    return features, tags


def test_the_number_of_a_fish_is_far_away(parts):
    """The neighbours of many nouns do not show their number; the next copula always does."""
    train, _, test = parts
    vectorizer = DictVectorizer()
    features, tags = neighbourhoods(train, radius=2)
    model = LogisticRegression(max_iter=1000).fit(vectorizer.fit_transform(features), tags)
    features, tags = neighbourhoods(test, radius=2)
    assert len(tags) > 300
    assert model.score(vectorizer.transform(features), tags) < 0.8

    for sentence in test:
        for position, word in enumerate(sentence.words):
            if word in INVARIANT:
                copula = next(word for word in sentence.words[position:] if word in ("was", "were"))
                assert sentence.tags[position] == {"was": "NN", "were": "NNS"}[copula]


def test_negators_outside_the_predicate_are_common(everything):
    with_decoy = [s for s in everything if {"obj", "advmod"} <= relations_below(s, "acl:relcl")]
    assert len(with_decoy) > len(everything) / 10


def relations_below(sentence, relation):
    heads = {word for word, name in enumerate(sentence.deprels, start=1) if name == relation}
    return {name for name, head in zip(sentence.deprels, sentence.heads, strict=True) if head in heads}


def test_subwords_split_words_and_change_nothing_else():
    unsplit, split = generate(300, seed=8), generate(300, seed=8, subwords=True)
    for sentence, pieces in zip(unsplit, split, strict=True):
        for field in ("words", "heads", "deprels", "tags", "label"):
            assert getattr(sentence, field) == getattr(pieces, field)
        assert len(pieces) <= 40
    pieces = {word: tuple(t for t, i in zip(s.tokens, s.word_ids, strict=True) if i == n)
              for s in split for n, word in enumerate(s.words)}  # fmt: skip
    assert pieces["unpleasant"] == ("un", "pleasant")
    assert pieces["faultless"] == ("fault", "less")
    assert pieces["pleasant"] == ("pleasant",)
    assert pieces["series"] == ("series",)


def label_from_words(words):
    """The label from the words alone, without the trees of the generator."""
    clauses = " ".join(words[:-1]).split(" , ")
    deciding = clauses[0]
    if len(clauses) == 2 and (clauses[0].startswith(("although", "though", "while")) or clauses[1].startswith("but")):
        deciding = clauses[1]
    after_copula = deciding.replace(" were ", " was ").rsplit(" was ", 1)[1].split()
    value = 1 if set(after_copula) & PRAISE else -1
    assert len(set(after_copula) & (PRAISE | BLAME)) == 1
    for word in after_copula:
        if word in {"not", "never", "hardly"}:
            value = -value
    return "positive" if value > 0 else "negative"


def test_labels_follow_from_the_words(everything):
    sentences = [*everything, *generate(400, seed=2, subwords=True)]
    assert [explain(sentence).split(":")[0] for sentence in sentences] == [sentence.label for sentence in sentences]
    assert [label_from_words(sentence.words) for sentence in everything] == [one.label for one in everything]
    (joined,) = generate(1, seed=895)
    assert explain(joined) == 'negative: "faulty" is blame, and what follows "and" agrees'
