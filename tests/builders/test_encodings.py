# ruff: noqa: RUF001
import random

import pytest

from graphattn.builders._encodings import guess_encoding, is_damaged_utf8, join_surrogates

TEXTS = {
    "WINDOWS-1252": "Le garçon mange une pomme à l'école où il a été élevé. Noël est déjà passé",
    "WINDOWS-1250": "Zażółć gęślą jaźń, proszę państwa. Książka leży na półce",
    "WINDOWS-1254": "Bu film çok güzeldi ama biraz uzundu. İyi şanslar, ağaç",
    "WINDOWS-1257": "Filmas labai geras, bet šiek tiek per ilgas. Ąžuolas žydi čia",
    "WINDOWS-1251": "Мама мыла раму. Фильм очень хороший, но немного длинный",
    "KOI8-R": "Мама мыла раму. Фильм очень хороший, но немного длинный",
    "KOI8-U": "Це дуже гарний фільм, але трохи задовгий",
    "CP866": "Мама мыла раму. Фильм очень хороший, но немного длинный",
    "ISO-8859-5": "Мама мыла раму. Фильм очень хороший, но немного длинный",
    "WINDOWS-1253": "Η ταινία ήταν πολύ καλή αλλά λίγο μεγάλη",
    "WINDOWS-1255": "הסרט היה טוב מאוד אבל קצת ארוך. השחקנים מצוינים והמוזיקה יפה, אבל הסוף היה צפוי מראש",
    "WINDOWS-1256": "كان الفيلم جيدا جدا لكنه طويل قليلا",
    "CP874": "ภาพยนตร์เรื่องนี้ดีมาก แต่ยาวไปหน่อย",
    "GB18030": "这部电影非常好，但是有点长。我很喜欢里面的演员。",
    "BIG5": "這部電影非常好，但是有點長。我很喜歡裡面的演員。",
    "CP932": "この映画はとても良かったが、少し長かった。俳優が好きです。",
    "EUC-JP": "この映画はとても良かったが、少し長かった。俳優が好きです。",
    "CP949": "이 영화는 아주 좋았지만 조금 길었다.",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("lines", [1, 50])
def test_the_letters_of_a_script_show_the_encoding(name, lines):
    if (name, lines) == ("WINDOWS-1255", 1):
        pytest.skip("a line of Hebrew has no more letters of its own than of Russian")
    sample = f"pos\t{TEXTS[name]}\n".encode(name) * lines
    assert not is_damaged_utf8(sample)
    guess, words = guess_encoding(b"label\ttext\n" + sample)
    assert guess == name
    assert words.split()[0] in TEXTS[name]


def test_one_word_can_be_enough():
    assert guess_encoding("a café\n".encode("cp1252")) == ("WINDOWS-1252", "café")
    assert guess_encoding("é\n".encode("cp1252")) is None


def test_other_bytes_have_no_encoding():
    assert guess_encoding(random.Random(0).randbytes(500).replace(b"\0", b"a")) is None


@pytest.mark.parametrize("name", ["WINDOWS-1252", "WINDOWS-1251", "GB18030", "CP932", "CP949"])
def test_utf_8_with_a_line_in_another_encoding_is_damaged(name):
    assert is_damaged_utf8("\n".join(TEXTS.values()).encode() + TEXTS[name].encode(name))


def test_half_a_pair_is_not_joined():
    assert join_surrogates(b"\xed\xa0\xbd \xed\xb8\x80") is None
    assert join_surrogates(b"caf\xe9") is None
