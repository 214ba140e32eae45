"""Damaged and edited ``store.json``: one clear error, whatever was changed."""

import json
import shutil

import pytest

from graphattn._json_types import json_checksum
from graphattn.builders import TextGraphBuilder, Window
from graphattn.builders.store import CorpusFile, GraphStream, Store, StoreSettings, build_store
from graphattn.builders.store._manifest import Manifest
from graphattn.exceptions import ConfigError, DataError

VALUES = (None, -1, 1.5, "x", ["x"], {})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    rows = [{"tokens": ["a", "b"], "heads": [2, 0], "tags": ["N", "V"], "label": "xy"[n % 2]} for n in range(4)]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=200)
    build_store([CorpusFile(folder / "a.jsonl")], folder / "s", settings)
    return folder / "s"


@pytest.fixture
def store(built, tmp_path):
    return shutil.copytree(built, tmp_path / "s")


def places(value, place=()):
    """The path of each value in a JSON value."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


def change(record, place, value):
    """A copy of a record with another value at a place; ``...`` deletes it."""
    if not place:
        return value
    copied = json.loads(json.dumps(record))
    inner = copied
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return copied


def use(folder):
    store = Store(folder)
    assert store.find_damaged() is not None
    sentences = list(store)
    for _ in GraphStream(store, store.builder(), max_sentences=100):
        pass
    return sentences


@pytest.mark.slow
def test_every_changed_or_deleted_value_is_harmless_or_one_error(store):
    """Also if the checksum fits, as another program could write it."""
    record = json.loads((store / "store.json").read_text())
    del record["checksum"]
    expected, errors = use(store), []
    for number, place in enumerate(places(record)):
        for value in (VALUES[number % len(VALUES)], *([...] if place else [])):  # the next place gets another value
            changed = change(record, place, value)
            if isinstance(changed, dict):
                changed["checksum"] = json_checksum(changed)
            (store / "store.json").write_text(json.dumps(changed))
            try:
                assert use(store) == expected
            except DataError as error:
                errors.append(str(error))
            except ConfigError:
                assert place[:2] == ("settings", "relations")
    assert len(errors) > 50
    assert all(str(store) in error for error in errors)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "maximum recursion depth exceeded"),
        ("[]", "list indices must be integers"),
        ('{"kind": "graphattn store", "format_version": 1}', "its checksum does not match"),
    ],
)
def test_damaged_text(store, text, reason):
    (store / "store.json").write_text(text)
    with pytest.raises(DataError) as caught:
        Manifest.read(store)
    assert str(caught.value).startswith(f"{store / 'store.json'}: is damaged ({reason}")
    assert str(caught.value).endswith(
        "Run graphattn build with all corpora of the store again; it keeps undamaged shards."
    )


def test_a_build_writes_a_damaged_manifest_again(built, store):
    before = {path: path.stat().st_ino for path in (store / "sentences").iterdir()}
    (store / "store.json").write_text("{")
    settings = StoreSettings(TextGraphBuilder([Window(3)]), block_bytes=200)
    corpora = [CorpusFile(built.parent / "a.jsonl")]
    with pytest.raises(DataError, match="is damaged"):
        build_store(corpora, store, settings, append=True)
    build_store(corpora, store, settings)
    assert (store / "store.json").read_bytes() == (built / "store.json").read_bytes()
    assert {path: path.stat().st_ino for path in (store / "sentences").iterdir()} == before
