"""Types and limits of the JSON files in a directory of ``transformers`` or ``sentence-transformers``.

Fields are keys that GraphAttn reads; the files have others. No size needs more than 16 million, and larger ones would
cost memory before the weights show that they are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from graphattn._json_types import Bounds

MAX_SIZE = 1 << 24
MAX_LAYERS = 1_000
Size = Annotated[int, Bounds(1, MAX_SIZE)]
OptionalSize = Annotated[int, Bounds(0, MAX_SIZE)]
Layers = Annotated[int, Bounds(1, MAX_LAYERS)]
Rate = Annotated[float, Bounds(0, 1)]
Theta = Annotated[float, Bounds(1, 1e12)]
TokenLimit = Annotated[int | None, Bounds(1)]
"""A limit of tokens; ``transformers`` writes 10^30 for none."""


@dataclass
class RopeParameters:
    """Rotary positions of one of ModernBERT's kinds of layers."""

    rope_type: str | None = None
    rope_theta: Annotated[float | None, Bounds(1, 1e12)] = None


@dataclass
class Config:
    """``config.json`` of a Transformer, besides the sizes that each family calls by its own names."""

    pad_token_id: Annotated[int | None, Bounds(0, MAX_SIZE)] = 1
    bos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    mask_token_id: int | None = None
    layer_types: list[str] = field(default_factory=list)
    local_attention: OptionalSize = 128
    global_attn_every_n_layers: Size = 3
    global_rope_theta: Theta = 160000.0
    local_rope_theta: Theta = 10000.0
    rope_parameters: dict[str, Any] = field(default_factory=dict)
    head_dim: int | None = None
    sliding_window: int | None = None


@dataclass
class AddedToken:
    """A token with the rules of its spelling."""

    content: str


Token = str | AddedToken | None


@dataclass
class SpecialTokensMap:
    """``special_tokens_map.json``."""

    pad_token: Token = None
    unk_token: Token = None
    cls_token: Token = None
    sep_token: Token = None
    mask_token: Token = None
    bos_token: Token = None
    eos_token: Token = None


@dataclass
class TokenizerConfig(SpecialTokensMap):
    """``tokenizer_config.json``."""

    tokenizer_class: str | None = None
    model_max_length: TokenLimit = None
    model_input_names: list[str] | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    add_prefix_space: bool | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    max_len: TokenLimit = None
    additional_special_tokens: list[str | AddedToken] | None = None
    extra_special_tokens: list[str | AddedToken] | dict[str, str | AddedToken] | None = None
    added_tokens_decoder: dict[str, AddedToken] | None = None


@dataclass
class WeightIndex:
    """``model.safetensors.index.json``."""

    weight_map: dict[str, str]


@dataclass
class Module:
    """A module of ``modules.json``."""

    type: str
    path: str


@dataclass
class PoolingConfig:
    """``config.json`` of a pooling module; earlier versions have a switch for each kind instead."""

    pooling_mode: str | list[str] | None = None
    include_prompt: bool | None = None


@dataclass
class DenseConfig:
    """``config.json`` of a dense module."""

    in_features: Size
    out_features: Size
    bias: bool | None = None
    activation_function: str | None = None
    use_residual: bool | None = None


@dataclass
class SentenceConfig:
    """``sentence_bert_config.json``."""

    max_seq_length: TokenLimit = None


@dataclass
class SentencesConfig:
    """``config_sentence_transformers.json``."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    truncate_dim: Annotated[int | None, Bounds(1)] = None
