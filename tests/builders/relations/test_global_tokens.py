"""Global tokens attend to all tokens, and all tokens attend to them (Longformer, BigBird)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Global, Sentence


@settings(max_examples=40)
@given(count=st.integers(1, 5), lengths=st.lists(st.integers(0, 9), max_size=4), cls=st.booleans())
def test_an_edge_has_a_global_end(follows, count, lengths, cls):
    def definition(length):
        pairs = [(i, j) for i in range(length) for j in range(length) if i < count or j < count]
        return {("token", f"global:{count}", "token"): pairs}

    follows(Global(count), [Sentence(["x"] * length) for length in lengths], definition, cls=cls)


def test_name():
    assert (Global().name, repr(Global(2))) == ("global:1", "Global(2)")
