"""Read Hugging Face directories: ``config.json``, ``tokenizer.json`` and safetensors."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from graphattn._json_types import check_json
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._regular_files import NAMES, SETTINGS, UnsuitableFileError, file_sha256, read_text
from graphattn.builders._tensor_files import TensorFile
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models._files.hub import check_has_owner, download
from graphattn.models._text_model import check_finite
from graphattn.models.pretrained._architecture import FAMILIES, Architecture
from graphattn.models.pretrained._directory_settings import (
    ADAPTER,
    ADDED_TOKENS,
    CONFIG,
    DENSE,
    INDEX,
    MODULES,
    OTHER_SENTENCES,
    POOLING,
    SENTENCES,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    check_settings,
    list_tokens,
)
from graphattn.models.pretrained._json_schema import (
    DenseConfig,
    Module,
    PoolingConfig,
    SentenceConfig,
    SentencesConfig,
    SpecialTokensMap,
    TokenizerConfig,
    WeightIndex,
)
from graphattn.models.pretrained._tokenizer_config import (
    SAVE_AGAIN,
    add_tokens,
    check_templates,
    check_tokenizer,
    configure_tokenizer,
)

SIDE_FILES = (TOKENIZER_CONFIG, SPECIAL_TOKENS, POOLING, OTHER_SENTENCES)
"""Files that ``transformers`` and ``sentence-transformers`` read besides, which an export writes again."""
_TYPES: Mapping[str, Any] = {
    INDEX: WeightIndex,
    TOKENIZER_CONFIG: TokenizerConfig,
    SPECIAL_TOKENS: SpecialTokensMap,
    MODULES: list[Module],
    SENTENCES: SentenceConfig,
    POOLING: PoolingConfig,
    DENSE: DenseConfig,
    OTHER_SENTENCES: SentencesConfig,
}
"""File -> type of its values; other files are objects."""
_PICKLES = "pytorch_model*.bin"
_PREFIXES = ("bert.", "roberta.", "distilbert.", "electra.", "mpnet.", "model.", "0.auto_model.")
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
_HUB_FILES, _OTHER_FORMATS = ["*.json", "*.safetensors"], ["onnx/*", "openvino/*"]


def find_directory(name: str | Path) -> Path:
    """The directory of a model: itself, or a download from the Hugging Face hub, which is kept for later."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.is_absolute() or str(name).count("/") != 1:
        check_has_owner(name)
        raise ModelDirectoryError(
            f"{name} is no directory. Give one with {CONFIG}, {TOKENIZER} and {WEIGHTS}, or OWNER/NAME of a model on "
            "the Hugging Face hub"
        )
    return download(str(name), _HUB_FILES, without=_OTHER_FORMATS)


def find_transformer(name: str | Path) -> Path:
    """:func:`find_directory` of a model's Transformer, or the folder in it that ``modules.json`` names."""
    return _transformer_folder(find_directory(name))


def _transformer_folder(folder: Path) -> Path:
    modules = read_modules(folder)
    return find_inside(folder, modules[0]["path"]) if modules else folder


def find_inside(folder: Path, name: str) -> Path:
    """A file or folder of a directory, which need not exist.

    One outside the directory, by its name or as a link, is rejected unless it is in a cache of the Hugging Face hub.
    """
    path = folder / name
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        store = real.parent
        if ".." in Path(name).parts or store.name != "blobs" or not (store.parent / "snapshots").is_dir():
            raise ModelDirectoryError(f"{folder}: {name} is outside the directory, at {real}. Copy the file into it")
    return path


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """The modules of a model of ``sentence-transformers``, each with ``type`` and ``path``; none for other models."""
    if not os.path.exists(folder / MODULES):
        return []
    modules: list[dict[str, Any]] = read_json(folder, MODULES)
    return modules


def is_hugging_face_directory(path: Path) -> bool:
    """Whether a directory has a ``config.json`` of Hugging Face, or an adapter."""
    if not os.path.isdir(path):
        return False
    folder = _transformer_folder(path)
    try:
        return (folder / ADAPTER).exists() or "model_type" in read_json(folder, CONFIG)
    except ModelDirectoryError:
        return False


def digest_directory(folder: Path) -> str:
    """Digest of the files that determine the states of a model and its sentence vectors."""
    digest = hashlib.sha256()
    configs = sorted(path for pattern in ("*.json", "*/*.json") for path in folder.glob(pattern) if path.is_file())
    most = dict.fromkeys(configs, NAMES)
    for path in [*configs, *find_weight_files(_transformer_folder(folder))]:
        with explain_errors(path):
            digest.update(file_sha256(path, most.get(path)).encode())
    return digest.hexdigest()


def find_file(folder: Path, name: str) -> Path:
    """A file inside a directory."""
    path = find_inside(folder, name)
    if not path.exists():
        raise ModelDirectoryError(f"{folder} has no {name}. Download the whole model directory")
    return path


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Name a file that cannot be read, such as a named pipe or a pointer of Git LFS."""
    try:
        yield
    except UnsuitableFileError as error:
        raise ModelDirectoryError(f"{path} cannot be read ({error.strerror})") from None
    except OSError as error:
        raise ModelDirectoryError(f"{path} cannot be read ({error.strerror or error})") from error


def read_json(folder: Path, name: str, like: str | None = None) -> Any:
    """The values in a JSON file of a directory.

    They must have the types of this file, or of the one it is ``like``; other keys are returned, too.
    """
    path = find_file(folder, name)
    try:
        with explain_errors(path):
            values = json.loads(read_text(path, SETTINGS))
        check_json(values, _TYPES.get(like or name, dict[str, Any]), "")
    except (ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{path} is damaged ({error}). Download it again") from None
    return values


def read_config(folder: Path) -> dict[str, Any]:
    """The directory's ``config.json``; an error for one that is not of a whole model of Hugging Face."""
    _reject_adapter(folder)
    config: dict[str, Any] = read_json(folder, CONFIG)
    if {"format_version", "task"} <= config.keys():
        raise ModelDirectoryError(
            f"{folder} is a model of GraphAttn, not of Hugging Face. Read it with `graphattn.load`, or continue its "
            "training with `graphattn train --init-from`"
        )
    return config


def _reject_adapter(folder: Path) -> None:
    if (folder / ADAPTER).exists():
        raise ModelDirectoryError(
            f"{folder} has an {ADAPTER}: merge the adapter into its model with merge_and_unload() of peft, and save "
            "the model and its tokenizer"
        )


def read_architecture(folder: Path) -> Architecture:
    """The architecture in the directory's ``config.json``, with its other settings."""
    config = read_config(folder)
    try:
        architecture = Architecture.of(config)
    except ModelDirectoryError as error:
        raise ModelDirectoryError(f"{folder}: {error}") from None
    with ExitStack() as stack:
        has_pooler = "pooler.dense.weight" in _open_tensors(folder, stack)
    files = read_side_files(folder)
    files[CONFIG] = {name: value for name, value in config.items() if name.endswith("_token_id")}
    return replace(architecture, has_pooler=has_pooler, side_files=files)


def read_side_files(folder: Path) -> dict[str, Any]:
    """Other settings, name -> contents; early models of sentence-transformers have some in the directory above."""
    early = "0_Transformer"
    root = folder.parent if folder.name == early else folder
    files: dict[str, Any] = {
        name: read_json(path, name) for path in (root, folder) for name in SIDE_FILES if (path / name).exists()
    }
    for path in folder.glob("sentence_*_config.json"):  # early: sentence_roberta_config.json
        files[SENTENCES] = read_json(folder, path.name, SENTENCES)
    if modules := read_modules(root):
        files[MODULES] = [{**module, "path": module["path"].replace(early, "")} for module in modules]
    return files


def read_vocabulary(folder: Path, architecture: Architecture) -> PretrainedVocabulary:
    """The tokenizer of a directory."""
    if not (folder / TOKENIZER).exists():
        raise ModelDirectoryError(
            f"{folder} has no {TOKENIZER}. Older models have only its parts; write it with {SAVE_AGAIN}"
        )
    path = find_file(folder, TOKENIZER)
    options = architecture.side_files.get(TOKENIZER_CONFIG, {})
    with explain_errors(path):
        text = read_text(path, NAMES, errors="replace")
    try:
        tokenizer = Tokenizer.from_str(text)
        check_tokenizer(tokenizer, architecture.vocabulary)
        check_settings(TOKENIZER_CONFIG, options, f"its {TOKENIZER_CONFIG}:")
        side = options.get("truncation_side") or (tokenizer.truncation or {}).get("direction")
        for file in (TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS):
            if (folder / file).exists():
                add_tokens(tokenizer, list_tokens(file, read_json(folder, file)), file)
        configure_tokenizer(tokenizer, options, FAMILIES[architecture.family].model.removesuffix("Model"))
        vocabulary = PretrainedVocabulary(tokenizer)
        vocabulary.truncates_left = side == "left"
        words, types, length = architecture.vocabulary, architecture.types, architecture.max_length
        check_templates(vocabulary.special_tokens, words, types, length)
    except ModelDirectoryError as error:
        raise ModelDirectoryError(f"{folder}: {error}") from None
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelDirectoryError(
            f"{path} is damaged, or of another model ({error}). Download the directory again"
        ) from None
    return vocabulary


def check_segments(vocabulary: PretrainedVocabulary, types: int) -> None:
    """Reject pairs in one sequence with more segments than the ``types`` of the model, unless it has none."""
    pair = vocabulary.special_tokens.pair
    count = 1 + max(chain(pair.texts, *pair.segments))
    if 0 < types < count:
        raise ConfigError(
            f"the tokenizer gives the texts of a pair {count} segments, the model has {types}; set "
            "{join_pairs=False}, which encodes the texts apart",
            options=("join_pairs",),
        )


def read_weights(folder: Path, architecture: Architecture, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The weights of a directory as float32, under the names of our parameters, whose ``shapes`` these are."""
    with ExitStack() as stack:
        tensors = _open_tensors(folder, stack)
        weights = {}
        for name, shape in shapes.items():
            parts = [_read_tensor(folder, tensors, source) for source in architecture.checkpoint_names(name)]
            weight = (parts[0] if len(parts) == 1 else torch.cat(parts)).float()
            if weight.shape != shape:
                sources = ", ".join(architecture.checkpoint_names(name))
                raise ModelDirectoryError(
                    f"{folder}: {sources} has shape {tuple(weight.shape)}; {CONFIG} says {tuple(shape)}. "
                    "Download the model again"
                )
            weights[name] = weight
    check_finite(folder, {" ".join(architecture.checkpoint_names(name)): weight for name, weight in weights.items()})
    return weights


def _open_tensors(folder: Path, stack: ExitStack) -> dict[str, tuple[TensorFile, str]]:
    """Name without prefix -> open file, name in the file."""
    tensors: dict[str, tuple[TensorFile, str]] = {}
    for path in find_weight_files(folder):
        try:
            with explain_errors(path):
                file = stack.enter_context(TensorFile(path))
        except ValueError as error:
            raise ModelDirectoryError(f"{path} is damaged ({error}). Download it again") from None
        tensors |= {_normalize_name(name): (file, name) for name in file}
    return tensors


def find_weight_files(folder: Path) -> list[Path]:
    """The files of safetensors of a directory."""
    if (folder / WEIGHTS).exists():
        return [find_file(folder, WEIGHTS)]
    if (folder / INDEX).exists():
        names = read_json(folder, INDEX)["weight_map"].values()
        return [find_file(folder, name) for name in sorted(set(names))]
    _reject_adapter(folder)
    raise ModelDirectoryError(
        f"{folder} has no {WEIGHTS}. If the model has only pickles ({_PICKLES}), which can run any code when they are "
        'read, convert them where you trust them: python -c "from transformers import AutoModel; '
        "AutoModel.from_pretrained('DIR').save_pretrained('DIR')\""
    )


def _normalize_name(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        name = name.removesuffix(old) + new if name.endswith(old) else name
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name[len(prefix) :]


def _read_tensor(folder: Path, tensors: Mapping[str, tuple[TensorFile, str]], name: str) -> Tensor:
    if name not in tensors:
        raise ModelDirectoryError(f"{folder} has no tensor {name}. Download the model again")
    file, stored = tensors[name]
    try:
        return file.read(stored)
    except (ValueError, OSError) as error:
        raise ModelDirectoryError(f"{folder}: {stored} cannot be read ({error}). Download the model again") from None
