"""What a Hugging Face ``config.json`` says about a Transformer encoder, and how its tensors are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from graphattn.exceptions import ModelDirectoryError
from graphattn.schema import ALL

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Hugging Face's name of an activation -> ours."""


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
    dropout, attn_drop, attention_output_dropout, embedding_dropout : as in pretraining; the first is that of the
        feed-forward layer, the second that of weights
    is_modern : pre-norm layers, gated feed-forward layers and rotary positions (ModernBERT)
    attention_bias, ffn_bias, norm_bias : whether these layers have biases
    relations : relation of the heads of each layer
    thetas : base of the rotary frequencies in each layer; empty without rotary positions
    """

    family: str
    vocabulary: int
    embedding: int
    hidden: int
    layers: int
    heads: int
    ffn: int
    activation: str
    norm_eps: float
    positions: int
    position_offset: int
    max_length: int
    types: int
    buckets: int
    dropout: float
    attn_drop: float
    attention_output_dropout: float
    embedding_dropout: float
    is_modern: bool
    attention_bias: bool
    ffn_bias: bool
    norm_bias: bool
    relations: tuple[str, ...]
    thetas: tuple[float, ...]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Architecture:
        """The architecture that a ``config.json`` describes.

        Raises
        ------
        ModelDirectoryError
            for an unknown family, or a setting that is not supported or missing
        """
        family = config.get("model_type")
        if family not in FAMILIES:
            raise ModelDirectoryError(
                f"its model_type is {family!r}; GraphAttn reads {', '.join(FAMILIES)}. Choose such a model"
            )
        try:
            values = FAMILIES[family](config)
        except KeyError as error:
            raise ModelDirectoryError(f"its config.json has no {error}. Download the model again") from None
        return cls(**{"family": family, **_DEFAULTS, **values})

    def to_config(self) -> dict[str, Any]:
        """The ``config.json`` of Hugging Face that :meth:`of` reads."""
        values = _WRITERS.get(self.family, _write_bert)(self)
        return {"model_type": self.family, "architectures": [_CLASSES[self.family]], "dtype": "float32", **values}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Architecture:
        """The architecture with these values."""
        known = {item.name for item in fields(cls)}
        values = {**dict.fromkeys(("attention_output_dropout", "embedding_dropout"), values["dropout"]), **values}
        chosen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**chosen)

    def checkpoint_names(self, name: str) -> tuple[str, ...]:
        """The tensors of a checkpoint that, concatenated, are a parameter of :class:`PretrainedEncoder`."""
        path, _, kind = name.replace("embedding.trained", "embedding.weight").rpartition(".")
        prefix, table = _NAMES[self.family]
        if path.startswith("layers."):
            _, number, part = path.split(".", 2)
            return tuple(f"{prefix}{number}.{module}.{kind}" for module in table[part])
        return tuple(f"{module}.{kind}" for module in table[path])


_DEFAULTS: dict[str, Any] = {
    "position_offset": 0,
    "types": 0,
    "buckets": 0,
    "is_modern": False,
    "attention_bias": True,
    "ffn_bias": True,
    "norm_bias": True,
    "thetas": (),
}


def _find_activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ModelDirectoryError(f"its activation is {name!r}; GraphAttn has {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _read_bert(config: Mapping[str, Any]) -> dict[str, Any]:
    kind = config.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        raise ModelDirectoryError(f"its positions are {kind!r}; GraphAttn reads absolute ones")
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    return {
        "vocabulary": config["vocab_size"],
        "embedding": config.get("embedding_size", hidden),
        "hidden": hidden,
        "layers": layers,
        "heads": config["num_attention_heads"],
        "ffn": config["intermediate_size"],
        "activation": _find_activation(config.get("hidden_act", "gelu")),
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "positions": config["max_position_embeddings"],
        "max_length": config["max_position_embeddings"],
        "types": config.get("type_vocab_size", 2),
        **dict.fromkeys(
            ("dropout", "attention_output_dropout", "embedding_dropout"), config.get("hidden_dropout_prob", 0.1)
        ),
        "attn_drop": config.get("attention_probs_dropout_prob", 0.1),
        "relations": (ALL,) * layers,
    }


def _read_roberta(config: Mapping[str, Any]) -> dict[str, Any]:
    offset = config.get("pad_token_id", 1) + 1  # fairseq's positions begin after that of the padding
    values = _read_bert(config)
    return {**values, "position_offset": offset, "max_length": values["positions"] - offset}


def _read_mpnet(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**_read_roberta(config), "types": 0, "buckets": config.get("relative_attention_num_buckets", 32)}


def _read_distilbert(config: Mapping[str, Any]) -> dict[str, Any]:
    layers = config["n_layers"]
    return {
        "vocabulary": config["vocab_size"],
        "embedding": config["dim"],
        "hidden": config["dim"],
        "layers": layers,
        "heads": config["n_heads"],
        "ffn": config["hidden_dim"],
        "activation": _find_activation(config.get("activation", "gelu")),
        "norm_eps": 1e-12,
        "positions": config["max_position_embeddings"],
        "max_length": config["max_position_embeddings"],
        **dict.fromkeys(("dropout", "embedding_dropout"), config.get("dropout", 0.1)),
        "attn_drop": config.get("attention_dropout", 0.1),
        "attention_output_dropout": 0.0,
        "relations": (ALL,) * layers,
    }


def _read_modernbert(config: Mapping[str, Any]) -> dict[str, Any]:
    layers, every = config["num_hidden_layers"], config.get("global_attn_every_n_layers", 3)
    kinds = config.get("layer_types") or [
        "sliding_attention" if number % every else "full_attention" for number in range(layers)
    ]
    rotary = config.get("rope_parameters") or {}
    theta = {
        "full_attention": _read_theta(rotary, "full_attention", config.get("global_rope_theta", 160000.0)),
        "sliding_attention": _read_theta(rotary, "sliding_attention", config.get("local_rope_theta", 10000.0)),
    }
    reach = config.get("local_attention", 128) // 2
    relation = {"full_attention": ALL, "sliding_attention": f"window:{2 * reach + 1}"}
    return {
        "vocabulary": config["vocab_size"],
        "embedding": config["hidden_size"],
        "hidden": config["hidden_size"],
        "layers": layers,
        "heads": config["num_attention_heads"],
        "ffn": config["intermediate_size"],
        "activation": _find_activation(config.get("hidden_activation", "gelu")),
        "norm_eps": config.get("norm_eps", 1e-5),
        "positions": 0,
        "max_length": config["max_position_embeddings"],
        "dropout": config.get("mlp_dropout", 0.0),
        **dict.fromkeys(("attn_drop", "attention_output_dropout"), config.get("attention_dropout", 0.0)),
        "embedding_dropout": config.get("embedding_dropout", 0.0),
        "is_modern": True,
        "attention_bias": config.get("attention_bias", False),
        "ffn_bias": config.get("mlp_bias", False),
        "norm_bias": config.get("norm_bias", False),
        "relations": tuple(relation[kind] for kind in kinds),
        "thetas": tuple(theta[kind] for kind in kinds),
    }


def _read_theta(rotary: Mapping[str, Any], kind: str, default: float) -> float:
    values = rotary.get(kind) or {}
    if values.get("rope_type", "default") != "default":
        raise ModelDirectoryError(f"its rotary positions are {values['rope_type']!r}; GraphAttn reads the default ones")
    return float(values.get("rope_theta", default))


def _write_bert(architecture: Architecture) -> dict[str, Any]:
    a = architecture
    return {
        "vocab_size": a.vocabulary,
        "embedding_size": a.embedding,
        "hidden_size": a.hidden,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.heads,
        "intermediate_size": a.ffn,
        "hidden_act": _name_activation(a.activation),
        "layer_norm_eps": a.norm_eps,
        "max_position_embeddings": a.positions,
        "type_vocab_size": a.types,
        "hidden_dropout_prob": a.dropout,
        "attention_probs_dropout_prob": a.attn_drop,
        **({"relative_attention_num_buckets": a.buckets} if a.buckets else {}),
        **({"pad_token_id": a.position_offset - 1} if a.position_offset else {}),
    }


def _write_distilbert(architecture: Architecture) -> dict[str, Any]:
    a = architecture
    return {
        "vocab_size": a.vocabulary,
        "dim": a.hidden,
        "n_layers": a.layers,
        "n_heads": a.heads,
        "hidden_dim": a.ffn,
        "activation": _name_activation(a.activation),
        "max_position_embeddings": a.positions,
        "dropout": a.dropout,
        "attention_dropout": a.attn_drop,
    }


def _write_modernbert(architecture: Architecture) -> dict[str, Any]:
    a = architecture
    kinds = ["full_attention" if relation == ALL else "sliding_attention" for relation in a.relations]
    widths = [int(relation.partition(":")[2]) for relation in a.relations if relation != ALL]
    thetas = dict(zip(kinds, a.thetas, strict=True))
    return {
        "vocab_size": a.vocabulary,
        "hidden_size": a.hidden,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.heads,
        "intermediate_size": a.ffn,
        "hidden_activation": _name_activation(a.activation),
        "norm_eps": a.norm_eps,
        "max_position_embeddings": a.max_length,
        "pad_token_id": None,
        "mlp_dropout": a.dropout,
        "embedding_dropout": a.embedding_dropout,
        "attention_dropout": a.attn_drop,
        "attention_bias": a.attention_bias,
        "mlp_bias": a.ffn_bias,
        "norm_bias": a.norm_bias,
        "layer_types": kinds,
        "local_attention": widths[0] - 1 if widths else 128,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()},
    }


def _name_activation(name: str) -> str:
    """Hugging Face's name of one of our activations."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == name)


_WRITERS = {"distilbert": _write_distilbert, "modernbert": _write_modernbert}
"""Functions that write a ``config.json``, where it is not like BERT's."""
_CLASSES = {
    "bert": "BertModel",
    "roberta": "RobertaModel",
    "xlm-roberta": "XLMRobertaModel",
    "camembert": "CamembertModel",
    "distilbert": "DistilBertModel",
    "electra": "ElectraModel",
    "mpnet": "MPNetModel",
    "modernbert": "ModernBertModel",
}

FAMILIES: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "bert": _read_bert,
    "roberta": _read_roberta,
    "xlm-roberta": _read_roberta,
    "camembert": _read_roberta,
    "distilbert": _read_distilbert,
    "electra": _read_bert,
    "mpnet": _read_mpnet,
    "modernbert": _read_modernbert,
}
"""Hugging Face's ``model_type`` -> function that reads its ``config.json``."""

_Names = dict[str, tuple[str, ...]]

_EMBEDDINGS: _Names = {
    "embedding": ("embeddings.word_embeddings",),
    "position_vectors": ("embeddings.position_embeddings",),
    "type_vectors": ("embeddings.token_type_embeddings",),
    "norm": ("embeddings.LayerNorm",),
    "widen": ("embeddings_project",),
    "distance_bias": ("encoder.relative_attention_bias",),
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
_NAMES: dict[str, tuple[str, _Names]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), ("encoder.layer.", _BERT_NAMES)),
    "mpnet": ("encoder.layer.", _MPNET_NAMES),
    "distilbert": ("transformer.layer.", _DISTILBERT_NAMES),
    "modernbert": ("layers.", _MODERNBERT_NAMES),
}
"""Family -> prefix of its layers, and our module -> modules of the checkpoint."""
