"""The corpora of the result tables: where each lies, and how one without a test set is cut."""

import pytest

from graphattn.builders import Example
from graphattn.exceptions import ConfigError
from graphattn.experiments.papers.data_sets import DATA_SETS, cross_validation_fold, data_folder


def test_no_data_folder(monkeypatch):
    monkeypatch.delenv("GRAPHATTN_DATA", raising=False)
    with pytest.raises(ConfigError) as caught:
        data_folder()
    assert str(caught.value) == "GRAPHATTN_DATA is None; set it to the folder that holds the corpora, or give --data"


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_is_there(corpora, name):
    data_set = DATA_SETS[name]
    for part in ("train", "dev", "test"):
        if getattr(data_set, part) is not None:
            assert (corpora / getattr(data_set, part)).is_file()
    first = next(iter(data_set.read(corpora / (data_set.test or data_set.train))))
    assert getattr(first, "tags" if data_set.task == "tag" else "label")


def test_folds_are_the_whole_and_share_no_item():
    items = [Example(f"text {number}", label=str(number % 3)) for number in range(60)]
    cuts = [cross_validation_fold(items, fold) for fold in range(10)]
    held = [item.text for _, own in cuts for item in own]
    assert sorted(held) == sorted(item.text for item in items)
    for rest, own in cuts:
        assert len(rest) + len(own) == 60
        assert not {item.text for item in rest} & {item.text for item in own}
        assert [sum(item.label == label for item in own) for label in "012"] == [2, 2, 2]
    with pytest.raises(ConfigError) as caught:
        cross_validation_fold(items, 10)
    assert str(caught.value) == "seed 10 is no fold: this data set is cut into 10; give --seeds up to 10"
