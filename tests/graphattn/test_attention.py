"""``attend`` equals the papers' formulas, on sentences and on any graph, with every backend."""

import math
from importlib.util import find_spec
from random import Random

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphattn import Edges, attend
from graphattn.builders import Complete, Dependency, Order, TextGraphBuilder, Window, WordGroup

INSTALLED = ["auto", *(name for name in ("dgl", "fused", "torch") if name != "dgl" or find_spec("dgl"))]

EXACT = {"rtol": 0.0, "atol": 1e-10}
TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-6, torch.bfloat16: 8e-3}
NEVER = float("-inf")
RELATIONS = TextGraphBuilder(
    [
        *(Window(scale) for scale in (1, 3, 5, "N", "N/2", "N/4", "N/8", "N/16")),
        *(Window(scale, as_radius=True) for scale in (1, "N/8")),
        WordGroup(),
        Dependency(),
        Dependency("token"),
        Order(),
        Complete(),
    ]
)
NAMES = [relation.canonical for relation in RELATIONS.relations]
every_relation = pytest.mark.parametrize("relation", NAMES, ids=lambda relation: "-".join(relation))


@pytest.fixture(scope="session")
def batches(random_sentence, mask_of_sentences):
    """Graphs of sentences of 1 to 200 tokens, and the mask of each relation."""
    made = []
    for seed in range(3):
        random = Random(seed)
        sentences = [random_sentence(random, size) for size in (random.randint(60, 120), 0, random.randint(1, 30))]
        assert max(map(len, sentences)) < 200
        masks = {relation: mask_of_sentences(relation, *sentences) for relation in NAMES}
        made.append((RELATIONS.text_batch(sentences), masks))
    return made


@every_relation
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_sentences_agree_with_dense_attention(batches, dense_attention, random_tensors, relation, backend, dtype):
    for number, (graph, masks) in enumerate(batches):
        tensors = [tensor.requires_grad_() for tensor in random_tensors(*masks[relation].shape, dtype=dtype)]
        out = attend(graph, *tensors, etype=relation, backend=backend)
        assert out.dtype == dtype
        expected = dense_attention(masks[relation], *(tensor.double() for tensor in tensors))
        assert_close(out.double(), expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        if dtype == torch.float64 and number == 0:
            upstream = torch.randn_like(expected)
            actual, exact = (
                torch.autograd.grad(result, tensors, upstream, materialize_grads=True) for result in (out, expected)
            )
            for mine, theirs in zip(actual, exact, strict=True):
                assert_close(mine, theirs, **EXACT)


@settings(max_examples=40)
@given(
    random=st.randoms(use_true_random=False),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    relation=st.sampled_from(NAMES),
    backend=st.sampled_from(INSTALLED),
)
def test_outputs_do_not_depend_on_the_rest_of_the_batch(
    random_sentence, random_tensors, random, sizes, relation, backend
):
    sentences = [random_sentence(random, size) for size in sizes]
    graph = RELATIONS.text_batch(sentences)
    query, key, value = random_tensors(graph.num_nodes(relation[2]), graph.num_nodes(relation[0]))
    together = attend(graph, query, key, value, etype=relation, backend=backend)
    row = column = 0
    for sentence in sentences:
        alone = RELATIONS.text_batch([sentence])
        rows = slice(row, row := row + alone.num_nodes(relation[2]))
        columns = slice(column, column := column + alone.num_nodes(relation[0]))
        out = attend(alone, query[rows], key[columns], value[columns], etype=relation, backend=backend)
        assert_close(out, together[rows], rtol=0, atol=1e-12)


@every_relation
def test_nan_stays_in_its_sentence(batches, random_tensors, relation, backend):
    graph, masks = batches[0]
    tensors = random_tensors(*masks[relation].shape)
    first_sources, first = (graph.batch_num_nodes(kind)[0] for kind in (relation[0], relation[2]))
    expected = attend(graph, *tensors, etype=relation, backend=backend)[first:]
    for tensor, count in zip(tensors, (first, first_sources, first_sources), strict=True):
        tensor[:count] = math.nan
    assert_close(attend(graph, *tensors, etype=relation, backend=backend)[first:], expected, **EXACT)


multigraphs = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda counts: st.tuples(
        st.just(counts),
        st.lists(st.tuples(st.integers(0, counts[0] - 1), st.integers(0, counts[1] - 1)), max_size=24),
    )
)


@settings(max_examples=60)
@given(
    made=multigraphs,
    seed=st.integers(0, 99),
    biased=st.booleans(),
    backend=st.sampled_from(INSTALLED),
    idtype=st.sampled_from([torch.int32, torch.int64]),
)
@example(made=((4, 4), []), seed=0, biased=True, backend="torch", idtype=torch.int32)  # no edges
@example(
    made=((1, 3), [(0, 2)] * 4), seed=0, biased=True, backend=INSTALLED[1], idtype=torch.int32
)  # the same edge again
@example(made=((3, 3), [(2, 2), (1, 1), (0, 0)]), seed=0, biased=True, backend="auto", idtype=torch.int64)
@example(made=((3, 3), [(2, 0), (1, 1), (0, 2)]), seed=0, biased=False, backend="auto", idtype=torch.int64)
def test_any_graph_with_bias_and_weights(edgewise_attention, random_tensors, made, seed, biased, backend, idtype):
    (num_sources, num_destinations), ends = made
    sources, targets = [s for s, _ in ends], [t for _, t in ends]
    pairs = torch.tensor(ends, dtype=idtype).reshape(-1, 2)
    edges = Edges.of_pairs(pairs[:, 0], pairs[:, 1], num_sources, num_destinations)
    tensors = random_tensors(num_destinations, num_sources, seed=seed)
    bias = random_tensors(len(ends), 1, width=1, seed=seed)[0][..., 0] if biased else None
    expected = edgewise_attention(sources, targets, *tensors, scale=0.3, bias=bias)
    actual = attend(edges, *tensors, scale=0.3, bias=bias, backend=backend, return_weights=True)
    assert_close(actual, expected, **EXACT)
    assert_close(attend(edges, *tensors, scale=0.3, bias=bias, backend=backend), expected[0], **EXACT)


def test_destination_with_ten_thousand_edges(random_tensors, backend):
    count = 10_000
    edges = Edges.of_pairs(torch.arange(count), torch.zeros(count, dtype=torch.int64), count, count)
    query, key, value = random_tensors(count, count)
    out = attend(edges, query, key, value, backend=backend)
    weights = (torch.einsum("hd,jhd->jh", query[0], key) / math.sqrt(5)).softmax(0)
    assert_close(out[0], torch.einsum("jh,jhd->hd", weights, value), **EXACT)
    assert out[1:].abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("etype", ["window:N/4", "all", "forward"])
def test_huge_logits_stay_finite(batches, dense_attention, random_tensors, backend, dtype, etype):
    graph, masks = batches[1]
    mask = masks["token", etype, "token"]
    query, key, value = random_tensors(*mask.shape, dtype=dtype)
    query[:, :, 0], key[:, :, 0] = 1e4, torch.tensor([-1.0, 1.0], dtype=dtype).repeat(len(key))[: len(key), None]
    tensors = [tensor.requires_grad_() for tensor in (query, key, value)]
    out = attend(graph, *tensors, etype=etype, scale=1.0, backend=backend)
    gradients = torch.autograd.grad(out.square().sum(), tensors)
    assert all(tensor.isfinite().all() for tensor in (out, *gradients))
    if dtype == torch.float64:
        assert_close(out, dense_attention(mask, query, key, value, scale=1.0), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("num_sources", "num_destinations"), [(0, 0), (0, 3), (3, 0), (3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_no_edges_give_zeros_and_zero_gradients(random_tensors, backend, num_sources, num_destinations, dtype):
    offsets = torch.zeros(num_destinations + 1, dtype=torch.int32)
    edges = Edges(offsets, offsets[:0], num_sources)
    tensors = [tensor.requires_grad_() for tensor in random_tensors(num_destinations, num_sources, dtype=dtype)]
    bias = torch.zeros(0, 2, dtype=dtype, requires_grad=True)
    for given_bias in (None, bias):
        out, weights = attend(edges, *tensors, bias=given_bias, backend=backend, return_weights=True)
        assert (out.shape, weights.shape) == ((num_destinations, 2, 3), (0, 2))
        assert (out == 0).all() or num_sources == num_destinations == 0
        asked = tensors if given_bias is None else [*tensors, bias]
        assert all((gradient == 0).all() for gradient in torch.autograd.grad(out.sum() + weights.sum(), asked))
        plain = attend(edges, *tensors, bias=given_bias, backend=backend)
        assert torch.equal(plain, out)
        assert all((gradient == 0).all() for gradient in torch.autograd.grad(plain.sum(), asked))


def test_masked_edges_have_no_effect(random_tensors, backend):
    sources, targets = [0, 1, 2, 0, 1, 2, 1], [0, 0, 0, 1, 1, 2, 2]
    seen = [0, 2, 4, 5]
    bias = torch.full((7, 2), NEVER, dtype=torch.float64)
    bias[seen] = torch.randn(4, 2, dtype=torch.float64)
    tensors = [tensor.requires_grad_() for tensor in random_tensors(3, 3)]
    ends = torch.tensor([sources, targets])
    full, part = Edges.of_pairs(*ends, 3, 3), Edges.of_pairs(*ends[:, seen], 3, 3)
    out, weights = attend(full, *tensors, bias=bias, backend=backend, return_weights=True)
    expected, kept = attend(part, *tensors, bias=bias[seen], backend=backend, return_weights=True)
    assert_close(out, expected, **EXACT)
    assert_close(weights[seen], kept, **EXACT)
    assert (weights[[1, 3, 6]] == 0).all()
    for actual, wanted in zip(
        torch.autograd.grad(out.sum(), tensors), torch.autograd.grad(expected.sum(), tensors), strict=True
    ):
        assert_close(actual, wanted, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("ends", [([0, 1, 2, 0], [0, 0, 1, 2]), ([0, 1, 2], [0, 1, 2])], ids=["any", "identity"])
def test_destinations_with_only_masked_edges_get_zeros(random_tensors, backend, dtype, ends):
    """Head 0 masks all edges of destination 0, head 1 none."""
    edges = Edges.of_pairs(*torch.tensor(ends), 3, 3)
    hidden = torch.tensor(ends[1]) == 0
    bias = torch.zeros(len(ends[0]), 2, dtype=dtype)
    bias[hidden, 0] = NEVER
    tensors = [tensor.requires_grad_() for tensor in (*random_tensors(3, 3, dtype=dtype), bias)]
    query, key, value, bias = tensors
    out, weights = attend(edges, query, key, value, bias=bias, backend=backend, return_weights=True)
    assert (out[0, 0] == 0).all()
    assert (weights[hidden, 0] == 0).all()
    assert_close(weights[hidden, 1].sum(), torch.ones((), dtype=dtype))
    gradients = torch.autograd.grad(out.square().sum() + weights.square().sum(), tensors)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][0, 0] == 0).all()
    assert (gradients[3][hidden, 0] == 0).all()
