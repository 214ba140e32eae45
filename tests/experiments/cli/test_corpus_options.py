"""Flags of corpora and of the parser, and how commands read corpora."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from graphattn.builders import TextGraphBuilder, Window
from graphattn.builders.parsers import CachedParser, StanzaParser, make_parser
from graphattn.builders.readers._formats import FORMATS, corpus_kind
from graphattn.builders.store import CorpusFile, StoreSettings, build_store
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.build import StoreParsing
from graphattn.experiments._cli.corpus_options import CorpusOptions, irrelevant_options
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.resumable import choose_gpus
from graphattn.models._estimators.loading import TASKS

OF_ANY_FORMAT = {"format", "drop_label", "encoding"}
STANZA = StoreParsing("stanza", "de", parser_model="models", parse_cache=None, parser_device="cuda")


def read_items(path, task, options, **arguments):
    return TASKS[task](**arguments).read([path], format=options.format, **options.reader_options())[0]


def test_the_help_names_every_format():
    (format,) = (item for item in fields(CorpusOptions) if item.name == "format")
    assert all(name in format.metadata["help"] for name in FORMATS)


def test_every_option_is_an_option_of_a_reader():
    known = {name for entry in FORMATS.values() for name in entry.options}
    assert {item.metadata.get("reader", item.name) for item in fields(CorpusOptions)} - OF_ANY_FORMAT <= known


@pytest.mark.parametrize("task", ["classify", "pair", "tag"])
def test_every_task_can_use_its_relevant_options(task):
    known = {name for entry in FORMATS.values() if task in entry.tasks for name in entry.options}
    left = [item for item in fields(CorpusOptions) if item.name not in irrelevant_options(corpus_kind(task))]
    assert {item.metadata.get("reader", item.name) for item in left} - OF_ANY_FORMAT <= known


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (CorpusOptions(), {}),
        (CorpusOptions(format="csv", text_column="review"), {"text": "review"}),
        (CorpusOptions(label_column="none"), {"label": "none"}),
        (
            CorpusOptions(text_column="title, body", label_column="a,b"),
            {"text": ("title", "body"), "label": ("a", "b")},
        ),
        (CorpusOptions(columns=("None", "text")), {"columns": (None, "text")}),
        (CorpusOptions(columns=("none", "text", "")), {"columns": (None, "text", None)}),
        (CorpusOptions(separator="\\t", delimiter=";"), {"separator": "\t", "delimiter": ";"}),
        (CorpusOptions(quoted=False, tag_column=1, tags="xpos"), {"quoted": False, "tag_column": 1, "tags": "xpos"}),
    ],
)
def test_readers_get_the_changed_options(options, expected):
    assert options.reader_options() == expected


def test_readers_options_are_flags():
    names = {item.metadata.get("reader", item.name): item.name for item in fields(CorpusOptions)}
    assert all(as_flag(name) == as_flag(field) for name, field in names.items())


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("name", "content", "labels", "message"),
    [
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": ["x", "y"]}\n', ["x", ("x", "y")],
         ", line 2: a list of labels, not one. Use --multilabel if a text may have several."),
        ("a.txt", "__label__x __label__y a\n__label__x b\n", [("x", "y"), ("x",)],
         ", line 1: 2 labels where one is expected. Use --multilabel."),
    ],
)  # fmt: skip
def test_several_labels_need_multilabel(write, name, content, labels, message):
    path = write(name, content)
    with pytest.raises(DataError) as caught:
        read_items(path, "classify", CorpusOptions())
    assert caught.value.render(as_flag) == f"{path}{message}"
    assert [item.label for item in read_items(path, "classify", CorpusOptions(), multilabel=True)] == labels


def test_options_of_other_formats(write):
    path = write("a.csv", "text,stars\na,5\n")
    with pytest.raises(ConfigError) as caught:
        read_items(path, "classify", CorpusOptions(format="labelled", text_column="foo", delimiter=";"))
    assert caught.value.render(as_flag) == (
        "format 'labelled' has no option --delimiter and --text-column; leave that out, or choose another --format"
    )


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_several_labels_need_a_separator(separator, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(f"x{separator}y\ta film\nx\ta play\n")
    with pytest.raises(DataError) as error:
        read_items(path, "classify", CorpusOptions(), multilabel=True)
    assert error.value.render(as_flag) == (
        f"{path}: the label 'x{separator}y' is not a list. Set --label-separator, to '{separator}' for example."
    )
    separated = read_items(path, "classify", CorpusOptions(label_separator=separator), multilabel=True)
    assert [item.label for item in separated] == [("x", "y"), ("x",)]


def test_a_tagger_needs_a_store_with_tags(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta film\ny\ta play\n")
    builder = TextGraphBuilder([Window(3)])
    build_store([CorpusFile(tmp_path / "a.tsv")], tmp_path / "s", StoreSettings(builder))
    with pytest.raises(DataError) as error:
        read_items(tmp_path / "s", "tag", CorpusOptions())
    assert str(error.value) == f"{tmp_path / 's'}: has no tags. Build it from a corpus of tagged words."


def test_texts_with_several_labels_in_a_store(tmp_path):
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": ["x", "y"]}\n')
    build_store([CorpusFile(path)], tmp_path / "s", StoreSettings(TextGraphBuilder([Window(3)])))
    assert len(read_items(tmp_path / "s", "classify", CorpusOptions(), multilabel=True)) == 2
    with pytest.raises(DataError) as caught:
        read_items(tmp_path / "s", "classify", CorpusOptions())
    assert caught.value.options == ("multilabel",)


def test_parses_are_kept_in_the_cache_folder_or_a_given_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parser = make_parser(STANZA)
    assert parser == StanzaParser("de", "models", device="cuda")
    kept = make_parser(replace(STANZA, parse_cache="auto"))
    assert kept == CachedParser(parser, tmp_path / "graphattn" / "parses.sqlite")
    assert make_parser(replace(STANZA, parse_cache="mine")) == CachedParser(parser, Path("mine"))


def test_an_invalid_cache_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set parse_cache to a file, or to none"):
        make_parser(StoreParsing("stanza"))


def test_gpus_of_an_actor_follow_from_the_parsers_device():
    devices = [StoreParsing(parser_device="cuda"), replace(STANZA, parser_device=None), STANZA]
    assert [options.device for options in devices] == ["cpu", None, "cuda"]
    assert [choose_gpus(options.device, "--parser-device") for options in devices] == [0.0, None, 1.0]
    with pytest.raises(ConfigError) as caught:
        choose_gpus("cuda:1", "--parser-device")
    assert str(caught.value) == (
        "--parser-device is 'cuda:1'; with --engine ray give cpu or cuda: Ray chooses a GPU for each worker"
    )
