"""The head that tags words, alone or as a sequence with a conditional random field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.dropout import Dropout
from graphattn.graphs import lengths_of
from graphattn.models.heads.base import Head
from graphattn.models.heads.crf import LinearChainCRF
from graphattn.models.options import HeadOptions
from graphattn.models.padding import pad, prefix_mask
from graphattn.products import Linear
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from dgl import DGLGraph


class TaggingHead(Head):
    """Scores the tags of each word from its first token; ``[CLS]`` gets none.

    Parameters
    ----------
    width : features of a token
    classes : number of tags
    options : dropout, CRF
    class_weights : (classes,) weights in the loss; not together with a CRF
    label_smoothing : share of probability spread over all tags; not together with a CRF
    """

    per_word = True
    class_weights: Tensor | None

    def __init__(
        self,
        width: int,
        classes: int,
        options: HeadOptions,
        *,
        class_weights: Tensor | None = None,
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        self.options, self.label_smoothing = options, label_smoothing
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.classify = nn.Sequential(Dropout(options.head_dropout), Linear(width, classes))
        self.crf = LinearChainCRF(classes, batch_first=True) if options.crf else None

    def forward(self, tokens: Tensor, graph: DGLGraph) -> Tensor:
        """(N, F) -> (W, classes), words without ``[CLS]``."""
        return self.classify(tokens[first_tokens(graph)]).float()

    def loss(self, scores: Tensor, targets: Tensor, graph: DGLGraph) -> Tensor:
        """Cross-entropy of each word, or negative log-likelihood of the sequences; summed."""
        if self.crf is None:
            return F.cross_entropy(
                scores, targets, weight=self.class_weights, reduction="sum", label_smoothing=self.label_smoothing
            )
        emissions, mask, rows = self._rows(_precise(scores), graph)
        if not len(rows):
            # no word at all; processes that train together expect a gradient for every weight all the same
            return 0 * (scores.sum() + sum(parameter.sum() for parameter in self.crf.parameters()))
        likelihood = self.crf(emissions, pad(targets, self.items(graph))[rows], mask=mask, reduction="sum")
        return -likelihood.to(scores.dtype)

    def probabilities(self, scores: Tensor, graph: DGLGraph) -> Tensor:
        """Softmax, or the CRF's marginals: the derivative of log Z with respect to the scores."""
        if self.crf is None:
            return scores.softmax(1)
        with torch.inference_mode(False), torch.enable_grad():
            leaf = _precise(scores.detach().clone()).requires_grad_()
            emissions, mask, rows = self._rows(leaf, graph)
            if not len(rows):
                return scores.clone()
            (gradient,) = torch.autograd.grad(self.crf.log_partition(emissions, mask).sum(), leaf)
        return gradient.clamp(0, 1).to(scores.dtype)

    def decide(self, scores: Tensor, graph: DGLGraph) -> Tensor:
        """The best tag of each word, or the words' tags in the best sequence."""
        if self.crf is None:
            return scores.argmax(1)
        emissions, mask, rows = self._rows(_precise(scores), graph)
        best = self.crf.decode(emissions, mask=mask) if len(rows) else []
        return torch.tensor([tag for sequence in best for tag in sequence], dtype=torch.long)

    def items(self, graph: DGLGraph) -> Tensor:
        """(B,) words of each sentence."""
        starts = graph.nodes[TOKEN].data["position"] == 0
        sentence = starts.long().cumsum(0) - 1
        return torch.bincount(sentence[first_tokens(graph)], minlength=lengths_of(graph, TOKEN).shape[0])

    def _rows(self, scores: Tensor, graph: DGLGraph) -> tuple[Tensor, Tensor, Tensor]:
        """Padded scores and mask of the sentences that have words; the CRF cannot take an empty one."""
        counts = self.items(graph).to(scores.device)
        rows = counts.nonzero().squeeze(1)
        return pad(scores, counts)[rows], prefix_mask(counts)[rows], rows


def first_tokens(graph: DGLGraph) -> Tensor:
    """(W,) the first token of each word, ``[CLS]`` left out."""
    data = graph.nodes[TOKEN].data
    word, position = data["word"], data["position"]
    begins = torch.ones_like(word, dtype=torch.bool)
    begins[1:] = word[1:] != word[:-1]
    return (begins & (position > 0)).nonzero().squeeze(1)


def _precise(scores: Tensor) -> Tensor:
    """In float64, where there is such: log Z grows with the text, and float32 leaves it too few digits in long ones."""
    return scores if scores.device.type == "mps" else scores.double()
