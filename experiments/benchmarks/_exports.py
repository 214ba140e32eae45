"""A model for other runtimes: exports by ONNX, OpenVINO and model2vec, which are kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.builders._atomic import atomic_folder
from graphattn.builders._paths import cache_folder
from graphattn.models.pretrained._checkpoint import digest_directory

MODEL = "model.onnx"
Model = Callable[[Tensor, Tensor], Tensor]
"""Ids and mask (B, T) -> states."""


class LastStates(nn.Module):
    """A model of ``transformers`` whose output is a tensor."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def keep(directory: str, name: str, packages: Sequence[str], write: Callable[[Path], None]) -> Path:
    """The folder that ``write`` fills, once for a model and the versions of some packages."""
    made_by = [f"{package} {version(package)}" for package in packages]
    key = hashlib.sha256(repr((digest_directory(Path(directory)), made_by)).encode()).hexdigest()[:16]
    folder = cache_folder() / "bench" / f"{name}-{key}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as temporary, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from the exporters
            logging.disable(logging.WARNING)
            try:
                write(temporary)
            finally:
                logging.disable(logging.NOTSET)
    return folder


def export_onnx(directory: str, model: Callable[[], nn.Module], longest: int) -> Path:
    """PyTorch's export of the model of ``transformers``."""

    def write(folder: Path) -> None:
        ids, size = torch.full((2, 5), 3), torch.export.Dim.DYNAMIC
        torch.onnx.export(
            LastStates(model()),
            (ids, torch.ones_like(ids)),
            folder / MODEL,
            input_names=["ids", "mask"],
            dynamic_shapes=({0: size, 1: size}, {0: size, 1: size}),
            dynamo=True,
            verbose=False,
        )

    return keep(directory, f"onnx-{longest}", ("torch", "transformers", "onnxscript"), write) / MODEL


def quantize_onnx(directory: str, exported: Path, longest: int) -> Path:
    """The same with weights in int8 by channel, and inputs of products by tensor."""

    def write(folder: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(exported, folder / MODEL, per_channel=True, weight_type=QuantType.QInt8)

    return keep(directory, f"onnx-int8-{longest}", ("torch", "transformers", "onnxruntime"), write) / MODEL


def quantize_openvino(directory: str, exported: Path, longest: int, texts: Iterable[Tensor]) -> Path:
    """OpenVINO's model with weights and inputs in int8, calibrated on the ids of some texts."""

    def write(folder: Path) -> None:
        import nncf
        import openvino

        inputs = [{"ids": ids[None].numpy(), "mask": torch.ones_like(ids)[None].numpy()} for ids in texts]
        model = openvino.Core().read_model(exported)
        kind = nncf.ModelType.TRANSFORMER
        model = nncf.quantize(model, nncf.Dataset(inputs), model_type=kind, subset_size=len(inputs))
        openvino.save_model(model, folder / "model.xml")

    packages = "torch", "transformers", "openvino", "nncf"
    return keep(directory, f"openvino-int8-{longest}", packages, write) / "model.xml"


@cache
def open_onnx(path: Path) -> Model:
    """The model in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: torch.from_numpy(session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0])


@cache
def open_openvino(path: Path) -> Model:
    """The model in OpenVINO."""
    import openvino

    options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(path, "CPU", {**options, "INFERENCE_PRECISION_HINT": "f32"})
    return lambda ids, mask: torch.from_numpy(model({"ids": ids.numpy(), "mask": mask.numpy()})[0].copy())


def distill(directory: str) -> Any:
    """A vector for each token instead of the model, by model2vec."""
    from model2vec import StaticModel

    def write(folder: Path) -> None:
        from model2vec.distill import distill

        distill(directory).save_pretrained(folder / "model")

    return StaticModel.from_pretrained(keep(directory, "model2vec", ("model2vec",), write) / "model")
