"""Every family of transformers: packed and padded texts equal eager ones, or are refused."""

import copy
import inspect

import numpy as np
import pytest
import torch

from graphattn.exceptions import ConfigError

transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("graphattn.transformers")

SIZES = {
    **dict.fromkeys("hidden_size d_model n_embd dim emb_dim word_embed_proj_dim mamba_d_ssm".split(), 32),
    **dict.fromkeys("intermediate_size d_ff ffn_dim hidden_dim ffn_hidden_size inner_dim n_inner".split(), 48),
    **dict.fromkeys("encoder_ffn_dim decoder_ffn_dim".split(), 48),
    **dict.fromkeys("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers".split(), 2),
    **dict.fromkeys("num_attention_heads n_head n_heads num_heads".split(), 4),
    **dict.fromkeys("encoder_attention_heads decoder_attention_heads num_key_value_heads".split(), 4),
    **dict.fromkeys("max_position_embeddings n_positions max_positions".split(), 64),
    **dict.fromkeys("head_dim d_kv qk_rope_head_dim qk_nope_head_dim v_head_dim entity_emb_size".split(), 8),
    **dict.fromkeys("q_lora_rank kv_lora_rank qk_head_dim embedding_size entity_vocab_size mamba_d_state".split(), 16),
    **dict.fromkeys("moe_intermediate_size shared_expert_intermediate_size".split(), 16),
    **dict.fromkeys(
        "num_local_experts num_experts n_routed_experts sliding_window local_attention mamba_n_heads".split(), 4
    ),
    **dict.fromkeys("num_experts_per_tok type_vocab_size".split(), 2),
    **dict.fromkeys("n_group topk_group n_shared_experts first_k_dense_replace".split(), 1),
    "vocab_size": 96,
    "hidden_dropout": 0.0,
    **{"bos_token_id": 0, "cls_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "sep_token_id": 2},
}
GROUPED = {"num_key_value_heads": 2}
MOST_PARAMETERS = 3_000_000
LENGTHS = np.array([5, 9, 4])
KNOWN = (
    "albert bert bert-generation camembert data2vec-text deberta-v2 distilbert electra ernie esm eurobert gemma gemma2 "
    "gemma3_text gpt2 gpt_neox jina_embeddings_v3 layoutlm llama longformer mistral modernbert "
    "modernbert-decoder mpnet nomic_bert "
    "qwen2 qwen3 roberta roberta-prelayernorm t5 mt5 xlm-roberta xlm-roberta-xl"
).split()
REFUSED = "big_bird convbert roformer xlm flaubert fnet yoso deberta mobilebert bloom".split()


class NotSmallError(Exception):
    """A family that this test cannot make, and why."""


class RefusedError(Exception):
    """A family whose models cannot be made with edges, and why."""


def make_pair(family):
    """A small random model with eager attention, and its copy with edges."""
    from transformers.models.auto import modeling_auto as auto

    encoders = auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
    reads_text = (
        *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        *auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        *auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        *encoders,
    )
    if family not in auto.MODEL_MAPPING_NAMES or family not in reads_text:
        raise NotSmallError("no class of models of text")
    kind = transformers.CONFIG_MAPPING[family]
    names = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})} | {*kind.attribute_map}
    names |= {*inspect.signature(kind.__init__).parameters}
    sizes = SIZES if "kv_lora_rank" in names else SIZES | GROUPED
    factory = transformers.AutoModelForTextEncoding if family in encoders else transformers.AutoModel
    try:
        config = kind(**{name: size for name, size in sizes.items() if name in names})
        with torch.device("meta"):
            count = sum(each.numel() for each in factory.from_config(copy.deepcopy(config)).parameters())
        if count > MOST_PARAMETERS:
            raise NotSmallError(f"{count:,} parameters")
        torch.manual_seed(0)
        eager = factory.from_config(copy.deepcopy(config), attn_implementation="eager").eval()
        for weights in eager.parameters():
            weights.data += 0.2 * torch.randn_like(weights)  # so that caps, sinks and biases matter
    except NotSmallError:
        raise
    except Exception as error:
        raise NotSmallError(f"{type(error).__name__}: {error}"[:200]) from error
    try:
        edges = factory.from_config(copy.deepcopy(config), attn_implementation="graphattn").eval()
    except KeyError as error:
        raise RefusedError(f"it knows {error} not") from error
    edges.load_state_dict(eager.state_dict())
    if config.is_encoder_decoder and hasattr(eager, "decoder"):
        return eager.get_encoder(), edges.get_encoder()
    return eager, edges


def compare_family(family):
    """``equal``, or why it is refused."""
    eager, model = make_pair(family)
    pad = getattr(eager.config, "pad_token_id", None)
    ids = torch.randint(30, 70, (len(LENGTHS), int(LENGTHS.max())))
    ids[0, 2] = ids[0, 3] if pad is None else pad  # a text may spell padding
    mask = torch.arange(ids.shape[1]) < torch.from_numpy(LENGTHS)[:, None]
    with torch.no_grad():
        try:
            expected = torch.cat(
                [
                    eager(input_ids=row[None, :length], attention_mask=torch.ones(1, length).long()).last_hidden_state[
                        0
                    ]
                    for row, length in zip(ids, LENGTHS.tolist(), strict=True)
                ]
            )
            inputs = {"input_ids": torch.where(mask, ids, 1 if pad is None else pad), "attention_mask": mask.long()}
            padded = eager(**inputs).last_hidden_state[mask]
        except Exception as error:
            raise NotSmallError(f"{type(error).__name__}: {error}"[:200]) from error
        largest = expected.abs().max()
        try:
            found = model(**inputs).last_hidden_state[mask]
        except ConfigError as error:
            return str(error)
        assert (found - padded).abs().max() < 1e-4 * largest, f"{family}, padded"
        try:
            packed = hub.pack(model, pad)
        except ConfigError as error:
            return str(error)
        found = torch.cat(packed(ids[mask].split(LENGTHS.tolist())))
        assert (found - expected).abs().max() < 1e-4 * largest, f"{family}, packed"
    return "equal"


@pytest.mark.slow
def test_every_family_equals_eager_or_is_refused(capsys):
    transformers.logging.set_verbosity_error()
    results, left_out = {}, {}
    for family in transformers.CONFIG_MAPPING:
        try:
            results[family] = compare_family(family)
        except RefusedError as error:
            results[family] = str(error)
        except NotSmallError as error:
            left_out[family] = str(error)
    with capsys.disabled():
        equal = [family for family, result in results.items() if result == "equal"]
        print(f"\n{len(equal)} families equal eager, {len(results) - len(equal)} are refused, {len(left_out)} left out")
        for family, reason in left_out.items():
            if reason != "no class of models of text":
                print(f"  left out: {family}: {reason.splitlines()[0]}")
    assert {*KNOWN} <= {*equal}
    assert not {*REFUSED} & {*equal}
    assert len(equal) > 100


@pytest.mark.parametrize("family", ["gemma2", "qwen3", "roberta", "deberta-v2", "longformer", "mpnet"])
def test_families_of_each_kind_equal_eager(family):
    """Score caps, groups of heads, position ids that begin after padding, an attention of their own."""
    assert compare_family(family) == "equal"


@pytest.mark.parametrize(
    ("family", "reason"), [("bloom", "0 times"), ("inkling2_text", "'sinks'"), ("falcon_mamba", "no attention")]
)
def test_families_with_an_attention_of_their_own_are_refused(family, reason):
    assert reason in compare_family(family)
