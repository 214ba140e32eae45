"""Metrics of texts against their definitions, and the error if a library is missing."""

import math
import sys
from collections import Counter

import pytest

from graphattn.exceptions import ConfigError
from graphattn.models.training.text_metrics import compare_systems, signatures, text_metrics

REFERENCES = ["the cat sat on the mat", "a dog runs over green grass today", "two birds sing"]
TEXTS = ["the cat sat on a mat", "a dog runs on green grass", "two birds sing"]


def ngrams(words, size):
    return Counter(zip(*(words[start:] for start in range(size)), strict=False))


def bleu(references, texts):
    """Papineni et al. 2002, Eq. in section 2.3: words at blanks, four sizes, a penalty for brevity."""
    logs = 0.0
    for size in range(1, 5):
        matches = total = 0
        for reference, text in zip(references, texts, strict=True):
            own = ngrams(text.split(), size)
            matches += sum((own & ngrams(reference.split(), size)).values())
            total += sum(own.values())
        logs += math.log(matches / total) / 4
    lengths = [sum(len(text.split()) for text in side) for side in (references, texts)]
    return 100 * min(1.0, math.exp(1 - lengths[0] / lengths[1])) * math.exp(logs)


def rouge_n(reference, text, size):
    """Lin 2004: F1 of n-grams."""
    one, other = ngrams(reference.split(), size), ngrams(text.split(), size)
    return 2 * sum((one & other).values()) / (sum(one.values()) + sum(other.values()))


def rouge_l(reference, text):
    """Lin 2004: F1 of the longest common subsequence."""
    one, other = reference.split(), text.split()
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one):
        for j, its in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if word == its else max(table[i][j + 1], table[i + 1][j])
    return 2 * table[-1][-1] / (len(one) + len(other))


def test_metrics_follow_the_definitions():
    figures = text_metrics(REFERENCES, TEXTS)
    assert list(figures) == ["bleu", "chrf", "rouge_1", "rouge_2", "rouge_l"]
    pairs = list(zip(REFERENCES, TEXTS, strict=True))
    assert figures["bleu"] == pytest.approx(bleu(REFERENCES, TEXTS))
    assert figures["rouge_1"] == pytest.approx(100 * sum(rouge_n(*pair, 1) for pair in pairs) / 3)
    assert figures["rouge_2"] == pytest.approx(100 * sum(rouge_n(*pair, 2) for pair in pairs) / 3)
    assert figures["rouge_l"] == pytest.approx(100 * sum(rouge_l(*pair) for pair in pairs) / 3)
    assert 60 < figures["chrf"] < 100


def test_the_best_of_several_references_counts():
    figures = text_metrics([("something else", TEXTS[0]), TEXTS[1], (TEXTS[2], "x", "y")], TEXTS)
    assert figures == pytest.approx(dict.fromkeys(figures, 100.0))


def test_only_bleu_is_case_sensitive():
    figures = text_metrics(["A dog runs over grass"], ["a dog runs over grass"])
    assert figures["bleu"] < 100
    assert figures["rouge_l"] == 100


def test_an_empty_output():
    assert text_metrics(["a dog"], [""]) == dict.fromkeys(("bleu", "chrf", "rouge_1", "rouge_2", "rouge_l"), 0.0)


def test_signatures_describe_the_computation():
    actual = signatures(REFERENCES, TEXTS)
    assert "case:mixed|eff:no|tok:13a|smooth:exp|version:" in actual["bleu"]
    assert actual["bleu"].startswith("nrefs:1")
    assert "nc:6|nw:0" in actual["chrf"]


def test_bootstrap_detects_significant_differences():
    references = [f"the dog number {number} runs over green grass" for number in range(60)]
    worse = ["a cat" if number % 4 else text for number, text in enumerate(references)]
    other = [text.replace("over", "on") if number % 2 else text for number, text in enumerate(references)]
    twin = [text if number % 2 else text.replace("over", "on") for number, text in enumerate(references)]
    table = compare_systems(references, {"one": other, "worse": worse, "twin": twin}, samples=300)
    assert table.keys() == {"bleu", "chrf"}
    bleu_row = table["bleu"]
    assert list(bleu_row) == ["one", "worse", "twin"]
    assert "p_value" not in bleu_row["one"]
    assert bleu_row["worse"]["p_value"] < 0.01 < 0.2 < bleu_row["twin"]["p_value"]
    assert bleu_row["one"]["score"] == pytest.approx(text_metrics(references, other)["bleu"])
    assert abs(bleu_row["one"]["mean"] - bleu_row["one"]["score"]) < bleu_row["one"]["half_width"]
    assert (
        compare_systems(references, {"one": other, "worse": worse}, samples=300)["bleu"]["worse"] == bleu_row["worse"]
    )
    assert compare_systems(references, {"one": other, "same": other}, samples=300)["chrf"]["same"]["p_value"] == 1.0


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("sacrebleu.metrics", "BLEU and chrF need sacrebleu"),
        ("rouge_score.rouge_scorer", "ROUGE needs rouge_score"),
    ],
)
def test_a_missing_library(module, message, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as caught:
        text_metrics(["a"], ["a"])
    assert str(caught.value) == f"{message}, which is not installed: pip install 'graphattn[translation]'"
