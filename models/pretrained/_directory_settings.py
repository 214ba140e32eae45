"""Every setting of a pretrained directory that ``transformers`` or ``sentence-transformers`` reads, and what we do.

Policy for keys that are not here: ``sentence-transformers`` rejects unknown keys of its modules, and so do we. In
``config.json`` and ``tokenizer_config.json``, nothing reads them, so they change no vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphattn.exceptions import ModelDirectoryError

CONFIG, TOKENIZER, WEIGHTS, INDEX = "config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"
TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
MODULES, SENTENCES = "modules.json", "sentence_bert_config.json"
POOLING, OTHER_SENTENCES = "1_Pooling/config.json", "config_sentence_transformers.json"
NORMALIZE, DENSE, ADAPTER = "2_Normalize/config.json", "3_Dense/config.json", "adapter_config.json"
POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"}
"""Name in ``sentence-transformers`` -> ours."""


@dataclass(frozen=True)
class Use:
    """What is done with a setting.

    ``effect`` is ``"used"``; ``"none"`` for a setting without effect on the vector of a text; or ``"refused"``, unless
    its value is None or one of ``values``, for this ``reason``. With ``of_sentences``, only sentence vectors need it.
    """

    effect: str
    values: Sequence[Any] = ()
    reason: str = ""
    of_sentences: bool = False


_USED, _NONE = Use("used"), Use("none")


def _refuse(reason: str, *values: Any, of_sentences: bool = False) -> Use:
    return Use("refused", values, reason, of_sentences)


def _all(use: Use, names: str) -> dict[str, Use]:
    return dict.fromkeys(names.split(), use)


SETTINGS: Mapping[str, Mapping[str, Use]] = {
    CONFIG: {
        **_all(
            _USED,
            "model_type vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act "
            "layer_norm_eps max_position_embeddings type_vocab_size embedding_size pad_token_id "
            "dim n_layers n_heads hidden_dim activation hidden_activation norm_eps norm_bias attention_bias mlp_bias "
            "layer_types global_attn_every_n_layers local_attention rope_parameters global_rope_theta local_rope_theta",
        ),
        **_all(  # in training only
            _USED,
            "hidden_dropout_prob attention_probs_dropout_prob dropout attention_dropout embedding_dropout mlp_dropout",
        ),
        **_all(_USED, "bos_token_id eos_token_id cls_token_id sep_token_id mask_token_id"),  # of an export
        "is_decoder": _refuse("it masks later tokens", False),
        "add_cross_attention": _refuse("it reads a second text", False),
        "position_embedding_type": _refuse("transformers computes absolute positions instead", "absolute"),
        "quantization_config": _refuse("its weights are rounded"),
        "relative_attention_num_buckets": _refuse("transformers computes 32, whatever it says", 32),
        "rope_scaling": _refuse("its rotary positions are scaled"),
        **_all(
            _NONE,
            "architectures transformers_version dtype torch_dtype use_cache output_hidden_states output_attentions "
            "return_dict return_dict_in_generate torchscript chunk_size_feed_forward tie_word_embeddings "
            "initializer_range initializer_cutoff_factor classifier_dropout classifier_activation classifier_bias "
            "classifier_pooling decoder_bias deterministic_flash_attn reference_compile repad_logits_with_grad "
            "sparse_prediction sparse_pred_ignore_index gradient_checkpointing is_encoder_decoder is_causal "
            "sinusoidal_pos_embds tie_weights_ qa_dropout seq_classif_dropout summary_type summary_use_proj "
            "summary_activation summary_last_dropout summary_first_dropout summary_proj_to_labels problem_type "
            "num_labels id2label label2id task_specific_params finetuning_task prefix auto_map attn_implementation "
            "_attn_implementation _name_or_path name_or_path tokenizer_class pruned_heads pooler_fc_size "
            "pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type directionality "
            "unk_token_id decoder_start_token_id",
        ),
    },
    TOKENIZER_CONFIG: {
        **_all(
            _USED,
            "tokenizer_class model_max_length max_len model_input_names do_lower_case strip_accents "
            "tokenize_chinese_chars add_prefix_space add_bos_token add_eos_token pad_token unk_token cls_token "
            "sep_token mask_token bos_token eos_token additional_special_tokens extra_special_tokens "
            "added_tokens_decoder",
        ),
        "split_special_tokens": _refuse("special tokens in a text are split", False),
        "add_special_tokens": _refuse("texts get no special tokens", True),
        "truncation_side": _refuse("texts lose their beginnings", "right", of_sentences=True),
        **_all(
            _NONE,
            "padding_side pad_to_multiple_of pad_token_type_id max_length stride truncation_strategy "
            "clean_up_tokenization_spaces do_basic_tokenize never_split wordpieces_prefix use_fast legacy "
            "sp_model_kwargs keep_accents remove_space trim_offsets errors chat_template backend is_local "
            "processor_class fix_mistral_regex special_tokens_map_file tokenizer_file name_or_path auto_map "
            "vocab_file merges_file",
        ),
    },
    MODULES: _all(_USED, "type path") | _all(_NONE, "idx name kwargs"),
    SENTENCES: {
        "max_seq_length": _USED,
        "do_lower_case": _refuse("texts are lower-cased first", False),
        "transformer_task": _refuse("another head is on top", "feature-extraction"),
        "modality_config": _refuse(
            "another output is read", {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
        ),
        "module_output_name": _refuse("another output is read", "token_embeddings"),
        "query_expansion": _refuse("texts are padded to a length"),
        "tokenizer_name_or_path": _refuse("its tokenizer is elsewhere"),
        **_all(
            _refuse("arguments of another library change the model", {}),
            "model_args model_kwargs config_args config_kwargs tokenizer_args processor_kwargs processing_kwargs",
        ),
        **_all(_NONE, "unpad_inputs query_length document_length cache_dir backend"),
    },
    POOLING: {
        "pooling_mode": _USED,
        "include_prompt": _USED,
        **_all(
            _USED,
            "pooling_mode_cls_token pooling_mode_max_tokens pooling_mode_mean_tokens "
            "pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens pooling_mode_lasttoken",
        ),
        **_all(_NONE, "embedding_dimension word_embedding_dimension"),
    },
    NORMALIZE: _all(_refuse("other vectors are scaled", "sentence_embedding"), "module_input_name module_output_name"),
    DENSE: {
        **_all(_USED, "in_features out_features bias activation_function use_residual"),
        **_all(_refuse("other vectors are mapped", "sentence_embedding"), "module_input_name module_output_name"),
    },
    OTHER_SENTENCES: {
        **_all(_USED, "prompts default_prompt_name truncate_dim"),
        "model_type": _refuse("it makes no sentence vectors", "SentenceTransformer"),
        **_all(_NONE, "__version__ similarity_fn_name requirements"),
    },
}
"""File -> key -> what is done with it. Keys of the families are in one table, since none means two things."""
_MODULE_FILES = (SENTENCES, POOLING, DENSE)
"""Files whose unknown keys are arguments that ``sentence-transformers`` rejects, too."""


def check_settings(file: str, values: Mapping[str, Any], where: object, *, of_sentences: bool = False) -> None:
    """Reject settings that change vectors and are not supported, in a file that is like ``file``.

    ``where`` begins the message. ``of_sentences`` also rejects what matters for sentence vectors only.

    Raises
    ------
    ModelDirectoryError
        which says what the setting does
    """
    uses = SETTINGS[file]
    for key, value in values.items():
        use = uses.get(key)
        if use is None:
            if file in _MODULE_FILES and value is not None:
                raise ModelDirectoryError(
                    f"{where} there is no setting {key!r}. Download the model again, or leave it out"
                )
        elif use.effect == "refused" and (of_sentences or not use.of_sentences) and value not in (None, *use.values):
            fix = "Use sentence-transformers for this model" if file != CONFIG else "Choose another model"
            raise ModelDirectoryError(
                f"{where} {key} is {value!r}, which GraphAttn does not support, since {use.reason}. {fix}"
            )


def list_tokens(file: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The tokens that a file of a tokenizer names: special ones and added ones."""
    if file == ADDED_TOKENS:
        yield from values
        return
    for name, value in values.items():
        if name in ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"):
            tokens = list(value.values()) if isinstance(value, dict) else value or []
        elif name.endswith("_token") and not name.startswith("add_"):
            tokens = [value]
        else:
            continue
        yield from (token["content"] if isinstance(token, dict) else token for token in tokens if token is not None)
