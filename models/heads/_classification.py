"""Base class of heads, and the heads that classify sentences and pairs from pooled token vectors."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.layers._dropout import Dropout
from graphattn.models._features.text_columns import ColumnFeatures, TextColumns
from graphattn.models._options import HeadOptions
from graphattn.models.heads._crf import LinearChainCRF
from graphattn.models.heads._pooling import Source2TokenPooling, count_pooled_features, pool


class Head(nn.Module):
    """Base of all heads. An item gets one decision: a sentence, a pair, or a word."""

    per_word: bool = False
    """Whether items are words."""
    compares_texts = False
    """Whether an item is two texts with a vector each."""
    is_regression = False
    """Whether the scores are numbers, with a squared error."""
    multilabel = False
    """Whether each class is decided on its own, with a sigmoid."""
    is_balanced = False
    """Whether ``class_weights`` are inverse frequencies, which a linear model computes anew of its own texts."""
    class_weights: Tensor | None
    """(classes,) weights in the loss."""
    pooling: str | None = None
    """Pooling of the tokens of a sentence; None for a head on words."""

    def __init__(self, options: HeadOptions, class_weights: Tensor | None, label_smoothing: float):
        super().__init__()
        self.options, self.label_smoothing = options, label_smoothing
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.source2token: Source2TokenPooling | None = None
        self.columns: ColumnFeatures | None = None
        """Columns beside the texts."""
        self.crf: LinearChainCRF | None = None
        """Scores of neighbouring tags."""

    @abstractmethod
    def forward(self, tokens: Tensor, graph: TextBatch, cells: Tensor | None = None) -> Tensor:
        """(N, F) token vectors, and (items, K) encoded columns beside the texts, if any -> (items, classes) scores."""

    def scores(self, vectors: Tensor, cells: Tensor | None = None) -> Tensor:
        """(rows, F) vectors of sentences or words, and (items, K) encoded columns, if any -> (items, classes)."""
        return at_least_float32(self.layers(vectors))

    @abstractmethod
    def loss(self, scores: Tensor, targets: Tensor, graph: TextBatch, weights: Tensor | None = None) -> Tensor:
        """Sum of the items' losses, a scalar; ``weights`` are (items,) factors of these losses."""

    @abstractmethod
    def probabilities(self, scores: Tensor, graph: TextBatch) -> Tensor:
        """(items, classes) probabilities."""

    @abstractmethod
    def decide(self, scores: Tensor, graph: TextBatch) -> Tensor:
        """(items,) class ids, or (items, classes) zeros and ones for several labels."""

    def loss_among(self, classes: Tensor, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """:meth:`loss` of items that have some of the classes, ascending, as if there were no others.

        So the scores of classes without examples are not pushed down (Caccia et al. 2022, asymmetric cross-entropy).
        """
        of_classes = None if self.class_weights is None else self.class_weights[classes]
        targets = torch.searchsorted(classes, targets)
        return sum_cross_entropy(scores[:, classes], targets, weights, of_classes, self.label_smoothing)

    @property
    @abstractmethod
    def layers(self) -> nn.Sequential:
        """The layers from the vector of an item to its scores."""

    @property
    def output(self) -> nn.Linear:
        """The layer that computes the scores."""
        layer = self.layers[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    @abstractmethod
    def items(self, graph: TextBatch) -> Tensor:
        """(B,) items of each sentence or pair."""


def sum_cross_entropy(
    scores: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The sum of the items' cross-entropies.

    ``scores`` are (items, classes), ``targets`` (items,) class ids, ``weights`` (items,) factors of the items' losses,
    ``class_weights`` (classes,) factors of the classes' terms. ``label_smoothing`` is the share of probability spread
    over all classes.
    """
    cross_entropy = partial(F.cross_entropy, weight=class_weights, label_smoothing=label_smoothing)
    if weights is None:
        return cross_entropy(scores, targets, reduction="sum")
    return (cross_entropy(scores, targets, reduction="none") * weights).sum()


class ClassificationHead(Head):
    """Pooling and a two-layer perceptron (MS-Trans, section 3.4), or a linear layer alone.

    Parameters
    ----------
    width : features of a token
    classes : number of classes
    options : pooling, hidden width, dropout
    multilabel : decide each class on its own, with a sigmoid
    class_weights : (classes,) weights in the loss
    label_smoothing : share of probability spread over all classes
    """

    frozen_lengths: tuple[float, ...] = (1.0,)
    """Mean length of each equal part of an item's features where a linear layer is fitted to a frozen encoder."""
    pooling: str
    cutoffs: Tensor | None
    """(classes,) log-odds above which classes are decided; None for the most probable one, or 0 for several labels."""

    def __init__(
        self,
        width: int,
        classes: int,
        options: HeadOptions,
        *,
        multilabel: bool = False,
        class_weights: Tensor | None = None,
        label_smoothing: float = 0.0,
    ):
        super().__init__(options, class_weights, label_smoothing)
        self.multilabel = multilabel
        self.register_buffer("cutoffs", None, persistent=False)
        self.pooling = options.pooling or "cls+max"
        self.source2token = Source2TokenPooling(width, options.head_dropout) if self.pooling == "source2token" else None
        self.pooled = count_pooled_features(self.pooling, width)
        features = self.features(self.pooled)
        hidden = width if options.head_hidden is None else options.head_hidden
        first = [Dropout(options.head_dropout), nn.Linear(features, hidden), nn.ReLU()] if hidden else []
        self.perceptron = nn.Sequential(*first, Dropout(options.head_dropout), nn.Linear(hidden or features, classes))

    def features(self, pooled: int) -> int:
        """Input features of the perceptron."""
        return pooled

    def add_columns(self, columns: TextColumns) -> None:
        """Read columns beside the texts: their features follow those of an item."""
        self.columns = ColumnFeatures(columns)
        number = next(number for number, layer in enumerate(self.perceptron) if isinstance(layer, nn.Linear))
        first = self.perceptron[number]
        assert isinstance(first, nn.Linear)
        self.perceptron[number] = nn.Linear(first.in_features + self.columns.width, first.out_features)

    def sentences(self, tokens: Tensor, graph: TextBatch) -> Tensor:
        """(B, pooled features): one vector for each sentence."""
        lengths = lengths_of(graph, TOKEN)
        return pool(tokens, lengths, self.pooling) if self.source2token is None else self.source2token(tokens, lengths)

    def items_of(self, sentences: Tensor) -> Tensor:
        """(B, pooled features) of sentences -> (items, features): one vector for each item."""
        return sentences

    @override
    def forward(self, tokens: Tensor, graph: TextBatch, cells: Tensor | None = None) -> Tensor:
        return self.scores(self.sentences(tokens, graph), cells)

    @override
    def scores(self, vectors: Tensor, cells: Tensor | None = None) -> Tensor:
        items = self.items_of(vectors)
        if self.columns is not None:
            assert cells is not None
            items = torch.cat([items, self.columns(to_device(cells, items.device)).to(items.dtype)], dim=1)
        return at_least_float32(self.perceptron(items.to(self.output.bias.dtype)))

    @override
    def loss(self, scores: Tensor, targets: Tensor, graph: TextBatch, weights: Tensor | None = None) -> Tensor:
        if self.multilabel:
            smooth = targets.to(scores.dtype) * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
            losses = F.binary_cross_entropy_with_logits(
                scores, smooth, pos_weight=self.class_weights, reduction="none"
            ).mean(1)
            return (losses if weights is None else losses * weights).sum()
        return sum_cross_entropy(scores, targets, weights, self.class_weights, self.label_smoothing)

    @override
    def probabilities(self, scores: Tensor, graph: TextBatch) -> Tensor:
        return scores.sigmoid() if self.multilabel else scores.softmax(1)

    @override
    def decide(self, scores: Tensor, graph: TextBatch) -> Tensor:
        cutoffs = self.cutoffs
        if self.multilabel:
            return (scores > (0 if cutoffs is None else cutoffs)).long()
        if cutoffs is None:
            return scores.argmax(1)
        return (scores[:, 1] - scores[:, 0] > cutoffs[1]).long()  # of two classes

    @property
    @override
    def layers(self) -> nn.Sequential:
        return self.perceptron

    @override
    def items(self, graph: TextBatch) -> Tensor:
        return torch.ones_like(lengths_of(graph, TOKEN))


class RegressionHead(ClassificationHead):
    """One number for each item, with a squared error: ``ClassificationHead`` with a single class."""

    is_regression = True

    @override
    def loss(self, scores: Tensor, targets: Tensor, graph: TextBatch, weights: Tensor | None = None) -> Tensor:
        errors = (scores[:, 0] - targets.to(scores.dtype)).square()
        return (errors if weights is None else errors * weights).sum()

    @override
    def decide(self, scores: Tensor, graph: TextBatch) -> Tensor:
        """(items,) numbers."""
        return scores[:, 0]


class PairHead(ClassificationHead):
    """A perceptron on [r1, r2, |r1 - r2|, r1 - r2] (MS-Trans, section 4.3), or with r1 r2 in the third place (MTSA)."""

    compares_texts = True
    # shorter parts are regularized more: a few pairs say little about what depends on one text
    frozen_lengths = (0.3, 0.3, 1.0, 0.3)

    @override
    def features(self, pooled: int) -> int:
        return 4 * pooled

    @override
    def items_of(self, sentences: Tensor) -> Tensor:
        first, second = sentences.chunk(2)  # a batch has all first sentences, then all second ones
        third = first * second if self.options.pair_features == "product" else (first - second).abs()
        return torch.cat([first, second, third, first - second], dim=1)

    @override
    def items(self, graph: TextBatch) -> Tensor:
        return super().items(graph).chunk(2)[0]


class PairRegressionHead(RegressionHead, PairHead):
    """One number for each pair."""
