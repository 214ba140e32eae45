"""Texts whose words the model does not know, or that are split otherwise than its training set."""

import random
import warnings

import pytest
from tokenizers import Tokenizer, models

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.exceptions import GraphAttnWarning, Hint
from graphattn.models import InputOptions, SequenceTagger, TextClassifier, TrainingOptions, load
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.word_checks import (
    expect_unknown_words,
    hint_at_unsplit_texts,
    share_of_cut_words,
    warn_about_words,
)

WEB = WordSplitter.by_rule("web")
SEGMENTED = {
    "Chinese": ["名人 会议 成员 的 是".split(), "北京 学生 和 我们".split()],
    "Japanese": ["私 は 学校 に 行き まし た".split()],
    "Vietnamese": [["sinh viên", "học", "tiếng Việt"]],
    "French": ["l' homme d' État qu' il aime".split()],
    "Thai": ["ฉัน ชอบ อาหาร ไทย".split()],
}


@pytest.mark.parametrize("language", SEGMENTED)
def test_words_of_segmented_corpora_would_be_cut(language):
    assert share_of_cut_words(Texts([SEGMENTED[language]]), WEB) > 0.3


def test_words_of_raw_texts_and_of_the_same_rules_are_not_cut():
    texts = ["It isn't the U.S., 3,000.50 km from here!", "Дом и кот.", "집에 가요"]
    assert share_of_cut_words(Texts([texts]), WEB) is None
    assert share_of_cut_words(Texts([[*texts, *WEB.split_sources(texts)]]), WEB) == 0


def check(texts, training, *, cut=0.0):
    vocabulary = Vocabulary.train(training)
    builder = TextGraphBuilder("window:3", vocabulary=vocabulary)
    expected = expect_unknown_words([builder.layout(training)], vocabulary)
    return warn_about_words(Texts([texts]), [builder.layout(texts)], vocabulary, cut=cut, expected=expected)


KNOWN, OTHER = [["a", "b", "c", "d"]] * 30, ["x y z a"] * 30


def test_the_share_of_unknown_words_is_estimated_by_those_that_occur_once():
    training = [["a", "b", "a", "c", "d", "d", "d", "a"]]
    vocabulary = Vocabulary.train(training)
    layout = TextGraphBuilder("window:3", vocabulary=vocabulary).layout(training)
    assert expect_unknown_words([layout], vocabulary) == 2 / 8


def test_raw_texts_of_unknown_words_cause_a_warning():
    assert check(["a b c d"] * 30, KNOWN) is None
    assert check(["a b c x"] * 30, KNOWN).options == ("format",)
    assert check(["a b c x"] * 30, KNOWN, cut=None) is None, "a model of raw texts"
    assert check(["a b c x"], KNOWN) is None, "too few words"


def test_pretrained_models_cut_dates_and_hyphens():
    pretrained = PretrainedVocabulary(Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")))

    def warn(vocabulary, cut):
        return warn_about_words(Texts([["1996-08-22"]]), [], vocabulary, cut=cut, expected=None)

    assert warn(pretrained, 0.1) is None
    assert warn(pretrained, 0.3) is not None
    assert warn(Vocabulary.train(["a"], level="bpe"), 0.1) is not None


def test_most_words_unknown_cause_a_hint():
    assert isinstance(check(OTHER, KNOWN, cut=None), Hint)
    assert isinstance(check([text.split() for text in OTHER], KNOWN), Hint)
    assert check(["x y a b"] * 30, KNOWN, cut=None) is None


def test_raw_text_of_a_tagger_of_segmented_words(tmp_path):
    sentences = [Sentence(words, tags=["X", *["O"] * (len(words) - 1)]) for words in SEGMENTED["Chinese"] * 8]
    tagger = SequenceTagger(training=TrainingOptions(epochs=1, dev_fraction=0)).fit(sentences)
    tagger = load(tagger.save(tmp_path / "model"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphAttnWarning)
        tagger.predict([["名人", "会议"]])
    with pytest.warns(GraphAttnWarning, match="would cut"):
        tagger.predict(["名人会议"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphAttnWarning)
        tagger.predict(["会议"])


@pytest.mark.parametrize(
    ("texts", "hinted"),
    [
        (["นี่คือร้านอาหารที่ดีมาก"], False),  # split into grapheme clusters
        (["thisisagoodrestaurant really"], False),  # ten letters or fewer on average, or two words
        (["thisisagoodrestaurantandhotel"], True),
        (["ესარისკარგირესტორანი"], True),
        (["good", "bad"], False),
    ],
)
def test_unsplit_texts(texts, hinted):
    split = list(map(WEB.split, texts))
    assert (hint_at_unsplit_texts(Texts([texts * 100], words=[split * 100])) is not None) == hinted


@pytest.mark.slow
def test_a_classifier_of_unsplit_texts_hints_once():
    generator = random.Random(0)
    texts = ["".join(generator.choices(["talo", "auto", "kirja", "meri"], k=6)) for _ in range(120)]
    training = TrainingOptions(epochs=1)
    with pytest.warns(Hint, match="words of") as caught:
        TextClassifier(training=training).fit(texts, ["x", "y"] * 60)
    hints = [hint for hint in caught if isinstance(hint.message, Hint) and "level" in hint.message.options]
    assert [hint.filename for hint in hints] == [__file__]
    with warnings.catch_warnings(record=True) as caught:
        TextClassifier(inputs=InputOptions(level="bpe"), training=training).fit(texts, ["x", "y"] * 60)
    assert not [hint for hint in caught if "words of" in str(hint.message)]
