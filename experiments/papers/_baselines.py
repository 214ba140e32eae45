"""Baselines of the result tables that have no graph: TF-IDF, a linear-chain CRF, the first sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from graphattn.builders.tag_schemes import convert, detect_scheme
from graphattn.experiments.papers._data_sets import DataSet, ParallelSet
from graphattn.models import TASKS, PairClassifier, SequenceTagger, TextClassifier
from graphattn.models._estimators.inputs import split_held_out
from graphattn.models.training._branch_fitting import train_crfsuite
from graphattn.models.training._metrics import tagging_metrics

TFIDF, CRF, LEAD = "tfidf", "crf", "lead-1"
"""TF-IDF with logistic regression; a CRF on words, affixes and shapes; for summaries, the first sentence."""
BASELINES = (TFIDF, CRF, LEAD)


def can_run(baseline: str, corpus: DataSet) -> bool:
    """Whether a baseline is one of a corpus."""
    kinds = {TFIDF: (TextClassifier, PairClassifier), CRF: (SequenceTagger,)}
    if baseline == LEAD:
        return isinstance(corpus, ParallelSet) and corpus.summary
    return TASKS[corpus.task] in kinds[baseline]


def run_baseline(baseline: str, corpus: DataSet, splits: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The figures of a baseline on each split of a corpus."""
    if isinstance(corpus, ParallelSet):
        return corpus.measure_first_sentences(splits)
    if baseline == CRF:
        return _run_crf(corpus, splits)
    return _run_tfidf(corpus, splits, seed)


def _run_tfidf(corpus: DataSet, splits: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Choose the regularisation on the dev set, then train on the whole training set."""
    rest = train = splits["train"]
    dev = splits.get("dev")
    if dev is None:
        classes = np.unique([x.label for x in train], return_inverse=True)[1]
        folds = split_held_out(len(train), math.ceil(0.1 * len(train)), classes, seed)
        rest, dev = ([train[number] for number in numbers] for numbers in folds)
    fit = partial(_fit_tfidf, corpus.words)
    scores = {strength: _measure_accuracy(fit(rest, strength), dev) for strength in (1.0, 3.0, 10.0, 30.0, 100.0)}
    strength = max(scores, key=lambda value: scores[value])
    figures: dict[str, Any] = {"dev": scores[strength], "C": strength}
    for split in ("test", "held_out"):
        if split in splits:
            figures[split] = _measure_accuracy(fit(train, strength), splits[split])
    return figures


def _fit_tfidf(words: str, train: Any, strength: float) -> Any:
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=words, sublinear_tf=True)
    steps: list[Any] = [vectorizer]
    if train[0].second is not None:
        vectorizer.fit([text for x in train for text in (x.text, x.second)])
        steps = [FunctionTransformer(partial(_pair_features, vectorizer))]
    model = make_pipeline(*steps, LogisticRegression(C=strength, max_iter=1000))
    return model.fit(_inputs(train), [x.label for x in train])


def _pair_features(vectorizer: TfidfVectorizer, pairs: Sequence[tuple[str, str]]) -> Any:
    """(S, 4 F) features [x1, x2, |x1 - x2|, x1 x2] of pairs."""
    first, second = (vectorizer.transform(texts) for texts in zip(*pairs, strict=True))
    return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()


def _inputs(examples: Any) -> list[Any]:
    return [x.text if x.second is None else (x.text, x.second) for x in examples]


def _measure_accuracy(model: Any, examples: Any) -> float:
    return round(100 * float(model.score(_inputs(examples), [x.label for x in examples])), 2)


def _run_crf(corpus: DataSet, splits: Mapping[str, Any]) -> dict[str, Any]:
    """CRFsuite with fixed regularisation."""
    has_spans = corpus.metric == "f1"
    scheme = detect_scheme([list(sentence.tags) for sentence in splits["train"]]) if has_spans else "none"

    def to_iob2(names: Sequence[str], scheme: str) -> list[str]:
        return convert(names, scheme, "IOB2", repair=True) if has_spans else list(names)

    figures = {}
    with train_crfsuite((word_features(x.words), to_iob2(x.tags, scheme)) for x in splits["train"]) as tagger:
        for split in set(splits) - {"train"}:
            gold = [to_iob2(sentence.tags, scheme) for sentence in splits[split]]
            predicted = [to_iob2(tagger.tag(word_features(sentence.words)), "IOB2") for sentence in splits[split]]
            metrics = tagging_metrics(gold, predicted, "IOB2" if has_spans else "none")
            figures[split] = round(metrics[corpus.metric], 2)
    return figures


def word_features(words: Sequence[str]) -> list[list[str]]:
    """Features of each word: the word, affixes, kinds of characters, and the words and suffixes around it."""
    padded = ["", "", *words, "", ""]
    features = []
    for position, word in enumerate(words, 2):
        lower = word.lower()
        row = ["bias", f"word={word}", f"lower={lower}", f"title={word.istitle()}", f"upper={word.isupper()}"]
        row += [f"digit={any(map(str.isdigit, word))}", f"hyphen={'-' in word}"]
        row += [f"prefix={lower[:size]}" for size in (1, 2, 3, 4)] + [
            f"suffix={lower[-size:]}" for size in (1, 2, 3, 4)
        ]
        for offset in (-2, -1, 1, 2):
            near = padded[position + offset]
            row.append(f"{offset}:{near.lower()}")
            if abs(offset) == 1:
                row += [f"{offset}:suffix={near.lower()[-3:]}", f"{offset}:title={near.istitle()}"]
        features.append(row)
    return features
