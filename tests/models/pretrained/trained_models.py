"""Small random models of every family with trained tokenizers, saved by ``transformers``."""

import json

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "The café in Zürich isn't open.",
    "A DOG barks at 东京, and the cat naps",
    "  lovely <mask> film [MASK]",
    "",
    "tokens und Wörter",
]
SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 66,
}
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
FAMILIES = {
    "bert": ("Bert", "bert"),
    "bert-cased": ("Bert", "bert-cased"),
    "bert-unigram": ("Bert", "xlm-roberta"),  # as multilingual MiniLM
    "roberta": ("Roberta", "roberta"),
    "roberta-prefix": ("Roberta", "roberta-prefix"),
    "xlm-roberta": ("XLMRoberta", "xlm-roberta"),
    "camembert": ("Camembert", "camembert"),
    "distilbert": ("DistilBert", "bert-cased"),
    "electra": ("Electra", "bert"),
    "mpnet": ("MPNet", "mpnet"),
    "modernbert": ("ModernBert", "modernbert"),
}


def save_source(transformers, family, folder):
    """Write a model and its tokenizer to a folder, which is returned."""
    prefix, kind = FAMILIES[family]
    tokenizer = make_tokenizer(transformers, kind)
    sizes = {**SIZES, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if prefix == "DistilBert":
        sizes |= {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40}
    if prefix == "ModernBert":
        sizes |= {"local_attention": 8, "bos_token_id": 0, "eos_token_id": 1, "cls_token_id": 0, "sep_token_id": 1}
    if "RoBERTa" in prefix.replace("Roberta", "RoBERTa") or prefix == "Camembert":
        sizes["type_vocab_size"] = 1
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}Model")(getattr(transformers, f"{prefix}Config")(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(transformers, kind):
    if kind in ("bert", "mpnet"):
        tokens = BERT_TOKENS if kind == "bert" else [token.replace("<unk>", "[UNK]") for token in ROBERTA_TOKENS]
        tokenizer = transformers.BertTokenizer if kind == "bert" else transformers.MPNetTokenizer
        return tokenizer(vocab=train_wordpiece(tokens, lowercase=True))
    if kind == "bert-cased":
        vocab = train_wordpiece(BERT_TOKENS, lowercase=False)
        cased = {"do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": False}
        return transformers.BertTokenizer(vocab=vocab, **cased)
    if kind.startswith("roberta"):
        bpe = json.loads(train_bytes(ROBERTA_TOKENS).to_str())["model"]
        merges = [tuple(pair) for pair in bpe["merges"]]
        return transformers.RobertaTokenizer(bpe["vocab"], merges, add_prefix_space=kind.endswith("prefix"))
    if kind == "modernbert":
        tokenizer = train_bytes(["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
        )
        names = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "mask", "unk")}
        inputs = ["input_ids", "attention_mask"]
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=inputs, **names)
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=ROBERTA_TOKENS, unk_token="<unk>")
    unigram.train_from_iterator(TEXTS * 4, trainer)
    vocab = [tuple(entry) for entry in json.loads(unigram.to_str())["model"]["vocab"]]
    return getattr(transformers, {"xlm-roberta": "XLMRoberta", "camembert": "Camembert"}[kind] + "Tokenizer")(
        vocab=vocab
    )


def train_wordpiece(tokens, *, lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, handle_chinese_chars=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TEXTS * 4, trainers.WordPieceTrainer(vocab_size=150, special_tokens=tokens))
    return tokenizer.get_vocab()


def train_bytes(tokens):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=tokens, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    return tokenizer
