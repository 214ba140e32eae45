"""First derivatives are exact with each backend; second derivatives raise an error."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from graphattn import Edges, attend
from graphattn.builders import Complete, Order, TextGraphBuilder, Window
from graphattn.exceptions import DoubleBackwardError

SENTENCES = [list("abc"), ["d"], list("efg")]


def irregular():
    """Repeated edges, self-loops, ids out of order, nodes 0 and 4 without incoming edges."""
    return Edges.of_pairs(*torch.tensor([[2, 0, 1, 1, 4, 3, 2, 2], [3, 1, 2, 1, 1, 3, 1, 1]]), 5, 5)


def bipartite():
    return Edges.of_pairs(*torch.tensor([[0, 1, 2, 3, 3], [0, 0, 2, 2, 3]]), 4, 5)


def sentences(relation):
    graph = TextGraphBuilder([relation], cls=False).text_batch(SENTENCES)
    return Edges.of(graph)


EDGES = {
    "irregular": irregular,
    "bipartite": bipartite,
    "identity": lambda: sentences(Window(1)),
    "window": lambda: sentences(Window(3)),
    "forward": lambda: sentences(Order("forward")),
    "complete": lambda: sentences(Complete()),
    "no edges": lambda: Edges(torch.zeros(4, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), 2),
}


@pytest.fixture(params=EDGES)
def edges(request):
    """Edges of each kind that some backend treats specially."""
    return EDGES[request.param]()


@pytest.fixture
def tensors(edges, random_tensors):
    """Query, key, value and bias, which require gradients."""
    made = random_tensors(edges.num_destinations, edges.num_sources, width=2, value_width=2)
    bias = random_tensors(edges.num_edges, 1, width=1, seed=1)[0][..., 0]
    return [tensor.requires_grad_() for tensor in (*made, bias)]


@pytest.mark.parametrize(
    ("count", "options"),  # the last of four inputs is the bias
    [
        (3, {}),
        (4, {}),
        (3, {"return_weights": True}),
        (4, {"return_weights": True}),
        (3, {"dropout": 0.4}),
        (4, {"dropout": 0.4, "return_weights": True}),
    ],
    ids=str,
)
def test_gradients_equal_differences(edges, tensors, backend, count, options):
    def compute(query, key, value, bias=None):
        torch.manual_seed(0)
        return attend(edges, query, key, value, bias=bias, backend=backend, **options)

    assert gradcheck(compute, tensors[:count], fast_mode=count == 4 or bool(options) or backend == "dgl")


def test_learned_scale(edges, tensors, backend):
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert_close(
        attend(edges, *tensors[:3], scale=scale, backend=backend),
        attend(edges, *tensors[:3], scale=0.7, backend=backend),
    )
    inputs = *tensors[:3], scale
    assert gradcheck(lambda q, k, v, s: attend(edges, q, k, v, scale=s, backend=backend), inputs, fast_mode=True)


LONG = {
    "complete, several texts": lambda: complete(5, 40, 3),
    "complete, wide": lambda: complete(300, 2, 700),
    "window in several chunks": lambda: Edges.of(
        TextGraphBuilder([Window(11)], cls=False).text_batch([list("a" * 900)])
    ),
    "wide window in several chunks": lambda: Edges.of(
        TextGraphBuilder([Window(601)], cls=False).text_batch([["a"] * 1500])
    ),
}


def complete(*lengths):
    return Edges.of(TextGraphBuilder([Complete()], cls=False).text_batch([["a"] * length for length in lengths]))


def assert_equal_gradients_with_frozen(edges, tensors, backend, frozen, **options):
    """Assert that gradients do not depend, bit for bit, on which inputs are frozen."""
    upstream = torch.randn(edges.num_destinations, *tensors[2].shape[1:], dtype=tensors[2].dtype)

    def gradients(asking):
        given = [tensor.detach().requires_grad_(asks) for tensor, asks in zip(tensors, asking, strict=True)]
        torch.manual_seed(0)
        attend(edges, *given[:3], bias=given[3] if len(given) > 3 else None, backend=backend, **options).backward(
            upstream
        )
        return [tensor.grad for tensor in given]

    asking = [index not in frozen for index in range(len(tensors))]
    for asks, mine, whole in zip(asking, gradients(asking), gradients([True] * len(tensors)), strict=True):
        assert torch.equal(mine, whole) if asks else mine is None


@pytest.mark.parametrize("frozen", [{1}, {2}, {1, 2}, {1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}], ids=str)
def test_frozen_inputs(edges, tensors, backend, frozen):
    assert_equal_gradients_with_frozen(edges, tensors, backend, frozen)
    if not frozen >= {0, 1, 2}:
        assert_equal_gradients_with_frozen(edges, tensors[:3], backend, frozen, dropout=0.3)


@pytest.mark.parametrize("frozen", [{1}, {2}, {1, 2}], ids=["keys", "values", "keys and values"])
@pytest.mark.parametrize("kind", LONG)
def test_frozen_inputs_of_long_texts(kind, random_tensors, frozen):
    edges = LONG[kind]()
    tensors = random_tensors(edges.num_destinations, edges.num_sources, width=20, value_width=33, dtype=torch.float32)
    assert_equal_gradients_with_frozen(edges, tensors, "fused", frozen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_have_the_dtype_of_their_input(edges, tensors, backend, dtype):
    narrow = [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]
    query, key, value, bias = narrow
    out, weights = attend(edges, query, key, value, bias=bias, backend=backend, return_weights=True)
    gradients = torch.autograd.grad(out.sum() + weights.square().sum(), narrow)
    query, key, value, bias = tensors
    out, weights = attend(edges, query, key, value, bias=bias, backend=backend, return_weights=True)
    exact = torch.autograd.grad(out.sum() + weights.square().sum(), tensors)
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    for gradient, expected in zip(gradients, exact, strict=True):
        assert gradient.dtype == dtype
        assert_close(gradient.double(), expected, rtol=tolerance, atol=tolerance)


MESSAGE = "attention has first-order gradients only; do not differentiate its gradients again"


@pytest.mark.parametrize("asking", range(3), ids=["query", "key", "value"])
def test_gradient_penalty_is_rejected(edges, tensors, backend, asking):
    inputs = tensors[:3]
    out = attend(edges, *inputs, backend=backend)
    (gradient,) = torch.autograd.grad(out.square().sum(), [inputs[asking]], create_graph=True)
    with pytest.raises(DoubleBackwardError) as caught:
        gradient.square().sum().backward()
    assert str(caught.value) == MESSAGE


def test_second_derivatives_by_bias_and_weights_are_rejected(edges, tensors, backend):
    query, key, value, bias = tensors
    out, weights = attend(edges, query, key, value, bias=bias, backend=backend, return_weights=True)
    for result in (out, weights):
        gradients = torch.autograd.grad(result.sum(), tensors, create_graph=True, allow_unused=True)
        for gradient in gradients:
            if gradient is not None:
                with pytest.raises(DoubleBackwardError, match=MESSAGE):
                    gradient.sum().backward(retain_graph=True)


@pytest.mark.parametrize("asking", range(3), ids=["query", "key", "value"])
def test_penalty_on_weight_gradients_is_rejected(edges, tensors, backend, asking):
    out, weights = attend(edges, *tensors[:3], backend=backend, return_weights=True)
    (gradient,) = torch.autograd.grad(out.sum(), weights, create_graph=True)
    with pytest.raises(DoubleBackwardError, match=MESSAGE):
        torch.autograd.grad(out.sum() + gradient.square().sum(), tensors[asking])


@pytest.mark.parametrize("asking", range(4), ids=["query", "key", "value", "bias"])
def test_weight_gradients_with_frozen_inputs(edges, tensors, backend, asking):
    query, key, value, bias = (tensor.detach() for tensor in tensors)
    (query, key, value, bias)[asking].requires_grad_()
    out, weights = attend(edges, query, key, value, bias=bias, backend=backend, return_weights=True)
    (actual,) = torch.autograd.grad(out.sum(), weights)
    out, weights = attend(edges, *tensors[:3], bias=tensors[3], backend=backend, return_weights=True)
    assert_close(actual, torch.autograd.grad(out.sum(), weights)[0], rtol=0, atol=1e-12)


def test_first_derivative_with_create_graph(edges, tensors, backend):
    inputs = tensors[:3]
    out = attend(edges, *inputs, backend=backend)
    kept = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
    out = attend(edges, *inputs, backend=backend)
    for gradient, expected in zip(kept, torch.autograd.grad(out.square().sum(), inputs), strict=True):
        assert_close(gradient, expected, rtol=0, atol=1e-12)


def test_no_grad_records_nothing(edges, tensors, backend):
    with torch.no_grad():
        assert attend(edges, *tensors[:3], backend=backend).grad_fn is None
    assert not attend(edges, *(tensor.detach() for tensor in tensors[:3]), backend=backend).requires_grad
