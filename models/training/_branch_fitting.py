"""Fit the linear branch of a model, and weigh it against the graph encoder on the dev set."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn.builders import TextGraphBuilder
from graphattn.builders._layout import concatenate
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._prediction import prediction_batches, split_rows
from graphattn.models._text_model import TextModel, in_evaluation
from graphattn.models.heads import ClassificationHead, Head, TaggingHead
from graphattn.models.heads._linear_branch import LinearBranch
from graphattn.models.heads._ngrams import NgramBranch
from graphattn.models.heads._word_features import WordFeatureBranch, list_word_keys
from graphattn.models.training._linear_models import fit_linear, weights_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STRENGTHS = (1.0, 3.0, 10.0, 30.0)
"""Inverse strengths of the n-grams' regularisation among which the dev set chooses."""
_MOST_SHARED = 500_000
"""Largest corpus, in tokens, in which words share weights by their character n-grams."""
_MOST_COPIES = 100
"""Times that CRFsuite sees a sentence, whatever its weight."""
_SHARE = 0.5
"""Length of a word's vector of character n-grams."""
_SIMPLEX = np.array([(0, 0), (-1, 0), (0, -1)])
"""Start of the search for the logarithms of the factors, relative to :data:`TYPICAL`."""

Fit = Callable[[Corpus], tuple[LinearBranch, Head]]
"""Corpus -> linear branch, and a head with the transitions of its CRF."""


TYPICAL = (1 / 3, 2 / 3)
"""Factors of the scores of the graph model and of the linear model without a dev set; the graph model's
scores grow during training, so its factor is smaller."""


def fit_linear_branch(
    model: TextModel,
    corpus: Corpus,
    dev: Corpus | None,
    words: Sequence[str],
    *,
    metric: str,
    alone: float | None,
    evaluate: Callable[[list[Any]], dict[str, float]] | None,
    refit: bool,
    log: Callable[[str], None],
) -> tuple[dict[str, float], npt.NDArray[np.floating] | None, list[Any] | None]:
    """Add a branch to a trained model, if the dev set is predicted no worse with it.

    Both branches are weighed by the likelihood of the dev set: the scores of the model become ``deep * graph + linear *
    branch``, and so do the transitions of a CRF: a product of experts. Without a dev set the factors are
    :data:`TYPICAL`. Returns the factors and the dev metrics with the branch, and scores and decisions for the dev set
    before the branch is refitted on it; nothing and None when it is left out.

    ``words`` are the texts of the token ids; ``alone`` is the dev metric without the branch, and ``evaluate`` measures
    decisions for the dev set. ``refit`` adds the dev set to the training set of the branch that is kept.
    """
    fits: list[Fit] = [partial(_fit_ngrams, model.head, words, strength) for strength in STRENGTHS]
    if isinstance(model.head, TaggingHead):
        fits = [partial(fit_word_features, model.head)]
    corpus = _drop_edges(corpus)
    scored = [] if dev is None else _score(model, dev)
    model.cpu()  # where the branch is
    start = time.monotonic()
    if dev is None:
        branch, head = fits[len(fits) // 2](corpus)
        log(f"linear branch: {time.monotonic() - start:.1f} s")
        return _combine(model, branch, head, *TYPICAL), None, None
    trials = list[_Trial]()
    total = len(fits) + refit
    for number, fit in enumerate(fits, 1):
        trials.append(_Trial(fit, model.head, *fit(corpus), scored, dev.mean_weight))
        loss, seconds = trials[-1].loss / weights_of(dev).sum(), time.monotonic() - start
        log(f"linear branch {number}/{total}: dev loss {loss:.4f}, {seconds:.1f} s")
        start = time.monotonic()
    best = min(trials, key=lambda trial: trial.loss)
    decisions = best.decide()
    assert evaluate is not None and alone is not None
    metrics = evaluate(decisions)
    is_added = metrics[metric] >= alone
    log(
        f"linear branch {'added' if is_added else 'left out'}: dev {metric.replace('_', ' ')} "
        f"{metrics[metric]:.2f} with it, {alone:.2f} without"
    )
    if not is_added:
        return {}, None, None
    branch, head = best.branch, best.branch_head
    if refit:
        branch, head = best.fit(_join(corpus, _drop_edges(dev)))
        log(f"linear branch {total}/{total}: with the dev set, {time.monotonic() - start:.1f} s")
    factors = _combine(model, branch, head, best.deep, best.linear)
    return {**factors, **{f"dev_{name}": value for name, value in metrics.items()}}, best.mix_scores(), decisions


class _Trial:
    """A fitted linear branch and its best factors on the dev set.

    ``branch_head`` is a head with the transitions of the linear branch. ``scored`` are batches of the dev set without
    edges, with the model's scores and the numbers of the sentences; their losses are multiplied by ``mean_weight``.
    """

    def __init__(
        self,
        fit: Fit,
        head: Head,
        branch: LinearBranch,
        branch_head: Head,
        scored: list[tuple[Batch, Tensor, list[int]]],
        mean_weight: float = 1.0,
    ):
        from scipy.optimize import minimize

        self.fit, self.head, self.branch, self.branch_head, self.scored = fit, head, branch, branch_head, scored
        self.mean_weight = mean_weight
        with torch.no_grad():
            self.branch_scores = [branch(batch) for batch, _, _ in scored]
        # a normal prior on the logarithms helps where the dev set is small
        start = np.log(TYPICAL)
        result = minimize(
            lambda logs: self._loss(*np.exp(logs)) + 0.5 * float(np.sum((logs - start) ** 2)),
            start,
            method="Nelder-Mead",
            options={"maxfev": 60, "xatol": 0.02, "fatol": 0.01, "initial_simplex": start + _SIMPLEX},
        )
        self.loss: float = float(result.fun)
        self.deep, self.linear = np.exp(result.x).tolist()

    @torch.no_grad()
    def _loss(self, deep: float, linear: float) -> float:
        """Loss of the dev set for two factors."""
        head = _mix_transitions(self.head, self.branch_head, deep, linear)
        return self.mean_weight * sum(
            float(
                head.loss(deep * scores + linear * added, batch.targets, batch.graph, batch.item_weights(scores.device))
            )
            for (batch, scores, _), added in zip(self.scored, self.branch_scores, strict=True)
            if batch.targets is not None
        )

    @torch.no_grad()
    def decide(self) -> list[Any]:
        """Decisions for each sentence of the dev set with the best factors."""
        head = _mix_transitions(self.head, self.branch_head, self.deep, self.linear)
        return self._list_results(lambda mixed, batch: head.decide(mixed, batch.graph))

    @torch.no_grad()
    def mix_scores(self) -> npt.NDArray[np.floating] | None:
        """(S, classes) scores of the dev set with the best factors; None for a tagger."""
        return None if self.head.per_word else np.array(self._list_results(lambda mixed, batch: mixed))

    def _list_results(self, compute: Callable[[Tensor, Batch], Tensor]) -> list[Any]:
        """What is computed from the mixed scores of each sentence of the dev set."""
        results: list[Any] = [None] * sum(len(numbers) for _, _, numbers in self.scored)
        for (batch, scores, numbers), added in zip(self.scored, self.branch_scores, strict=True):
            items = self.head.items(batch.graph).tolist() if self.head.per_word else None
            computed = compute(self.deep * scores + self.linear * added, batch)
            for number, result in zip(numbers, split_rows(computed, items), strict=True):
                results[number] = result
        return results


def _score(model: TextModel, corpus: Corpus) -> list[tuple[Batch, Tensor, list[int]]]:
    """The batches of a corpus without edges, with the model's scores."""
    plain, batches = _drop_edges(corpus), prediction_batches(corpus, model.device)
    with in_evaluation(model), torch.no_grad():
        return [(plain[numbers], model(corpus.batch(numbers)).cpu(), numbers) for numbers in batches]


def _transitions(head: Head) -> list[nn.Parameter]:
    crf = getattr(head, "crf", None)
    return [] if crf is None else list(crf.parameters())


@torch.no_grad()
def _mix_transitions(head: Head, branch_head: Head, deep: float, linear: float) -> Head:
    """A head with the weighted sum of both heads' transitions; the first head itself if it has none."""
    if not _transitions(head):
        return head
    mixed = copy.deepcopy(head)
    for target, first, second in zip(*map(_transitions, (mixed, head, branch_head)), strict=True):
        target.copy_(deep * first + linear * second)
    return mixed


@torch.no_grad()
def _combine(model: TextModel, branch: LinearBranch, branch_head: Head, deep: float, linear: float) -> dict[str, float]:
    """Scale both branches, and add the linear one to the model; returns the factors."""
    for target, added in zip(_transitions(model.head), _transitions(branch_head), strict=True):
        if target is not added:
            target.copy_(deep * target + linear * added)
    for parameter in model.head.output.parameters():
        parameter.mul_(deep)
    branch.scale(linear)
    model.linear_branch = branch
    return {"deep": deep, "linear": linear}


# -- n-grams -----------------------------------------------------------------------------------------------------------


def _fit_ngrams(head: Head, words: Sequence[str], strength: float, corpus: Corpus) -> tuple[NgramBranch, Head]:
    """Logistic regression on tf-idf; for numbers, ridge regression."""
    from scipy.sparse import csr_matrix, hstack, vstack

    assert isinstance(head, ClassificationHead) and isinstance(corpus.targets, np.ndarray)
    classes = head.output.out_features
    branch = NgramBranch.of(corpus.layouts, classes, corpus.copies)
    parts = (
        csr_matrix((values.numpy(), (rows.numpy(), columns.numpy())), (items, len(branch.weights)))
        for items, rows, columns, values in branch.design_entries(corpus.layouts)
    )
    design = vstack(list(parts), format="csr")
    shared = None
    if branch.blocks == 1 and int(corpus.lengths.sum()) <= _MOST_SHARED:
        shared = count_character_ngrams([words[number] for number in branch.single_tokens()])
    if shared is not None:
        design = hstack([design, design[:, : shared.shape[0]] @ shared]).tocsr()
    coefficients, bias = fit_linear(head, design, corpus.targets, weights_of(corpus), strength)
    weights = coefficients[:, : len(branch.weights)]
    if shared is not None:
        weights[:, : shared.shape[0]] += coefficients[:, len(branch.weights) :] @ shared.T
    branch.weights.copy_(torch.from_numpy(weights.T))
    branch.bias.copy_(torch.from_numpy(bias))
    return branch, head


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


def fit_word_features(head: TaggingHead, corpus: Corpus) -> tuple[WordFeatureBranch, Head]:
    """A linear-chain CRF on features of words, fitted by CRFsuite.

    It has no weights, so that it sees a sentence of weight k round(k) times, but at least once and at most
    :data:`_MOST_COPIES` times.
    """
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


# -- corpora -----------------------------------------------------------------------------------------------------------


def _drop_edges(corpus: Corpus) -> Corpus:
    """The same corpus, whose batches have no relations."""
    plain = copy.copy(corpus)
    plain.builder = TextGraphBuilder([], vocabulary=corpus.builder.vocabulary)
    return plain


def _join(first: Corpus, second: Corpus) -> Corpus:
    """Both corpora as one."""
    types, others = first.token_types, second.token_types
    layouts = second.layouts
    if types is not None and others is not None:
        layouts = tuple(
            layout.with_feature("token_type", layout.features["token_type"] + len(types)) for layout in layouts
        )
        types = types.concatenate(others)
    targets: Any
    if isinstance(first.targets, tuple) and isinstance(second.targets, tuple):
        targets = tuple(map(np.concatenate, zip(first.targets, second.targets, strict=True)))
    else:
        targets = np.concatenate([first.targets, second.targets])
    joined = [concatenate(list(pair)) for pair in zip(first.layouts, layouts, strict=True)]
    both = Corpus(first.builder, joined, token_types=types, targets=targets)
    if first.copies is None and second.copies is None:
        return both
    return both.with_weights(np.concatenate([weights_of(first), weights_of(second)]))
