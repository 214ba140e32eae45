"""Texts of several sentences are parsed sentence by sentence."""

from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.parsers import Parse
from graphattn.builders.parsers.base import parse_texts
from graphattn.builders.sentence import Sentence


class Chain:
    """Each word depends on the one before."""

    name = "chain"

    def parse(self, sentences):
        return [Parse(tuple(range(len(words))), tuple(words)) for words in sentences]


def test_heads_count_over_the_text():
    parse = parse_texts(Chain(), [["a", "b", "c", "d"], [], ["e", "f"]], [[0, 0, 1, 1], None, None])
    assert [p.heads for p in parse] == [(0, 1, 0, 3), (), (0, 1)]
    assert [p.deprels for p in parse] == [("a", "b", "c", "d"), (), ("e", "f")]


@given(st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=4))
def test_every_word_has_its_own_head(sizes):
    texts = [[f"w{n}" for n in range(sum(own))] for own in sizes]
    ids = [[s for s, size in enumerate(own) for _ in range(size)] for own in sizes]
    for words, own, parse in zip(texts, ids, parse_texts(Chain(), texts, ids), strict=True):
        Sentence(words, heads=parse.heads, deprels=parse.deprels)
        assert parse.deprels == tuple(words)
        assert all(head in (0, place) for place, head in enumerate(parse.heads))
        assert [place for place, head in enumerate(parse.heads) if not head] == [own.index(s) for s in sorted({*own})]
