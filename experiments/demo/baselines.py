"""Baselines without a graph, for the demo: what words alone tell, without their order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from graphattn.builders import Sentence


def bag_of_words_accuracy(train: Sequence[Sentence], test: Sequence[Sentence]) -> float:
    """Accuracy in percent of logistic regression on word counts.

    Examples
    --------
    >>> good, bad = Sentence(["good"], label="+"), Sentence(["bad"], label="-")
    >>> bag_of_words_accuracy([good, bad], [bad])
    100.0
    """
    model = make_pipeline(CountVectorizer(analyzer=_words), LogisticRegression(max_iter=1000))
    model.fit(train, [sentence.label for sentence in train])
    return 100 * float(model.score(test, [sentence.label for sentence in test]))


def usual_tag_accuracy(train: Sequence[Sentence], test: Sequence[Sentence]) -> float:
    """Accuracy in percent when each word gets the tag that it most often has; new words get the most frequent one.

    Examples
    --------
    >>> usual_tag_accuracy([Sentence(["a", "dog"], tags=["DT", "NN"])], [Sentence(["a", "cat"], tags=["DT", "NN"])])
    50.0
    """
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags or (), strict=True):
            seen[word][tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in seen.items()}
    common = sum(seen.values(), Counter()).most_common(1)[0][0]
    pairs = [(word, tag) for s in test for word, tag in zip(s.words, s.tags or (), strict=True)]
    return 100 * sum(usual.get(word, common) == tag for word, tag in pairs) / len(pairs)


def _words(sentence: Sentence) -> Sequence[str]:
    return sentence.words
