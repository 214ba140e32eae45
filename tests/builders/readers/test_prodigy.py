"""What an annotator did not accept is no example."""

import json
import warnings

import pytest

from graphattn.builders.readers import read_corpus
from graphattn.exceptions import Hint

ANSWERS = ("accept", "reject", "ignore", "accept", None)


@pytest.mark.parametrize("task", ["classify", "pair"])
def test_only_accepted_examples_are_read(corpus, task):
    rows = [
        {"text": f"text {number}", "second": "b", "label": "X", **({} if answer is None else {"answer": answer})}
        for number, answer in enumerate(ANSWERS)
    ]
    path = corpus("a.jsonl", *map(json.dumps, rows))
    with pytest.warns(Hint, match="2 of 5 texts are left out, since their answer is reject or ignore"):
        examples = list(read_corpus(path, task=task))
    assert [example.text for example in examples] == ["text 0", "text 3", "text 4"]


@pytest.mark.parametrize("options", [{"label": None}, {"text": "answer"}, {"label": "answer"}])
def test_an_answer_that_is_no_decision(corpus, options):
    """Without labels each text counts, and a column to read is no decision of an annotator."""
    path = corpus(
        "a.jsonl", '{"text": "a", "label": "x", "answer": "reject"}', '{"text": "b", "label": "y", "answer": "no"}'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(read_corpus(path, **options))) == 2
