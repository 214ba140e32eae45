"""Small random models of every family, and tokenizers trained on a few texts, made by ``transformers``."""

import json

import pytest
import torch

SIZES = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}
DISTILBERT = {"vocab_size": 60, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 48}
MODERN = {**SIZES, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "bert": ("Bert", SIZES),
    "bert-relu": ("Bert", {**SIZES, "hidden_act": "relu"}),
    "roberta": ("Roberta", SIZES),
    "xlm-roberta": ("XLMRoberta", {**SIZES, "hidden_act": "gelu_new"}),
    "camembert": ("Camembert", SIZES),
    "distilbert": ("DistilBert", DISTILBERT),
    "electra": ("Electra", {**SIZES, "embedding_size": 16}),
    "mpnet": ("MPNet", SIZES),
    "modernbert": ("ModernBert", {**MODERN, "local_attention": 8, "global_attn_every_n_layers": 3}),
    "modernbert-biased": (
        "ModernBert",
        {**MODERN, "local_attention": 4, "attention_bias": True, "mlp_bias": True, "norm_bias": True},
    ),
}

LETTERS = {**SIZES, "num_hidden_layers": 2, "intermediate_size": 32, "max_position_embeddings": 32}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
GEMMA = {"head_dim": 8, "num_key_value_heads": 2, "sliding_window": 4, "max_position_embeddings": 64}
T5 = {"vocab_size": 60, "d_model": 24, "num_layers": 2, "num_heads": 4, "d_kv": 6, "d_ff": 32}
OTHER_FAMILIES = {
    "albert": ("Albert", {**LETTERS, "embedding_size": 16, **SPECIAL}),
    "gemma3_text": (
        "Gemma3Text",
        {**LETTERS, **SPECIAL, **GEMMA, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "xlm-roberta-xl": ("XLMRobertaXL", {**LETTERS, **SPECIAL, "max_position_embeddings": 33}),
    "t5": ("T5", T5),
    "umt5": ("UMT5", T5),
    "gpt2": ("GPT2", {"vocab_size": 60, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}),
}
"""Families that ``transformers`` computes."""
MORE_FAMILIES = {
    "mt5": ("MT5", T5),
    "opt": ("OPT", {**LETTERS, **SPECIAL, "ffn_dim": 32, "word_embed_proj_dim": 24}),
    "longformer": ("Longformer", {**LETTERS, **SPECIAL, "attention_window": 4}),
    "nomic_bert": ("NomicBert", {**LETTERS, **SPECIAL}),
    "qwen3": ("Qwen3", {**LETTERS, **SPECIAL, "head_dim": 8, "num_key_value_heads": 2}),
    "deberta-v2": (
        "DebertaV2",
        {**LETTERS, **SPECIAL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    ),
}


def make_other_reference(family, **changes):
    """A random model of a family that ``transformers`` computes, larger weights than at the start of training."""
    import transformers

    prefix, sizes = {**OTHER_FAMILIES, **MORE_FAMILIES}[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{prefix}Config")(**{**sizes, **changes}, attn_implementation="eager")
    factory = getattr(transformers, f"{prefix}EncoderModel", transformers.AutoModel.from_config)
    model = factory(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights += 0.2 * torch.randn_like(weights)
    return model


@pytest.fixture
def save(transformers, tmp_path, write_letter_tokenizer):
    """Write a model of :func:`make_other_reference` with a tokenizer of letters."""

    def write(family, **changes):
        folder = tmp_path / family
        make_other_reference(family, **changes).save_pretrained(folder)
        write_letter_tokenizer(folder)
        return folder

    return write


@pytest.fixture(scope="session")
def transformers():
    """The reference implementation."""
    return pytest.importorskip("transformers")


@pytest.fixture(scope="session")
def make_reference(transformers):
    """Name of a family -> a random model in float64, larger weights than at the start of training."""

    def make(name: str):
        prefix, sizes = FAMILIES[name]
        torch.manual_seed(0)
        config = getattr(transformers, f"{prefix}Config")(**sizes, attn_implementation="eager")
        model = getattr(transformers, f"{prefix}Model")(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    return make


@pytest.fixture
def save_model(make_reference, tmp_path):
    """Write a model and a tokenizer of single letters to a directory."""

    return lambda family: write_model(make_reference(family), tmp_path / family)


def write_model(model, folder):
    model.save_pretrained(folder)
    letter_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def write_letter_tokenizer(transformers):
    """Write a tokenizer of single letters, with its settings, to a directory."""

    def write(folder, **options):
        names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", **options}
        transformers.PreTrainedTokenizerFast(tokenizer_object=letter_tokenizer(), **names).save_pretrained(folder)

    return write


TEXTS = [
    "Don't stop, unbelievable!",
    "a dog barks  at the Cat",
    "na\u00efve caf\u00e9 \u6771\u4eac x",
    "",
    "it sleeps <pad> and <pad><pad> eats",
    "one </s> two [SEP] <mask> [PAD] [MASK]",
    " x",
]
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TRAINED = {
    "bert": ("bert", "bert", {}),
    "bert, cased": ("bert", "bert cased", {}),
    "bert with the tokenizer of XLM-R": ("bert", "xlm-roberta", {}),
    "bert with a tokenizer without segments": ("bert", "modernbert", {}),
    "electra": ("electra", "bert", {"embedding_size": 16}),
    "distilbert": ("distilbert", "distilbert", {}),
    "mpnet": ("mpnet", "mpnet", {}),
    "mpnet with another padding": ("mpnet", "mpnet", {"pad_token_id": 0}),
    "roberta": ("roberta", "roberta", {"type_vocab_size": 1}),
    "roberta with prefix spaces": ("roberta", "roberta prefix", {"type_vocab_size": 1}),
    "roberta with two types": ("roberta", "roberta", {"type_vocab_size": 2}),
    "roberta with segments": ("roberta", "bert", {"type_vocab_size": 2, "pad_token_id": 0}),
    "xlm-roberta": ("xlm-roberta", "xlm-roberta", {"type_vocab_size": 1}),
    "camembert": ("camembert", "camembert", {"type_vocab_size": 1}),
    "modernbert": ("modernbert", "modernbert", {"local_attention": 8}),
}
"""Name -> family, tokenizer, and options of the model."""


EXPORTED = [
    *("bert", "bert, cased", "bert with the tokenizer of XLM-R", "roberta", "roberta with prefix spaces"),
    *("xlm-roberta", "camembert", "distilbert", "electra", "mpnet", "modernbert"),
]


def train_tokenizer(kind):
    """A tokenizer of ``transformers``."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    def train(model, pre_tokenizer, trainer, special, **options):
        tokenizer = Tokenizer(model)
        if isinstance(model, models.WordPiece):
            tokenizer.normalizer = normalizers.BertNormalizer(lowercase=kind != "bert cased")
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.train_from_iterator(TEXTS * 3, trainer(special_tokens=special, show_progress=False, **options))
        return tokenizer, json.loads(tokenizer.to_str())["model"]

    if kind in ("bert", "bert cased", "distilbert", "mpnet"):
        special = BERT_SPECIAL if kind != "mpnet" else [*ROBERTA_SPECIAL, "[UNK]"]
        model = models.WordPiece(unk_token="[UNK]")
        _, trained = train(model, pre_tokenizers.BertPreTokenizer(), trainers.WordPieceTrainer, special, vocab_size=120)
        name = {"distilbert": "DistilBert", "mpnet": "MPNet"}.get(kind, "Bert")
        return getattr(transformers, f"{name}Tokenizer")(vocab=trained["vocab"], do_lower_case=kind != "bert cased")
    if kind in ("xlm-roberta", "camembert"):
        special, pre_tokenizer = ROBERTA_SPECIAL[:-1], pre_tokenizers.Metaspace()
        options = {"vocab_size": 90, "unk_token": "<unk>"}
        _, trained = train(models.Unigram(), pre_tokenizer, trainers.UnigramTrainer, special, **options)
        name = "XLMRoberta" if kind == "xlm-roberta" else "Camembert"
        return getattr(transformers, f"{name}Tokenizer")(vocab=[tuple(entry) for entry in trained["vocab"]])
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    options = {"vocab_size": 300, "initial_alphabet": pre_tokenizer.alphabet()}
    tokenizer, trained = train(models.BPE(), pre_tokenizer, trainers.BpeTrainer, ROBERTA_SPECIAL, **options)
    if kind == "modernbert":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
        names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        names["mask_token"] = "<mask>"
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    merges = [tuple(merge) for merge in trained["merges"]]
    return transformers.RobertaTokenizer(trained["vocab"], merges, add_prefix_space=kind == "roberta prefix")


@pytest.fixture
def save_trained(transformers, tmp_path):
    """Write a model of :data:`TRAINED` and its tokenizer to a directory."""

    def save(name: str, **options):
        family, kind, changed = TRAINED[name]
        prefix, sizes = FAMILIES[family]
        tokenizer, folder = train_tokenizer(kind), tmp_path / "model"
        torch.manual_seed(0)
        sizes = {**sizes, "max_position_embeddings": 100, "pad_token_id": tokenizer.pad_token_id, **changed}
        config = getattr(transformers, f"{prefix}Config")(**{**sizes, "vocab_size": len(tokenizer), **options})
        model = getattr(transformers, f"{prefix}Model")(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def save_sentence_model(save_trained, tmp_path):
    """Write a model of :data:`TRAINED` with sentence-transformers."""
    pytest.importorskip("sentence_transformers")

    def save(name="bert", *, limit=12, pooling="mean", normalize=True):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

        modules = [Transformer(str(save_trained(name)), max_seq_length=limit), Pooling(24, pooling)]
        folder = tmp_path / "sentence-model"
        SentenceTransformer(modules=[*modules, Normalize()][: 2 + normalize], device="cpu").save(str(folder))
        return folder

    return save


def letter_tokenizer():
    """WordPiece on letters, with BERT's special tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [chr(ord("a") + number) for number in range(26)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(models.WordPiece({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer
