"""Tables, graphs, matrices and selections of an attention result have the same weights."""

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, Hint
from graphattn.models.inspection import Attention, AttentionMap
from graphattn.models.inspection._attention_map import for_display


def make_attention(sources=(0, 1, 0, 1), targets=(0, 0, 1, 1), weights=((0.5,), (0.5,), (0.25,), (0.75,)), part="text"):
    single = AttentionMap(0, 0, "all", part, "text", sources, targets, weights)
    words = ("not", "silly")
    return Attention("not silly", "good", {"good": 1.0}, {"text": words}, {"text": Sentence(words)}, (single,))


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda values: torch.tensor(values).bfloat16()])
def test_arrays_may_be_tensors(kind):
    values = [[0.5], [0.5], [0.25], [0.75]]
    weights = kind(values).requires_grad_() if kind is torch.tensor else kind(values)
    ends = (kind, kind) if kind in (list, np.array) else (torch.tensor, torch.tensor)
    attention = make_attention(ends[0]([0, 1, 0, 1]), ends[1]([0, 0, 1, 1]), weights)
    assert attention.table().weight.tolist() == [0.5, 0.5, 0.25, 0.75]
    assert attention.matrix(0, 0).toarray().tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert len(attention.top(2)) == 2
    assert attention.graph().number_of_edges() == 4


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"sources": [0, 1, 0, 2]}, ("maps",), "position 2; part 'text' has 2 tokens"),
        ({"targets": torch.tensor([0, -1, 1, 1])}, ("maps",), "position -1"),
        ({"part": "first"}, ("maps",), "'first'"),
        ({"sources": [0.0, 1, 0, 1]}, ("sources",), "integers"),
        ({"targets": [0, 0, 1]}, ("targets",), "4 sources"),
        ({"weights": [0.5] * 4}, ("weights",), "edges, heads"),
    ],
)
def test_invalid_maps_are_rejected(arrays, options, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_attention(**arrays)
    assert caught.value.options == options


def test_table_of_a_text(estimators):
    estimator, x = estimators["multilabel"]
    attention = estimator.attention(x)
    table = attention.table()
    assert attention.tokens == {"text": ("[CLS]", *x.split())}
    columns = "layer head relation scale source target source_token target_token source_word target_word"
    assert list(table) == [*columns.split(), "source_word_index", "target_word_index", "weight"]
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


def test_equal_words_have_different_numbers():
    tokens, words = ["[CLS]", "the", "cat", "##s", "see", "the", "dog"], [None, 0, 1, 1, 2, 3, 4]
    table = Attention.from_dense(np.full((1, 1, 7, 7), 1 / 7), tokens, words=words).table()
    for end in ("source", "target"):
        numbers = dict(zip(table[end], table[f"{end}_word_index"], strict=True))
        assert list(numbers.values()) == [0, 1, 2, 2, 3, 4, 5]
    by_word = table[table.target == 0].groupby("source_word_index").weight.sum()
    assert by_word.tolist() == pytest.approx([1 / 7, 1 / 7, 2 / 7, 1 / 7, 1 / 7, 1 / 7])
    assert "source_word_index" in for_display(table)


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


@pytest.mark.slow
def test_graph_and_matrix_of_every_head_have_the_tables_weights(fitted_estimator):
    estimator, x = fitted_estimator
    attention = estimator.attention(x)
    nodes = [(part, place) for part, texts in attention.tokens.items() for place in range(len(texts))]
    by_node = dict(zip(nodes, attention.graph(), strict=True))
    table = attention.table()
    if "target_part" not in table:
        table = table.assign(source_part="text", target_part="text")
    for (layer, head), rows in table.groupby(["layer", "head"]):
        graph = attention.graph(layer, head)
        assert [(data["part"], data["index"]) for _, data in graph.nodes(data=True)] == nodes
        assert [graph.nodes[node]["text"] for node in graph] == [t for own in attention.tokens.values() for t in own]
        expected = {
            ((row.source_part, row.source), (row.target_part, row.target), row.relation): row.weight
            for row in rows.itertuples()
        }
        edges = {
            (by_node[source], by_node[target], layer, head, relation): weight
            for (source, target, relation), weight in expected.items()
        }
        columns = ("layer", "head", "relation")
        rows_of_graph = [(*ends, *map(data.get, columns), data["weight"]) for *ends, data in graph.edges(data=True)]
        assert sorted(rows_of_graph) == sorted((*edge, weight) for edge, weight in edges.items())
        matrix = attention.matrix(layer, head)
        assert matrix.nnz == len(rows)
        dense = matrix.toarray()
        for (source, target, _), weight in expected.items():
            assert dense[nodes.index(target), nodes.index(source)] == np.float32(weight)


def test_a_graph_of_all_heads_has_all_edges(estimators):
    estimator, x = estimators["transformer"]
    attention = estimator.attention(x)
    everything = attention.graph()
    assert everything.number_of_edges() == len(attention.table())
    strongest = attention.top(1).iloc[0]
    nodes = list(everything)
    edges = everything.get_edge_data(nodes[strongest.source], nodes[strongest.target]).values()
    assert dict(strongest[["layer", "head", "relation", "weight"]]) in edges


def test_dependencies_of_edges(classifier, sentences):
    tree = sentences[1]  # dogs sleep
    attention = classifier.attention(tree)
    table = attention.table()
    assert list(table)[-2:] == ["deprel", "weight"]
    names = {("dogs", "sleep"): "nsubj>", ("sleep", "dogs"): "nsubj<"}
    ends = zip(table.source_token, table.target_token, strict=True)
    assert table.deprel.tolist() == [names.get(pair, "") for pair in ends]
    assert {"window:3", "dependency", "all"} <= set(table[table.deprel == "nsubj>"].relation)
    edges = attention.graph(layer=0).edges(data="deprel")
    assert [name for *_, name in edges].count("nsubj<") == (table[table.layer == 0].deprel == "nsubj<").sum()
    assert "deprel" in for_display(table)
    assert "deprel" not in for_display(table[table.relation == "window:1"])


def test_repr_shows_the_prediction(estimators):
    attention = estimators["multilabel"][0].attention("dogs sleep")
    assert (
        repr(attention)
        == f"Attention(prediction={attention.prediction!r}, tokens={{'text': ('[CLS]', 'dogs', 'sleep')}})"
    )


@pytest.mark.parametrize(
    ("layer", "head", "option"), [(2, 0, "layer"), (-1, 0, "layer"), (0, 3, "head"), (1, -1, "head")]
)
def test_missing_layers_and_heads(estimators, layer, head, option):
    attention = estimators["tagger"][0].attention(["dogs"])
    with pytest.raises(ConfigError) as caught:
        attention.graph(layer, head)
    assert caught.value.options == (option,)


def test_the_strongest_edges(fitted_estimator):
    estimator, x = fitted_estimator
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


@pytest.mark.parametrize("arguments", [{"k": 0}, {"by": "token"}], ids=["k", "by"])
def test_strongest_edges_of_an_empty_text(estimators, arguments):
    estimator, x = estimators["tagger"]
    with pytest.raises(ConfigError) as caught:
        estimator.attention(x).top(**arguments)
    assert caught.value.options == tuple(arguments)


def test_selected_weights(estimators):
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
    ("arguments", "option"),
    [
        ({"relation": "star"}, "relation"),
        ({"head": 9}, "head"),
        ({"head": 0, "relation": "window:5"}, "relation"),
        ({"layer": 1, "head": 0, "relation": "window:5"}, "relation"),
    ],
)
def test_invalid_selections(estimators, arguments, option):
    with pytest.raises(ConfigError) as caught:
        estimators["tagger"][0].attention(["dogs", "sleep"]).only(**arguments)
    assert caught.value.options == (option,)


def test_a_relation_missing_in_a_layer(estimators):
    estimator = estimators["tagger"][0]
    assert [row["window:5"] for row in estimator.encoder_.layer_heads()] == [0, 1]
    with pytest.raises(ConfigError) as caught:
        estimator.attention(["dogs", "sleep"]).only(layer=0, relation="window:5")
    assert caught.value.options == ("relation",)


def test_weights_by_feature_must_be_requested(estimators):
    estimator, x = estimators["transformer"]
    with pytest.raises(ConfigError, match="no weights by feature"):
        estimator.attention(x, features=True).features(0, 0)


def test_a_text_in_a_list_is_one_word(estimators):
    estimator, text = estimators["multilabel"]
    with pytest.warns(Hint, match="'the longest dogs bark loudly t' is one word"):
        assert len(estimator.attention([text]).tokens["text"]) == 2
