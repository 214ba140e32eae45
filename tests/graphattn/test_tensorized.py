"""Tensorised attention against its definition: a dense tensor of scores, in double precision."""

import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from graphattn import Edges, tensorized_attend
from graphattn._tensorized import TENSORIZED_BACKENDS
from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import Complete, Order, Window
from graphattn.exceptions import BackendError, ConfigError, DoubleBackwardError, GraphError

FUNCTIONS = {
    "identity": lambda x: x,
    "sigmoid": torch.sigmoid,
    "log-sigmoid": F.logsigmoid,
    "tanh": lambda x: 5 * torch.tanh(x / 5),
}
RELATIONS = {"forward": Order("forward"), "backward": Order("backward"), "all": Complete(), "window:7": Window(7)}
LENGTHS = (5, 1, 0, 9, 17, 9)
ON_CPU = [name for name in TENSORIZED_BACKENDS if name != "triton"]


@pytest.fixture(scope="module")
def graph():
    """Sentences of 1 to 18 tokens, one of them without words."""
    return TextGraphBuilder(list(RELATIONS.values())).text_batch([["x"] * length for length in LENGTHS])


def draw(count, *, heads=2, width=5, feats=3, seed=0, spread=1.0, sources=None):
    """Query, key, value and source scores; ``spread`` scales the scores of pairs and sources."""
    random = torch.Generator().manual_seed(seed)
    sources = count if sources is None else sources
    shapes = (count, heads, width), (sources, heads, width), (sources, heads, feats), (sources, heads, feats)
    query, key, value, scores = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes)
    return [t.requires_grad_() for t in (query * spread, key, value, scores * spread)]


def assert_equal_results(out, expected, inputs, expected_inputs=None, atol=1e-10):
    torch.testing.assert_close(out, expected, rtol=0, atol=atol)
    weights = torch.randn(expected.shape, dtype=expected.dtype, generator=torch.Generator().manual_seed(9))
    ours = torch.autograd.grad((out * weights).sum(), inputs)
    theirs = torch.autograd.grad((expected * weights).sum(), expected_inputs or inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_equals_the_dense_definition(relation, function, backend, graph, mask_of, dense_tensorized_attention):
    edges = Edges.of(graph, relation)
    inputs = draw(edges.num_destinations)
    expected, _ = dense_tensorized_attention(mask_of(edges), *inputs, function=FUNCTIONS[function])
    assert_equal_results(
        tensorized_attend(graph, *inputs, etype=relation, scale_function=function, backend=backend), expected, inputs
    )


@pytest.mark.parametrize("spread", [30.0, 300.0])
@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("relation", RELATIONS)
def test_large_scores_do_not_underflow(relation, backend, spread, graph, mask_of, dense_tensorized_attention):
    edges = Edges.of(graph, relation)
    inputs = draw(edges.num_destinations, spread=spread)
    expected, _ = dense_tensorized_attention(mask_of(edges), *inputs)
    assert_equal_results(tensorized_attend(edges, *inputs, backend=backend), expected, inputs, atol=1e-10 * spread)
    single = tensorized_attend(edges, *(t.float() for t in inputs), backend=backend)
    torch.testing.assert_close(single.double(), expected, rtol=0, atol=2e-6 * spread)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ON_CPU)
def test_best_key_outside_the_neighbourhood(backend):
    """Key 3 has a source score of 300, which neither of the first queries sees; theirs are at -300."""
    edges = Edges(torch.tensor([0, 0, 1, 3, 6]), torch.tensor([0, 0, 1, 0, 1, 2]), 4)  # forward
    query = key = torch.zeros(4, 1, 1)
    value = torch.tensor([1.0, 3.0, 5.0, 7.0]).view(4, 1, 1)
    scores = torch.tensor([-300.0, -300.0, 0.0, 300.0]).view(4, 1, 1)
    out = tensorized_attend(edges, query, key, value, scores, backend=backend)
    assert out.flatten().tolist() == pytest.approx([0.0, 1.0, 2.0, 5.0])


@pytest.mark.parametrize("backend", ["fused", "edges", "auto"])
@given(data=st.data())
def test_any_graph(backend, data, dense_tensorized_attention):
    destinations, sources = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    cells = st.lists(st.booleans(), min_size=destinations * sources, max_size=destinations * sources)
    mask = torch.tensor(data.draw(cells)).view(destinations, sources)
    seed, spread = data.draw(st.integers(0, 5)), data.draw(st.sampled_from([1.0, 400.0]))
    ids = torch.randperm(int(mask.sum()), generator=torch.Generator().manual_seed(seed))
    edges = Edges(F.pad(mask.sum(1).cumsum(0), (1, 0)), mask.nonzero()[:, 1], sources, ids)
    by_id = edges.ends_by_id()[::-1]
    inputs = draw(destinations, sources=sources, seed=seed, spread=spread)
    bias = torch.randn(edges.num_edges, 2, dtype=torch.float64, requires_grad=True)
    on_pairs = torch.zeros(destinations, sources, 2, dtype=torch.float64).index_put(by_id, bias)
    expected, means = dense_tensorized_attention(mask, *inputs, bias=on_pairs)
    out = tensorized_attend(edges, *inputs, bias=bias, backend=backend)
    assert_equal_results(out, expected, [*inputs, bias], atol=1e-10 * spread)
    same, weights = tensorized_attend(edges, *inputs, bias=bias, backend=backend, return_weights=True)
    assert torch.equal(same, out)
    assert weights.is_leaf
    torch.testing.assert_close(weights, means[by_id], rtol=0, atol=1e-10 * spread)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ON_CPU)
def test_gradients_equal_finite_differences(backend, function, graph):
    edges = Edges.of(graph, "backward") if backend == "blocks" else Edges.of(graph, "window:7")
    inputs = draw(edges.num_destinations, heads=1, width=2, feats=2)
    bias = None if backend == "blocks" else torch.randn(edges.num_edges, 1, dtype=torch.float64, requires_grad=True)

    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def run(query, key, value, scores, scale, *bias):
        options = {"bias": bias[0] if bias else None, "scale_function": function, "backend": backend}
        return tensorized_attend(edges, query, key, value, scores, scale=scale, **options)

    assert torch.autograd.gradcheck(run, (*inputs, scale, *([] if bias is None else [bias])), fast_mode=True)


@pytest.mark.parametrize("backend", ON_CPU)
def test_second_derivatives_are_rejected(backend, graph):
    inputs = draw(graph.num_nodes())
    out = tensorized_attend(graph, *inputs, etype="forward", backend=backend)
    (gradient,) = torch.autograd.grad(out.square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(DoubleBackwardError) as caught:
        gradient.sum().backward()
    assert str(caught.value) == ("attention has first-order gradients only; do not differentiate its gradients again")


@pytest.mark.parametrize("asking", range(4), ids=["query", "key", "value", "scores"])
@pytest.mark.parametrize("backend", ON_CPU)
def test_penalty_on_weight_gradients_is_rejected(backend, graph, asking):
    inputs = draw(graph.num_nodes())
    out, weights = tensorized_attend(graph, *inputs, etype="forward", backend=backend, return_weights=True)
    (gradient,) = torch.autograd.grad(out.sum(), weights, create_graph=True)
    with pytest.raises(DoubleBackwardError):
        torch.autograd.grad(out.sum() + gradient.square().sum(), inputs[asking])


@pytest.mark.parametrize("backend", ON_CPU)
def test_nodes_without_keys_get_zeros_and_no_gradient(backend, graph):
    inputs = draw(graph.num_nodes())
    edges = Edges.of(graph, "forward")
    out = tensorized_attend(edges, *inputs, backend=backend)
    keyless = edges.indptr[1:] == edges.indptr[:-1]
    assert keyless.sum() == len(LENGTHS)
    assert not out[keyless].any()
    assert out[~keyless].all()
    (gradient,) = torch.autograd.grad(out[keyless].sum(), inputs[2])
    assert not gradient.any()


@pytest.mark.parametrize("backend", ["fused", "edges"])
def test_bias_of_minus_infinity_masks_edges(backend, graph, dense_tensorized_attention):
    edges = Edges.of(graph, "window:7")
    inputs = draw(edges.num_destinations)
    hidden = torch.rand(edges.num_edges, generator=torch.Generator().manual_seed(0)) < 0.4
    hidden |= edges.destinations == 4  # a node with only masked edges
    bias = torch.zeros(edges.num_edges, 2, dtype=torch.float64).masked_fill(hidden.unsqueeze(1), float("-inf"))
    mask = torch.zeros(edges.num_destinations, edges.num_sources, dtype=torch.bool)
    mask[edges.destinations[~hidden], edges.sources[~hidden]] = True
    expected, _ = dense_tensorized_attention(mask, *inputs)
    out = tensorized_attend(edges, *inputs, bias=bias, backend=backend)
    assert_equal_results(out, expected, inputs)
    assert not out[4].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ON_CPU)
def test_half_precision_is_summed_in_float32(backend, dtype, graph):
    inputs = [tensor.detach().to(dtype).requires_grad_() for tensor in draw(graph.num_nodes())]
    out, weights = tensorized_attend(graph, *inputs, etype="backward", backend=backend, return_weights=True)
    wide = [tensor.detach().float() for tensor in inputs]
    expected = tensorized_attend(graph, *wide, etype="backward", backend=backend)
    assert out.dtype == weights.dtype == dtype
    assert torch.equal(out, expected.to(dtype))
    assert all(t.dtype == dtype for t in torch.autograd.grad(out.sum(), inputs))


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that PyTorch creates."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "relation"), [("blocks", "forward"), ("fused", "window:7"), ("edges", "window:7")])
def test_no_tensor_has_the_size_of_edges_times_features(backend, relation, monkeypatch):
    monkeypatch.setattr("graphattn._backends.torch.CHUNK", 1 << 14)
    monkeypatch.setattr("graphattn._backends.cpu.tensorized.plan.CHUNK_PAIRS", 1 << 14)
    edges = Edges.of(TextGraphBuilder([RELATIONS[relation]]).text_batch([["x"] * 127] * 8), relation)
    inputs = [t.requires_grad_() for t in torch.randn(4, edges.num_destinations, 2, 40).unbind()]
    limit = 6 * edges.num_destinations * 2 * 48  # nodes times heads times padded features
    with Largest():  # fill caches and import what the mode needs
        tensorized_attend(edges, *inputs, backend=backend).sum().backward()
    tracemalloc.start()  # kernels use memory of NumPy
    with Largest() as largest:
        tensorized_attend(edges, *inputs, backend=backend).sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert largest.elements <= limit
    assert peak <= inputs[0].element_size() * limit
    assert edges.num_edges >= 6 * edges.num_destinations


def test_auto_uses_blocks_for_dense_contiguous_keys(graph, monkeypatch):
    taken = []
    for name in ("attend_in_blocks", "attend_by_edges"):
        original = getattr(__import__("graphattn._tensorized", fromlist=[name]), name)
        monkeypatch.setattr(
            f"graphattn._tensorized.{name}", lambda *a, _n=name, _f=original, **k: taken.append(_n) or _f(*a, **k)
        )
    inputs = [tensor.detach() for tensor in draw(graph.num_nodes())]
    for relation in ("forward", "backward", "all"):
        tensorized_attend(graph, *inputs, etype=relation)
    assert taken == ["attend_in_blocks"] * 3
    long = Edges.of(TextGraphBuilder([Window(3)]).text_batch([["x"] * 200]), "window:3")
    tensorized_attend(long, *(tensor.detach() for tensor in draw(201)))
    tensorized_attend(
        graph, *inputs, etype="all", bias=torch.zeros(Edges.of(graph, "all").num_edges, 2, dtype=torch.float64)
    )
    assert taken == ["attend_in_blocks"] * 3  # the last two used the kernels


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (GraphError, {"etype": "group"}, "the graph has no relation 'group'; it has: all, backward, forward, window:7"),
        (
            ConfigError,
            {"scale_function": "relu"},
            "scale_function is 'relu'; choose one of: identity, sigmoid, log-sigmoid, tanh",
        ),
        (ConfigError, {"bound": 0.0}, "bound is 0.0; it must be above 0"),
        (
            BackendError,
            {"backend": "dgl"},
            "backend 'dgl' does not exist; choose one of: auto, blocks, fused, edges, triton",
        ),
        (
            BackendError,
            {"backend": "blocks", "bias": torch.zeros(1)},
            "backend 'blocks' takes relations with contiguous keys that are dense, and no bias; use 'auto'",
        ),
    ],
)
def test_invalid_options(graph, kind, options, message):
    if "bias" in options:
        options = {**options, "bias": torch.zeros(Edges.of(graph, "all").num_edges, 2, dtype=torch.float64)}
    with pytest.raises(kind) as caught:
        tensorized_attend(graph, *draw(graph.num_nodes()), **{"etype": "all", **options})
    assert str(caught.value) == message


def test_inputs_that_do_not_fit(graph):
    query, key, value, scores = draw(graph.num_nodes())
    with pytest.raises(
        GraphError, match=r"^source_scores are \(47, 1, 3\), torch.float64 on cpu; expected the same as "
    ):
        tensorized_attend(graph, query, key, value, scores[:, :1], etype="all")
    with pytest.raises(GraphError, match=r"^query has shape \(46, 2, 5\)"):
        tensorized_attend(graph, query[1:], key, value, scores, etype="all")
    scattered = Edges(torch.tensor([0, 2, 2, 2]), torch.tensor([0, 2]), 3)
    with pytest.raises(BackendError, match="contiguous keys"):
        tensorized_attend(scattered, *draw(3), backend="blocks")


def test_graph_without_nodes():
    edges = Edges(torch.tensor([0]), torch.tensor([], dtype=torch.int64), 0)
    for backend in ("auto", "fused", "edges"):
        assert tensorized_attend(edges, *(torch.zeros(0, 2, 3) for _ in range(4)), backend=backend).shape == (0, 2, 3)


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("bound", [100.0, 500.0])
def test_large_tanh_bound_does_not_overflow(backend, bound, graph):
    edges = Edges.of(graph, "all")
    query, key, value, scores = (tensor.detach() for tensor in draw(edges.num_sources, spread=1.0))
    query = query * bound
    options = {"scale_function": "tanh", "bound": bound}
    exact = tensorized_attend(edges, query, key, value, scores, backend="edges", **options)
    single = (tensor.float() for tensor in (query, key, value, scores))
    out = tensorized_attend(edges, *single, backend=backend, **options)
    torch.testing.assert_close(out.double(), exact, rtol=1e-3, atol=1e-3)
