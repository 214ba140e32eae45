"""Write dense models as ONNX files."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from graphattn._optional_packages import import_optional
from graphattn.builders import Vocabulary
from graphattn.builders._atomic import atomic_file, write_text
from graphattn.builders._paths import resolve_path, write_error
from graphattn.builders._regular_files import NAMES, read_text
from graphattn.exceptions import ConfigError
from graphattn.models._files.dense_model import DenseModel

TOKENIZER = "tokenizer.json"
_STATES = ["last_hidden_state", "sentence_embedding"]
_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def write_onnx(
    path: str | PathLike[str],
    model: DenseModel,
    vocabulary: Vocabulary,
    *,
    segments: bool,
    longest: int | None,
    metadata: Mapping[str, Any] | None = None,
    begins_with_cls: bool = False,
) -> None:
    """Write a model, with ``metadata`` as JSON in the file, and ``tokenizer.json`` beside it.

    ``segments`` adds the input ``token_type_ids``. The tokenizer truncates to ``longest`` tokens, special ones too, and
    puts ``[CLS]`` first if texts begin with it.
    """
    import_optional("onnx", "ONNX files need", "onnx")
    import_optional("onnxscript", "ONNX files need", "onnx")
    target = resolve_path(path)
    if target.is_dir():
        raise ConfigError(f"{path} is a directory; give the name of a file")
    tokenizer = _format_tokenizer(vocabulary, longest, begins_with_cls=begins_with_cls)
    beside = target.parent / TOKENIZER
    try:
        if beside.exists() and read_text(beside, NAMES) != tokenizer:
            raise ConfigError(f"{beside} is that of another model; choose another folder for the ONNX file")
        beside.parent.mkdir(parents=True, exist_ok=True)
        program = export(model.cpu(), segments=segments)
        for name, value in (metadata or {}).items():
            program.model.metadata_props[name] = json.dumps(value, ensure_ascii=False)
        with atomic_file(target) as temporary:
            program.save(temporary)
        with atomic_file(beside) as temporary:  # half a tokenizer would be that of another model
            write_text(temporary, tokenizer)
    except OSError as error:
        raise write_error(path, error) from error


def export(model: DenseModel, *, segments: bool) -> Any:
    """The model as a program of ``torch.onnx``, for any number of texts and tokens."""
    inputs = _INPUTS[: 2 + segments]
    examples = tuple(torch.ones(2, 5, dtype=torch.long) for _ in inputs)  # one tensor twice would become one input
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)  # torchvision is missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the exporter
        try:
            return torch.onnx.export(
                model,
                examples,
                input_names=inputs,
                output_names=["logits"] if model.head is not None else _STATES,
                dynamic_shapes=dict.fromkeys(inputs, sizes),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:  # of operations of a model of transformers
            reason = str(error).strip().splitlines()[-1][:200]
            raise ConfigError(
                f"PyTorch cannot write this model as an ONNX file ({reason}); use its to_dense, its to_huggingface or "
                "its save"
            ) from error


def _format_tokenizer(vocabulary: Vocabulary, longest: int | None, *, begins_with_cls: bool) -> str:
    tokenizer = Tokenizer.from_str(vocabulary.to_json())
    if begins_with_cls:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A", special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]"))]
        )
    if longest is not None:
        tokenizer.enable_truncation(longest)
    return tokenizer.to_str()
