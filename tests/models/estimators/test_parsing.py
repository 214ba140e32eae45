"""Dependency arcs of texts: given, parsed, or omitted with a warning."""

import json
from collections import Counter

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Window
from graphattn.builders._subwords import Subwords
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.builders.parsers import Parse, make_parser
from graphattn.builders.parsers import _cache as parse_cache
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint
from graphattn.experiments._cli.flags import as_flag
from graphattn.models import MSTransOptions, ParsingOptions, load
from graphattn.models._estimators.parsing import (
    add_heads,
    check_scheme,
    count_relations,
    make_roots,
    parse_column,
    warn_about_missing_parses,
)
from graphattn.models._estimators.texts import Texts
from graphattn.models.inspection import summarise

TEXTS = ["Dogs bark. Cats don't!", "Birds sing."]
HEADLINE = "Storm hits coast\n\nThousands lost power"


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


def parse_sources(texts, subwords, parser):
    """Sources of a translator with heads."""
    return add_heads(subwords.sources(texts), texts, subwords.splitter, parser)


def test_given_heads_are_kept(subwords):
    tree = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"])
    (source,) = parse_sources([tree], subwords, None)  # never called
    assert (source.heads, source.deprels) == ((2, 0), ("nsubj", "root"))


def test_the_parser_gets_sentences_of_words_without_marks(subwords):
    parser = Chain()
    tree = Sentence(["Dogs", "bark"], heads=[2, 0])
    one, given, two = parse_sources([TEXTS[0], tree, TEXTS[1]], subwords, parser)
    assert parser.inputs == [["Dogs", "bark", "."], ["Cats", "do", "n't", "!"], ["Birds", "sing", "."]]
    assert one.heads == (0, 1, 2, 0, 4, 5, 6)
    assert one.tokens[:4] == ("▁Dogs", "▁bark", ".", "▁Cats")
    assert (given.heads, two.heads) == ((2, 0), (0, 1, 2))


def test_a_blank_line_ends_a_sentence_for_every_task(subwords, tmp_path):
    heads = (0, 1, 2, 0, 4, 5)
    assert parse_sources([HEADLINE], subwords, Chain())[0].heads == heads
    assert parse_column([HEADLINE], WordSplitter.by_rule("words"), Chain())[0].heads == heads
    (tmp_path / "texts.csv").write_text(f'text,label\n"{HEADLINE}",x\n')
    settings = StoreSettings(TextGraphBuilder([Window(3)]), parser=Chain())
    build_store([CorpusFile(tmp_path / "texts.csv")], tmp_path / "s", settings)
    assert Store(tmp_path / "s")[0].heads == heads


def test_texts_are_parsed_as_a_store_of_them_parses_them(tmp_path):
    """Raw texts by punctuation; sentences are one sentence, or those of their ids."""
    words = ("Dogs", "bark", ".", "Cats")
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"{text},x\n" for text in TEXTS))
    lines = [{"tokens": words}, {"tokens": words, "sentence_ids": [0, 0, 1, 1]}]
    (tmp_path / "sentences.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    inputs = [*TEXTS, Sentence(words), Sentence(words, sentence_ids=[0, 0, 1, 1])]
    parsed = parse_column(inputs, WordSplitter.by_rule("words"), Chain())
    corpora = [CorpusFile(tmp_path / "texts.csv"), CorpusFile(tmp_path / "sentences.jsonl")]
    build_store(corpora, tmp_path / "s", StoreSettings(TextGraphBuilder([Window(3)]), parser=Chain()))
    stored = list(Store(tmp_path / "s"))
    assert [sentence.heads for sentence in parsed] == [sentence.heads for sentence in stored]
    assert [sentence.tokens for sentence in parsed] == [sentence.tokens for sentence in stored]
    assert [sentence.heads for sentence in parsed[2:]] == [(0, 1, 2, 3), (0, 1, 0, 3)]
    assert [parse.heads for parse in parse_column([words], WordSplitter.by_rule("words"), Chain())] == [(0, 1, 2, 0)]


def test_without_a_parser_all_words_are_roots(subwords):
    tree = Sentence(["Dogs", "bark"], heads=[2, 0])
    sources, lacking = make_roots(subwords.sources([*TEXTS, tree]))
    assert [source.heads for source in sources] == [(0,) * 7, (0,) * 3, (2, 0)]
    assert lacking == 2
    with pytest.warns(GraphAttnWarning) as caught:
        warn_about_missing_parses(lacking, 3)
    assert [str(warning.message) for warning in caught if warning.category is GraphAttnWarning] == [
        "2 of 3 sources have no parse, and so no dependency arcs; give sources with heads (CoNLL-U, sentences, "
        "a store), or a parser"
    ]


KINDS = {"classifier": ["a b. c d", "b a c"], "tagger": ["a b c", "c b"], "pair": [("a b c", "c b"), ("b c", "a")]}
ARCS = MSTransOptions(hidden=8, heads="dependency=2", layers=1, dropout=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_raw_texts_equal_parsed_sentences(kind, tiny, monkeypatch):
    """An estimator with a parser, in training and prediction, is the same as one on sentences with these heads."""
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: Chain())
    inputs = KINDS[kind] * 6
    labels = [["X"] * len(text.split()) for text in inputs] if kind == "tagger" else ["x", "y"] * 6
    if kind == "tagger":
        labels[0] = ["Y"] * len(labels[0])

    def parse(item):
        if kind == "pair":
            return tuple(parse_column(item, WordSplitter.by_rule("words"), Chain()))
        return parse_column([item], WordSplitter.by_rule("words"), Chain())[0]

    options = ParsingOptions("stanza", parse_cache=None)
    raw = tiny(kind, ARCS, training={"epochs": 1}, parsing=options).fit(inputs, labels)
    parsed = tiny(kind, ARCS, training={"epochs": 1}).fit(list(map(parse, inputs)), labels)
    flat = [sentence for item in map(parse, inputs) for sentence in (item if kind == "pair" else [item])]
    assert {head for sentence in flat for head in sentence.heads} > {0}
    for actual, expected in zip(raw.predict_proba(inputs), parsed.predict_proba(list(map(parse, inputs))), strict=True):
        np.testing.assert_array_equal(actual, expected)
    attention, expected = raw.attention(inputs[0]), parsed.attention(parse(inputs[0]))
    assert attention.sentences == expected.sentences
    assert_frame_equal(attention.table(), expected.table())
    assert set(attention.table().deprel) == {"", "dep>", "dep<"}
    kinds = summarise(raw, inputs).dependencies()
    assert_frame_equal(kinds, summarise(parsed, map(parse, inputs)).dependencies())
    assert {"dep>", "dep<"} < set(kinds.kind)


def test_attention_of_a_translator_has_the_parse_of_its_source(tiny, monkeypatch):
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: Chain())
    arguments = {"training": {"epochs": 1}, "parsing": ParsingOptions("stanza", parse_cache=None)}
    translator = tiny("translator", ARCS, **arguments).fit(TEXTS * 6, ["a b", "b a"] * 6)
    attention = translator.attention(TEXTS[0], target="a b")
    assert attention.sentences["source"].heads == (0, 1, 2, 0, 4, 5, 6)
    assert attention.sentences["target"].heads is None
    assert attention.tokens["source"][:3] == translator.attention(Sentence(["Dogs", "bark"]), "a").tokens["source"]
    table = attention.table()
    assert set(table[table.relation == "dependency"].deprel) == {"", "dep>", "dep<"}
    assert not table[table.relation == "cross"].deprel.any()
    translator.set_params(parsing__parser="none")
    with pytest.warns(GraphAttnWarning, match="no parse"):
        unparsed = translator.attention(TEXTS[0], target="a b")
    assert unparsed.sentences["source"].heads is None
    assert "deprel" not in unparsed.table()


def test_without_a_parser_the_error_names_it(tiny):
    with pytest.raises(DataError) as caught:
        tiny("classifier", ARCS).fit(["a b", "b a"] * 6, ["x", "y"] * 6)
    assert caught.value.render(as_flag) == (
        "field 'heads': sentence 0 ('a b' ...) has no heads, but the relation 'dependency' needs them. Give parsed "
        "sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza wrote), or leave the "
        "relation out. Or parse the texts with --parser stanza."
    )


def test_a_saved_model_parses_with_its_settings(tiny, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: made.append(options) or Chain())
    settings = ParsingOptions("stanza", "de", "small", "models", str(tmp_path / "parses.sqlite"), "cpu")
    model = tiny("classifier", ARCS, training={"epochs": 1}, parsing=settings)
    model.fit(["a b", "b a"] * 6, ["x", "y"] * 6).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.parsing == settings
    assert loaded.predict(["a b", "c d e"]).tolist() == model.predict(["a b", "c d e"]).tolist()
    assert {*made} == {("de", "models", "small", "cpu")}
    assert (tmp_path / "parses.sqlite").exists()
    assert loaded.set_params(parsing__parser="none").changed_options()["parser_language"] == "de"
    with pytest.raises(DataError, match="has no heads"):
        loaded.predict(["a b"])


def test_an_encoder_without_arcs_needs_no_parser(tiny, monkeypatch):
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: pytest.fail("a parser is made"))
    with pytest.warns(Hint, match="so parser has no effect; add the relation dependency"):
        model = tiny("classifier", parsing=ParsingOptions("stanza")).fit(["a b", "b a"] * 6, ["x", "y"] * 6)
    model.predict(["a"])


def test_the_texts_of_a_store_keep_their_heads(tiny, tmp_path, monkeypatch):
    rows = [
        {"tokens": ["a", "b"], "heads": [2, 0], "label": "x"},
        {"tokens": ["b", "a"], "heads": [0, 1], "label": "y"},
    ]
    (tmp_path / "trees.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows * 4))
    build_store([CorpusFile(tmp_path / "trees.jsonl")], tmp_path / "s", StoreSettings(TextGraphBuilder([Dependency()])))
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: Chain())
    store = Store(tmp_path / "s")
    plain = tiny("classifier", ARCS, training={"epochs": 1}).fit(store)
    parser = tiny("classifier", ARCS, training={"epochs": 1}, parsing=ParsingOptions("stanza", parse_cache=None))
    np.testing.assert_array_equal(plain.predict_proba(store), parser.fit(store).predict_proba(store))


@pytest.mark.slow
def test_an_unknown_language(tmp_path):
    pytest.importorskip("stanza")
    parser = make_parser(ParsingOptions("stanza", "xx", parser_model=str(tmp_path), parse_cache=None))
    with pytest.raises(ConfigError) as caught:
        parser.parse([["a"]])
    assert str(caught.value) == (
        f"there is no Stanza model 'default' for 'xx' in {tmp_path}. Download it where there is a network: "
        f"python -c \"import stanza; stanza.download('xx', model_dir='{tmp_path}')\""
    )


def test_a_parser_is_loaded_only_if_needed():
    assert make_parser(ParsingOptions()) is None


def test_stanza_parses_raw_sources(corpora, subwords, tmp_path):
    pytest.importorskip("stanza")
    options = ParsingOptions(
        "stanza",
        parser_package="ewt_small",
        parser_model=str(corpora / "stanza_en_ewt_small"),
        parse_cache=str(tmp_path / "parses.sqlite"),
    )
    one, two = parse_sources(TEXTS, subwords, make_parser(options))
    assert one.num_words == 7
    assert one.heads[:3] == (2, 0, 2)
    assert two.heads == (2, 0, 2)
    assert two.deprels == ("nsubj", "root", "punct")
    assert parse_sources(TEXTS, subwords, make_parser(options)) == [one, two]


UNIVERSAL = "nsubj root obj case det obl punct cop conj".split()
CLEAR = "nsubj root dobj prep det pobj punct attr conj".split()  # as spaCy's English models
TIGER = "sb root oa mo nk nk punct pd cj".split()  # as spaCy's German models
STANFORD = "nsubj root dobj case det nmod:prep punct attr conj".split()


@pytest.mark.parametrize("training", [UNIVERSAL, CLEAR, TIGER])
@pytest.mark.parametrize("new", [UNIVERSAL, CLEAR, TIGER, STANFORD])
def test_schemes_are_not_mixed(training, new):
    if training == new:
        check_scheme(Counter(new * 20), training)
        return
    with pytest.raises(DataError) as caught:
        check_scheme(Counter(new * 20), training)
    assert caught.value.field == "deprels"


@pytest.mark.parametrize(
    ("new", "training"),
    [
        (UNIVERSAL, ["nsubj", "root"]),  # a small training set of one scheme
        (["nsubj:pass", "obl:agent", "root"], UNIVERSAL),
        ([*UNIVERSAL, "unheard"], UNIVERSAL),  # one of ten words
        (["", ""], UNIVERSAL),
        ([], UNIVERSAL),
        (UNIVERSAL, []),  # there was no parse
        (CLEAR, ["root"]),
        (["nsubj", "root", "oprd"], CLEAR),  # one short text
    ],
)
def test_one_scheme_has_rare_relations(new, training):
    check_scheme(Counter(new), training)


def tree(*deprels):
    return Sentence(["w"] * len(deprels), heads=[0, *[1] * (len(deprels) - 1)], deprels=deprels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "translator"])
def test_a_model_rejects_parses_of_another_scheme(kind, tiny, tmp_path):
    inputs, same, other = [tree(*UNIVERSAL)] * 6, tree(*reversed(UNIVERSAL)), tree(*CLEAR)
    model = tiny(kind, ARCS, training={"epochs": 1}).fit(inputs, ["x", "y"] * 3)
    model = load(model.save(tmp_path / "model"))
    model.predict([same])
    with pytest.raises(DataError) as caught:
        model.predict([other])
    assert caught.value.field == "deprels"


def test_a_store_counts_its_relations(tmp_path):
    rows = [{"tokens": ["a", "b"], "heads": [2, 0], "deprels": ["pobj", "root"]}, {"tokens": ["a"], "heads": [0]}]
    (tmp_path / "trees.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows * 2))
    build_store([CorpusFile(tmp_path / "trees.jsonl")], tmp_path / "s", StoreSettings(TextGraphBuilder([Dependency()])))
    expected = {"pobj": 2, "root": 2}
    assert count_relations(Texts([Store(tmp_path / "s").texts()])) == expected
    assert count_relations(Texts([list(Store(tmp_path / "s")), ["raw"]])) == expected
