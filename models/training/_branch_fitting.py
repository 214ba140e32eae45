"""Fit the linear branch of a model: n-grams of texts and pairs, or features of words."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from typing_extensions import override

from graphattn.models._corpus import Corpus
from graphattn.models.heads import Head
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.heads._ngrams import NgramBranch
from graphattn.models.heads._word_features import WordFeatureBranch, list_word_keys
from graphattn.models.training._linear_models import Offset, fit_linear, weights_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STRENGTHS = (30.0, 10.0, 3.0, 1.0)
"""Inverse strengths of the n-grams' regularisation among which the dev set chooses, the most likely first."""
_MOST_SHARED = 500_000
"""Largest corpus, in tokens, in which words share weights by their character n-grams."""
_LARGE = 300_000
"""Tokens of a corpus in which n-grams of only one text are left out, and one strength is tried: a fit takes long."""
_CURVATURE = 0.05
"""Second derivative of the loss of a text by a score, on average after a fit; it is at most 0.25."""
_MOST_COPIES = 100
"""Times that CRFsuite sees a sentence, whatever its weight."""
_SHARE = 0.5
"""Length of a word's vector of character n-grams."""


class BranchFitter(ABC):
    """Fits a linear branch beside a head, with one of some strengths of regularization."""

    strengths: Sequence[float] = (1.0,)
    """Inverse strengths among which the dev set chooses, the most likely first."""

    @abstractmethod
    def prepare(self, corpus: Corpus) -> Any:
        """What all strengths share of a corpus."""

    @abstractmethod
    def fit(self, prepared: Any, strength: float) -> tuple[LinearBranch, Head]:
        """A branch, and a head with the transitions of its CRF."""


@dataclass
class Start:
    """The linear branch of the model to continue from, and the new ids of its classes."""

    branch: LinearBranch | None
    classes: Sequence[int]


def make_fitter(head: Head, words: Sequence[str], tokens: int, start: Start | None = None) -> BranchFitter:
    """The way to fit a branch beside a head to so many tokens; ``words`` are the texts of token ids.

    N-grams are fitted on top of the scores of a ``start``.
    """
    return WordFeatureFitter(head) if head.per_word else NgramFitter(head, words, tokens, start)


# -- n-grams -----------------------------------------------------------------------------------------------------------


@dataclass
class Ngrams:
    """The n-grams of S texts, with their targets and weights.

    ``branch`` has no weights yet, or those of the model to continue from, whose scores are in ``offset``. ``design`` is
    the (S, columns) tf-idf of n-grams of tokens, and, if words share weights, of the character n-grams in ``shared``,
    which is (tokens, character n-grams).
    """

    branch: NgramBranch
    design: csr_matrix
    shared: csr_matrix | None
    targets: npt.NDArray[Any]
    weights: npt.NDArray[np.floating]
    offset: Offset | None = None


class NgramFitter(BranchFitter):
    """Logistic regression on tf-idf of n-grams; for numbers, ridge regression."""

    def __init__(self, head: Head, words: Sequence[str], tokens: int, start: Start | None = None):
        self.head, self.words, self.tokens = head, words, tokens
        self.start = start if start is not None and isinstance(start.branch, NgramBranch) else None
        self.strengths = STRENGTHS[:1] if tokens > _LARGE else STRENGTHS

    @override
    def prepare(self, corpus: Corpus) -> Ngrams:
        from scipy.sparse import csr_matrix, hstack, vstack

        classes, least = self.head.output.out_features, 2 if self.tokens > _LARGE else 1
        sizes = None if self.head.columns is None else self.head.columns.columns.sizes
        branch = NgramBranch.of(corpus.layouts, classes, corpus.copies, least=least, sizes=sizes)
        if self.start is not None:
            assert isinstance(self.start.branch, NgramBranch)
            branch = self.start.branch.grow(branch, classes, self.start.classes)
        parts = (
            csr_matrix((values.numpy(), (rows.numpy(), columns.numpy())), (items, len(branch.weights)))
            for items, rows, columns, values in branch.design_entries(corpus.layouts, corpus.cells)
        )
        design, shared = vstack(list(parts), format="csr"), None
        offset = None if self.start is None else self._make_offset(self.start.branch, branch, design)
        if offset is None and branch.blocks == 1 and self.tokens <= _MOST_SHARED:
            shared = count_character_ngrams([self.words[number] for number in branch.single_tokens()])
        if shared is not None:
            design = hstack([design, design[:, : shared.shape[0]] @ shared]).tocsr()
        assert isinstance(corpus.targets, np.ndarray)
        return Ngrams(branch, design, shared, corpus.targets, weights_of(corpus), offset)

    def _make_offset(self, old: LinearBranch | None, grown: NgramBranch, design: csr_matrix) -> Offset:
        """The scores that the texts have before, and how much the texts that they were fitted to held each weight.

        The old texts are not there, but the idf say in how many of them each n-gram occurs. Categories beside the texts
        are taken to be equally frequent.
        """
        assert isinstance(old, NgramBranch)
        texts, frequencies = old.count_texts()
        held = torch.zeros(len(grown.keys), dtype=torch.float64)
        held[torch.searchsorted(grown.keys, old.keys)] = frequencies
        counts = np.append(np.tile(held.numpy(), grown.blocks), np.full(grown.blocks, texts))
        for size in [] if grown.sizes is None else grown.sizes.clamp(min=1).tolist():
            counts = np.append(counts, np.full(size, texts / size))
        squares = np.asarray(design.multiply(design).sum(axis=0)).ravel() / design.getnnz(axis=0).clip(1)
        scores = design @ grown.weights.numpy() + grown.bias.numpy()
        return Offset(scores, _CURVATURE * counts * squares, _CURVATURE * texts)

    @override
    def fit(self, prepared: Ngrams, strength: float) -> tuple[NgramBranch, Head]:
        branch, shared = copy.deepcopy(prepared.branch), prepared.shared
        coefficients, bias = fit_linear(
            self.head, prepared.design, prepared.targets, prepared.weights, strength, prepared.offset
        )
        weights = coefficients[:, : len(branch.weights)]
        if shared is not None:
            weights[:, : shared.shape[0]] += coefficients[:, len(branch.weights) :] @ shared.T
        branch.weights += torch.from_numpy(weights.T)
        branch.bias += torch.from_numpy(bias)
        return branch, self.head


def count_character_ngrams(words: Sequence[str]) -> csr_matrix | None:
    """(words, n-grams) tf-idf of the character n-grams of words, rows of length :data:`_SHARE`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 6), min_df=2, lowercase=False, dtype=np.float32)
    try:
        return _SHARE * vectorizer.fit_transform(words)
    except ValueError:  # no n-gram occurs twice
        return None


# -- features of words -------------------------------------------------------------------------------------------------


@contextmanager
def train_crfsuite(sentences: Iterable[tuple[Sequence[Any], Sequence[str]]]) -> Iterator[Any]:
    """Train a CRF with L-BFGS, L1 and L2 on features and tags of sentences; yields the ``pycrfsuite.Tagger``."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True})
    for features, tags in sentences:
        trainer.append(features, tags)
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "crf"))
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        with tagger.open(path):
            yield tagger


class WordFeatureFitter(BranchFitter):
    """A linear-chain CRF on features of words, fitted by CRFsuite.

    It has no weights, so that it sees a sentence of weight k round(k) times, but at least once and at most
    :data:`_MOST_COPIES` times.
    """

    def __init__(self, head: Head):
        self.head = head

    @override
    def prepare(self, corpus: Corpus) -> Corpus:
        return corpus

    @override
    def fit(self, prepared: Corpus, strength: float) -> tuple[WordFeatureBranch, Head]:
        corpus, head = prepared, self.head
        assert isinstance(corpus.targets, tuple) and head.crf is not None
        tags = np.split(corpus.targets[0].astype(str), np.cumsum(corpus.targets[1])[:-1])
        weights = weights_of(corpus)
        copies = (np.rint(weights).clip(1, _MOST_COPIES) * (weights > 0)).astype(int).tolist()
        sentences = zip(list_word_keys(corpus), map(np.ndarray.tolist, tags), strict=True)
        with train_crfsuite(chain.from_iterable(map(repeat, sentences, copies))) as tagger:
            fitted = tagger.info()
        fitted_keys = np.array([int(key) for key, _ in fitted.state_features], np.int64)
        keys = np.unique(fitted_keys) if len(fitted_keys) else np.zeros(1, np.int64)  # no feature tells tags apart
        branch = WordFeatureBranch(torch.from_numpy(keys), head.output.out_features)
        rows = torch.from_numpy(np.searchsorted(keys, fitted_keys))
        columns = torch.tensor([int(tag) for _, tag in fitted.state_features], dtype=torch.long)
        branch.weights[rows, columns] = torch.tensor(list(fitted.state_features.values()), dtype=torch.float32)
        branch_head = copy.deepcopy(head)
        assert branch_head.crf is not None
        for parameter in branch_head.crf.parameters():
            nn.init.zeros_(parameter)
        for (before, after), weight in fitted.transitions.items():
            branch_head.crf.transitions.data[int(before), int(after)] = weight
        return branch, branch_head
