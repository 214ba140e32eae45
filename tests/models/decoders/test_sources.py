"""Dependency arcs of sources: given, parsed, or omitted with a warning."""

import pytest

from graphattn.builders import Sentence
from graphattn.builders.parsers import Parse
from graphattn.builders.subwords import Subwords
from graphattn.exceptions import ConfigError, GraphAttnWarning
from graphattn.models.decoders.sources import ParsingOptions, parse_sources, warn_about_missing_parses

TEXTS = ["Dogs bark. Cats don't!", "Birds sing."]


@pytest.fixture(scope="module")
def subwords():
    return Subwords.train(TEXTS, size=60)


class Chain:
    """Each word depends on the previous one; records its inputs."""

    name = "chain"

    def __init__(self):
        self.inputs = []

    def parse(self, sentences):
        self.inputs += [list(words) for words in sentences]
        return [Parse(tuple(range(len(words))), ("dep",) * len(words)) for words in sentences]


def test_given_heads_are_kept(subwords):
    tree = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    for parser in (None, ParsingOptions("stanza", parser_model="nowhere").make_parser()):  # never called
        (source,), lacking = parse_sources([tree], subwords, parser)
        assert (source.heads, source.deprels, lacking) == ((2, 0), ("nsubj", "root"), 0)


def test_the_parser_gets_sentences_of_words_without_marks(subwords):
    parser = Chain()
    tree = Sentence(["Dogs", "bark"], heads=[2, 0])
    (one, given, two), lacking = parse_sources([TEXTS[0], tree, TEXTS[1]], subwords, parser)
    assert lacking == 0
    assert parser.inputs == [["Dogs", "bark", "."], ["Cats", "do", "n't", "!"], ["Birds", "sing", "."]]
    assert one.heads == (0, 1, 2, 0, 4, 5, 6)
    assert one.tokens[:4] == ("▁Dogs", "▁bark", ".", "▁Cats")
    assert (given.heads, two.heads) == ((2, 0), (0, 1, 2))


def test_without_a_parser_all_words_are_roots(subwords):
    tree = Sentence(["Dogs", "bark"], heads=[2, 0])
    sources, lacking = parse_sources([*TEXTS, tree], subwords, None)
    assert [source.heads for source in sources] == [(0,) * 7, (0,) * 3, (2, 0)]
    assert lacking == 2
    with pytest.warns(GraphAttnWarning) as caught:
        warn_about_missing_parses(lacking, 3)
    assert [str(warning.message) for warning in caught] == [
        "2 of 3 sources have no parse, and so no dependency arcs; give sources with heads (CoNLL-U, sentences, "
        "a store), or a parser"
    ]


def test_an_unknown_language(tmp_path):
    pytest.importorskip("stanza")
    parser = ParsingOptions("stanza", "xx", parser_model=str(tmp_path)).make_parser()
    with pytest.raises(ConfigError) as caught:
        parser.parse([["a"]])
    assert str(caught.value) == (
        f"there is no Stanza model 'default' for 'xx' in {tmp_path}. Download it where there is a network: "
        f"python -c \"import stanza; stanza.download('xx', model_dir='{tmp_path}')\""
    )


def test_a_parser_is_loaded_only_if_needed():
    assert ParsingOptions().make_parser() is None


def test_stanza_parses_raw_sources(corpora, subwords, tmp_path):
    pytest.importorskip("stanza")
    options = ParsingOptions(
        "stanza",
        parser_package="ewt_small",
        parser_model=str(corpora / "stanza_en_ewt_small"),
        parse_cache=str(tmp_path / "parses.sqlite"),
    )
    (one, two), _ = parse_sources(TEXTS, subwords, options.make_parser())
    assert one.num_words == 7
    assert one.heads[:3] == (2, 0, 2)
    assert two.heads == (2, 0, 2)
    assert two.deprels == ("nsubj", "root", "punct")
    assert parse_sources(TEXTS, subwords, options.make_parser()) == ([one, two], 0)
