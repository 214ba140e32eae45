"""Backend ``triton`` equals dense attention in float64: on a GPU, or started by test_interpreter.py without one."""

import os
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from graphattn import Edges, attend, attend_heads, tensorized_attend
from graphattn._backends.gpu.plan import plan_of
from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    DocumentTree,
    Global,
    Links,
    Membership,
    Nearest,
    Order,
    RandomPairs,
    RelativePositions,
    SentenceNodes,
    Star,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.builders import Random as RandomEdges
from graphattn.exceptions import ConfigError
from graphattn.models._encoders import ENCODERS, encoder_options, make_encoder

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(
        not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
        reason="needs a GPU, or Triton's interpreter: see test_interpreter.py",
    ),
    pytest.mark.filterwarnings("ignore:.*encountered in (exp2|log):RuntimeWarning"),  # NumPy's, in the interpreter
]

DEVICE = "cuda" if ON_GPU else "cpu"
RELATIONS = [
    *(Window(1), Window(5), Window("N/4"), Window(3).reverse(), Window(9).within_words(), Window(3) | Global(1)),
    *(Complete(), Complete("word"), Order("forward"), Order("backward"), WordGroup(), Membership(), Global(2)),
    *(Dependency(), Dependency("token"), Links(), Nearest(4), BinaryPartition(2), RandomEdges(3), RandomPairs()),
    *(RelativePositions(Window(3), 4), SentenceNodes(), DocumentTree(), Star()),
]
TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def complete(sentence, random):
    """The sentence with links, and with sentences of seven words."""
    words = range(sentence.num_words)
    links = [(random.choice(words), random.choice(words)) for _ in words[:5]]
    return replace(sentence, links=links, sentence_ids=[word // 7 for word in words])


@pytest.fixture(scope="module")
def graph(random_sentence):
    """Texts of 0 to 60 words; the long one is in several blocks."""
    vectors = np.random.default_rng(0).normal(size=(4, 3))
    random = Random(1)
    texts = [complete(random_sentence(random, size), random) for size in (3, 0, 60, 1, 9)]
    ids = [np.array([random.randrange(4) for _ in text.tokens], np.int64) for text in texts]
    builder = TextGraphBuilder(RELATIONS, vectors=vectors)
    return builder.text_batch(builder.layout(texts, features={"id": (ids, 2)}))


def attend_dense(edges, query, key, value, scale=None, bias=None, keep=None):
    """Outputs, and weights (E, H) by edge id, of masked dense attention; ``keep`` (E, H) are factors of the weights."""
    ends = edges.destinations.cpu(), edges.sources.cpu()
    scores = torch.einsum("ihd,jhd->ijh", query, key) * (query.shape[2] ** -0.5 if scale is None else scale)
    scores = scores[ends] if bias is None else scores[ends] + edges.by_slot(bias)
    dense = scores.new_full((len(query), len(key), query.shape[1]), -torch.inf).index_put(ends, scores)
    sees = (dense > -torch.inf).any(1, keepdim=True)
    weights = torch.where(sees, dense.masked_fill(~sees, 0.0).softmax(1), 0.0)
    factors = torch.ones_like(weights) if keep is None else torch.ones_like(weights).index_put(ends, keep)
    return torch.einsum("ijh,jhd->ihd", weights * factors, value), edges.by_id(weights[ends])


def differentiate(function, inputs, dtype, device):
    """Outputs and gradients of ``function(*inputs)`` in a type, in float64."""
    copies = [tensor.to(device, dtype).requires_grad_() for tensor in inputs]
    outputs = function(*copies)
    upstream = [torch.linspace(-1, 1, out.numel()).view(out.shape).to(device, dtype) for out in outputs]
    grads = torch.autograd.grad(outputs, copies, upstream, materialize_grads=True)
    return [tensor.double().cpu() for tensor in (*outputs, *grads)]


def assert_equals_dense(function, dense, inputs, dtype=torch.float32):
    """Compare ``function(*inputs)`` with ``dense(*inputs)`` in float64, for the same numbers, and all gradients."""
    inputs = [tensor.to(dtype).double() for tensor in inputs]
    expected = differentiate(dense, inputs, torch.float64, "cpu")
    for reference, result in zip(expected, differentiate(function, inputs, dtype, DEVICE), strict=True):
        bound = TOLERANCES[dtype] * max(1.0, reference.abs().max().item() if reference.numel() else 0.0)
        torch.testing.assert_close(result, reference, rtol=0, atol=bound)


ours = partial(attend, backend="triton")
# Relations whose edges have the form of another's, which the interpreter takes seconds for.
ALIKE = () if ON_GPU else ("word-all:word-word", "token-forward-token", "token-nearest:4-token", "token-random:3-token")
CANONICAL = [part.canonical for relation in RELATIONS for part in relation.parts()]
CANONICAL = [relation for relation in CANONICAL if "-".join(relation) not in ALIKE]


@pytest.mark.parametrize("relation", CANONICAL, ids="-".join)
def test_each_relation(graph, random_tensors, relation):
    edges = graph.edges[relation]
    on_device = edges.to(DEVICE)
    inputs = random_tensors(edges.num_destinations, edges.num_sources, heads=1)
    assert_equals_dense(
        lambda q, k, v: [ours(on_device, q, k, v)], lambda q, k, v: attend_dense(edges, q, k, v)[:1], inputs
    )


def attend_heads_dense(edges, heads, rows):
    """All heads of a layer; identities have no queries and keys if rows lack them."""
    scored = (rows.shape[1] - sum(heads)) // 2
    outs, head, place = [], 0, 0
    for relation, count in zip(edges, heads, strict=True):
        value = rows[:, 2 * scored + head :][:, :count]
        if relation.is_identity and scored < sum(heads):
            outs.append(value)
        else:
            outs.append(
                attend_dense(relation, rows[:, place:][:, :count], rows[:, scored + place :][:, :count], value)[0]
            )
            place += count
        head += count
    return torch.cat(outs, dim=1)


@pytest.mark.parametrize(("dtype", "compact"), [*((dtype, False) for dtype in TOLERANCES), (torch.float32, True)])
def test_all_heads_of_a_layer(graph, dtype, compact):
    if not ON_GPU and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies the bits of bfloat16 as integers")
    names = ["window:N/4", "all", "window:1", "links", "window:5", "global:2"]
    heads = [2, 1, 1, 1, 0, 1]
    edges = [Edges.of(graph, name) for name in names]
    copies = [relation.to(DEVICE) for relation in edges]
    rows = torch.randn(edges[0].num_sources, 3 * sum(heads) - 2 * compact, 6, dtype=torch.float64)
    assert_equals_dense(
        lambda x: [attend_heads(copies, heads, x if compact else x.unflatten(1, (3, -1)), backend="triton")],
        lambda x: [attend_heads_dense(edges, heads, x)],
        [rows],
        dtype,
    )


@pytest.mark.parametrize("relation", ["window:5", "links"])
def test_biases_and_weights(graph, random_tensors, relation):
    edges = Edges.of(graph, relation)
    on_device, inputs = edges.to(DEVICE), random_tensors(edges.num_destinations, edges.num_sources)
    bias = torch.randn(edges.num_edges, 2, dtype=torch.float64)
    bias[::3, 0] = -torch.inf
    for more in ([], [bias]):
        assert_equals_dense(
            lambda q, k, v, b=None: ours(on_device, q, k, v, bias=b, return_weights=True),
            lambda q, k, v, b=None: attend_dense(edges, q, k, v, bias=b),
            [*inputs, *more],
        )


@pytest.mark.parametrize(("width", "value_width"), [(8, 8), (30, 40), (100, 17), (256, 256)])
def test_widths_of_heads(random_tensors, windows, width, value_width):
    edges = windows([5, 0, 14, 1], "5")
    tiles = Edges.of_pairs(torch.tensor([19, 0, 3, 3]), torch.tensor([2, 2, 2, 19]), 20, 20)
    inputs = random_tensors(20, 20, heads=1, width=width, value_width=value_width)
    for relation in (edges, tiles):
        assert_equals_dense(
            lambda q, k, v, own=relation: [ours(own.to(DEVICE), q, k, v)],
            lambda q, k, v, own=relation: attend_dense(own, q, k, v)[:1],
            inputs,
        )


def test_edges_without_order(random_tensors):
    pairs = torch.tensor([[4, 0, 1, 1, 2, 4], [1, 0, 1, 3, 0, 4]])  # node 2 has no edges
    fall = torch.tensor([[3, 0, 2], [5, 1, 2]])
    empty = torch.zeros(2, 0, dtype=torch.int64)
    for edges in (
        Edges.of_pairs(*pairs, num_sources=6, num_destinations=5),
        Edges.of_ranges(*fall, num_sources=6),
        Edges.of_pairs(*empty, num_sources=3, num_destinations=2),
        Edges.of_pairs(*empty, num_sources=0, num_destinations=0),
        Edges.of_pairs(*torch.tensor([[0, 0, 1], [1, 1, 1]]), num_sources=2, num_destinations=2),  # one edge twice
    ):
        on_device = edges.to(DEVICE)
        inputs = random_tensors(edges.num_destinations, edges.num_sources)
        if edges.num_edges == 3:
            torch.testing.assert_close(
                ours(on_device, *(tensor.to(DEVICE) for tensor in inputs)).cpu(), attend(edges, *inputs)
            )
            continue
        assert_equals_dense(
            lambda q, k, v, on=on_device: ours(on, q, k, v, return_weights=True),
            lambda q, k, v, own=edges: attend_dense(own, q, k, v),
            inputs,
        )


def test_views_and_equal_inputs(random_tensors, windows):
    edges = windows([5, 2], "5")
    rows = torch.stack(random_tensors(7, 7, value_width=5), dim=2)  # (N, H, 3, D): strides of no dense tensor
    assert_equals_dense(
        lambda x: [ours(edges.to(DEVICE), *x.unbind(2))],
        lambda x: attend_dense(edges, *x.unbind(2))[:1],
        [rows],
    )
    assert_equals_dense(
        lambda x: [ours(edges.to(DEVICE), x, x, x.mT.contiguous().mT)],
        lambda x: attend_dense(edges, x, x, x)[:1],
        [rows[:, :, 0]],
    )
    assert_equals_dense(
        lambda x: [ours(edges.to(DEVICE), x, x, x)], lambda x: attend_dense(edges, x, x, x)[:1], [rows[:, :, 0]]
    )


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="PyTorch has only allow_tf32")
def test_the_newer_setting_of_tf32(random_tensors, windows):
    matmul, edges = torch.backends.cuda.matmul, windows([5, 2], "5").to(DEVICE)
    inputs = [tensor.to(DEVICE) for tensor in random_tensors(7, 7)]
    before, expected = matmul.fp32_precision, ours(edges, *inputs)
    matmul.fp32_precision = "tf32"
    try:
        torch.testing.assert_close(ours(edges, *inputs), expected, rtol=0, atol=0.01)
    finally:
        matmul.fp32_precision = before


def keep_by_definition(numbers, seed, dropout):
    """Whether an edge is kept, in NumPy: MurmurHash3's finalizer, twice."""
    bits = (numbers.astype(np.uint64) * 0x9E3779B9 & 0xFFFFFFFF) ^ seed
    for _ in range(2):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            bits = (bits ^ bits >> shift) * factor & 0xFFFFFFFF
        bits ^= bits >> 16
    return bits >= int(dropout * 2**32)


@pytest.mark.parametrize("relation", ["window:5", "links"])
def test_dropout_drops_edges_by_their_number(graph, random_tensors, relation):
    dropout = 0.3
    edges = Edges.of(graph, relation)
    on_device, inputs = edges.to(DEVICE), random_tensors(edges.num_destinations, edges.num_sources)
    torch.manual_seed(0)
    seeds = torch.randint(0, 2**31 - 1, (2,), dtype=torch.int32, device=DEVICE).tolist()
    kept = np.stack([keep_by_definition(np.arange(edges.num_edges), seed, dropout) for seed in seeds], axis=1)
    assert 0.6 < kept.mean() < 0.8

    def run(query, key, value):
        torch.manual_seed(0)
        return [ours(on_device, query, key, value, dropout=dropout)]

    keep = torch.from_numpy(kept / (1 - dropout))
    assert_equals_dense(run, lambda q, k, v: attend_dense(edges, q, k, v, keep=keep)[:1], inputs)


@pytest.mark.parametrize("function", ["identity", "sigmoid", "log-sigmoid", "tanh"])
def test_tensorized_attention(graph, random_tensors, function):
    """MTSA's definition: plain attention of each feature, whose scores are the bias R + S."""
    edges = Edges.of(graph, "backward" if function == "sigmoid" else "links")
    on_device = edges.to(DEVICE)
    query, key, value = random_tensors(edges.num_destinations, edges.num_sources)
    scores = 3 * random_tensors(1, edges.num_sources, seed=1)[2]
    functions = {
        "identity": lambda x: x,
        "sigmoid": torch.sigmoid,
        "log-sigmoid": torch.nn.functional.logsigmoid,
        "tanh": lambda x: 5 * torch.tanh(x / 5),
    }

    def compute_dense(query, key, value, scores):
        products = (query[edges.destinations] * key[edges.sources]).sum(-1) * query.shape[2] ** -0.5
        pairs = functions[function](products).unsqueeze(-1) + scores[edges.sources]  # (E, H, F)
        ones = torch.zeros(edges.num_destinations, 1, 1), torch.zeros(edges.num_sources, 1, 1)
        outs = [
            attend_dense(edges, *ones, value[:, head, feature, None, None], bias=pairs[:, head, feature, None])[0]
            for head in range(value.shape[1])
            for feature in range(value.shape[2])
        ]
        return [torch.cat(outs, dim=1).view(len(query), *value.shape[1:])]

    assert_equals_dense(
        lambda *inputs: [tensorized_attend(on_device, *inputs, scale_function=function, backend="triton")],
        compute_dense,
        [query, key, value, scores],
    )


def test_tensorized_attention_recomputes_what_underflows(graph, random_tensors):
    edges = Edges.of(graph, "window:5").to(DEVICE)
    query, key, value = (rows.float().to(DEVICE) for rows in random_tensors(edges.num_destinations, edges.num_sources))
    scores = torch.zeros_like(value)
    scores[0] = 300.0
    outs = [tensorized_attend(edges, query, key, value, scores, backend=backend) for backend in ("triton", "edges")]
    torch.testing.assert_close(*outs)


def test_float64_runs_in_torch(graph, random_tensors):
    edges = Edges.of(graph, "all").to(DEVICE)
    tensors = [tensor.to(DEVICE) for tensor in random_tensors(edges.num_destinations, edges.num_sources)]
    torch.testing.assert_close(ours(edges, *tensors), attend(edges, *tensors, backend="torch"))


SMALL = {"hidden": 12, "heads": 3, "layers": 1, "ffn": 8, "head_feats": 4}


@pytest.mark.parametrize("name", ENCODERS)
def test_models(name, random_sentence):
    """Outputs and gradients of each encoder with backend `triton` are those with `fused`."""
    known = encoder_options(name)
    options = encoder_options({"name": name, **{key: size for key, size in SMALL.items() if hasattr(known, key)}})
    torch.manual_seed(0)
    encoder = make_encoder(options).eval()
    texts = [random_sentence(Random(2), size) for size in (3, 0, 12)]
    graph = TextGraphBuilder(encoder.relations()).text_batch(texts)
    tokens = torch.randn(graph.num_nodes("token"), 24 if name == "duo-transformer" else 12)  # two streams
    results = []
    for backend, device in (("fused", "cpu"), ("triton", DEVICE)):
        for module in encoder.to(device).modules():
            if hasattr(module, "backend"):
                module.backend = backend
        inputs = tokens.to(device).requires_grad_()
        out = encoder(graph, inputs)
        grads = torch.autograd.grad(out.square().sum(), [inputs, *encoder.parameters()], allow_unused=True)
        results.append([tensor.cpu() for tensor in (out, *grads) if tensor is not None])
    torch.testing.assert_close(*results, rtol=2e-4, atol=2e-5)


def test_a_compiled_model_is_one_graph(windows):
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(
        lambda edges, x: attend_heads(edges, [2, 1, 1], torch.sin(x), backend="triton").square(),
        backend=aot_autograd(fw_compiler=count, bw_compiler=count),
        fullgraph=True,
    )
    for lengths in ([5, 2], [40, 0, 1], [3, 3, 3]):
        edges = [windows(lengths, scale).to(DEVICE) for scale in ("3", "1", "N")]
        plans = [plan_of(relation) for relation in edges]
        assert None not in plans
        assert [relation.is_identity for relation in edges] == [False, True, False]
        rows = torch.randn(sum(lengths), 2 * 3 + 4, 5, device=DEVICE).requires_grad_()
        eager = attend_heads(edges, [2, 1, 1], torch.sin(rows), backend="triton").square()
        out = compiled(edges, rows)
        torch.testing.assert_close(out, eager)
        expected, actual = (torch.autograd.grad(each.sum(), rows) for each in (eager, out))
        torch.testing.assert_close(actual, expected)
    assert len(graphs) == 4  # forward and backward, for the first length and for any


@pytest.mark.parametrize(("dtype", "width"), [(torch.float64, 5), (torch.float32, 300)])
def test_a_compiled_call_that_the_kernels_lack(windows, dtype, width):
    compiled = torch.compile(lambda edges, x: attend_heads(edges, [2], x, backend="triton"), backend="eager")
    edges = [windows([5, 2], "3").to(DEVICE)]
    assert plan_of(edges[0]) is not None
    rows = torch.randn(7, 6, width, dtype=dtype, device=DEVICE)
    torch.testing.assert_close(compiled(edges, rows), attend_heads(edges, [2], rows, backend="triton"))


def test_a_compiled_call_with_too_much_dropout(windows):
    compiled = torch.compile(lambda *args: attend_heads(*args, dropout=1.5, backend="triton"), backend="eager")
    edges = [windows([5, 2], "3").to(DEVICE)]
    assert plan_of(edges[0]) is not None
    with pytest.raises(ConfigError):
        compiled(edges, [2], torch.randn(7, 6, 5, device=DEVICE))


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_nothing_waits_for_the_gpu(graph):
    names, heads = ["window:N/4", "all", "window:1", "links"], [2, 1, 1, 1]
    edges = [Edges.of(graph, name) for name in names]
    rows = torch.randn(edges[0].num_sources, 13, 32, device="cuda", requires_grad=True)
    attend_heads([relation.to("cuda") for relation in edges], heads, rows).sum().backward()  # compiles
    for relation in edges:
        relation.plans.clear()
    torch.cuda.set_sync_debug_mode("error")
    try:
        attend_heads([relation.to("cuda") for relation in edges], heads, rows, dropout=0.1).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
