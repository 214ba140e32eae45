"""``bench umst``: a row for each encoder and pass, with its memory, and sentences whose words are split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import Sentence
from graphattn.builders._layout import Layout
from graphattn.experiments.benchmarks import _umst as umst
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._umst import split_layout
from graphattn.experiments.benchmarks._workloads import uniform


@pytest.mark.slow
def test_rows_with_time_and_memory(fix_memory):
    fix_memory({"ours": 29, "transformer": 19, "without-words": 24})
    report = umst.measure(Settings(("2x9",), repeats=1))
    cells = {name: [cell(row) for row in report.rows] for name, cell in report.columns.items()}
    assert cells["pass"] == ["inference"] * 3 + ["training step"] * 3
    assert cells["contender"] == ["UMST", "Transformer", "UMST without words"] * 2
    assert cells["memory, UMST / peer"] == ["", "", "", "", "1.50", "1.20"]
    assert cells["memory, MiB"] == ["", "", "", "30", "20", "25"]
    assert cells["limit"] == ["", f"{umst.arithmetic_limit(uniform(2, 9)):.2f}", ""] * 2
    medians = [row["median_ms"] for row in report.rows]
    assert cells["UMST / peer"][1:3] == [f"{medians[0] / median:.2f}" for median in medians[1:3]]


def test_the_limit_of_arithmetic():
    """Per token 24 d^2 and 4 d for each pair; for 21 words of 24 tokens 8 d^2 a word, and their pairs."""
    width = 512
    plain = 24 * 24 * width**2 + 4 * width * 24**2
    on_words = 21 * 8 * width**2 + 4 * width * 21**2
    assert umst.arithmetic_limit(uniform(3, 24)) == pytest.approx((plain + on_words) / plain)


@given(lengths=st.lists(st.integers(0, 40), max_size=4))
def test_split_words_and_trees_are_those_of_sentences(lengths):
    """One word in seven has two tokens, and heads form a tree: `Sentence` checks both."""
    sentences = []
    for length in lengths:
        word_ids, word = [], 0
        while len(word_ids) < length:
            word_ids += [word] * (2 if word % 7 == 6 else 1)
            word += 1
        word_ids = word_ids[:length]
        words = word_ids[-1] + 1 if word_ids else 0
        heads = [0 if word == 0 else (word - 1) // 2 + 1 for word in range(words)]
        sentences.append(Sentence(["x"] * length, word_ids=word_ids, heads=heads))
    expected = Layout.of(sentences, with_cls=False, deprel_id=lambda name: 0)
    layout = split_layout(tuple(lengths))
    for name in ("lengths", "word_counts", "word_ids", "heads", "deprels"):
        assert np.array_equal(getattr(layout, name), getattr(expected, name)), name
