"""The optimizer of a model and the schedule of its learning rates."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from graphattn.models._options import TrainingOptions


def make_optimizer(model: nn.Module, rates: Mapping[str, float], options: TrainingOptions) -> torch.optim.Optimizer:
    """Adam, AdamW or SGD for the parameters that are trained.

    Biases, norms and embeddings are not decayed: Adam turns even a tiny decay into full steps without another gradient,
    as for words that a batch lacks.

    ``rates`` are learning rates of parameters by name; others have that of the options.
    """
    exempt = {id(parameter) for parameter in _find_undecayed(model)}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decay = 0.0 if id(parameter) in exempt else options.weight_decay
            groups.setdefault((rates.get(name, options.learning_rate), decay), []).append(parameter)
    fused = not options.strategy.startswith(("fsdp", "deepspeed"))  # 9 times as fast on a CPU
    param_groups = [
        {"params": parameters, "lr": rate, "weight_decay": decay} for (rate, decay), parameters in groups.items()
    ]
    classes = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    optimizer_class: Any = classes[options.optimizer]
    if fused:  # DeepSpeed looks for PyTorch's own
        optimizer_class = _without_compiler(optimizer_class)
    momentum: dict[str, Any] = {"momentum": 0.9} if options.optimizer == "sgd" else {"betas": (0.9, options.beta2)}
    return optimizer_class(param_groups, lr=options.learning_rate, fused=fused, **momentum)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> None:
    """Scale gradients down to a norm, as :func:`torch.nn.utils.clip_grad_norm_`, which multiplies short ones by 1."""
    parameters = list(parameters)
    norm = nn.utils.get_total_norm(parameter.grad for parameter in parameters if parameter.grad is not None)
    if norm.device.type != "cpu" or not max_norm / (norm + 1e-6) >= 1:  # a GPU would wait for the comparison
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)


def _without_compiler(optimizer_class: type[torch.optim.Optimizer]) -> Any:
    """The same optimizer without the decorators that keep ``torch.compile`` out.

    They import ``torch._dynamo`` and SymPy, which takes longer than to import PyTorch.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    methods = {name: inspect.unwrap(getattr(optimizer_class, name)) for name in names}
    step = torch.no_grad()(inspect.unwrap(optimizer_class.step))
    return type(optimizer_class.__name__, (optimizer_class,), {**methods, "step": step})


def relative_rate(step: int, steps: int, options: TrainingOptions) -> float:
    """Learning rate at a step relative to its maximum."""
    warmup = options.warmup_steps or max(1, round(options.warmup * steps))
    if step < warmup:
        return (step + 1) / warmup
    if options.schedule == "constant":
        return 1.0
    if options.schedule == "inverse-sqrt":
        return math.sqrt(warmup / (step + 1))
    if options.schedule in ("exponential", "inverse"):
        assert options.epochs is not None  # as in training
        epoch = step * options.epochs // steps
        return (1 - options.decay) ** epoch if options.schedule == "exponential" else 1 / (1 + options.decay * epoch)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return 1 - done if options.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))


def _find_undecayed(model: nn.Module) -> Iterator[nn.Parameter]:
    """Biases (perhaps with a row for each head or stream), parameters of norms, embeddings, and vectors of words."""
    for module in model.modules():
        all_parameters = isinstance(module, nn.Embedding) or "Norm" in type(module).__name__
        for name, parameter in module.named_parameters(recurse=False):
            if all_parameters or parameter.dim() < 2 or name.endswith("bias") or name == "trained":
                yield parameter


def count_parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
