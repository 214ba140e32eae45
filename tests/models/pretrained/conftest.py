"""Small random models of every family, made by ``transformers``."""

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

    def save(family: str):
        folder = tmp_path / family
        make_reference(family).save_pretrained(folder)
        letter_tokenizer().save(str(folder / "tokenizer.json"))
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
