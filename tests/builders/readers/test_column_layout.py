"""What the first lines of column files show."""

import pytest

from graphattn.builders.readers._column_layout import find_layout

PAIRS = ["dogs NNS", "bark VBP", "", "cats NNS", "sleep VBP"]


@pytest.mark.parametrize(
    ("comments", "words"),
    [
        (["# id 0001\tdomain=en"], ["anna _ _ B-PER", "sang _ _ O"]),  # as many columns, but a tab
        (["# id 1 x"], ["anna _ _ B-PER", "sang _ _ O"]),  # as many columns, but no tag of an entity
        (["# newdoc", "# sent_id = 7"], PAIRS),
        (["# text = a b"], ["dogs\tNNS", "bark\tVBP"]),
        (["#\ttab\tand more"], ["dogs\tNNS", "bark\tVBP"]),
    ],
)
def test_comments_before_a_sentence(comments, words):
    layout = find_layout([*comments, *words])
    assert layout.comments == comments
    assert [" ".join(row) for row in layout.rows] == [line.replace("\t", " ") for line in words if line]


def test_numbered_comments_of_as_many_columns():
    assert find_layout(["# 1", *PAIRS[:2], "", "# 2", *PAIRS[:2]]).comments == ["# 1", "# 2"]


@pytest.mark.parametrize(
    "words",
    [
        ["#win NN win", "a DT a", "", "#no NN no", "b DT b"],
        ["# NN", "a NN"],
        ["#tag O", "b B-PER"],
        ["#a NN", "b NN", "", "# NN", "c VB"],
        ["# O", "# O"],
    ],
)
def test_words_that_look_like_comments(words):
    layout = find_layout(words)
    assert not layout.comments
    assert [" ".join(row) for row in layout.rows] == [line for line in words if line]


def test_hashtags_after_comments():
    lines = ["# id = 1", "#win\tNN\twin", "a\tDT\ta", "", "# id = 2", "#\tSYM\thash", "b\tDT\tb"]
    assert [row[0] for row in find_layout(lines).rows] == ["#win", "a", "#", "b"]


def test_a_word_after_comments():
    """It has a tag of the other words."""
    layout = find_layout(["# id 1", "# B-PER", "anna B-PER", "# O", "", "# id 2", "rome B-LOC"])
    assert layout.comments == ["# id 1", "# id 2"]
    assert [row[0] for row in layout.rows] == ["#", "anna", "#", "rome"]


def test_a_tab_in_a_comment_is_no_separator():
    assert find_layout(["# a\tb\tc", "anna B-PER", "sang O"]).separator is None
    assert find_layout(["# a\tb\tc", "New York\tB-LOC", "sang\tO"], comment="#").separator == "\t"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("WORD POS", PAIRS),
        ("Token Tag", PAIRS),
        ("Wort Klasse", ["Ada B-PER", "singt O"]),  # the other tags are those of entities
        ("nr wort klasse", ["1 Ada NE", "2 singt VVFIN", "", "1 Ja ITJ", "2 . $."]),
    ],
)
def test_a_header_is_unlike_all_other_lines(first, words):
    layout = find_layout([first, *words])
    assert layout.header == first.split()
    assert len(layout.rows) == len(words) - words.count("")
    assert find_layout([first, *words], header=False).rows[0] == first.split()


@pytest.mark.parametrize(
    "words", [PAIRS, ["Foreword FW", *PAIRS], ["word NNS", *PAIRS], ["O O", "b B-X"], ["Ada B-PER", "singt O"]]
)
def test_a_first_word_is_no_header(words):
    assert find_layout(words).header is None
    assert find_layout(words, header=True).header == words[0].split()


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        (["1 a X", "2 b Y", "", "1 c X"], True),
        (["0 a X", "1 b Y", "", "0 c X", "1 d Y"], True),
        (["1-2 du _", "1 de X", "2 le Y", "3 pain Z", "3.1 e Z", "", "1 oui X"], True),
        (["1 a X", "", "1 b X"], False),  # a file of the word "1" alone
        (["1 CD", "2 CD", "", "7 CD"], False),
        (["1 a X", "3 b Y"], False),
        (PAIRS, False),
    ],
)
def test_a_column_that_counts_the_words(lines, counts):
    assert find_layout(lines).counts is counts


def test_brackets():
    layout = find_layout(["a (A0* *", "b *) 1:VID", "c * 1"])
    assert [layout.has_brackets(column, None) for column in (None, 0, 1, 2, -1)] == [False, False, True, False, False]
    assert layout.has_brackets(None, 1)
    assert not layout.has_brackets(None, 3)


def test_the_name_of_the_document_is_no_word():
    rows = [f"doc {number} w{number} X" for number in range(10)]
    assert find_layout(rows).repeats_first_column()
    assert not find_layout(rows[:9]).repeats_first_column()
    assert find_layout([*rows[:5], "", *(row.replace("doc", "other") for row in rows)]).repeats_first_column()
    assert find_layout(["#begin document (doc)", *rows[:3]]).repeats_first_column()
    assert not find_layout(["very much X"] * 20).repeats_first_column()
