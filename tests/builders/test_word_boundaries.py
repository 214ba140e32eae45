"""Splitting raw text into words."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphattn.builders import _word_boundaries as word_boundaries
from graphattn.builders._sentence import Sentence
from graphattn.builders._word_boundaries import (
    SPLITS,
    WordSplitter,
    make_pre_tokenizer,
    replace_surrogates,
    rule_digest,
)
from graphattn.exceptions import ConfigError, DataError

WEB, WORDS, WHITESPACE = SPLITTERS = [WordSplitter.by_rule(split) for split in ("web", "words", "whitespace")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I can't, won't.", "I ca n't , wo n't ."),
        ("DON'T it\u2019s don\u2019t", "DO N'T it \u2019s do n\u2019t"),
        ("he'd they'll we're I've I'm O'Brien's", "he 'd they 'll we 're I 've I 'm O'Brien 's"),
        ("rock'n'roll the dogs' 'quoted'", "rock'n'roll the dogs ' ' quoted '"),
        ("'sad n'tx", "' sad n'tx"),
        ("re-imagining mother-in-law's non\u2011breaking", "re-imagining mother-in-law 's non\u2011breaking"),
        ("self- -made --", "self - - made --"),
        ("$3,000.50 1930s 10:30 50% 3, 4.", "$ 3,000.50 1930s 10 : 30 50 % 3 , 4 ."),
        ("the end.Now x,y", "the end . Now x , y"),
        ("the U.S. and e.g. Mr. Li vs. Dr.No", "the U.S. and e.g. Mr. Li vs. Dr . No"),
        ("wait... what?!! -----", "wait ... what ? !! -----"),
        ("-LRB- x -rrb- -lsb-", "-LRB- x -rrb- -lsb-"),
        ("a_b @user #tag http://x.y", "a _ b @ user # tag http : // x . y"),
        ("它是漢字 カード", "它 是 漢 字 カ ー ド"),
        ("한국어 नमस्ते བོད་ཡིག", "한국어 नमस्ते བོད ་ ཡིག"),
        ("ภาษาไทย ๑๒๓ ນ້ຳ ខ្មែរ မြန်မာ", "ภ า ษ า ไ ท ย ๑๒๓ ນ້ຳ ខ្ មែ រ မြ န် မ ာ"),
        ("ᥖᥭᥰ ᦺᦑ ᨣᩴᩣ ꪎꪳ 𑜒𑜑𑜪 ꦧꦱ ᬅᬓ᭄ᬱᬭ", "ᥖ ᥭ ᥰ ᦺ ᦑ ᨣᩴ ᩣ ꪎꪳ 𑜒 𑜑𑜪 ꦧ ꦱ ᬅ ᬓ᭄ ᬱ ᬭ"),
        ("aกb กa", "a ก b ก a"),
        ("col·legi l·l 3·4 x· ·x", "col·legi l·l 3 · 4 x · · x"),
        ('צה״ל צה"ל צה”ל "שלום" ג׳ירפה', 'צה״ל צה"ל צה”ל " שלום " ג׳ירפה'),  # noqa: RUF001
        ("Ինչո՞ւ ո՛չ է՞ Բարև։", "Ինչո՞ւ ո՛չ է՞ Բարև ։"),  # noqa: RUF001
        ("a:b x‧y 哈利·波特", "a : b x‧y 哈 利 · 波 特"),
        ("ok😀😀👨‍👩‍👧❤️🇩🇪🇫🇷", "ok 😀 😀 👨‍👩‍👧 ❤️ 🇩🇪 🇫🇷"),
        ("e\u0301te\u0301 co\u00adop می\u200cخو\u0627\u0647م", "e\u0301te\u0301 co\u00adop می\u200cخو\u0627\u0647م"),
        ("one<br />two<BR/>three", "one two three"),
        ("a\u00a0b\u3000c", "a b c"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_splits_words(text, words):
    assert WORDS.split(text) == words.split(" ") if words else WORDS.split(text) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#tag #1st C# C#major #1", "#tag #1st C # C # major # 1"),
        ("#ภาษาไทย #漢字 บ้านี่@บ้าน", "#ภาษาไทย # 漢 字 บ้ า นี่ @ บ้ า น"),
        ("@user's RT @foo_bar: @ home x@y", "@user 's RT @foo_bar : @ home x @ y"),
        ("see https://example.org/a_b?c=1&d=2, (www.x.de).", "see https://example.org/a_b?c=1&d=2 , ( www.x.de ) ."),
        ('<http://x.y/> "http://x.y"... http://x.y<br />', '< http://x.y/ > " http://x.y " ... http://x.y'),
        ("http:// 見http://x.y/漢字", "http : // 見 http://x.y/ 漢 字"),
        ("mail joe.b+x@mail.example.co.uk. bob@x", "mail joe.b+x@mail.example.co.uk . bob @ x"),
        (":-) :-)) ;) hello:) :D xD =) <3 </3 ^_^ :'( :/", ":-) :-)) ;) hello :) :D xD =) <3 </3 ^_^ :'( :/"),
        ("10:30 Note: list:(a) text:D :Perl n<3 a://b", "10 : 30 Note : list : ( a ) text : D : Perl n < 3 a : // b"),
        ("I don't owe Mr. Li $3,000.50... #don't", "I do n't owe Mr. Li $ 3,000.50 ... #do n't"),
    ],
)
def test_tags_addresses_and_emoticons_stay_whole(text, words):
    assert WEB.split(text) == words.split(" ")


def test_offsets_are_positions_in_the_text():
    text = "😀 é:-) @é, http://x.y/é!"
    (words,) = WEB.split_with_offsets([text])
    assert [text[begin : begin + len(word)] for word, begin in words] == [word for word, _ in words]


@example("#3漢", WEB)
@given(st.text("aDx3:;)(-=<#@_./ht\u00e9漢กา\u0e48שה״·\"' "), st.sampled_from([WORDS, WEB]))
def test_splitting_twice_is_splitting_once(text, splitter):
    text = text.replace("t", "http://").replace("h", "www.")
    assert splitter.split(" ".join(splitter.split(text))) == splitter.split(text)


@pytest.mark.parametrize(
    "text",
    [
        "it 's so laddish that only teenage boys could n't find it funny ...",
        "`` you 'll -lrb- maybe -rrb- have 'd it , '' mr. larkin wo n't say -- ever !",
        "the u.s. sold 3,000.50 re-imagined rock'n'roll records ; o'brien 's",
    ],
)
def test_split_text_does_not_change(text):
    assert WORDS.split(text) == text.split()


def test_whitespace_rule():
    assert WHITESPACE.split(" don't  stop!\n[CLS] ") == ["don't", "stop!", "[CLS]"]


def test_unknown_rule():
    with pytest.raises(ConfigError) as caught:
        make_pre_tokenizer("bytes")
    assert caught.value.options == ("split",)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([WORDS, WEB]))
def test_no_character_is_lost(text, splitter):
    white = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
    assert "".join(splitter.split(text)) == "".join(character for character in text if character not in white)


@given(st.text("ab'\u2019nNtTsS-.,13 é漢กា្שה\"·[😀\u0301\u200d\u00ad\u00a0_"))
def test_splitting_at_spaces_first_has_no_effect(text):
    spaced = [word for chunk in text.replace("\u00a0", " ").split(" ") for word in WORDS.split(chunk)]
    assert WORDS.split(text) == spaced


@pytest.mark.slow
@given(st.lists(st.text("abnt'sS.,13 :-)(DxP<br/>@#_w=^\t é") | st.text(), max_size=5))
def test_a_batch_with_cached_runs_equals_texts_with_offsets(texts):
    for splitter in SPLITTERS:
        expected = [[word for word, _ in words] for words in splitter.split_with_offsets(texts)]
        assert list(splitter.split_batch(texts)) == expected
        assert list(splitter.split_batch(texts)) == expected  # from the cache


def test_more_texts_than_one_chunk():
    texts = [f"text {number}" for number in range(3000)]
    assert list(WORDS.split_batch(texts)) == [text.split() for text in texts]


@pytest.mark.parametrize(
    ("splitter", "unit", "count"),
    [
        # longer than the longest word
        *((WORDS, unit, 150_000) for unit in ("a", ".", "1,", "n't", "漢", "ก็")),
        *((WEB, unit, 140_000 // len(unit)) for unit in ("a.", "@", "a@", "http://", "a-", ":", "#_", "x@y.")),
        (WEB, "n'tx", 1_000_000),
        (WORDS, "n'tx", 1_000_000),
    ],
)
def test_long_texts_without_a_blank(splitter, unit, count, capfd):
    assert "".join(splitter.split(unit * count)) == unit * count
    assert capfd.readouterr().err == "", "the tokenizers library reports a panic there"


def test_long_texts_are_cut_at_blanks():
    text = "\u00e9 one<br />don't 3.5\n" * 10_000
    words = [
        (word, number * 21 + at)
        for number in range(10_000)
        for word, at in zip(["\u00e9", "one", "do", "n't", "3.5"], [0, 2, 11, 13, 17], strict=True)
    ]
    assert list(WEB.split_with_offsets([text, "x"])) == [words, [("x", 0)]]


def test_lone_surrogates_are_replaced():
    assert WORDS.split("bad \ud800x") == ["bad", "\ufffd", "x"]
    assert replace_surrogates("\udfff") == "\ufffd"


def test_lists_and_sentences_keep_their_words():
    sentence = Sentence(["un", "do", "it"], word_ids=[0, 0, 1])
    words = WORDS.split_sources(["don't", ["don't", ""], ("a b",), sentence, np.array(["x", "y"])])
    assert words == [["do", "n't"], ["don't", ""], ["a b"], ["undo", "it"], ["x", "y"]]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("text", "one text where several are expected"),
        (np.array([["a text"], ["b text"]]), "a ndarray where texts are expected"),
        ([None], "None is neither a text nor a list of words nor a Sentence"),
        ([b"x"], "b'x' is neither a text nor a list of words nor a Sentence"),
        ([["a", 1.5]], "1.5 where a text or a word is expected"),
    ],
)
def test_invalid_sources(sources, message):
    with pytest.raises(DataError) as caught:
        WORDS.split_sources(sources)
    assert caught.value.message == message


def test_two_iterators_split_more_runs_than_are_cached(monkeypatch):
    monkeypatch.setattr(word_boundaries, "_CACHED_RUNS", 1000)
    splitter = WordSplitter.by_rule("web")
    first = splitter.split_batch(["one common text", "another common text"])
    assert next(first) == ["one", "common", "text"]
    many = [f"word {number}" for number in range(3000)]
    assert list(splitter.split_batch(many)) == [text.split() for text in many]
    assert next(first) == ["another", "common", "text"]


def test_digests_of_rules_differ():
    assert len({rule_digest(split) for split in SPLITS}) == len(SPLITS)


def test_blank_lines_end_sentences():
    given = Sentence(["a", ".", "b"])
    texts = [
        "Storm hits coast\n\nThousands lost power. All night\r\n \r\nin town\n",
        "one\nline",
        "\n\n",
        ["x", "!", "y"],
        given,
    ]
    sentences = WORDS.sentences(texts)
    assert [sentence.words for sentence in sentences] == [tuple(words) for words in WORDS.split_sources(texts)]
    assert [sentence.sentence_ids for sentence in sentences] == [
        (0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3),
        (0, 0),
        (),
        (0, 0, 1),
        None,
    ]
