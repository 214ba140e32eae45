import copy
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

import graphattn
from graphattn.builders import Example, Sentence
from graphattn.exceptions import ConfigError, DataError, NotFittedError
from graphattn.models import (
    BiLSTMOptions,
    DuoOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    MTSAOptions,
    PairClassifier,
    SequenceTagger,
    TextClassifier,
    TrainingOptions,
    TransformerOptions,
)
from graphattn.models.encoders.transformer import sinusoids

BRIEF = TrainingOptions(epochs=1, dev_fraction=0.0)
BPE = InputOptions(level="bpe", vocabulary_size=30, embedding=6)
WORDS = InputOptions(embedding=6)
EVERYTHING = MSTransOptions(
    hidden=6,
    heads=4,
    head_feats=3,
    layers=2,
    scales=("1", "3", "N/2"),
    relations=("all:1", "group:2", "dependency:1", "forward:1", "backward:1"),
)
TRANSFORMER = TransformerOptions(hidden=6, heads=2, layers=2, ffn=8)
PARSED = [
    Sentence("the longest dogs bark loudly today".split(), heads=[3, 3, 4, 0, 4, 4]),
    Sentence("dogs sleep".split(), heads=[2, 0]),
]
TEXTS = [" ".join(sentence.tokens) for sentence in PARSED]


def fitted(estimator, inputs, labels):
    return estimator.fit(inputs * 4, labels * 4)


@pytest.fixture(scope="module")
def estimators():
    """A model of each task and encoder, and an input for it."""
    tags = [["D", "A", "N", "V", "R", "R"], ["N", "V"]]
    pairs = [(PARSED[0], PARSED[1]), (PARSED[1], PARSED[0])]
    small = MSTransOptions(hidden=6, heads=3, layers=2, scales=("1", "3", "5"))
    return {
        "classifier": (
            fitted(TextClassifier(EVERYTHING, inputs=BPE, training=BRIEF), PARSED, ["loud", "quiet"]),
            PARSED[0],
        ),
        "multilabel": (
            fitted(TextClassifier(small, inputs=WORDS, training=BRIEF, multilabel=True), TEXTS, [["a", "b"], []]),
            TEXTS[0],
        ),
        "transformer": (
            fitted(TextClassifier(TRANSFORMER, inputs=BPE, training=BRIEF), TEXTS, [3, 4]),
            TEXTS[0],
        ),
        "tagger": (
            fitted(SequenceTagger(small, inputs=WORDS, training=BRIEF), [text.split() for text in TEXTS], tags),
            TEXTS[0].split(),
        ),
        "crf": (
            fitted(
                SequenceTagger(EVERYTHING, inputs=BPE, training=BRIEF, head=HeadOptions(crf=True)),
                PARSED,
                tags,
            ),
            PARSED[0],
        ),
        "pair": (
            fitted(PairClassifier(EVERYTHING, inputs=BPE, training=BRIEF), pairs, ["yes", "no"]),
            pairs[0],
        ),
    }


@pytest.fixture(params=["classifier", "multilabel", "transformer", "tagger", "crf", "pair"])
def fitted_one(request, estimators):
    return estimators[request.param]


def in_float64(estimator):
    wide = copy.copy(estimator)
    wide.model_ = copy.deepcopy(estimator.model_).double()
    return wide


def mask_of(relation, word, heads):
    """(N, N) which sources a target attends to, straight from the relation's definition."""
    count = len(word)
    target, source = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    same_word = word[target] == word[source]
    if relation.startswith("window:"):
        name = relation.removeprefix("window:")
        width = max(1, count // int(name[2:])) if name.startswith("N/") else int(name)
        return (target - source).abs() <= width // 2
    if relation == "dependency":
        linked = torch.eye(len(heads) + 1, dtype=torch.bool)  # [CLS] is word 0, so that the root's head is itself
        for dependent, head in enumerate(heads, start=1):
            if head:
                linked[dependent, head] = linked[head, dependent] = True
        return linked[word[target], word[source]]
    return {
        "all": torch.ones_like(same_word),
        "group": same_word,
        "forward": source < target,
        "backward": source > target,
    }[relation]


def dense_attention(attention, tokens, word, heads):
    """One layer's output and, for each relation, its weights (target, source, heads), by dense matrices."""
    query, key, value = attention.project(tokens).view(len(tokens), 3, -1, attention.head_feats).unbind(1)
    outputs, weights, first = [], {}, 0
    for relation, count in attention.heads.items():
        own = slice(first, first + count)
        scores = torch.einsum("thd,shd->tsh", query[:, own], key[:, own]) / math.sqrt(attention.head_feats)
        hidden = ~mask_of(relation, word, heads).unsqueeze(2)
        weights[relation] = scores.masked_fill(hidden, -math.inf).softmax(1).nan_to_num(0)
        outputs.append(torch.einsum("tsh,shd->thd", weights[relation], value[:, own]))
        first += count
    return attention.output(torch.cat(outputs, 1).flatten(1)), weights


def dense_reference(model, tokens, word, heads):
    """The weights of every layer for one text."""
    layers = []
    if hasattr(model.encoder.layers[0], "widen"):
        tokens = tokens + sinusoids(torch.arange(len(tokens)), model.encoder.width)
    for layer in model.encoder.layers:
        attended, weights = dense_attention(layer.attention, tokens, word, heads)
        layers.append(weights)
        if hasattr(layer, "widen"):
            tokens = layer.attention_norm(tokens + attended)
            tokens = layer.ffn_norm(tokens + layer.narrow(F.relu(layer.widen(tokens))))
        else:
            tokens = layer.norm(tokens + F.relu(attended))
    return layers


def test_weights_equal_a_dense_reference(fitted_one):
    estimator, x = fitted_one
    wide = in_float64(estimator)
    attention = wide.attention(x)
    graph = wide._corpus(wide._columns([x]))[[0]].graph
    data = graph.nodes["token"].data
    lengths = graph.batch_num_nodes("token").tolist()
    with torch.no_grad():
        embedded = wide.model_.embedding(data["id"]).split(lengths)
    words = data["word"].long().split(lengths)
    sources = x if isinstance(x, tuple) else (x,)
    for text, (name, source) in enumerate(zip(attention.tokens, sources, strict=True)):
        with torch.no_grad():
            reference = dense_reference(wide.model_, embedded[text], words[text], getattr(source, "heads", None))
        maps = [one for one in attention.maps if one.target_part == name]
        assert [(layer, relation) for layer, row in enumerate(reference) for relation in row] == [
            (one.layer, one.relation) for one in maps
        ]
        for one in maps:
            weights = reference[one.layer][one.relation]
            dense = np.zeros(weights.shape)
            dense[one.targets, one.sources] = one.weights
            np.testing.assert_allclose(dense, weights.numpy(), rtol=0, atol=1e-10)
            assert len(one.sources) == mask_of(one.relation, words[text], getattr(source, "heads", None)).sum()


def test_weights_sum_to_one(fitted_one):
    estimator, x = fitted_one
    table = estimator.attention(x).table()
    part = ["target_part"] if "target_part" in table else []
    sums = table.groupby(["layer", "head", "relation", *part, "target"]).weight.sum()
    np.testing.assert_allclose(sums, 1, atol=1e-6)
    assert (table.weight >= 0).all()


def test_the_prediction_is_that_of_predict(fitted_one):
    estimator, x = fitted_one
    before = estimator.predict_proba([x])[0]
    attention = estimator.attention(x)
    predicted = estimator.predict([x])
    assert attention.prediction == (predicted.tolist() if isinstance(predicted, np.ndarray) else predicted)[0]
    assert not isinstance(attention.prediction, np.generic)
    assert np.array_equal(before, estimator.predict_proba([x])[0])


def test_scores_do_not_depend_on_whether_weights_are_asked_for(fitted_one):
    estimator, x = fitted_one
    batch = estimator._corpus(estimator._columns([x]))[[0]]
    with torch.inference_mode():
        torch.testing.assert_close(estimator.model_(batch, weights=[]), estimator.model_(batch), rtol=1e-5, atol=1e-6)


def test_one_pass_and_nothing_left_behind(fitted_one):
    estimator, x = fitted_one

    def state():
        return {
            name: {key: id(value) for key, value in vars(module).items()}
            for name, module in estimator.model_.named_modules()
        }

    passes = []
    hook = estimator.model_.register_forward_hook(lambda *_: passes.append(1))
    before = state()
    try:
        estimator.attention(x)
    finally:
        after = state()
        hook.remove()
    assert passes == [1]
    assert after == before


def test_dropout_is_off_and_the_mode_comes_back(estimators):
    estimator, x = estimators["classifier"]
    expected = estimator.attention(x).table()
    estimator.model_.train()
    try:
        pd.testing.assert_frame_equal(estimator.attention(x).table(), expected)
        assert estimator.model_.training
    finally:
        estimator.model_.eval()


def test_table_of_a_text(estimators):
    estimator, x = estimators["multilabel"]
    attention = estimator.attention(x)
    table = attention.table()
    assert attention.tokens == {"text": ("[CLS]", *x.split())}
    columns = "layer head relation scale source target source_token target_token weight"
    assert list(table) == columns.split()
    heads = [
        [relation for relation, count in row.items() for _ in range(count)] for row in estimator.encoder_.layer_heads()
    ]
    seen = table.drop_duplicates(["layer", "head"])[["layer", "head", "relation"]]
    assert seen.to_numpy().tolist() == [
        [layer, head, relation] for layer, row in enumerate(heads) for head, relation in enumerate(row)
    ]
    first_wide = next(head for head, relation in enumerate(heads[0]) if relation == "window:3")
    rows = table[(table.layer == 0) & (table["head"] == first_wide)]
    assert rows.target.tolist() == [0, 0, *[place for place in range(1, 6) for _ in range(3)], 6, 6]
    assert rows.source.tolist()[:8] == [0, 1, 0, 1, 2, 1, 2, 3]
    tokens = ("[CLS]", *x.split())
    assert rows.source_token.tolist() == [tokens[place] for place in rows.source]
    assert rows.target_token.tolist() == [tokens[place] for place in rows.target]
    assert set(rows.scale) == {"3"}
    (one,) = attention.only(layer=0, head=first_wide).maps
    assert rows.weight.tolist() == one.weights[:, 0].tolist()


def test_table_of_a_pair(estimators):
    estimator, (first, second) = estimators["pair"]
    attention = estimator.attention((first, second))
    table = attention.table()
    assert list(table)[3:8] == ["scale", "source_part", "target_part", "source", "target"]
    for text, sentence in (("first", first), ("second", second)):
        tokens = ("[CLS]", *estimator.vocabulary_.sentence(sentence).tokens)
        assert attention.tokens[text] == tokens
        rows = table[
            (table.target_part == text) & (table.source_part == text) & (table.relation == "all") & (table.layer == 1)
        ]
        assert len(rows) == len(tokens) ** 2
        assert rows.source_token.tolist() == list(tokens) * len(tokens)
        assert rows.target_token.tolist() == [token for token in tokens for _ in tokens]


def test_graph_and_matrix_of_every_head_hold_the_tables_weights(fitted_one):
    estimator, x = fitted_one
    attention = estimator.attention(x)
    nodes = [(part, place) for part, texts in attention.tokens.items() for place in range(len(texts))]
    table = attention.table()
    if "target_part" not in table:
        table = table.assign(source_part="text", target_part="text")
    for (layer, head), rows in table.groupby(["layer", "head"]):
        graph = attention.graph(layer, head)
        assert list(graph) == nodes
        assert [graph.nodes[node]["text"] for node in graph] == [t for own in attention.tokens.values() for t in own]
        expected = {
            ((row.source_part, row.source), (row.target_part, row.target), (layer, head, row.relation)): row.weight
            for row in rows.itertuples()
        }
        assert {(*ends, key): data["weight"] for *ends, key, data in graph.edges(keys=True, data=True)} == expected
        matrix = attention.matrix(layer, head)
        assert matrix.nnz == len(rows)
        dense = matrix.toarray()
        for (source, target, _), weight in expected.items():
            assert dense[nodes.index(target), nodes.index(source)] == np.float32(weight)


def test_a_graph_of_everything_has_all_edges(estimators):
    estimator, x = estimators["transformer"]
    attention = estimator.attention(x)
    everything = attention.graph()
    assert everything.number_of_edges() == len(attention.table())
    strongest = attention.top(1).iloc[0]
    key = (strongest.layer, strongest["head"], strongest.relation)
    edge = everything.edges[("text", strongest.source), ("text", strongest.target), key]
    assert edge == dict(zip(("layer", "head", "relation", "weight"), (*key, strongest.weight), strict=True))


def test_a_saved_model_attends_alike(estimators, tmp_path):
    estimator, x = estimators["pair"]
    loaded = graphattn.load(estimator.save(tmp_path / "model"))
    pd.testing.assert_frame_equal(loaded.attention(x).table(), estimator.attention(x).table())


def test_texts_without_tokens(estimators):
    attention = estimators["transformer"][0].attention("")
    assert attention.tokens == {"text": ("[CLS]",)}
    assert attention.table().weight.tolist() == [1.0] * 4
    assert attention.top().empty
    assert estimators["tagger"][0].attention([]).prediction == []


def test_an_example_is_an_input(estimators):
    estimator, text = estimators["transformer"]
    assert estimator.attention(Example(text, label="3")).tokens == estimator.attention(text).tokens


def test_repr_says_what_was_predicted(estimators):
    attention = estimators["multilabel"][0].attention("dogs sleep")
    assert (
        repr(attention)
        == f"Attention(prediction={attention.prediction!r}, tokens={{'text': ('[CLS]', 'dogs', 'sleep')}})"
    )


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, 0, "layer 2 does not exist; layers count from 0 to 1"),
        (-1, 0, "layer -1 does not exist; layers count from 0 to 1"),
        (0, 3, "layer 0 has no head 3; its heads count from 0 to 2"),
        (1, -1, "layer 1 has no head -1; its heads count from 0 to 2"),
    ],
)
def test_layers_and_heads_that_do_not_exist(estimators, layer, head, message):
    attention = estimators["tagger"][0].attention(["dogs"])
    with pytest.raises(ConfigError) as caught:
        attention.graph(layer, head)
    assert str(caught.value) == message


def test_an_lstm_has_no_attention():
    model = fitted(TextClassifier(BiLSTMOptions(hidden=4), inputs=WORDS, training=BRIEF), TEXTS, [0, 1])
    with pytest.raises(ConfigError) as caught:
        model.attention(TEXTS[0])
    assert str(caught.value) == "encoder 'bilstm' has no attention weights"


def test_attention_before_fit():
    with pytest.raises(NotFittedError) as caught:
        TextClassifier().attention("dogs")
    assert str(caught.value) == "this TextClassifier is not trained yet; call fit, or graphattn.load a saved one"


def test_a_text_is_no_pair(estimators):
    with pytest.raises(DataError) as caught:
        estimators["pair"][0].attention("dogs")
    assert str(caught.value) == "input 0 of PairClassifier is no pair of texts. Give (first, second)."


def test_the_strongest_edges(fitted_one):
    estimator, x = fitted_one
    attention = estimator.attention(x)
    table = attention.table()
    part = ["target_part"] if "target_part" in table else []
    counted = table[table.groupby(["layer", "head", *part, "target"]).weight.transform("size") > 1]
    expected = counted.sort_values("weight", ascending=False, kind="stable")
    assert attention.top(7).weight.tolist() == expected.weight.head(7).tolist()
    by_head = attention.top(2, by=["layer", "head"])
    largest = expected.groupby(["layer", "head"]).head(2).sort_values(["layer", "head"], kind="stable")
    assert by_head.weight.tolist() == largest.weight.tolist()
    assert list(by_head) == list(table)
    assert attention.top(1, by="relation").relation.tolist() == sorted(set(counted.relation))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k is 0; it must be at least 1"),
        ({"by": "token"}, "by is 'token'; choose among: layer, head, relation, source_part, target_part"),
    ],
)
def test_strongest_edges_of_nothing(estimators, arguments, message):
    estimator, x = estimators["tagger"]
    with pytest.raises(ConfigError) as caught:
        estimator.attention(x).top(**arguments)
    assert str(caught.value) == message


def test_a_part_of_the_weights(estimators):
    estimator, x = estimators["classifier"]
    attention = estimator.attention(x)
    table = attention.table()
    kept = attention.only(layer=1, relation="group").table()
    expected = table[(table.layer == 1) & (table.relation == "group")].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, expected)
    one = attention.only(layer=0, head=3)
    pd.testing.assert_frame_equal(one.table(), table[(table.layer == 0) & (table["head"] == 3)].reset_index(drop=True))
    assert (one.prediction, one.tokens) == (attention.prediction, attention.tokens)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relation": "star"}, "no head looks along 'star'; heads look along: window:1, window:3, window:5"),
        ({"head": 9}, "a layer has no head 9; its heads count from 0 to 2"),
        ({"head": 0, "relation": "window:5"}, "head 0 does not look along 'window:5'"),
        ({"layer": 1, "head": 0, "relation": "window:5"}, "head 0 does not look along 'window:5' in layer 1"),
    ],
)
def test_parts_that_do_not_exist(estimators, arguments, message):
    with pytest.raises(ConfigError) as caught:
        estimators["tagger"][0].attention(["dogs", "sleep"]).only(**arguments)
    assert str(caught.value) == message


def test_a_relation_that_a_layer_lacks(estimators):
    estimator = estimators["tagger"][0]
    assert [row["window:5"] for row in estimator.encoder_.layer_heads()] == [0, 1]
    with pytest.raises(ConfigError) as caught:
        estimator.attention(["dogs", "sleep"]).only(layer=0, relation="window:5")
    assert str(caught.value) == "no head looks along 'window:5' in layer 0"


def test_probabilities_are_those_of_predict(estimators):
    for kind in ("classifier", "multilabel", "pair"):
        estimator, x = estimators[kind]
        chances = estimator.predict_proba([x])[0]
        found = estimator.attention(x).probabilities
        assert list(found) == estimator.classes_.tolist()
        assert list(found.values()) == pytest.approx(chances.tolist(), abs=1e-6)
    for kind in ("tagger", "crf"):
        estimator, x = estimators[kind]
        found = [list(own.values()) for own in estimator.attention(x).probabilities]
        np.testing.assert_allclose(found, estimator.predict_proba([x])[0], atol=1e-5)


MTSA = MTSAOptions(hidden=6, layers=1, heads=2)
DUO = DuoOptions(hidden=6)


@pytest.mark.parametrize("options", [MTSA, DUO, DuoOptions(hidden=6, window="3")])
def test_other_encoders_attend_as_densely(options):
    """Duo's two sets in their order; MTSA's weights by feature, and their means."""
    wide = in_float64(fitted(TextClassifier(options, inputs=WORDS, training=BRIEF), TEXTS, [3, 4]))
    attention = wide.attention(TEXTS[0], features=options is MTSA)
    graph = wide._corpus([[TEXTS[0]]])[[0]].graph
    word = torch.arange(len(attention.tokens["text"]))
    with torch.no_grad():
        tokens = wide.model_.embedding(graph.nodes["token"].data["id"])
        for one in (one for several in attention.maps for one in several.by_head()):
            if options is MTSA:
                scores = mtsa_scores(wide.model_.encoder.layers[0].attention, tokens, one.first_head)
            else:
                own = tokens.split(wide.model_.encoder.parts, dim=1)[one.first_head]
                scores = wide.model_.encoder.scores[one.first_head](own) @ own.T / math.sqrt(own.shape[1])
                scores = scores.unsqueeze(2)
            hidden = ~mask_of(one.relation, word, None).unsqueeze(2)
            weights = scores.masked_fill(hidden, -math.inf).softmax(1)
            expected = weights[one.targets, one.sources].numpy()
            np.testing.assert_allclose(one.weights[:, 0], expected.mean(1), atol=1e-10)
            if options is MTSA:
                np.testing.assert_allclose(attention.features(0, one.first_head), expected, atol=1e-10)
                np.testing.assert_allclose(one.features.mean(2), one.weights, atol=1e-12)


def mtsa_scores(layer, tokens, head):
    """(targets, sources, features) of the gated variant: log-sigmoid of the pairs' plus the sources' scores."""
    rows = slice(head * layer.head_feats, (head + 1) * layer.head_feats)
    value = F.elu(tokens @ layer.value.weight[rows].T + layer.value.bias[rows])
    query, key = value @ layer.query.weight[head], value @ layer.key.weight[head]
    inner = F.elu(value @ layer.source_inner.weight[head] + layer.source_inner.bias[head])
    source = inner @ layer.source_outer.weight[head] + layer.source_outer.bias[head]
    return F.logsigmoid(query @ key.T / math.sqrt(layer.head_feats)).unsqueeze(2) + source


def test_features_that_were_not_asked_for(estimators):
    estimator, x = estimators["transformer"]
    with pytest.raises(ConfigError) as caught:
        estimator.attention(x, features=True).features(0, 0)
    assert str(caught.value) == (
        "there are no weights by feature; ask for them with attention(x, features=True), of a model with the "
        "encoder mtsa"
    )


def test_the_page_has_everything(estimators):
    estimator, (first, second) = estimators["pair"]
    attention = estimator.attention((first, second))
    page = json.loads(json.dumps(attention.to_page()))
    assert list(page) == ["version", "title", "prediction", "tokens", "parts", "words", "maps"]
    assert page["title"] == "the longest dogs bark loudly today / dogs sleep"
    assert page["prediction"]["label"] == attention.prediction
    assert page["parts"] == ["first", "second"]
    assert page["words"]["second"] == attention.to_page()["words"]["second"]
    rows = pd.concat([pd.DataFrame(own) for own in page["maps"]]).sort_values(["layer", "head"], kind="stable")
    table = attention.table()
    assert rows.source.tolist() == table.source.tolist()
    assert rows.target_part.tolist() == table.target_part.tolist()
    assert rows.weight.tolist() == pytest.approx(table.weight.tolist(), abs=1e-6)


def test_the_page_of_other_tasks(estimators):
    estimator, x = estimators["multilabel"]
    assert estimator.attention(x).to_page()["prediction"]["labels"] == list(estimator.predict([x])[0])
    estimator, words = estimators["tagger"]
    found = estimator.attention(words).to_page()["prediction"]
    assert (found["words"], found["tags"]) == (words, estimator.predict([words])[0])
    assert len(found["probabilities"]) == len(words)
