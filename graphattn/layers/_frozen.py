"""Linear layers for predictions alone, which keep their weight in a form that a processor multiplies faster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.layers._linear import Linear
from graphattn.layers._norm import LayerNorm

if TYPE_CHECKING:
    from graphattn._backends.cpu.products import Link


class Step(NamedTuple):
    """A frozen layer, and what follows it: nothing, GELU, or the sum with a residual and a layer norm."""

    layer: nn.Linear
    gelu: bool = False
    norm: LayerNorm | None = None


class FrozenLinear(Linear):
    """Base of the layers that :func:`replace_linear` puts in: no parameters, and ``weight`` is a copy.

    The weight is kept in one form only, so that no copy can differ from it.
    """

    def __init__(self, layer: nn.Linear):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features

    @property
    @abstractmethod
    def weight(self) -> Tensor:  # type: ignore[override]
        """(O, I) the weight, for callers that need a part of it."""

    @staticmethod
    @abstractmethod
    def list_links(steps: Sequence[Step]) -> Sequence[Link]:
        """The steps as links that run without modules; none where a layer has no such form."""

    @staticmethod
    @abstractmethod
    def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
        """(N, I) -> (N, O) through layers of this class, of which the last has no GELU.

        The first norm adds ``residual``, each other one the output of the norm before.
        """

    @override
    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        raise ConfigError("the model was loaded for predictions alone; to change its layers, load it as for training")


def norm_arguments(norm: LayerNorm) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], np.float32]:
    """(C,) gain, (C,) shift and epsilon of a layer norm, for kernels."""
    gain = norm.weight.detach().numpy()
    shift = np.zeros_like(gain) if norm.bias is None else norm.bias.detach().numpy()
    return gain, shift, np.float32(norm.eps)


def replace_linear(model: nn.Module, fits: Callable[[nn.Linear], bool], make: Callable[[nn.Linear], nn.Module]) -> None:
    """Replace the linear layers that fit, whose weights are freed; nothing in the model has gradients any more."""
    replaced: dict[nn.Module, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):  # named_children() names a shared layer once
            if isinstance(child, nn.Linear) and type(child) in (Linear, nn.Linear) and fits(child):
                if child not in replaced:
                    replaced[child] = make(child)
                setattr(parent, name, replaced[child])
    model.requires_grad_(False)
    for module in model.modules():  # the rest may be parts of a file in memory, which stays there while one is used
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.clone()
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, buffer.clone())
