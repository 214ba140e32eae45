"""``bench pretrained --families``: random models of six families of ``transformers``, packed and padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._contenders import Contender, Settings, UnableError
from graphattn.experiments.benchmarks._harness import (
    COLUMNS,
    INFERENCE,
    OURS,
    Case,
    Comparison,
    LeftOut,
    compare,
    measure_times,
)
from graphattn.experiments.benchmarks._pretrained import TextProblem, Transformers
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, split_into_batches
from graphattn.experiments.papers._transformers_loop import import_transformers
from graphattn.models.heads._pooling import pool

LENGTHS = ("sentences", "reviews")
QUICK = ("4x12", "2x64")
QUICK_TEXTS = {"divisor": 8}
LAYERS = 4
SHARE = 4
"""The benchmark takes a share of the texts of a workload, in batches as much smaller."""
SECONDS = 12.0
"""Measured time of a workload and family after which no round starts; with one thread, all take seven minutes."""
_BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "pad_token_id": 0}
_DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 256,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_QWEN3 = {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
FAMILIES: dict[str, dict[str, Any]] = {
    "nomic_bert": _BASE | {"vocab_size": 30528, "head_dim": 64},
    "albert": _BASE | {"vocab_size": 30000, "embedding_size": 128},
    "qwen3": _BASE | _QWEN3 | {"vocab_size": 151936},
    "eurobert": _BASE | {"vocab_size": 128256, "head_dim": 64},
    "deberta-v2": _BASE | {"vocab_size": 128100} | _DEBERTA,
    "longformer": _BASE | {"vocab_size": 50265, "max_position_embeddings": 4098, "pad_token_id": 1},
}
"""``model_type`` -> sizes of the smallest public model."""
_DIVIDED = "hidden_size", "intermediate_size", "head_dim", "vocab_size", "embedding_size"

DESCRIPTION = f"""\
Models of `transformers` with random weights and {LAYERS} layers of real sizes: those of nomic-embed-text, ALBERT-base,
Qwen3-0.6B, EuroBERT-210m, DeBERTa-v3-base and Longformer-base; float32, on the same ids. GraphAttn is
`graphattn.transformers.pack`: all texts of a batch in one row. `transformers` pads batches in random order; "sorted"
sorts all texts by length before it makes batches. It uses PyTorch's fused attention where the family can: DeBERTa and
Longformer cannot, and Longformer pads each batch further, to a multiple of its window of 512 tokens. Texts are the
first quarter of those of `pretrained`, in batches of a quarter of the size. Padding of ids is not timed; masks are, and
so is joining the ids of a batch, which `pack` does."""


@lru_cache(maxsize=2)
def make_model(family: str, divisor: int, attention: str | None) -> nn.Module:
    """A model with the same weights for all contenders; ``attention`` is None for the family's own choice."""
    transformers = import_transformers()
    sizes = {name: size // divisor if name in _DIVIDED else size for name, size in FAMILIES[family].items()}
    config = transformers.AutoConfig.for_model(family, num_hidden_layers=LAYERS, **sizes)
    torch.manual_seed(0)
    model: Any = transformers.AutoModel.from_config(config, attn_implementation=attention)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval()


@dataclass(frozen=True)
class PaddedFamily(Transformers):
    """A random model of a family, on padded batches."""

    family: str = field(kw_only=True)
    divisor: int = field(default=1, kw_only=True)  # of all widths

    @property
    @override
    def vocabulary(self) -> int:
        return int(FAMILIES[self.family]["vocab_size"]) // self.divisor

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> nn.Module:
        return make_model(self.family, self.divisor, None).to(device)


class PackedFamily(PaddedFamily):
    """A random model of a family, on all texts of a batch in one row."""

    @override
    def load(self, longest: int, device: torch.device, *, backward: bool) -> Any:
        from graphattn.transformers import pack

        try:
            return pack(make_model(self.family, self.divisor, "graphattn").to(device))
        except ConfigError as error:
            raise UnableError(str(error)) from error

    @override
    def prepare(self, problem: TextProblem, model: Any) -> Callable[[], Sequence[Any]]:
        texts = iter(map(problem.placement.put, problem.ids(self.vocabulary)))
        batches = [list(islice(texts, len(batch))) for batch in problem.workload.batches]
        return lambda: batches

    @override
    def apply(self, model: Any, batch: Any) -> Tensor:
        return torch.cat(model(batch))

    @override
    def average(self, states: Tensor, batch: Any) -> Tensor:
        return pool(states, torch.tensor(list(map(len, batch))), "mean")


def list_contenders(family: str, divisor: int) -> list[PaddedFamily]:
    """GraphAttn and its peers on a model of a family."""
    return [
        PackedFamily(OURS, "GraphAttn, packed", family=family, divisor=divisor),
        PaddedFamily("transformers", "transformers", family=family, divisor=divisor),
        PaddedFamily("transformers-sorted", "transformers, sorted", sorts=True, family=family, divisor=divisor),
    ]


def measure_share(
    contenders: Sequence[Contender], case: Case, settings: Settings, skipped: list[LeftOut]
) -> dict[str, Record]:
    """:func:`measure_times` on some of the texts of a workload of several batches."""
    first, *others = case.workload.batches
    if others:
        lengths = case.workload.lengths[: len(case.workload.lengths) // SHARE]
        batches = tuple(split_into_batches(lengths, len(first) // SHARE))
        case = replace(case, workload=Workload(case.workload.name, batches))
    return measure_times(contenders, case, settings, skipped)


def measure(settings: Settings, *, divisor: int = 1) -> BenchmarkReport:
    """Time packed and padded models of each family; ``divisor`` divides their widths."""
    settings = replace(settings, seconds=min(settings.seconds, SECONDS))
    comparisons = [
        Comparison(list_contenders(family, divisor), {f"{INFERENCE}, {family}": False}, measure_share)
        for family in FAMILIES
    ]
    return compare(BenchmarkReport("pretrained-families", DESCRIPTION, COLUMNS, settings), settings, *comparisons)
