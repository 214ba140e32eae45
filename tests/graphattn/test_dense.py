"""No shape of a batch starts a plan of cuDNN: the kernels of dense attention are chosen."""

import pytest
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from graphattn import Edges, attend
from graphattn._dense import attend_dense
from graphattn.builders import Complete, TextGraphBuilder
from graphattn.models._decoders.attention import attend_rows

FLAGS = {"cudnn": False, "flash": True, "mem_efficient": True, "math": True}


class Choices(TorchFunctionMode):
    """Records the shapes of dense attention, and which of PyTorch's kernels are allowed for it."""

    def __init__(self):
        self.shapes, self.flags = [], []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.scaled_dot_product_attention:
            self.shapes.append(tuple(args[0].shape))
            self.flags.append({name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in FLAGS})
        return function(*args, **(kwargs or {}))


def test_each_new_shape_of_a_batch_has_the_same_kernels():
    with Choices() as choices:
        for length in range(20, 30):
            edges = Edges.of(TextGraphBuilder([Complete()], cls=False).text_batch([["w"] * length] * 4))
            rows = torch.empty(4 * length, 2, 8, device="meta")
            out = attend(edges.to("meta"), rows, rows, rows, backend="torch")
            assert out.shape == rows.shape
            padded = torch.empty(4, 2, length, 8, device="meta")
            mask = torch.empty(4, 1, 1, length, device="meta", dtype=torch.bool)
            attend_rows(padded, padded, padded, mask=mask)
    assert len(set(choices.shapes)) == 10
    assert choices.flags == [FLAGS] * 20


def test_a_cpu_keeps_its_own_kernels():
    rows = torch.randn(2, 2, 5, 8)
    before = {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in FLAGS}
    with Choices() as choices:
        out = attend_dense(rows, rows, rows, scale=0.3)
    torch.testing.assert_close(out, (rows @ rows.transpose(2, 3) * 0.3).softmax(3) @ rows)
    assert choices.flags == [before]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("scale", [None, 0.5])
def test_complete_graphs_in_bfloat16_on_a_gpu_equal_those_in_float64(scale):
    lengths = [3, 40, 1, 17]
    edges = Edges.of(TextGraphBuilder([Complete()], cls=False).text_batch([["w"] * length for length in lengths]))
    inputs = [torch.randn(sum(lengths), 4, 32, dtype=torch.float64) for _ in range(3)]
    results = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.bfloat16)):
        copies = [tensor.to(device, dtype).requires_grad_() for tensor in inputs]
        out = attend(edges.to(device), *copies, scale=scale, backend="torch")
        results.append([tensor.double().cpu() for tensor in (out, *torch.autograd.grad(out.sum(), copies))])
    for exact, rounded in zip(*results, strict=True):
        assert float((rounded - exact).norm()) <= 0.02 * float(exact.norm()) + 0.02
