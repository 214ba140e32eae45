"""Write Hugging Face directories, for ``transformers`` and ``sentence-transformers``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from torch import Tensor, nn

from graphattn.builders._atomic import atomic_folder, is_vacant, write_text
from graphattn.builders._paths import FilePath, resolve_path, write_error
from graphattn.exceptions import ConfigError
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._directory_settings import (
    CONFIG,
    MODULES,
    OTHER_SENTENCES,
    POOLING,
    SENTENCES,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
)
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": (),
    "eos_token": (),
}
"""Special tokens -> how they are written where no file says so."""
_OUTSIDE = ("auto_map", "name_or_path", "tokenizer_file", "special_tokens_map_file")
"""Settings that name code and files elsewhere."""
_SENTENCE_MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
"""Module of ``sentence-transformers`` -> its folder."""


@dataclass(frozen=True)
class NativeHead:
    """A head that ``transformers`` has.

    ``task`` is its name, such as ``TokenClassification``; ``prefix`` that of the encoder's tensors beside those of the
    head; ``config`` what ``config.json`` says about it; ``note`` is for the README.
    """

    task: str
    prefix: str
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    note: str


class HeadPlace(NamedTuple):
    """Where ``transformers`` keeps a linear head: its one layer, or two with an activation between them."""

    prefix: str
    """Of the encoder's tensors beside those of the head."""
    layers: tuple[str, ...]
    scale: float
    """Factor of scores between two layers."""
    model: str
    """The class."""


LINEAR_TANH, EXACT = 2.0**-13, 1.0
"""Factors of scores between two layers: tanh is linear to seven digits for small ones; ReLU and GELU allow any."""


def split_layer(output: nn.Linear, scale: float) -> list[tuple[Tensor, Tensor]]:
    """A linear layer as two, with an activation a between them.

    With a factor s, a(s x) - a(-s x) is s x for ReLU and GELU, and for tanh 2 s x, up to a share of (s x)^2 / 3.
    """
    classes, width = output.weight.shape
    slope = 1 if scale == EXACT else 2
    layer = scale * torch.cat([output.weight, output.bias.unsqueeze(1)], 1).detach().float().cpu()
    inner = torch.cat([layer, -layer, torch.zeros(width - 2 * classes, width + 1)])
    unit = torch.eye(classes) / (slope * scale)
    outer = torch.cat([unit, -unit, torch.zeros(classes, width - 2 * classes)], 1)
    return [(inner[:, :-1].contiguous(), inner[:, -1].contiguous()), (outer, torch.zeros(classes))]


def write_directory(
    folder: FilePath,
    architecture: Architecture,
    weights: Mapping[str, Tensor],
    tokenizer: str,
    *,
    max_length: int,
    head: NativeHead | None = None,
    missing: Sequence[str] = (),
) -> None:
    """Write a directory that ``transformers`` loads; the inverse of :func:`~checkpoint.read_weights`.

    ``weights`` have our names; ``tokenizer`` is the text of ``tokenizer.json``. ``head`` is a head that
    ``transformers`` has, ``missing`` what is left out of the model, for the README.
    """
    tensors = {} if head is None else dict(head.tensors)
    for name, weight in weights.items():
        sources = architecture.checkpoint_names(name)
        for source, rows in zip(sources, weight.detach().cpu().chunk(len(sources)), strict=True):
            tensors.setdefault(source if head is None else f"{head.prefix}.{source}", rows.clone())
    positions = architecture.position_offset + max_length if architecture.positions else 0
    config = replace(architecture, positions=positions, max_length=max_length).to_config()

    def write_model(target: Path, ids: Mapping[str, int | None]) -> dict[str, Any]:
        # save_file lets only the owner read it
        (target / WEIGHTS).write_bytes(save(tensors, metadata={"format": "pt"}))
        return {**ids, **config, **({} if head is None else head.config)}

    write_files(
        folder,
        architecture,
        tokenizer,
        write_model,
        max_length=max_length,
        has_pooler=architecture.has_pooler,
        head=head,
        missing=missing,
    )


def write_files(
    folder: FilePath,
    architecture: AnyArchitecture,
    tokenizer: str,
    write_model: Callable[[Path, Mapping[str, int | None]], dict[str, Any]],
    *,
    max_length: int,
    has_pooler: bool,
    head: NativeHead | None,
    missing: Sequence[str],
) -> None:
    """Write a directory; other arguments as above.

    ``write_model`` writes the weights into a folder; it gets the ids of special tokens, and returns ``config.json``.
    """
    settings, ids = _tokenizer_settings(architecture, Tokenizer.from_str(tokenizer), max_length)
    files = {**_sentence_files(architecture, max_length), TOKENIZER_CONFIG: settings}
    readme = _describe(head, missing, has_pooler=has_pooler, sentences=MODULES in files)
    try:
        target = resolve_path(folder)
        if target.exists() and not (target.is_dir() and is_vacant(target)):
            raise ConfigError(f"{folder} exists; choose another directory")
        with atomic_folder(target) as temporary:
            files[CONFIG] = write_model(temporary, ids)
            if missing:  # without classes, pipelines raise an error instead of answering from random weights
                files[CONFIG] |= {"id2label": {}, "label2id": {}}
            write_text(temporary / TOKENIZER, tokenizer)
            write_text(temporary / "README.md", readme)
            for name, values in files.items():
                (temporary / name).parent.mkdir(exist_ok=True)
                write_text(temporary / name, json.dumps(values, indent=1))
    except OSError as error:
        raise write_error(folder, error) from error


def _tokenizer_settings(
    architecture: AnyArchitecture, tokenizer: Tokenizer, max_length: int
) -> tuple[dict[str, Any], dict[str, int | None]]:
    """``tokenizer_config.json``, and the ids of special tokens for ``config.json``."""
    files = architecture.side_files
    tokens = _find_special_tokens(files, tokenizer)
    known = {name: token for name, token in tokens.items() if token is not None}
    has_types = architecture.types > 1 and any(tokenizer.encode("a", "a").type_ids)
    inputs = ["input_ids", *(["token_type_ids"] if has_types else []), "attention_mask"]
    settings = {"model_input_names": inputs, **files.get(TOKENIZER_CONFIG, {}), **known}
    settings["model_max_length"] = _limit(settings.get("model_max_length"), architecture, max_length)
    if not str(settings.get("tokenizer_class")).startswith("Roberta"):  # users set its add_prefix_space
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # others replace parts of tokenizer.json
    settings = {name: value for name, value in settings.items() if name not in _OUTSIDE}
    ids = {f"{name}_id": tokenizer.token_to_id(known[name]) if name in known else None for name in tokens}
    return settings, {**ids, **files.get(CONFIG, {})}


def _find_special_tokens(files: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, str | None]:
    """Name -> special token: what the directory's files say, or the first of our spellings that the tokenizer knows."""
    tokens = {
        name: next((token for token in spellings if tokenizer.token_to_id(token) is not None), None)
        for name, spellings in _SPELLINGS.items()
    }
    for name, value in {**files.get(SPECIAL_TOKENS, {}), **files.get(TOKENIZER_CONFIG, {})}.items():
        if name in tokens:
            tokens[name] = value["content"] if isinstance(value, dict) else value
    return tokens


def _limit(limit: int | None, architecture: AnyArchitecture, max_length: int) -> int:
    """A maximum length, unless the model now reads longer texts than in pretraining."""
    return max_length if limit is None or max_length > architecture.max_length else min(limit, max_length)


def _sentence_files(architecture: AnyArchitecture, max_length: int) -> dict[str, Any]:
    """Files of ``sentence-transformers``; none for a model with other modules."""
    files = {
        name: value
        for name, value in architecture.side_files.items()
        if name in (MODULES, POOLING, SENTENCES, OTHER_SENTENCES)
    }
    paths = {str(module.get("type")).rpartition(".")[2]: module.get("path") for module in files.get(MODULES, [])}
    if not paths or not paths.items() <= _SENTENCE_MODULES.items():
        return {}
    options = files.get(SENTENCES, {})
    if "max_seq_length" in options:
        files[SENTENCES] = {**options, "max_seq_length": _limit(options["max_seq_length"], architecture, max_length)}
    return files


def _describe(head: NativeHead | None, missing: Sequence[str], *, has_pooler: bool, sentences: bool) -> str:
    """The README of the directory: what it contains, and what it lacks."""
    if head is not None:
        answers = f"Head (`AutoModelFor{head.task}` and its pipeline): the probabilities of GraphAttn. {head.note}"
    elif missing:
        answers = (
            f"No head. Left out of the model: {', '.join(missing)}. Predict with GraphAttn; pipelines "
            "raise an error. `num_labels` adds a head with random weights, for training."
        )
    else:
        answers = "No head: `AutoModelForSequenceClassification` and others add one with random weights, for training."
    pooler = "that of the source model, not trained further" if has_pooler else "random, if there is one"
    if head is not None and any("pooler" in name for name in head.tensors):
        pooler = "a layer of the head"
    pooling = "as in the source model" if sentences else "the mean of the states"
    return f"""# A model from GraphAttn

- Tokenizer and encoder (`AutoTokenizer`, `AutoModel`): the ids and states of GraphAttn, for texts as they are
  (`strip_html` and `max_tokens_per_text` are not here).
- {answers}
- Pooler (`pooler_output`): {pooler}.
- Sentence vectors (`SentenceTransformer`): {pooling}.
"""
