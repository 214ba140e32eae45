"""Parses equal those of Stanza itself; errors about missing models, devices and packages show a fix."""

import re
import sys
from dataclasses import replace

import pytest

from graphattn.builders import Dependency, Sentence, TextGraphBuilder
from graphattn.builders.parsers import CachedParser, StanzaParser
from graphattn.builders.parsers import _stanza_pipeline as stanza_pipeline
from graphattn.builders.readers import read_conllu
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import ConfigError


@pytest.fixture(scope="module")
def parser(corpora):
    pytest.importorskip("stanza", reason="the extra graphattn[stanza] is not installed")
    return StanzaParser(folder=str(corpora / "stanza_en_ewt_small"), device="cpu")


def attachment_scores(gold, parsed):
    """Unlabelled and labelled attachment_scores score in percent; sub-types of relations are ignored."""
    rows = [
        (parse.heads[i] == s.heads[i], parse.deprels[i].split(":")[0] == s.deprels[i].split(":")[0])
        for s, parse in zip(gold, parsed, strict=True)
        for i in range(s.num_words)
    ]
    heads, both = sum(head for head, _ in rows), sum(head and name for head, name in rows)
    return 100 * heads / len(rows), 100 * both / len(rows)


def test_given_words_are_not_split(parser):
    odd = [["Dogs", "bark", "."], [], ["a b", "", "\u00a0", "x" * 1500], ["don't"]]
    parses = parser.parse(odd)
    assert [(len(p.heads), len(p.deprels)) for p in parses] == [(3, 3), (0, 0), (4, 4), (1, 1)]
    assert parses[0].heads == (2, 0, 2)
    assert parser.parse([]) == []


def test_stanza_splits_raw_text(parser):
    read = parser.read(["Dogs bark. I didn't see it.", ""])
    assert read[0].tokens == ("Dogs", "bark", ".", "I", "did", "n't", "see", "it", ".")
    assert read[0].sentence_ids == (0, 0, 0, 1, 1, 1, 1, 1, 1)
    assert read[0].heads == (2, 0, 2, 7, 7, 7, 0, 7, 7)
    assert read[1] == Sentence([], heads=[], deprels=[], sentence_ids=[])


def test_parses_equal_those_of_stanza(parser, corpora):
    import stanza

    gold = list(read_conllu(corpora / "ud_english_ewt" / "en_ewt-ud-test.conllu"))[:40]
    pipeline = stanza.Pipeline(
        lang="en", dir=parser.folder, download_method=None, processors="tokenize,pos,lemma,depparse",
        tokenize_pretokenized=True, verbose=False, device="cpu",
    )  # fmt: skip
    document = pipeline([list(sentence.words) for sentence in gold])
    expected = [[(word.head, word.deprel) for word in sentence.words] for sentence in document.sentences]
    parses = parser.parse([sentence.words for sentence in gold])
    assert [list(zip(p.heads, p.deprels, strict=True)) for p in parses] == expected


def test_parses_of_raw_texts_equal_those_of_stanza(parser, corpora):
    import stanza

    lines = (corpora / "ud_english_ewt" / "en_ewt-ud-test.conllu").read_text(encoding="utf-8").splitlines()
    texts = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    raw = [" ".join(texts[start : start + 10]) for start in range(0, 30, 10)]
    pipeline = stanza.Pipeline(
        lang="en", dir=parser.folder, download_method=None, processors="tokenize,pos,lemma,depparse",
        tokenize_max_seqlen=1000, verbose=False, device="cpu",
    )  # fmt: skip
    for text, parse in zip(raw, parser.read(raw), strict=True):
        begin, expected = 0, []
        for number, sentence in enumerate(pipeline(text).sentences):
            for word in sentence.words:
                expected.append((word.text, word.head + begin if word.head else 0, word.deprel, number))
            begin += len(sentence.words)
        assert list(zip(parse.tokens, parse.heads, parse.deprels, parse.sentence_ids, strict=True)) == expected


def test_an_endless_sentence_is_parsed_in_pieces(parser, monkeypatch):
    monkeypatch.setattr(stanza_pipeline, "MAX_WORDS", 3)
    (short,), (long, empty) = parser.parse([["Dogs", "bark", "."]]), parser.parse([["Dogs", "bark", "."] * 2, []])
    assert long.heads == (2, 0, 2, 5, 0, 5)
    assert long.deprels == short.deprels * 2
    assert empty.heads == ()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "the parser's device is 'cuda', and PyTorch sees 0 GPUs here; give 'cpu', or none at all"),
        ("cuda:2", "the parser's device is 'cuda:2', and PyTorch sees 2 GPUs here; give 'cpu', or none at all"),
        ("gpu", "the parser's device is 'gpu'; give 'cpu', 'cuda' or 'cuda:1'"),
    ],
)
def test_a_missing_device_is_reported(parser, monkeypatch, device, message):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2 if ":" in device else 0)
    with pytest.raises(ConfigError) as caught:
        replace(parser, device=device).parse([["a"]])
    assert str(caught.value) == message


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cpu", None])
def test_the_pipeline_is_loaded_on_the_device(parser, monkeypatch, device):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    devices = []

    def load(*, device, **options):
        devices.append(device)
        raise KeyError

    monkeypatch.setattr("stanza.Pipeline", load)
    with pytest.raises(ConfigError):
        replace(parser, device=device, package="another").parse([["Dogs"]])
    assert devices == [device]


@pytest.mark.slow
def test_attachment_scores_equal_those_of_stanza(parser, corpora, tmp_path):
    gold = list(read_conllu(corpora / "ud_english_ewt" / "en_ewt-ud-test.conllu"))[:100]
    words = tmp_path / "words.conll"
    words.write_text("".join("".join(f"{word}\tX\n" for word in s.words) + "\n" for s in gold))
    settings = StoreSettings(TextGraphBuilder([Dependency()]), parser=parser, block_bytes=10_000)
    build_store([CorpusFile(words, "conll", {"separator": "\t"})], tmp_path / "s", settings)
    parsed = list(Store(tmp_path / "s"))
    assert [s.words for s in parsed] == [s.words for s in gold]
    unlabelled, labelled = attachment_scores(gold, parsed)
    assert (round(unlabelled, 1), round(labelled, 1)) == (84.7, 81.5), "the scores of Stanza alone"


def test_a_store_of_parsed_texts(parser, tmp_path):
    (tmp_path / "a.txt").write_text("x\tDogs bark. I didn't see it.\ny\tHi\n")
    cached = CachedParser(parser, tmp_path / "parses.sqlite")
    for raw, last in ((False, "."), (True, ".")):
        settings = StoreSettings(TextGraphBuilder([Dependency()]), parser=cached, raw=raw)
        build_store([CorpusFile(tmp_path / "a.txt")], tmp_path / f"s{raw}", settings)
        first, second = Store(tmp_path / f"s{raw}")
        assert first.tokens == ("Dogs", "bark", ".", "I", "did", "n't", "see", "it", last)
        assert first.heads == (2, 0, 2, 7, 7, 7, 0, 7, 7), "two trees"
        assert (first.label, second.label, second.heads) == ("x", "y", (0,))


@pytest.mark.parametrize(
    ("options", "named", "call"),
    [
        ({"language": "de"}, "'default' for 'de'", "'de', model_dir={folder!r}"),
        ({"package": "x"}, "'x' for 'en'", "'en', package='x', model_dir={folder!r}"),
    ],
)
def test_a_missing_model_is_reported_with_the_download_command(parser, options, named, call):
    folder = parser.folder
    with pytest.raises(ConfigError) as caught:
        StanzaParser(folder=folder, **options).parse([["a"]])
    assert str(caught.value) == (
        f"there is no Stanza model {named} in {folder}. Download it where there is a network: "
        f'python -c "import stanza; stanza.download({call.format(folder=folder)})"'
    )


def test_a_missing_folder_is_reported_before_parsing(parser, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(f"there is no Stanza model 'default' for 'en' in {tmp_path}.")):
        StanzaParser(folder=str(tmp_path)).name  # noqa: B018


def test_without_stanza_the_error_shows_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", None)
    with pytest.raises(ConfigError) as caught:
        StanzaParser().parse([["a"]])
    assert str(caught.value) == "the parser needs stanza, which is not installed: pip install 'graphattn[stanza]'"
