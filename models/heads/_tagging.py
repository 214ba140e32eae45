"""Tagging head: a softmax for each word, or a conditional random field for the sentence."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import features_of, lengths_of
from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.builders._graph_builder import CLS_ID
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear
from graphattn.models._options import HeadOptions
from graphattn.models._padding import pad, padding_groups, prefix_mask, unpad
from graphattn.models.heads._classification import Head, sum_cross_entropy
from graphattn.models.heads._crf import LinearChainCRF
from graphattn.models.heads._pooling import pool


class TaggingHead(Head):
    """Scores the tags of each word from its first token, or from the mean of its tokens.

    Parameters
    ----------
    width : features of a token
    classes : number of tags
    options : vector of a word, dropout, CRF
    class_weights : (classes,) weights in the loss; ignored by a CRF
    label_smoothing : share of probability spread over all tags; ignored by a CRF
    """

    per_word = True

    def __init__(
        self,
        width: int,
        classes: int,
        options: HeadOptions,
        *,
        class_weights: Tensor | None = None,
        label_smoothing: float = 0.0,
    ):
        super().__init__(options, class_weights, label_smoothing)
        self.classify = nn.Sequential(Dropout(options.head_dropout), Linear(width, classes))
        self.crf = LinearChainCRF(classes) if options.crf else None

    @override
    def forward(self, tokens: Tensor, graph: TextBatch, cells: Tensor | None = None) -> Tensor:
        if self.options.word_pieces == "mean":
            words = average_words(tokens, graph)
        else:
            words = tokens[to_device(first_tokens(graph), tokens.device)]
        return self.scores(words)

    @override
    def loss(self, scores: Tensor, targets: Tensor, graph: TextBatch, weights: Tensor | None = None) -> Tensor:
        if self.crf is None:
            return sum_cross_entropy(scores, targets, weights, self.class_weights, self.label_smoothing)
        precise = as_precise(scores)
        # distributed training needs a gradient for every weight, even in a batch without words
        loss = 0 * (precise.sum() + sum(parameter.sum() for parameter in self.crf.parameters()))
        for words, counts, emissions, mask in self._chains(precise, graph):
            likelihoods = self.crf(emissions, pad(targets[words], counts), mask)
            if weights is not None:  # all words of a sentence have its weight
                likelihoods = likelihoods * pad(weights[words], counts)[:, 0]
            loss = loss - likelihoods.sum()
        return loss.to(scores.dtype)

    @override
    def probabilities(self, scores: Tensor, graph: TextBatch) -> Tensor:
        if self.crf is None:
            return scores.softmax(1)
        # a marginal is the derivative of log Z with respect to the score
        with torch.inference_mode(False), torch.enable_grad():
            leaf = as_precise(scores.detach().clone()).requires_grad_()
            partition = leaf.sum() * 0
            for _, _, emissions, mask in self._chains(leaf, graph):
                partition = partition + self.crf.log_partition(emissions, mask).sum()
            (gradient,) = torch.autograd.grad(partition, leaf)
        return gradient.clamp(0, 1).to(scores.dtype)

    def log_probabilities(self, scores: Tensor, tags: Tensor, graph: TextBatch) -> Tensor:
        """(W, 2) log-probability of each word's tag, alone and given the tag of the word before; equal without a CRF.

        The probability of all tags of a segment is the first of its first word times the second of each other word.
        """
        if self.crf is None:
            return scores.log_softmax(1).gather(1, tags.unsqueeze(1)).expand(-1, 2)
        precise = as_precise(scores)
        result = precise.new_zeros(len(scores), 2)
        for words, counts, emissions, mask in self._chains(precise, graph):
            result[words] = unpad(self.crf.log_probabilities(emissions, pad(tags[words], counts), mask), counts)
        return result

    @override
    def decide(self, scores: Tensor, graph: TextBatch) -> Tensor:
        if self.crf is None:
            return scores.argmax(1)
        precise, best = as_precise(scores), torch.zeros(len(scores), dtype=torch.long, device=scores.device)
        for words, counts, emissions, mask in self._chains(precise, graph):
            best[words] = unpad(self.crf.best_tags(emissions, mask), counts)
        return best

    @property
    @override
    def layers(self) -> nn.Sequential:
        return self.classify

    @override
    def items(self, graph: TextBatch) -> Tensor:
        lengths = lengths_of(graph, TOKEN)
        sentence = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        return torch.bincount(sentence[first_tokens(graph).to(sentence.device)], minlength=len(lengths))

    def _chains(self, scores: Tensor, graph: TextBatch) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Groups of sentences that the CRF scores together, without empty ones.

        For each group there are the word numbers, the words per sentence (where the graph is), and the padded scores
        with their mask.
        """
        for words, counts in padding_groups(self.items(graph)):
            if len(words):
                words, counts = to_device(words, scores.device), counts[counts > 0]
                yield words, counts, pad(scores[words], counts), to_device(prefix_mask(counts), scores.device)


def first_tokens(graph: TextBatch) -> Tensor:
    """(W,) the first token of each word, without special ones; without token ids, ``[CLS]`` is the first of a text."""
    begins, _ = _find_words(graph)
    return begins.nonzero().squeeze(1)


def average_words(tokens: Tensor, graph: TextBatch) -> Tensor:
    """(N, F) token vectors -> (W, F) mean over the tokens of each word, without special ones."""
    begins, is_special = _find_words(graph)
    counts = torch.bincount(begins.cumsum(0)[~is_special] - 1, minlength=int(begins.sum()))
    ordinary = to_device((~is_special).nonzero().squeeze(1), tokens.device)
    return pool(tokens[ordinary], counts, "mean")


def _find_words(graph: TextBatch) -> tuple[Tensor, Tensor]:
    """(N,) whether a token is the first of a word, and whether it is special."""
    data = features_of(graph, TOKEN)
    word, position = data["word"], data["position"]
    is_cls = data["id"] == CLS_ID if "id" in data else position == 0
    is_special = data.get("special", is_cls)  # of a pretrained model
    begins = position == 0
    begins[1:] |= word[1:] != word[:-1]
    return begins & ~is_special, is_special


def as_precise(scores: Tensor) -> Tensor:
    """Float64 where the device has it: log Z grows with the text and loses digits in float32."""
    return scores if scores.device.type == "mps" else scores.double()
