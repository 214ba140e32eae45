"""Dense weights and outputs of transformers against the arrays themselves, and against our own reading of the model."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing import draw_arcs, draw_matrices
from graphattn.models.inspection import Attention, compare_summaries, summarise
from graphattn.models.inspection._dense_attention import number_words
from graphattn.models.inspection.attributions import attention_flow, attention_rollout

TOKENS = ["[CLS]", "un", "known", "words"]
WORDS = [None, 0, 0, 1]


def softmax(*shape, seed=0):
    scores = np.random.default_rng(seed).normal(size=shape)
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def causal(*shape):
    lower = np.tril(softmax(*shape))
    return lower / lower.sum(-1, keepdims=True)


@pytest.fixture
def weights():
    return softmax(2, 3, 4, 4)


@pytest.mark.parametrize(
    "convert", [np.asarray, torch.as_tensor, list, lambda a: [torch.as_tensor(x)[None] for x in a]]
)
def test_matrices_are_the_arrays(weights, convert):
    attention = Attention.from_dense(convert(weights), TOKENS, words=WORDS)
    for layer in range(2):
        for head in range(3):
            np.testing.assert_allclose(attention.matrix(layer, head).toarray(), weights[layer, head], rtol=1e-6)
    assert attention.words == {"text": ("[CLS]", "unknown", "unknown", "words")}
    assert {each.relation for each in attention.maps} == {"all"}
    assert (attention.title, attention.prediction) == ("[CLS] un known words", None)


def test_everything_that_takes_a_result_takes_it(weights, tmp_path):
    attention = Attention.from_dense(weights, TOKENS, words=WORDS, prediction="good", probabilities={"good": 1.0})
    assert len(attention.table()) == weights.size
    for suffix in ("csv", "parquet", "graphml", "gexf", "gml", "json", "html"):
        assert attention.save(tmp_path / f"weights.{suffix}").stat().st_size
    assert attention.to_page()["prediction"] == {"label": "good", "probabilities": {"good": 1.0}}
    assert "good" in attention._repr_html_()
    for draw in (draw_arcs, draw_matrices):
        assert draw(attention.only(layer=1)).axes
    mixed = np.eye(4)
    for layer in weights:
        mixed = (0.5 * layer.mean(0) + 0.5 * np.eye(4)) @ mixed
    np.testing.assert_allclose(attention_rollout(attention).attribution, mixed.mean(0), rtol=1e-6)
    assert attention_flow(attention, target=3).attribution.between(0, 1).all()
    assert attention.graph(0, 1).number_of_edges() == 16


def test_widgets_and_comparisons(weights):
    pytest.importorskip("anywidget")
    attention = Attention.from_dense(weights, TOKENS)
    other = Attention.from_dense(softmax(1, 2, 4, 4, seed=1), TOKENS)
    assert len(attention.widget().selected) == 3 * 16
    assert len(attention.compare(other).other_selected) == 2 * 16


def test_masks_are_no_edges():
    attention = Attention.from_dense(causal(1, 2, 4, 4), TOKENS)
    table = attention.table()
    assert (set(table.relation), len(table)) == ({"causal"}, 2 * 10)
    assert (table.source <= table.target).all()
    assert Attention.from_dense(causal(1, 2, 4, 4), TOKENS, relation="mine").maps[0].relation == "mine"


def test_a_decoder():
    encoder, own, cross = softmax(2, 2, 3, 3), causal(1, 2, 2, 2), softmax(1, 2, 2, 3)
    attention = Attention.from_dense(
        encoder, ["a", "b", "c"], target_tokens=["x", "y"], decoder=own, cross=cross, prediction="x y"
    )
    assert attention.tokens == {"source": ("a", "b", "c"), "target": ("x", "y")}
    layers = {(each.layer, head, each.relation) for each in attention.maps for head in each.heads}
    assert layers == {
        *((layer, head, "all") for layer in range(2) for head in range(2)),
        (2, 0, "causal"), (2, 1, "causal"), (2, 2, "cross"), (2, 3, "cross"),
    }  # fmt: skip
    np.testing.assert_allclose(attention.matrix(2, 3).toarray()[3:, :3], cross[0, 1], rtol=1e-6)
    assert attention.to_page()["prediction"] == {"text": "x y"}
    assert attention_rollout(attention).attribution.sum() == pytest.approx(1)
    summary = summarise([attention])
    assert summary.units == {"all": "token", "causal": "token"}
    alone = Attention.from_dense(None, ["a", "b", "c"], target_tokens=["x", "y"], cross=cross)
    assert [each.relation for each in alone.maps] == ["cross"]


def test_dependencies_of_a_parsed_text(weights):
    parse = Sentence(["unknown", "words"], heads=[2, 0], deprels=["amod", "root"])
    attention = Attention.from_dense(weights, TOKENS, words=WORDS, sentence=parse)
    edges = attention.only(layer=0, head=0).table()
    found = edges[edges.deprel != ""][["source", "target", "deprel"]].to_numpy().tolist()
    assert sorted(found) == [[1, 3, "amod>"], [2, 3, "amod>"], [3, 1, "amod<"], [3, 2, "amod<"]]


ROWS = np.full((1, 2, 3, 3), 1 / 3)


@pytest.mark.parametrize(
    ("attentions", "options", "message"),
    [
        (None, {}, "output_attentions=True"),
        ((), {}, "the model returned none"),
        ((None, None), {}, "eager"),
        (ROWS[0], {}, r"\[0\] has shape \(3, 3\); expected \(heads, 3, 3\) for 3 tokens"),
        (ROWS.repeat(2, 0)[None], {}, r"has shape \(2, 2, 3, 3\)"),
        (ROWS[..., :2], {}, "has shape"),
        (np.log(ROWS), {}, "head 0, token 0: a weight is -1.099; give weights after the softmax"),
        (ROWS * 2, {}, r"weights sum to 2, more than one.*model.eval\(\)"),
        (np.where(np.arange(3) == 1, np.nan, ROWS), {}, "not finite"),
        ([[torch.ones(1, 2, 3, 3)]], {}, "for each step of a generation"),
        (ROWS, {"cross": ROWS}, "target_tokens"),
        (ROWS, {"words": [0, 1]}, "has 2 numbers for 3 tokens"),
        (ROWS, {"words": [0, 1, 0]}, "word 0 twice"),
        (ROWS, {"sentence": Sentence(["a", "b", "c"])}, "has no heads"),
        (ROWS, {"sentence": Sentence(["a", "b"], heads=[0, 1])}, "has 2 words"),
        (ROWS, {"target_tokens": ["x"], "cross": ROWS}, "1 target and 3 source tokens"),
    ],
)  # fmt: skip
def test_errors_name_the_cause(attentions, options, message):
    with pytest.raises(ConfigError, match=message):
        Attention.from_dense(attentions, ["a", "b", "c"], **options)


def test_half_precision_is_tolerated():
    attention = Attention.from_dense(torch.as_tensor(softmax(1, 1, 200, 200)).bfloat16(), list(map(str, range(200))))
    assert attention.maps[0].weights.dtype == np.float32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"maps": ()}, "there are no weights"),
        ({"sentences": {}}, "have no sentences"),
        ({"sentences": {"text": Sentence(["a"])}}, "has 1 tokens, tokens has 4"),
        ({"sentences": {"other": Sentence(["a"])}}, "has 'other'"),
    ],
)
def test_errors_of_a_hand_made_result(weights, data, message):
    read = Attention.from_dense(weights, TOKENS)
    fields = {"title": "", "prediction": None, "probabilities": {}, "tokens": read.tokens}
    with pytest.raises(ConfigError, match=message):
        attention_rollout(Attention(**{**fields, "sentences": read.sentences, "maps": read.maps, **data}))


def test_rollout_rejects_selections_and_impossible_weights(weights):
    attention = Attention.from_dense(weights, TOKENS)
    with pytest.raises(ConfigError, match="layer 0 has no head 0; give all weights of a prediction"):
        attention_rollout(attention.only(head=1))
    with pytest.raises(ConfigError, match="layer 0 has no head 0"):
        attention_flow(attention.only(head=1))
    attention.maps[1].weights[:] *= 3
    with pytest.raises(ConfigError, match="layer 1, head 0, node 0: weights sum to 3"):
        attention_rollout(attention)


def test_a_stream_of_results_is_summarised_like_the_model(classifier, sentences, pair_classifier, translators, source):
    texts = [sentence for sentence in sentences if len(sentence)]
    pairs = [("dogs bark", "cats sleep and dogs bark"), ("dogs", "cats")]
    translator = translators("transformer")
    for model, inputs in ((classifier, texts), (pair_classifier, pairs), (translator, [source])):
        expected, actual = summarise(model, inputs), summarise(model.attention(x) for x in inputs)
        assert actual.texts == expected.texts
        for name, table in compare_summaries(expected, actual, ("a", "b")).items():
            for column in [name for name in table if name.endswith("_a")]:
                np.testing.assert_allclose(table[column], table[f"{column[:-1]}b"], rtol=1e-4, atol=1e-6, err_msg=name)


def test_summaries_take_texts_or_results(classifier):
    attention = Attention.from_dense(softmax(1, 1, 4, 4), TOKENS)
    with pytest.raises(ConfigError, match="give the texts"):
        summarise(classifier)
    with pytest.raises(ConfigError, match="are for an estimator"):
        summarise([attention], ["dogs sleep"])


transformers = pytest.importorskip("transformers")
SMALL = {"vocab_size": 30, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 8}


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "love", "##ly", "was"]
    tokenizer = Tokenizer(models.WordPiece(dict(zip(pieces, range(9), strict=True)), unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("the film was lovely",), [None, 0, 1, 2, 3, 3, None]),
        (("lovely", "lovely film"), [None, 0, 0, None, 1, 1, 2, None]),
        (("lovely other lovely",), [None, 0, 0, None, 1, 1, None]),
    ],
)
def test_words_of_ids(tokenizer, texts, words):
    assert number_words(tokenizer, tokenizer(*texts)["input_ids"]) == words
    assert number_words(tokenizer, []) == []


def test_outputs_of_a_batch_with_padding(tokenizer):
    config = transformers.BertConfig(**SMALL, attn_implementation="eager")
    model = transformers.BertModel(config).eval()
    inputs = tokenizer(["the film", "the film was lovely"], padding=True, return_tensors="pt")
    outputs = model(**inputs, output_attentions=True)
    short, long = (Attention.from_transformers(outputs, tokenizer, inputs, row=row) for row in (0, 1))
    assert short.tokens == {"text": ("[CLS]", "the", "film", "[SEP]")}
    assert long.tokens["text"][-4:] == ("was", "love", "ly", "[SEP]")
    assert long.words["text"][-3:] == ("lovely", "lovely", "[SEP]")
    for layer, head in ((0, 1), (1, 0)):
        expected = outputs.attentions[layer][0, head, :4, :4].detach().numpy()
        np.testing.assert_allclose(short.matrix(layer, head).toarray(), expected, atol=1e-6)
    plain = Attention.from_transformers(outputs, tokenizer, inputs["input_ids"], row=1)  # ids alone: no words
    assert plain.words["text"] == plain.tokens["text"]
    parse = Sentence(["the", "lovely", "film"], heads=[3, 3, 0], deprels=["det", "amod", "root"])
    inputs = tokenizer(list(parse.words), is_split_into_words=True, return_tensors="pt")
    parsed = Attention.from_transformers(model(**inputs, output_attentions=True), tokenizer, inputs, sentence=parse)
    assert set(parsed.table().deprel) == {"", "det>", "det<", "amod>", "amod<"}
    pair = tokenizer("the film", "the film", return_tensors="pt")
    read = Attention.from_transformers(model(**pair, output_attentions=True), tokenizer, pair)
    assert read.sentences["text"].num_words == 7


def test_outputs_of_a_model_with_a_decoder(tokenizer):
    config = transformers.T5Config(
        vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2, decoder_start_token_id=0,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    inputs = {**tokenizer(["the film"], return_tensors="pt"), "decoder_input_ids": torch.tensor([[0, 4, 5]])}
    inputs.pop("token_type_ids", None)
    outputs = model(**inputs, output_attentions=True)
    attention = Attention.from_transformers(outputs, tokenizer, inputs)
    assert attention.tokens["target"] == ("[PAD]", "the", "film")
    expected = outputs.cross_attentions[1][0, 0].detach().numpy()
    np.testing.assert_allclose(attention.matrix(3, 2).toarray()[4:, :4], expected, atol=1e-6)
    with pytest.raises(ConfigError, match="decoder_input_ids"):
        Attention.from_transformers(outputs, tokenizer, {"input_ids": inputs["input_ids"]})


def test_attention_sinks_take_a_share(tokenizer):
    config = transformers.GptOssConfig(
        **SMALL, head_dim=4, num_key_value_heads=2, num_local_experts=2, num_experts_per_tok=1,
        attn_implementation="eager",
    )  # fmt: skip
    inputs = tokenizer("the film was lovely", return_tensors="pt")
    inputs.pop("token_type_ids", None)
    outputs = transformers.GptOssModel(config).eval()(**inputs, output_attentions=True)
    attention = Attention.from_transformers(outputs, tokenizer, inputs)
    expected = outputs.attentions[1][0, 0].detach().numpy()
    assert (expected.sum(-1) < 0.95).all()
    np.testing.assert_allclose(attention.matrix(1, 0).toarray(), expected, atol=1e-6)
    assert attention_rollout(attention).attribution.sum() == pytest.approx(1)


@pytest.mark.parametrize("text", ["film", "the film was", "the film was lovely the film"])
def test_windows_are_not_all_pairs(tokenizer, text):
    """Shorter than the window with its five columns, as long, and longer."""
    sizes = {**SMALL, "attention_window": 4, "max_position_embeddings": 20, "pad_token_id": 0}
    model = transformers.LongformerModel(transformers.LongformerConfig(**sizes)).eval()
    inputs = tokenizer(text, return_tensors="pt")
    with pytest.raises(ConfigError, match="of windows"):
        Attention.from_transformers(model(**inputs, output_attentions=True), tokenizer, inputs)


def test_keys_of_a_prefix_are_an_error(tokenizer):
    ids = torch.tensor([[2, 3]])
    with pytest.raises(ConfigError, match=r"has shape \(1, 1, 2, 3\); expected \(heads, 2, 2\)"):
        Attention.from_transformers(SimpleNamespace(attentions=(torch.full((1, 1, 2, 3), 1 / 3),)), tokenizer, ids)


def test_outputs_without_weights(tokenizer):
    with pytest.raises(ConfigError, match="attn_implementation"):
        Attention.from_transformers(SimpleNamespace(attentions=None), tokenizer, torch.tensor([[2, 3]]))
    with pytest.raises(ConfigError, match="row is 1; the inputs have the texts 0 to 0"):
        Attention.from_transformers(SimpleNamespace(attentions=None), tokenizer, torch.tensor([[2, 3]]), row=1)
