"""Sentence vectors of decoders, in the layouts of Qwen3-Embedding and EmbeddingGemma, beside sentence-transformers."""

import numpy as np
import pytest
import torch

from graphattn import TextClassifier
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.models import PretrainedOptions, TrainingOptions
from graphattn.models.pretrained import SentenceEncoder
from tests.models.pretrained.test_directory_settings import change_json

transformers = pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
SIZES |= {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
TEXTS = ["How do I reset my password?", "no", "", "Where is the station, and when does the last train leave?"]
QUERY = "Instruct: find\nQuery:"
LAYOUTS = {
    "qwen3": ("Qwen3", {}, "{} <|end|>", {"query": QUERY, "document": ""}),
    "gemma3_text": (
        "Gemma3Text",
        {
            "use_bidirectional_attention": True,
            "sliding_window": 9,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "<bos> {} <|end|>",
        {"query": "task: search result | query: ", "document": "title: none | text: ", "Clustering": "cluster: "},
    ),
}

pytestmark = pytest.mark.filterwarnings("ignore::graphattn.exceptions.Hint")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Random models in the layouts of Qwen3-Embedding and of EmbeddingGemma."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = {}
    for family, (prefix, options, template, prompts) in LAYOUTS.items():
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        names = ["<|pad|>", "<bos>", "<|end|>", *alphabet]
        tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=template.format("$A"),
            pair=f"{template.format('$A')} {template.format('$B')}",
            special_tokens=[("<bos>", 1), ("<|end|>", 2)],
        )
        raw, folder = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp(family)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left"
        ).save_pretrained(raw)
        torch.manual_seed(0)
        config = getattr(transformers, f"{prefix}Config")(
            vocab_size=len(names), pad_token_id=0, bos_token_id=1, eos_token_id=2, **SIZES, **options
        )
        model = transformers.AutoModel.from_config(config)
        with torch.no_grad():
            for weights in model.parameters():
                weights += 0.1 * torch.randn_like(weights)
        model.save_pretrained(raw)
        modules = [Transformer(str(raw), max_seq_length=40), Pooling(24, "lasttoken" if family == "qwen3" else "mean")]
        if family == "gemma3_text":
            modules += [
                Dense(width, out, bias=False, activation_function=torch.nn.Identity())
                for width, out in ((24, 48), (48, 20))
            ]
        made[family] = folder
        SentenceTransformer(modules=[*modules, Normalize()], prompts=prompts, device="cpu").save(
            str(folder), create_model_card=False
        )
    return made


@pytest.fixture(params=LAYOUTS)
def folder(folders, request):
    """The directory of a layout."""
    return folders[request.param]


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.TruncationWarning")
def test_vectors_equal_those_of_sentence_transformers(folder):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(folder), device="cpu")
    for prompt in (None, "query", "document"):
        vectors = SentenceEncoder(folder, prompt=prompt).transform(TEXTS)
        np.testing.assert_allclose(vectors, reference.encode(TEXTS, prompt_name=prompt), atol=1e-5)  # padded together


@pytest.mark.filterwarnings("ignore::graphattn.exceptions.TruncationWarning")
def test_search_puts_the_prompts_of_queries_and_documents_before_texts(folder):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(folder), device="cpu")
    expected = reference.encode_query(TEXTS[:2]) @ reference.encode_document(TEXTS).T
    indices, scores = SentenceEncoder(folder).search(TEXTS[:2], TEXTS, k=4)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, indices, 1), atol=1e-5)


def test_an_unknown_prompt_is_an_error(folder):
    with pytest.raises(ConfigError, match=r"no prompt prompt=Query; it has .*document, query"):
        SentenceEncoder(folder, prompt="Query").fit()


def test_a_frozen_classifier_pools_as_the_directory_says(folders):
    options = PretrainedOptions(str(folders["qwen3"]), frozen=True)
    model = TextClassifier(pretrained=options, training=TrainingOptions(dev_fraction=0))
    model.fit(TEXTS[:2] * 4, list("ab") * 4)
    assert model.resolved_["head"].pooling == "unit-last"
    expected = SentenceEncoder(folders["qwen3"]).transform(TEXTS[:2])
    np.testing.assert_allclose(model.encode(TEXTS[:2]), expected, atol=1e-5)


def test_a_dense_layer_that_does_not_fit(folders, tmp_path):
    import shutil

    folder = shutil.copytree(folders["gemma3_text"], tmp_path / "model")
    change_json(folder / "3_Dense" / "config.json", {"in_features": 24})
    with pytest.raises(ModelDirectoryError, match=r"does not fit config\.json"):
        SentenceEncoder(folder).fit()
    change_json(folder / "3_Dense" / "config.json", {"activation_function": "os.system"})
    with pytest.raises(ModelDirectoryError, match="activation_function is system; GraphAttn has Identity, Tanh"):
        SentenceEncoder(folder).fit()
