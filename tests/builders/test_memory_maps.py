"""Layouts in files equal the original layouts in every process, and no files remain."""

import gc
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Vocabulary, Window
from graphattn.builders._layout import concatenate
from graphattn.builders._memory_maps import memmap_layouts
from graphattn.builders.relations import Links, SentenceNodes
from graphattn.exceptions import DataError

SENTENCES = [
    Sentence(["a", "b", "c"], heads=[2, 0, 2], links=[(0, 1), (2, 1)], sentence_ids=[0, 0, 1]),
    Sentence([], heads=[], links=[]),
    Sentence(["b"], heads=[0], links=[(0, 0)]),
    Sentence(["c", "c"], heads=[0, 1], links=[]),
]
COLUMNS = ("lengths", "word_counts", "word_ids", "heads", "deprels", "sentence_ids")


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, empty before and after."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert list(folder.iterdir()) == []


@pytest.fixture
def parts():
    builder = TextGraphBuilder([Window(3), Dependency(), Links(), SentenceNodes()],
                               vocabulary=Vocabulary.train([["a", "b"]]))  # fmt: skip
    shapes = {"shape": ([np.arange(2 * len(s), dtype=np.float32).reshape(-1, 2) for s in SENTENCES], 0.5)}
    whole = builder.layout(SENTENCES, features=shapes)
    return [whole.take([0, 1]), whole.take([2]), whole.take([3])]


def assert_same(actual, expected):
    for name in COLUMNS:
        assert np.array_equal(getattr(actual, name), getattr(expected, name)), name
    assert actual.features.keys() == expected.features.keys() == {"id", "shape"}
    for name, values in expected.features.items():
        assert np.array_equal(actual.features[name], values)
    for name in ("offsets", "values"):
        assert np.array_equal(getattr(actual.links, name), getattr(expected.links, name))


def test_layouts_in_files_equal_those_in_memory(parts, temporary):
    layout = memmap_layouts(iter(parts))
    assert_same(layout, concatenate(parts))
    assert_same(layout.take([3, 0, 2, 0]), concatenate(parts).take([3, 0, 2, 0]))
    assert isinstance(layout.word_ids, np.memmap)
    assert type(layout.take([0]).word_ids) is np.ndarray
    assert len(list(temporary.iterdir())) == 1


def test_other_processes_map_the_same_files(parts, temporary):
    layout = memmap_layouts(parts)
    packed = pickle.dumps(layout)
    copy = pickle.loads(packed)
    assert_same(copy, concatenate(parts))
    assert isinstance(copy.heads, np.memmap)
    assert len(list(temporary.iterdir())) == 1
    del copy
    gc.collect()
    assert_same(layout, concatenate(parts))


def test_empty_layouts():
    builder = TextGraphBuilder([Window(3)], cls=False)
    layout = memmap_layouts([builder.layout([])])
    assert (len(layout), layout.num_tokens) == (0, 0)


def test_failures_leave_no_files(parts, temporary):
    def failing():
        yield parts[0]
        raise ValueError("no more")

    def full():
        yield parts[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(ValueError, match="no more"):
        memmap_layouts(failing())
    with pytest.raises(DataError) as caught:
        memmap_layouts(full())
    assert str(caught.value.path).startswith(str(temporary))
    assert list(Path(temporary).iterdir()) == []
