"""Changes of a search, lines of outputs."""

import json

import pytest

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.translations import changed_search, translated_lines
from graphattn.models import SearchOptions
from graphattn.models.estimators.translator import Output


class Echo:
    """Says each source's length, then less and less sure ones."""

    def __init__(self):
        self.chunks = []

    def outputs(self, items, *, count, first):
        self.chunks.append((first, len(items)))
        return [[Output(f"{len(item)} {n}", 0.0 - 0.5 * n) for n in range(count)] for item in items]


def test_json_lines():
    lines = "".join(translated_lines(Echo(), ["ä b", ["c", "d"], Sentence(["e"])], count=2))
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"text": "ä b", "outputs": [{"text": "3 0", "score": 0.0}, {"text": "3 1", "score": -0.5}]},
        {"words": ["c", "d"], "outputs": [{"text": "2 0", "score": 0.0}, {"text": "2 1", "score": -0.5}]},
        {"words": ["e"], "outputs": [{"text": "1 0", "score": 0.0}, {"text": "1 1", "score": -0.5}]},
    ]
    assert "ä" in lines


def test_plain_lines_a_chunk_at_a_time():
    echo = Echo()
    assert list(translated_lines(echo, iter(["a", "bb", "c"]), plain=True, chunk=2)) == ["1 0\n2 0\n", "1 0\n"]
    assert echo.chunks == [(1, 2), (3, 1)]
    assert "".join(translated_lines(echo, ["a", "bb"], count=2, plain=True, chunk=1)).splitlines() == [
        "1\t0.000000\t1 0",
        "1\t-0.500000\t1 1",
        "2\t0.000000\t2 0",
        "2\t-0.500000\t2 1",
    ]


def test_changes_of_a_search():
    search = SearchOptions(beam=2)
    assert changed_search(search, "") == search
    changed = changed_search(search, "length-penalty = 1, max_length=none,sample=true,top_k=5")
    assert changed == SearchOptions(beam=2, length_penalty=1.0, sample=True, top_k=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam", "--search: 'beam' is no change; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("width=3", "--search: 'width=3' is no change; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("beam=many", "--search: beam is 'many'; it must be a whole number"),
        ("beam=0", "--search: beam is 0; it must be at least 1"),
    ],
)
def test_impossible_changes(text, message):
    with pytest.raises(ConfigError) as caught:
        changed_search(SearchOptions(), text)
    assert str(caught.value).startswith(message)
