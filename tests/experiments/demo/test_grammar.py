from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from graphattn.builders._sentence import Sentence
from graphattn.exceptions import DataError
from graphattn.experiments.demo._grammar import corpus, explain, generate

INVARIANT = {"fish", "salmon", "trout", "shrimp", "series"}
PRAISE = {"good", "great", "superb", "lovely", "fine", "charming", "pleasant", "impressive", "remarkable", "inspired"}
PRAISE |= {"unforgettable", "unspoiled", "joyful", "tasteful", "flawless", "faultless"}
BLAME = {"bad", "awful", "dreadful", "poor", "dull", "weak", "forgettable", "spoiled", "flawed", "faulty"}
BLAME |= {"unpleasant", "unimpressive", "unremarkable", "uninspired", "joyless", "tasteless"}
RELATIONS = {"root", "nsubj", "cop", "det", "amod", "advmod", "case", "nmod", "acl", "acl:relcl", "obj", "obl", "aux"}
RELATIONS |= {"mark", "advcl", "cc", "conj", "ccomp", "punct"}


@pytest.fixture(scope="module")
def parts() -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    return corpus(2000, 300, 700, seed=11)


@pytest.fixture(scope="module")
def everything(parts) -> list[Sentence]:
    return [sentence for part in parts for sentence in part]


def label_from_words(words: tuple[str, ...]) -> str:
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


def majority_tags(sentences: list[Sentence]) -> dict[str, str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    return {word: count.most_common(1)[0][0] for word, count in counts.items()}


def test_sentences_are_complete(everything):
    for sentence in everything:
        assert 4 <= len(sentence) <= 40
        assert sentence.tokens[-1] == "."
        assert sentence.label in ("positive", "negative")
        assert len(sentence.tags) == len(sentence.heads) == len(sentence.deprels) == len(sentence)
        assert set(sentence.deprels) <= RELATIONS


def test_lengths_vary(everything):
    lengths = [len(sentence) for sentence in everything]
    assert min(lengths) == 4
    assert max(lengths) >= 35
    assert 15 <= sum(lengths) / len(lengths) <= 22


def test_trees_have_one_root_and_no_crossing_arcs(everything):
    for sentence in everything:
        assert [rel for head, rel in zip(sentence.heads, sentence.deprels, strict=True) if head == 0] == ["root"]
        arcs = [sorted((word, head)) for word, head in enumerate(sentence.heads, start=1) if head]
        for left, right in arcs:
            for low, high in arcs:
                assert not left < low < right < high, sentence.words


@pytest.mark.parametrize(
    ("relation", "tag", "head_tags"),
    [
        ("det", "DT", {"NN", "NNS"}),
        ("case", "IN", {"NN", "NNS"}),
        ("cop", "VBD", {"JJ", "NN"}),
        ("acl:relcl", None, {"NN", "NNS"}),
        ("obj", "WDT", {"VB", "VBD", "VBN", "VBP", "VBZ"}),
        ("mark", "IN", {"JJ", "NN", "VBD"}),
        ("cc", "CC", {"JJ", "NN", "VBD"}),
    ],
)
def test_relations_connect_the_right_words(everything, relation, tag, head_tags):
    count = 0
    for sentence in everything:
        for word_tag, head, name in zip(sentence.tags, sentence.heads, sentence.deprels, strict=True):
            if name == relation:
                count += 1
                assert tag in (word_tag, None)
                assert sentence.tags[head - 1] in head_tags
    assert count > 100


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


def test_the_vocabulary_is_small(everything):
    vocabulary = {word for sentence in everything for word in sentence.words}
    assert 100 <= len(vocabulary) <= 150
    assert all(word == word.lower() for word in vocabulary)


def test_labels_follow_from_the_words(everything):
    assert [sentence.label for sentence in everything] == [label_from_words(s.words) for s in everything]


@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_labels_are_balanced(count):
    labels = Counter(sentence.label for sentence in generate(count, seed=3))
    assert sum(labels.values()) == count
    assert abs(labels["positive"] - labels["negative"]) == count % 2


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
    tag_of = majority_tags(train)
    pairs = [pair for sentence in test for pair in zip(sentence.words, sentence.tags, strict=True)]
    correct = sum(tag_of[word] == tag for word, tag in pairs)
    assert 0.90 < correct / len(pairs) < 0.96


def neighbourhoods(sentences: list[Sentence], radius: int) -> tuple[list[dict[str, str]], list[str]]:
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


def relations_below(sentence: Sentence, relation: str) -> set[str]:
    heads = {word for word, name in enumerate(sentence.deprels, start=1) if name == relation}
    return {name for name, head in zip(sentence.deprels, sentence.heads, strict=True) if head in heads}


def test_the_same_seed_gives_the_same_sentences():
    assert generate(50, seed=5) == generate(50, seed=5)
    assert generate(50, seed=5) == generate(80, seed=5)[:50]
    assert generate(50, seed=5) != generate(50, seed=6)


def test_no_sentence_occurs_twice(parts, everything):
    assert len({sentence.words for sentence in everything}) == len(everything)
    assert [len(part) for part in parts] == [2000, 300, 700]


def test_parts_are_balanced(parts):
    for part in parts:
        assert abs(sum(1 if sentence.label == "positive" else -1 for sentence in part)) <= 1


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


def test_most_sentences_with_two_clauses_have_a_split_word():
    sentences = [sentence for sentence in generate(300, seed=8, subwords=True) if "," in sentence.words]
    assert sum(len(sentence) > sentence.num_words for sentence in sentences) > len(sentences) / 2


@pytest.mark.parametrize("subwords", [False, True])
def test_explanations_agree_with_labels(subwords):
    sentences = generate(400, seed=2, subwords=subwords)
    reasons = [explain(sentence) for sentence in sentences]
    assert [reason.split(":")[0] for reason in reasons] == [sentence.label for sentence in sentences]
    assert not any("\n" in reason for reason in reasons)


def test_explanations_name_the_evidence():
    reasons = [explain(sentence) for sentence in (*generate(3, seed=471), *generate(1, seed=895))]
    assert reasons == [
        'negative: "pleasant" is praise, negated by "never", and what follows "but" decides',
        'positive: "dreadful" is blame, negated by "never"',
        'negative: "poor" is blame, and the clause with "although" does not count',
        'negative: "faulty" is blame, and what follows "and" agrees',
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        Sentence(()),
        Sentence(("good",)),
        Sentence((), heads=(), deprels=()),
        Sentence(("Dogs", "bark"), heads=(2, 0), deprels=("nsubj", "root")),
        Sentence(("Run", "jump"), heads=(0, 1), deprels=("root", "conj")),
        Sentence(("Run", "see"), heads=(0, 1), deprels=("root", "advcl")),
    ],
)
def test_other_sentences_cannot_be_explained(sentence):
    with pytest.raises(DataError):
        explain(sentence)
