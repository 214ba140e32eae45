"""Beam search against exhaustive search and against a plain one, on toy vocabularies."""

import itertools
import math

import pytest
import torch

from graphattn.models._decoders.options import SearchOptions
from graphattn.models._decoders.search import Rules, beam_search

END = 2


class Table:
    """Scores of next tokens that depend on all previous tokens; caches prefixes as a model caches keys and values."""

    def __init__(self, sources, beams, vocabulary, seed=0, sharpness=2.0):
        self.vocabulary, self.seed, self.sharpness = vocabulary, seed, sharpness
        self.prefixes = [[(number,)] * beams for number in sources]

    def logits(self, prefix):
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        return (self.sharpness * torch.randn(self.vocabulary, generator=generator)).log_softmax(0)

    def scores(self, tokens):
        assert tokens.shape == (len(self.prefixes), len(self.prefixes[0]))
        for own, written in zip(self.prefixes, tokens.tolist(), strict=True):
            own[:] = [(*prefix, token) for prefix, token in zip(own, written, strict=True)]
        return torch.stack([torch.stack([self.logits(prefix) for prefix in own]) for own in self.prefixes])

    def keep(self, sources, beams):
        chosen = zip(sources.tolist(), beams.tolist(), strict=True)
        self.prefixes = [[self.prefixes[source][beam] for beam in own] for source, own in chosen]


def log_probability(table, source, ids):
    """Log-probability of a text including its end."""
    prefix, total = (source, END), 0.0
    for token in (*ids, END):
        total += float(table.logits(prefix)[token])
        prefix = (*prefix, token)
    return total


def test_a_search_does_not_depend_on_the_default_device():
    class OnCPU(Table):
        def scores(self, tokens):
            with torch.device("cpu"):
                return super().scores(tokens)

    rules = Rules(SearchOptions(beam=2, no_repeat_ngram=2), END, banned=(0,), blanks=(1,))
    expected = beam_search(Table([0, 1], 2, 5), torch.tensor([4, 5]), rules)
    limits = torch.tensor([4, 5])
    with torch.device("meta"):  # as with torch.set_default_device
        assert beam_search(OnCPU([0, 1], 2, 5), limits, rules) == expected


def every_text(vocabulary, longest):
    tokens = [token for token in range(vocabulary) if token != END]
    return [text for length in range(longest + 1) for text in itertools.product(tokens, repeat=length)]


def run_search(sources, beam, limits, vocabulary=4, seed=0, banned=(), **options):
    rules = Rules(SearchOptions(**{"beam": beam, "min_length": 0, "length_penalty": 0.6, **options}), END, banned)
    return beam_search(Table(sources, beam, vocabulary, seed), torch.tensor(limits), rules)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_an_unlimited_beam_is_exhaustive(penalty, seed):
    actual = run_search([0, 1], 200, [3, 4], seed=seed, length_penalty=penalty)
    table = Table([0], 1, 4, seed)
    for source, longest in ((0, 3), (1, 4)):
        expected = sorted(
            ((log_probability(table, source, ids) / (len(ids) + 1) ** penalty, ids) for ids in every_text(4, longest)),
            reverse=True,
        )
        assert [own.ids for own in actual[source]] == [ids for _, ids in expected]
        assert [own.score for own in actual[source]] == pytest.approx([score for score, _ in expected], abs=1e-4)


def texts_within(rules, vocabulary, longest, written=()):
    """Every text that the rules allow: long enough unless no token can follow, without repeated n-grams."""
    options, size = rules.options, rules.options.no_repeat_ngram
    next_tokens = [token for token in range(vocabulary) if token != END and token not in rules.banned]
    if size is not None:
        runs = {written[start : start + size] for start in range(len(written) - size + 1)}
        last = written[len(written) - size + 1 :]
        next_tokens = [token for token in next_tokens if (*last, token) not in runs]
    if len(written) == longest:
        next_tokens = []
    if len(written) >= options.min_length or not next_tokens:
        yield written
    for token in next_tokens:
        yield from texts_within(rules, vocabulary, longest, (*written, token))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [
        {"min_length": 2},
        {"min_length": 4, "length_penalty": 0.0},
        {"no_repeat_ngram": 1},
        {"no_repeat_ngram": 2, "length_penalty": 1.5},
        {"no_repeat_ngram": 3},
        {"min_length": 4, "no_repeat_ngram": 1},
        {"min_length": 3, "no_repeat_ngram": 2, "banned": (0,)},
    ],
    ids=str,
)
def test_rules_allow_exactly_the_valid_texts(options, seed):
    banned = options.get("banned", ())
    changes = {name: value for name, value in options.items() if name != "banned"}
    rules = Rules(SearchOptions(**{"min_length": 0, "length_penalty": 0.6, **changes}), END, banned)
    actual = run_search([0, 1], 200, [4, 3], seed=seed, **options)
    table = Table([0], 1, 4, seed)
    for source, longest in ((0, 4), (1, 3)):
        texts = list(texts_within(rules, 4, longest))
        expected = sorted(
            ((rules.score(log_probability(table, source, ids), len(ids)), ids) for ids in texts), reverse=True
        )
        assert [own.ids for own in actual[source]] == [ids for _, ids in expected]
        assert [own.score for own in actual[source]] == pytest.approx([score for score, _ in expected], abs=1e-4)


def plain_beam_search(table, source, width, limit, penalty):
    """Search with lists and sorting for one source: extend all texts, finish the best that end, keep the others."""
    live, actual = [(0.0, ())], []
    while live and len(actual) < width:
        length = len(live[0][1])
        tokens = [END] if length == limit else range(table.vocabulary)
        options = sorted(
            (
                (total + float(table.logits((source, END, *ids))[token]), ids, token)
                for total, ids in live
                for token in tokens
            ),
            reverse=True,
        )
        actual += [(total / (length + 1) ** penalty, ids) for total, ids, token in options[:width] if token == END]
        live = [(total, (*ids, token)) for total, ids, token in options[: 2 * width] if token != END][:width]
    return sorted(actual, reverse=True)[:width]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_batched_search_equals_plain_search(seed, width):
    limits = [6, 1, 4, 6, 3]
    actual = run_search(range(5), width, limits, vocabulary=7, seed=seed)
    table = Table([0], 1, 7, seed)
    for source, (own, limit) in enumerate(zip(actual, limits, strict=True)):
        expected = plain_beam_search(table, source, width, limit, 0.6)
        assert [hypothesis.ids for hypothesis in own] == [ids for _, ids in expected]
        assert [hypothesis.score for hypothesis in own] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_a_beam_of_one_is_greedy():
    table = Table([0], 1, 5)
    prefix, expected = (0, END), []
    while len(expected) < 8 and (token := int(table.logits(prefix).argmax())) != END:
        expected.append(token)
        prefix = (*prefix, token)
    ((actual,),) = run_search([0], 1, [8], vocabulary=5)
    assert actual.ids == tuple(expected)


def test_a_text_ends_if_the_rules_allow_no_token():
    for own in run_search(range(3), 2, [9] * 3, vocabulary=4, min_length=5, no_repeat_ngram=1):
        assert [sorted(hypothesis.ids) for hypothesis in own] == [[0, 1, 3]] * 2


def test_scores_are_divided_by_a_power_of_the_length():
    rules = Rules(SearchOptions(length_penalty=0.5), END)
    assert rules.score(-6.0, 3) == pytest.approx(-6 / math.sqrt(4))
    assert Rules(SearchOptions(length_penalty=0.0), END).score(-6.0, 3) == -6.0
    assert Rules(SearchOptions(), END).score(-6.0, 3) == -6 / 4


def test_no_sources():
    assert beam_search(Table([], 2, 4), torch.zeros(0, dtype=torch.int64), Rules(SearchOptions(beam=2), END)) == []


class Sleepy(Table):
    """Prefers to end at once, or after one blank (token 0)."""

    def logits(self, prefix):
        preferred = torch.tensor([1.0, 0.0, 8.0, 0.0]) if len(prefix) == 2 or prefix[-1] == 0 else torch.zeros(4)
        return preferred.log_softmax(0)


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_not_empty_by_default(beam):
    """A text of blanks only is empty, too."""
    table = Sleepy([0, 1], beam, 4)

    def texts(**options):
        rules = Rules(SearchOptions(beam=beam, **options), END, blanks=[0])
        return [own.ids for found in beam_search(Sleepy([0, 1], beam, 4), torch.tensor([5, 5]), rules) for own in found]

    assert log_probability(table, 0, ()) > log_probability(table, 0, (1,)) > log_probability(table, 0, (0, 1))
    assert () in texts(min_length=0)
    assert texts()
    assert all({*ids} - {0} for ids in texts())
    assert all(len(ids) >= 3 and {*ids} - {0} for ids in texts(min_length=3))
