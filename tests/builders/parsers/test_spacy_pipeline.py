"""Parses by spaCy: words stay as they are, labels are the pipeline's, errors show a fix."""

import pickle

import pytest

from graphattn.builders import Sentence
from graphattn.builders.parsers import CachedParser, SpacyParser, make_parser
from graphattn.exceptions import ConfigError
from graphattn.options import ParsingOptions

spacy = pytest.importorskip("spacy", reason="the extra graphattn[spacy] is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pipeline that parses three words."""
    from spacy.training import Example

    nlp = spacy.blank("en")
    nlp.add_pipe("parser", config={"min_action_freq": 1})
    annotations = {"heads": [1, 1, 1], "deps": ["nsubj", "ROOT", "dobj"]}
    examples = [Example.from_dict(nlp.make_doc(text), annotations) for text in ("dogs see cats", "cats see dogs")]
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    path = tmp_path_factory.mktemp("pipelines") / "tiny"
    nlp.to_disk(path)
    return path


def test_words_stay_as_they_are(folder):
    parser = pickle.loads(pickle.dumps(SpacyParser(str(folder))))
    first, *others = parser.parse([["dogs", "see", "cats"], [], ["don't", "a b", " "], ["see"] * 7])
    assert (first.heads, first.deprels) == ((2, 0, 2), ("nsubj", "root", "dobj"))
    assert [len(parse.heads) for parse in others] == [0, 3, 7]
    assert all(parse.heads.count(0) >= 1 for parse in others[1:])
    nlp = spacy.load(folder)
    expected = [(token.head.i + 1) * (token.head.i != token.i) for token in nlp("dogs see cats")]
    assert list(first.heads) == expected


def test_raw_text_is_read(folder, tmp_path):
    cached = make_parser(ParsingOptions("spacy", parser_model=str(folder), parse_cache=str(tmp_path / "c.sqlite")))
    assert isinstance(cached, CachedParser)
    assert spacy.__version__ in cached.name
    read = cached.read(["dogs see cats", ""])
    assert read[0] == Sentence(
        ["dogs", "see", "cats"], heads=[2, 0, 2], deprels=["nsubj", "root", "dobj"], sentence_ids=[0, 0, 0]
    )
    assert read[1].tokens == ()
    assert cached.read(["dogs see cats"]) == read[:1]


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(ConfigError) as caught:
        make_parser(ParsingOptions("spacy"))
    assert caught.value.options == ("parser", "parser_model")
    with pytest.raises(ConfigError, match="python -m spacy download no_such_model"):
        SpacyParser("no_such_model").parse([["a"]])
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigError, match="has no parser: it has nothing"):
        SpacyParser(str(tmp_path / "blank")).parse([["a"]])
