"""What estimators share that can be saved."""

import pytest

from graphattn.exceptions import NotFittedError
from graphattn.models import PairClassifier, SequenceTagger, TextClassifier, Translator


@pytest.mark.parametrize("kind", [TextClassifier, PairClassifier, SequenceTagger, Translator])
def test_an_untrained_one_is_not_saved(kind, tmp_path):
    with pytest.raises(NotFittedError) as caught:
        kind().save(tmp_path / "model")
    assert str(caught.value) == f"this {kind.__name__} is not trained yet; call fit, or graphattn.load a saved one"
    assert not (tmp_path / "model").exists()


def test_notes_stand_beside_the_model(tiny, corpus, tmp_path):
    classifier = tiny(training={"epochs": 1}).fit(*corpus("classifier", 12))
    folder = classifier.save(str(tmp_path / "model"), notes={"origin.txt": "a test\n"})
    assert folder == tmp_path / "model"
    assert (folder / "origin.txt").read_text() == "a test\n"
