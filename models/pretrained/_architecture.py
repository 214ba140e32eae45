"""The Transformer encoder of a Hugging Face ``config.json``, and the names of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_type_hints

from graphattn._json_types import check_json, read_record
from graphattn._schema import ALL
from graphattn.exceptions import ModelDirectoryError
from graphattn.models.pretrained._directory_settings import CONFIG, check_settings
from graphattn.models.pretrained._json_schema import Config, Layers, OptionalSize, Rate, RopeParameters, Size, Theta

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Hugging Face's name of an activation -> ours."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """Shapes and switches of a pretrained encoder.

    Parameters
    ----------
    family : Hugging Face's ``model_type``
    vocabulary : number of word vectors
    embedding : width of word vectors; ELECTRA maps them to ``hidden``
    hidden, layers, heads, ffn : width, depth, heads per layer, width of the feed-forward layer
    activation : ``gelu``, ``gelu_tanh``, ``relu`` or ``silu``
    norm_eps : added to variances
    positions : number of learned position vectors; 0 with rotary positions
    position_offset : position vector of the first token (RoBERTa: 2)
    max_length : tokens of the longest text in pretraining
    types : number of segment vectors; 0 for none
    buckets : number of relative-position buckets (MPNet); 0 for none
    dropout : of the feed-forward layer's output, in pretraining
    attn_drop : of attention weights
    attention_output_dropout, embedding_dropout : of these layers' outputs
    is_modern : pre-norm layers, gated feed-forward layers and rotary positions (ModernBERT)
    attention_bias, ffn_bias, norm_bias : whether these layers have biases
    relations : relation of the heads of each layer
    thetas : base of the rotary frequencies in each layer; empty without rotary positions
    has_pooler : whether its directory has BERT's pooler, which only ``transformers`` uses
    side_files : settings of the tokenizer and of sentence vectors in its directory: name -> contents
    """

    family: str
    vocabulary: Size
    embedding: Size
    hidden: Size
    layers: Layers
    heads: Size
    ffn: Size
    activation: str
    norm_eps: Rate
    positions: OptionalSize
    position_offset: OptionalSize
    max_length: Size
    types: OptionalSize
    buckets: OptionalSize
    dropout: Rate
    attn_drop: Rate
    attention_output_dropout: Rate
    embedding_dropout: Rate
    is_modern: bool
    attention_bias: bool
    ffn_bias: bool
    norm_bias: bool
    relations: tuple[str, ...]
    thetas: tuple[Theta, ...]
    has_pooler: bool = field(default=False, compare=False)
    side_files: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Architecture:
        """The architecture that a ``config.json`` describes.

        Raises
        ------
        ModelDirectoryError
            for an unknown family, or a setting that is not supported or missing
        """
        family = config.get("model_type")
        if not isinstance(family, str) or family not in FAMILIES:
            raise ModelDirectoryError(
                f"its model_type is {family!r}; GraphAttn reads {', '.join(FAMILIES)}. Choose such a model"
            )
        try:
            architecture = cls(family=family, **FAMILIES[family].read(config))
            architecture._check_sizes()
        except ValueError as error:
            raise ModelDirectoryError(f"its config.json is damaged ({error}). Download it again") from None
        return architecture

    def _check_sizes(self) -> None:
        """Raise ValueError for sizes that contradict each other."""
        keys = FAMILIES[self.family].keys
        divisor = 2 * self.heads if self.is_modern else self.heads  # rotary positions turn pairs of numbers
        if self.hidden % divisor:
            twice = "twice " if self.is_modern else ""
            raise ValueError(f"{keys['hidden']} is {self.hidden}, no multiple of {twice}{keys['heads']}, {self.heads}")
        if self.max_length < 1:
            raise ValueError(f"{keys['positions']} is {self.positions}, and tokens begin at {self.position_offset}")
        if len(self.relations) != self.layers:
            raise ValueError(f"there are {len(self.relations)} layer_types for {self.layers} {keys['layers']}")

    def to_config(self) -> dict[str, Any]:
        """The ``config.json`` of Hugging Face that :meth:`of` reads."""
        return {"model_type": self.family, "dtype": "float32", **FAMILIES[self.family].write(self)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Architecture:
        """The architecture with these values."""
        arguments: Fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**arguments)

    def checkpoint_names(self, name: str) -> tuple[str, ...]:
        """The tensors of a checkpoint that, concatenated, are a parameter of :class:`PretrainedEncoder`."""
        path, _, tensor_name = name.replace("embedding.trained", "embedding.weight").rpartition(".")
        family = FAMILIES[self.family]
        if path.startswith("layers."):
            _, number, module_name = path.split(".", 2)
            return tuple(f"{family.layers}.{number}.{module}.{tensor_name}" for module in family.names[module_name])
        return tuple(f"{module}.{tensor_name}" for module in family.names[path])


_Names = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Family:
    """Description and checkpoint format of the models of one family.

    ``keys`` map our fields to keys in ``config.json``, ``defaults`` to values if it lacks the key, and ``derive`` adds
    the remaining fields. ``layers`` is the prefix of the layers' tensors; ``names`` map our modules to those of a
    checkpoint, whose tensors are concatenated. ``model`` is the class in ``transformers``.
    """

    model: str
    keys: Mapping[str, str]
    defaults: Mapping[str, Any]
    derive: Callable[[Config, Fields], Fields]
    layers: str
    names: _Names

    def read(self, config: Mapping[str, Any]) -> Fields:
        """The fields of an :class:`Architecture` in a ``config.json``."""
        check_settings(CONFIG, config, "its")
        config = self._use_aliases(config)
        present = {ours: config[theirs] for ours, theirs in self.keys.items() if config.get(theirs) is not None}
        types = get_type_hints(Architecture, include_extras=True)
        for name, value in present.items():
            check_json(value, types[name], self.keys[name])
        values = {"embedding": present.get("hidden"), **self.defaults, **present}
        missing = next((theirs for ours, theirs in self.keys.items() if ours not in values), None)
        if missing is not None:
            raise ModelDirectoryError(f"its config.json has no {missing!r}. Download the model again")
        if values["activation"] not in ACTIVATIONS:
            raise ModelDirectoryError(
                f"its activation is {values['activation']!r}; GraphAttn has {', '.join(ACTIVATIONS)}"
            )
        values["activation"] = ACTIVATIONS[values["activation"]]
        settings = {key: value for key, value in config.items() if value is not None or key == "pad_token_id"}
        return self.derive(read_record(settings, Config), values)

    def _use_aliases(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """A config whose sizes have the family's own names; DistilBERT's have others, too."""
        aliases = {alias: self.keys[name] for name, alias in _SIZES.items() if self.keys[name] != alias}
        for alias, key in aliases.items():
            if alias in config and config.get(key, config[alias]) != config[alias]:
                raise ModelDirectoryError(f"its {CONFIG} has two values of {key}, which it also calls {alias}")
        return {**{aliases.get(name, name): value for name, value in config.items()}}

    def write(self, architecture: Architecture) -> Fields:
        """The inverse of :meth:`read`."""
        values = asdict(architecture)
        values["activation"] = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == architecture.activation)
        config = {theirs: values[ours] for ours, theirs in self.keys.items()}
        if architecture.position_offset:
            config["pad_token_id"] = architecture.position_offset - 1
        return {
            "architectures": [self.model],
            **config,
            **(_write_layers(architecture) if architecture.is_modern else {}),
        }


def _derive_bert(config: Config, values: Fields) -> Fields:
    derived = {
        "max_length": values["positions"] - values["position_offset"],
        "attention_output_dropout": values["dropout"],
        "embedding_dropout": values["dropout"],
        "relations": (ALL,) * values["layers"],
    }
    return {**derived, **values}


def _derive_roberta(config: Config, values: Fields) -> Fields:
    if config.pad_token_id is None:
        raise ModelDirectoryError("its config.json has no 'pad_token_id'. Download the model again")
    offset = config.pad_token_id + 1  # fairseq: after that of the padding
    return _derive_bert(config, {**values, "position_offset": offset})


def _derive_modernbert(config: Config, values: Fields) -> Fields:
    size = values["hidden"] // values["heads"]
    if config.head_dim not in (None, size) or config.sliding_window not in (None, config.local_attention // 2):
        raise ModelDirectoryError(
            f"its head_dim or sliding_window is not hidden_size / num_attention_heads, {size}, or local_attention / 2, "
            f"{config.local_attention // 2}"
        )
    if config.rope_parameters and not config.rope_parameters.keys() & {"full_attention", "sliding_attention"}:
        raise ModelDirectoryError("its rope_parameters are not those of full_attention and sliding_attention")
    every = config.global_attn_every_n_layers
    layer_types = config.layer_types or [
        "sliding_attention" if number % every else "full_attention" for number in range(values["layers"])
    ]
    unknown = next(
        (layer_type for layer_type in layer_types if layer_type not in ("full_attention", "sliding_attention")), None
    )
    if unknown is not None:
        raise ModelDirectoryError(f"one of its layer_types is {unknown!r}, which GraphAttn cannot compute")
    theta = {
        "full_attention": _read_theta(config, "full_attention", config.global_rope_theta),
        "sliding_attention": _read_theta(config, "sliding_attention", config.local_rope_theta),
    }
    reach = config.local_attention // 2
    relation = {"full_attention": ALL, "sliding_attention": f"window:{2 * reach + 1}"}
    return {
        **values,
        "attention_output_dropout": values["attn_drop"],
        "relations": tuple(relation[layer_type] for layer_type in layer_types),
        "thetas": tuple(theta[layer_type] for layer_type in layer_types),
    }


def _read_theta(config: Config, layer_type: str, default: float) -> float:
    values = config.rope_parameters.get(layer_type) or {}
    check_json(values, RopeParameters, f"rope_parameters.{layer_type}")
    if values.get("rope_type") not in (None, "default"):
        raise ModelDirectoryError(f"its rotary positions are {values['rope_type']!r}; GraphAttn reads the default ones")
    return float(values.get("rope_theta") or default)


def _write_layers(architecture: Architecture) -> Fields:
    """Fields of ``config.json`` for the windows and rotary positions of ModernBERT's layers."""
    a = architecture
    layer_types = ["full_attention" if relation == ALL else "sliding_attention" for relation in a.relations]
    widths = [int(relation.partition(":")[2]) for relation in a.relations if relation != ALL]
    thetas = dict(zip(layer_types, a.thetas, strict=True))
    return {
        "layer_types": layer_types,
        "local_attention": widths[0] - 1 if widths else 128,
        "rope_parameters": {
            layer_type: {"rope_type": "default", "rope_theta": theta} for layer_type, theta in thetas.items()
        },
    }


_SIZES = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
}
_BERT_KEYS = {
    **_SIZES,
    "activation": "hidden_act",
    "norm_eps": "layer_norm_eps",
    "positions": "max_position_embeddings",
    "types": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attn_drop": "attention_probs_dropout_prob",
}
_MPNET_KEYS = {name: key for name, key in _BERT_KEYS.items() if name != "types"}
_MPNET_KEYS["buckets"] = "relative_attention_num_buckets"
_DISTILBERT_KEYS = {
    "vocabulary": "vocab_size",
    "hidden": "dim",
    "layers": "n_layers",
    "heads": "n_heads",
    "ffn": "hidden_dim",
    "activation": "activation",
    "positions": "max_position_embeddings",
    "dropout": "dropout",
    "attn_drop": "attention_dropout",
}
_MODERNBERT_KEYS = {
    **_SIZES,
    "activation": "hidden_activation",
    "norm_eps": "norm_eps",
    "max_length": "max_position_embeddings",
    "dropout": "mlp_dropout",
    "attn_drop": "attention_dropout",
    "embedding_dropout": "embedding_dropout",
    "attention_bias": "attention_bias",
    "ffn_bias": "mlp_bias",
    "norm_bias": "norm_bias",
}
_BERT_DEFAULTS = {
    "activation": "gelu",
    "norm_eps": 1e-12,
    "position_offset": 0,
    "types": 2,
    "buckets": 0,
    **dict.fromkeys(("dropout", "attn_drop"), 0.1),
    "is_modern": False,
    **dict.fromkeys(("attention_bias", "ffn_bias", "norm_bias"), True),
    "thetas": (),
}
_MODERNBERT_DEFAULTS = {
    **_BERT_DEFAULTS,
    "norm_eps": 1e-5,
    "positions": 0,
    "types": 0,
    **dict.fromkeys(("dropout", "attn_drop", "embedding_dropout"), 0.0),
    "is_modern": True,
    **dict.fromkeys(("attention_bias", "ffn_bias", "norm_bias"), False),
}

_EMBEDDINGS: _Names = {
    "embedding": ("embeddings.word_embeddings",),
    "position_vectors": ("embeddings.position_embeddings",),
    "type_vectors": ("embeddings.token_type_embeddings",),
    "norm": ("embeddings.LayerNorm",),
    "widen": ("embeddings_project",),
    "distance_bias": ("encoder.relative_attention_bias",),
    "pooler": ("pooler.dense",),
}
_BERT_NAMES: _Names = {
    **_EMBEDDINGS,
    "attention.project": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "ffn.widen": ("intermediate.dense",),
    "ffn.narrow": ("output.dense",),
    "ffn_norm": ("output.LayerNorm",),
}
_MPNET_NAMES: _Names = {
    **_BERT_NAMES,
    "attention.project": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    "attention.output": ("attention.attn.o",),
    "attention_norm": ("attention.LayerNorm",),
}
_DISTILBERT_NAMES: _Names = {
    **_EMBEDDINGS,
    "attention.project": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "attention.output": ("attention.out_lin",),
    "attention_norm": ("sa_layer_norm",),
    "ffn.widen": ("ffn.lin1",),
    "ffn.narrow": ("ffn.lin2",),
    "ffn_norm": ("output_layer_norm",),
}
_MODERNBERT_NAMES: _Names = {
    "embedding": ("embeddings.tok_embeddings",),
    "norm": ("embeddings.norm",),
    "last_norm": ("final_norm",),
    "attention.project": ("attn.Wqkv",),
    "attention.output": ("attn.Wo",),
    "attention_norm": ("attn_norm",),
    "ffn.widen": ("mlp.Wi",),
    "ffn.narrow": ("mlp.Wo",),
    "ffn_norm": ("mlp_norm",),
}
_BERT = Family("BertModel", _BERT_KEYS, _BERT_DEFAULTS, _derive_bert, "encoder.layer", _BERT_NAMES)
_ROBERTA = replace(_BERT, model="RobertaModel", derive=_derive_roberta)
FAMILIES = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": replace(_ROBERTA, model="XLMRobertaModel"),
    "camembert": replace(_ROBERTA, model="CamembertModel"),
    "distilbert": Family(
        "DistilBertModel",
        _DISTILBERT_KEYS,
        {**_BERT_DEFAULTS, "types": 0, "attention_output_dropout": 0.0},
        _derive_bert,
        "transformer.layer",
        _DISTILBERT_NAMES,
    ),
    "electra": replace(_BERT, model="ElectraModel", keys={**_BERT_KEYS, "embedding": "embedding_size"}),
    "mpnet": Family(
        "MPNetModel",
        _MPNET_KEYS,
        {**_BERT_DEFAULTS, "types": 0, "buckets": 32, "position_offset": 2},
        _derive_bert,
        "encoder.layer",
        _MPNET_NAMES,
    ),
    "modernbert": Family(
        "ModernBertModel", _MODERNBERT_KEYS, _MODERNBERT_DEFAULTS, _derive_modernbert, "layers", _MODERNBERT_NAMES
    ),
}
"""Hugging Face's ``model_type`` -> how its models are described and stored."""
