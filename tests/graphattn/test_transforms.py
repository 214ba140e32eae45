"""torch.compile, torch.func, torch.export and torch.jit.trace around the operators and layers."""

import pytest
import torch
from torch import _dynamo, func, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from graphattn import Edges, MultiScaleAttention, TensorizedAttention, attend, tensorized_attend
from graphattn._aggregation import aggregate
from graphattn._attention import attend_heads
from graphattn.builders import TextGraphBuilder, Window
from graphattn.exceptions import BackendError, DoubleBackwardError, GraphError
from graphattn.layers import edges_of
from graphattn.layers._dropout import dropout
from graphattn.layers._linear import Embedding, Linear, embedding
from graphattn.layers._norm import LayerNorm

BACKENDS = ["fused", "torch", "dgl"]


def random_edges(count, seed=0):
    """Each node has about three incoming edges, ids in random order."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(count, (2, 3 * count), generator=generator)
    return Edges.of_pairs(*ends, count, count)


def tensors(count):
    """Queries, keys, values and source scores."""
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(count, 2, 4, generator=generator) for _ in range(4)]


OPERATORS = {
    "attend": lambda edges, q, k, v, s: attend(edges, q, k, v),
    "attend-bias": lambda edges, q, k, v, s: attend(edges, q, k, v, bias=s.reshape(-1, 2)[: edges.num_edges]),
    "attend-torch": lambda edges, q, k, v, s: attend(edges, q, k, v, backend="torch"),
    "attend-weights": lambda edges, q, k, v, s: attend(edges, q, k, v, return_weights=True)[0],
    "attend_heads": lambda edges, q, k, v, s: attend_heads([edges], [2], torch.stack([q, k, v], 1)),
    "tensorized": lambda edges, q, k, v, s: tensorized_attend(edges, q, k, v, s),
    "tensorized-edges": lambda edges, q, k, v, s: tensorized_attend(edges, q, k, v, s, backend="edges"),
    "aggregate": lambda edges, q, k, v, s: aggregate(edges, v.flatten(1)),
    "dropout": lambda edges, q, k, v, s: dropout(v, 0.5, True),
}
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@pytest.fixture(autouse=True)
def forget_compiled():
    """Each test compiles on its own."""
    _dynamo.reset()


def gradients(function, inputs, *args):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    torch.manual_seed(0)
    out = function(*leaves, *args)
    return out, torch.autograd.grad(out.square().sum(), leaves, materialize_grads=True)


@pytest.mark.slow
@pytest.mark.parametrize("operator", [OPERATORS[name] for name in ("attend", "attend_heads", "tensorized", "dropout")])
def test_a_compiled_function_is_compiled_for_the_first_and_the_second_shape_only(operator):
    def function(q, k, v, s, edges):
        return torch.tanh(operator(edges, 2 * q, k, v.sin(), s)) + 1

    compiled = torch.compile(function, backend="aot_eager")
    for count in range(5, 8):
        inputs, edges = tensors(count), random_edges(count)
        expected = gradients(function, inputs, edges)
        with _dynamo.config.patch(error_on_recompile=count > 6):
            torch.testing.assert_close(gradients(compiled, inputs, edges), expected)


@pytest.mark.slow
def test_inductor_trains_a_module_step_by_step():
    """The backward pass runs inside the compiled step."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            heads = {"near": 2, "far": 2}
            self.layers = nn.ModuleList([MultiScaleAttention(8, 4, heads), TensorizedAttention(8, 4, {"far": 2})])

        def forward(self, edges, tokens):
            for layer in self.layers:
                tokens = tokens + torch.relu(layer(edges, tokens))
            return tokens.square().mean()

    def step(edges, tokens):
        loss = model(edges, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = {}
    for compiles in (False, True):
        torch.manual_seed(0)
        model = Own()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = torch.compile(step) if compiles else step
        batches = [({"near": random_edges(n), "far": random_edges(n, 1)}, torch.randn(n, 8)) for n in range(5, 11)]
        losses[compiles] = [run(*batch) for batch in batches]
    torch.testing.assert_close(losses[True], losses[False])


@pytest.mark.slow
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_edges_are_read_from_a_batch_inside_a_compiled_function(mode):
    def function(batch):
        tokens = batch.node_features["token"]["position"].float().unsqueeze(1).expand(-1, 8)
        return layer(edges_of(batch, ["window:3"]), tokens + 1).sum(1)

    builder, layer = TextGraphBuilder([Window(3)]), MultiScaleAttention(8, 4, {"window:3": 2})
    compiled = torch.compile(function, backend="aot_eager")
    with mode():
        for count in range(2, 8):
            batch = builder.text_batch([["word"] * count, ["word"]])
            torch.testing.assert_close(compiled(batch), function(batch))


def test_compiling_without_breaks_names_the_reason():
    edges, (q, k, v, _) = random_edges(5), tensors(5)
    with pytest.raises(_dynamo.exc.Unsupported, match="fullgraph"):
        torch.compile(lambda q: attend(edges, q, k, v), fullgraph=True, backend="eager")(q)


class Closed(nn.Module):
    """Attention along given edges, with tensors only as its input."""

    def __init__(self):
        super().__init__()
        self.edges = random_edges(5)

    def forward(self, query):
        return attend(self.edges, query, query, query)


@pytest.mark.parametrize(
    "record",
    [
        lambda query: torch.export.export(Closed(), (query,), strict=False),
        lambda query: torch.jit.trace(Closed(), (query,)),
        lambda query: make_fx(Closed())(query),
    ],
    ids=["export", "trace", "make_fx"],
)
def test_exporters_get_an_error(record):
    with pytest.raises(BackendError):
        record(tensors(5)[0])


def test_tensors_without_memory_are_an_error():
    closed = Closed()
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(BackendError):
        closed(torch.ones(5, 2, 4))


def test_plain_layers_are_compiled_without_breaks():
    model = nn.Sequential(Embedding(6, 4), Linear(4, 4), nn.ReLU(), LayerNorm(4))
    ids = torch.tensor([1, 5, 1])
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(ids), model(ids))


@pytest.mark.parametrize(
    "gradient",
    [
        lambda table, loss: torch.autograd.grad(torch.compile(loss, backend="aot_eager")(table), table)[0],
        lambda table, loss: func.grad(loss)(table.detach()),
        lambda table, loss: torch.autograd.grad(loss(table), table)[0],
    ],
    ids=["compiled", "func", "eager"],
)
def test_gradients_of_half_precision_embeddings_are_sums_in_float32(gradient):
    table = torch.zeros(2, 1, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.zeros(10_000, dtype=torch.long)
    result = gradient(table, lambda table: (0.01 * embedding(table, ids).float()).sum())
    torch.testing.assert_close(result, torch.tensor([[100.0], [0.0]], dtype=torch.bfloat16), rtol=0.01, atol=0)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_a_learned_scale_is_one_number(shape):
    edges, (q, k, v, _) = random_edges(5), tensors(5)
    with pytest.raises(GraphError):
        attend(edges, q, k, v, scale=torch.ones(shape))
    assert torch.equal(attend(edges, q, k, v, scale=torch.ones(1, 1)), attend(edges, q, k, v, scale=1.0))


@every_operator
def test_func_grad_equals_autograd(operator):
    edges, inputs = random_edges(6), tensors(6)

    def loss(*inputs):
        torch.manual_seed(0)
        return operator(edges, *inputs).square().sum()

    expected = gradients(lambda *inputs: operator(edges, *inputs), inputs)[1]
    torch.testing.assert_close(func.grad(loss, argnums=(0, 1, 2, 3))(*inputs), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap_and_jacobians(backend, request):
    if backend == "dgl":
        request.getfixturevalue("dgl")
    edges, (q, k, v, _) = random_edges(5), tensors(5)

    def sums(query):
        return attend(edges, query, k, v, backend=backend).sum((1, 2))

    queries = torch.stack([q, -q, 2 * q])
    torch.testing.assert_close(func.vmap(sums)(queries), torch.stack([sums(query) for query in queries]))
    expected = torch.stack([torch.autograd.functional.jacobian(sums, query) for query in queries])
    torch.testing.assert_close(func.jacrev(sums)(queries[1]), expected[1])
    torch.testing.assert_close(func.vmap(func.jacrev(sums))(queries), expected)
    of_sums = func.vmap(func.grad(lambda query: sums(query).sum()), in_dims=1)(queries.transpose(0, 1))
    torch.testing.assert_close(of_sums, expected.sum(1))


def test_weights_under_vmap():
    edges, (q, k, v, _) = random_edges(5), tensors(5)
    out, weights = func.vmap(lambda query: attend(edges, query, k, v, return_weights=True))(q.unsqueeze(0))
    expected, expected_weights = attend(edges, q, k, v, return_weights=True)
    torch.testing.assert_close((out[0], weights[0]), (expected, expected_weights))


def test_second_and_forward_derivatives_are_errors():
    edges, (q, k, v, _) = random_edges(5), tensors(5)

    def loss(query):
        return attend(edges, query, k, v).square().sum()

    with pytest.raises(DoubleBackwardError):
        func.grad(lambda query: func.grad(loss)(query).sum())(q)
    with pytest.raises(BackendError):
        func.jvp(loss, (q,), (q,))
