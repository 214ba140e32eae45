"""Attributions by word: sums over tokens and edges, compared with loops, and the text in a notebook."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from graphattn.exceptions import ConfigError
from graphattn.models import (
    InputOptions,
    MSTransOptions,
    TextClassifier,
    TrainingOptions,
    UMSTOptions,
)
from graphattn.models.inspection._attention_map import for_display
from graphattn.models.inspection.attributions import (
    attention_rollout,
    gradient_times_weight,
    integrated_gradients,
    leave_one_edge_out,
    top_words,
    word_attributions,
)

SPLIT = ["unbelievably", "fine", "fine"]
WORDS = ["[CLS]", *SPLIT]


def fit(encoder, texts=(SPLIT, ["dull", "film"])):
    brief = TrainingOptions(epochs=1, dev_fraction=0.0)
    inputs = InputOptions(level="bpe", vocabulary_size=25, embedding=6)
    model = TextClassifier(encoder, inputs=inputs, training=brief)
    return model.fit([*texts] * 4, ["good", "bad"] * 4)


def count_words(tokens):
    """The word of each token of SPLIT: tokens are spelled together until they are the word."""
    numbers, spelled = [0], ""
    for token in tokens[1:]:
        numbers.append(numbers[-1] if spelled else numbers[-1] + 1)
        spelled = "" if spelled + token == WORDS[numbers[-1]] else spelled + token
    assert len(numbers) > len(WORDS), "words are split"
    assert numbers[-1] == len(SPLIT)
    return numbers


@pytest.fixture(scope="module", params=["ms-trans", "umst"])
def classifier(request):
    """Heads on tokens alone, or on tokens, words and a relay."""
    star = MSTransOptions(hidden=8, layers=2, heads="window:3=1,star=1")
    return fit({"ms-trans": star, "umst": UMSTOptions(hidden=8, heads=2, layers=1, ffn=8)}[request.param])


def test_tables_have_the_word_of_each_end(classifier):
    attention = classifier.attention(SPLIT)
    table, numbers = attention.table(), count_words(attention.tokens["text"])
    assert {"text", *table.get("source_part", ["text"])} <= {"text", "text word", "text relay"}
    for row in table.itertuples():
        for end in ("source", "target"):
            part, position, token, word = (getattr(row, f"{end}{name}") for name in ("_part", "", "_token", "_word"))
            expected = {
                "text": WORDS[numbers[position]] if position < len(numbers) else None,
                "text word": WORDS[position] if position < 4 else None,
                "text relay": token,
            }
            assert word == expected[part]


def test_words_are_displayed_if_they_are_not_the_tokens(classifier):
    table = classifier.attention(SPLIT).table()
    assert list(for_display(table)) == [name for name in table if name != "scale"]
    whole = table[(table.source_word == table.source_token) & (table.target_word == table.target_token)]
    assert {"source_word", "target_word"} & {*for_display(whole)} == set()


def test_words_sum_their_tokens(classifier):
    table, numbers = (
        integrated_gradients(classifier, SPLIT, label="bad"),
        count_words(classifier.attention(SPLIT).tokens["text"]),
    )
    sums = np.bincount(numbers, table.attribution)
    words = word_attributions(classifier, SPLIT, label="bad")
    assert words.table.word.tolist() == WORDS
    assert words.table.position.tolist() == [0, 1, 2, 3]
    assert words.explains == "log-odds of bad"
    np.testing.assert_allclose(words.table.attribution, sums, rtol=1e-4, atol=1e-6)


def test_attributions_of_a_pair_are_separate(pair_classifier):
    words = word_attributions(pair_classifier, ("dogs bark", "cats"))
    assert words.table.part.tolist() == ["first"] * 3 + ["second"] * 2
    assert words.table.word.tolist() == ["[CLS]", "dogs", "bark", "[CLS]", "cats"]
    assert words.explains.startswith("log-odds of ")
    assert words._repr_html_().count("<p") == 3


def test_words_of_a_translation_have_no_marks(translators):
    translator = translators("ms-trans")
    words = word_attributions(translator, "the dog sees", target="ein hund")
    assert words.table.word.tolist() == ["[CLS]", "the", "dog", "sees"]
    assert words.explains == "log-probability of the output"
    cross = translator.attention("the dog sees", "ein hund").table().query("relation == 'cross'")
    assert set(cross.source_word) == {"[CLS]", "the", "dog", "sees"}
    assert set(cross.target_word) == {"[CLS]", "ein", "hund"}


@pytest.mark.slow
def test_top_words_of_a_corpus(classifier):
    texts = [SPLIT, ["dull", "film"], ["fine", "film", "film"]]
    expected = {}
    for text in texts:
        for word in set(word_attributions(classifier, text, label="good").table.word) - {"[CLS]"}:
            table = word_attributions(classifier, text, label="good").table
            expected.setdefault(word, []).append(table.attribution[table.word == word].sum())
    ranked = sorted(expected, key=lambda word: -abs(sum(expected[word])))
    actual = top_words((word_attributions(classifier, text, label="good") for text in texts), 3)
    assert actual.word.tolist() == ranked[:3]
    np.testing.assert_allclose(actual.total, [sum(expected[word]) for word in ranked[:3]], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(actual["mean"], [np.mean(expected[word]) for word in ranked[:3]], rtol=1e-4, atol=1e-7)
    assert actual.texts.tolist() == [len(expected[word]) for word in ranked[:3]]
    tables = [gradient_times_weight(classifier, text, label="good") for text in texts]
    assert not set(top_words(tables, 50).word) & {"[CLS]", "[relay 0]"}


def test_top_words_in_several_unicode_forms():
    table = pd.DataFrame({"word": ["caf\u00e9", "cafe\u0301", "tea"], "attribution": [1.0, 2.0, 0.5]})
    assert top_words(table).word.tolist() == ["caf\u00e9", "tea"]
    assert top_words(table).total.tolist() == [3.0, 0.5]


def test_order_and_rare_words():
    tables = [
        pd.DataFrame({"word": ["a", "b", "b"], "attribution": [1.0, -1.0, -1.5]}),
        pd.DataFrame({"word": ["a", "c"], "attribution": [1.0, 2.2]}),
        pd.DataFrame({"word": ["a"], "attribution": [1.0]}),
    ]
    assert top_words(tables).word.tolist() == ["a", "b", "c"]
    assert top_words(tables, by="mean").word.tolist() == ["b", "c", "a"]
    assert top_words(tables, 1, by="mean").total.tolist() == [-2.5]
    assert top_words(tables, min_texts=2).word.tolist() == ["a"]
    assert top_words(tables[0]).word.tolist() == ["b", "a"]
    with pytest.raises(ConfigError, match="by is 'sum'; choose one of: total, mean"):
        top_words(tables, by="sum")
    with pytest.raises(ConfigError, match="word or source_word"):
        top_words(pd.DataFrame({"word": ["a"]}))


def test_other_methods_have_words(classifier):
    edges = leave_one_edge_out(classifier, SPLIT, k=3)
    assert set(edges.source_word) <= {*WORDS, "[relay 0]"}
    attention = fit(MSTransOptions(hidden=8, heads=2, layers=1, scales=("3", "N"))).attention(SPLIT)
    nodes = attention_rollout(attention)
    assert nodes.word.tolist() == [WORDS[number] for number in count_words(attention.tokens["text"])]
    assert set(top_words(nodes).word) == {"unbelievably", "fine"}


def luminance(color):
    parts = [part / 255 for part in color]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_words_are_coloured_readably(classifier):
    words = word_attributions(classifier, ["<b>", "fine", "dull", "film"])
    values = [0.0, -2.0, -1.0, 1.0, 0.5]
    html = replace(words, table=words.table.assign(attribution=values))._repr_html_()
    assert "<b>" not in html
    boxes = re.findall(r'background:rgb\((\d+),(\d+),(\d+)\)(;text-decoration:underline)?" title="(.*?)">(.*?)<', html)
    assert [(float(value), word) for *_, value, word in boxes] == [
        *((-2.0, "&lt;b&gt;"), (-1.0, "fine"), (1.0, "dull"), (0.5, "film")),
    ]
    assert [bool(underline) for *_, underline, _, _ in boxes] == [True, True, False, False]
    colors = [tuple(map(int, box[:3])) for box in boxes]
    assert all((luminance(color) + 0.05) / 0.05 >= 4.5 for color in colors), "black letters, WCAG 2.1 AA"
    assert all(red > blue for red, _, blue in colors[:2])
    assert all(red < blue for red, _, blue in colors[2:])
    assert luminance(colors[0]) < luminance(colors[1]), "stronger is darker"
    assert luminance(colors[2]) < luminance(colors[3])
    assert "-2.00" in html
    assert "+2.00" in html


def test_long_and_empty_texts_are_displayed(classifier):
    html = word_attributions(classifier, ["film"] * 205)._repr_html_()
    assert (html.count("title="), "… 5 more" in html) == (200, True)
    assert "raised" in word_attributions(classifier, [])._repr_html_()
