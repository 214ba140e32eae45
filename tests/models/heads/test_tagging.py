"""The tagging head; its CRF against enumerating every sequence of tags."""

from itertools import combinations, pairwise, product

import pytest
import torch

from graphattn.builders import Sentence
from graphattn.models._options import HeadOptions
from graphattn.models.heads import TaggingHead
from graphattn.models.heads._tagging import first_tokens

TAGS = 3
LENGTHS = (0, 1, 5, 0, 3, 2)  # so different that they are padded in groups


@pytest.fixture
def crf_head():
    torch.manual_seed(3)
    head = TaggingHead(5, TAGS, HeadOptions(crf=True)).double().eval()
    for parameter in head.crf.parameters():
        torch.nn.init.normal_(parameter)
    return head


@pytest.fixture
def scores():
    torch.manual_seed(8)
    return torch.randn(sum(LENGTHS), TAGS, dtype=torch.float64, requires_grad=True)


def sequence_scores(head, scores):
    """Every sequence of tags for one sentence, and its score: start, emissions, transitions, end."""
    crf = head.crf
    sequences = list(product(range(TAGS), repeat=len(scores)))
    totals = []
    for tags in sequences:
        total = crf.start_transitions[tags[0]] + crf.end_transitions[tags[-1]]
        total = total + sum(scores[word, tag] for word, tag in enumerate(tags))
        total = total + sum(crf.transitions[one, next_one] for one, next_one in pairwise(tags))
        totals.append(total)
    return torch.tensor(sequences), torch.stack(totals)


def test_log_likelihood_equals_a_sum_over_all_sequences(crf_head, scores, graph_of):
    torch.manual_seed(1)
    targets = torch.randint(TAGS, (len(scores),))
    expected = 0
    for own, gold in zip(scores.split(LENGTHS), targets.split(LENGTHS), strict=True):
        if len(own):
            sequences, totals = sequence_scores(crf_head, own)
            expected = expected - (totals[(sequences == gold).all(1)][0] - totals.logsumexp(0))
    loss = crf_head.loss(scores, targets, graph_of(*LENGTHS))
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)
    variables = [scores, *crf_head.crf.parameters()]
    ours, theirs = torch.autograd.grad(loss, variables), torch.autograd.grad(expected, variables)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_decisions_are_the_best_sequences(crf_head, scores, graph_of):
    decided = crf_head.decide(scores, graph_of(*LENGTHS)).split(LENGTHS)
    for own, tags in zip(scores.split(LENGTHS), decided, strict=True):
        if len(own):
            sequences, totals = sequence_scores(crf_head, own)
            assert tags.tolist() == sequences[totals.argmax()].tolist()


def test_probabilities_are_the_marginals(crf_head, scores, graph_of):
    chances = crf_head.probabilities(scores, graph_of(*LENGTHS))
    torch.testing.assert_close(chances.sum(1), torch.ones(len(scores), dtype=torch.float64), rtol=0, atol=1e-10)
    for own, marginals in zip(scores.split(LENGTHS), chances.split(LENGTHS), strict=True):
        if len(own):
            sequences, totals = sequence_scores(crf_head, own)
            weights = totals.softmax(0)
            expected = torch.stack(
                [torch.stack([weights[sequences[:, w] == t].sum() for t in range(TAGS)]) for w in range(len(own))]
            )
            torch.testing.assert_close(marginals, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("crf", [True, False])
def test_segments_have_the_probability_of_their_tags(crf, crf_head, scores, graph_of):
    """Of every segment of every sentence, against summing over all sequences that have its tags."""
    head = crf_head if crf else TaggingHead(5, TAGS, HeadOptions())
    torch.manual_seed(6)
    tags = torch.randint(TAGS, (len(scores),))
    logs = head.log_probabilities(scores, tags, graph_of(*LENGTHS))
    for own, path, (alone, given) in zip(
        scores.split(LENGTHS), tags.split(LENGTHS), [part.T for part in logs.split(LENGTHS)], strict=True
    ):
        if crf and len(own):
            sequences, totals = sequence_scores(head, own)
            weights = totals.softmax(0)
        for start, end in combinations(range(len(own) + 1), 2):
            if crf:
                expected = weights[(sequences[:, start:end] == path[start:end]).all(1)].sum()
            else:
                expected = own.softmax(1)[range(start, end), path[start:end]].prod()
            actual = (alone[start] + given[start + 1 : end].sum()).exp()
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_marginals_of_long_sentences_are_precise(crf_head, graph_of):
    """log Z of 2,000 words is in the thousands, where float32 has steps of 2e-4."""
    torch.manual_seed(5)
    scores = torch.randn(2000, TAGS, dtype=torch.float64)
    exact = crf_head.probabilities(scores, graph_of(2000))
    single = crf_head.float().probabilities(scores.float(), graph_of(2000))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=2e-6)


def test_gradients_of_long_sentences_are_precise(crf_head, graph_of):
    torch.manual_seed(5)
    scores = torch.randn(2000, TAGS, dtype=torch.float64).mul(3).add(8).requires_grad_()
    targets = torch.randint(TAGS, (2000,))
    (exact,) = torch.autograd.grad(crf_head.loss(scores, targets, graph_of(2000)), scores)
    crf_head.float()
    loss = crf_head.loss(scores.float(), targets, graph_of(2000))
    assert loss.dtype == torch.float32
    (single,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(single, exact, rtol=0, atol=2e-6)


def test_marginals_in_inference_mode(crf_head, scores, graph_of):
    with torch.inference_mode():
        inside = crf_head.probabilities(scores * 1, graph_of(*LENGTHS))
    torch.testing.assert_close(inside.clone(), crf_head.probabilities(scores, graph_of(*LENGTHS)))


def test_the_crf_accepts_sentences_without_words(crf_head, graph_of):
    """The CRF's mask must begin with a word, so sentences without words are excluded."""
    graph, nothing = graph_of(0, 0), torch.zeros(0, TAGS, dtype=torch.float64, requires_grad=True)
    loss = crf_head.loss(nothing, torch.zeros(0, dtype=torch.long), graph)
    loss.backward()
    assert loss.item() == 0
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in crf_head.crf.parameters())
    assert crf_head.decide(nothing, graph).tolist() == []
    assert crf_head.probabilities(nothing, graph).shape == (0, TAGS)


def test_sentences_are_independent(crf_head, scores, graph_of):
    together = crf_head.probabilities(scores, graph_of(*LENGTHS))
    alone = [crf_head.probabilities(own, graph_of(len(own))) for own in scores.split(LENGTHS)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_without_crf(smoothing, scores, graph_of):
    """Weighted cross-entropy with smoothing over all tags, summed over words."""
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    head = TaggingHead(5, TAGS, HeadOptions(), class_weights=weights, label_smoothing=smoothing)
    targets = torch.arange(sum(LENGTHS)) % TAGS
    logs = scores.log_softmax(1)
    expected = -(1 - smoothing) * (weights[targets] * logs[range(len(targets)), targets]).sum()
    expected = expected - smoothing / TAGS * (logs * weights).sum()
    torch.testing.assert_close(head.loss(scores, targets, graph_of(*LENGTHS)), expected)
    torch.testing.assert_close(head.probabilities(scores, graph_of(*LENGTHS)), scores.softmax(1))
    assert head.decide(scores, graph_of(*LENGTHS)).tolist() == scores.argmax(1).tolist()


@pytest.mark.parametrize("pieces", ["first", "mean"])
def test_scores_of_a_word_use_its_first_token_or_the_mean_of_all(pieces, graph_of):
    torch.manual_seed(0)
    head = TaggingHead(4, TAGS, HeadOptions(word_pieces=pieces)).eval()
    graph = graph_of(
        Sentence([*"abcd"], word_ids=[0, 0, 1, 2]), Sentence([]), Sentence([*"ef"], word_ids=[0, 0]), ["g"]
    )
    tokens, words = torch.randn(11, 4), [[1, 2], [3], [4], [7, 8], [10]]
    assert first_tokens(graph).tolist() == [numbers[0] for numbers in words]
    assert head.items(graph).tolist() == [3, 0, 1, 1]
    vectors = [tokens[numbers].mean(0) if pieces == "mean" else tokens[numbers[0]] for numbers in words]
    torch.testing.assert_close(head(tokens, graph), head.classify[1](torch.stack(vectors)))


def test_scores_are_float32_for_tokens_of_any_type(graph_of):
    head = TaggingHead(4, TAGS, HeadOptions()).bfloat16()
    assert head(torch.randn(3, 4, dtype=torch.bfloat16), graph_of(2)).dtype == torch.float32


def test_dropout_in_training_only(graph_of):
    torch.manual_seed(0)
    head, graph, tokens = TaggingHead(64, TAGS, HeadOptions(head_dropout=0.5)), graph_of(3), torch.randn(4, 64)
    assert not torch.equal(head.train()(tokens, graph), head(tokens, graph))
    assert torch.equal(head.eval()(tokens, graph), head(tokens, graph))


def test_sentences_without_words_at_the_end_are_counted(graph_of):
    assert TaggingHead(4, TAGS, HeadOptions()).items(graph_of(2, 0, 0)).tolist() == [2, 0, 0]
