"""The component of spaCy: classes, entities and tags of its texts, in batches, and in pipelines on disk."""

import shutil

import numpy as np
import pytest

from graphattn import SequenceTagger, TextClassifier, load
from graphattn.exceptions import ConfigError, DataError, ModelDirectoryError
from graphattn.models import MSTransOptions, TrainingOptions

from .padded import MODELS
from .pretrained.conftest import SIZES, write_model

spacy = pytest.importorskip("spacy")
WORDS, ENTITIES = ["Ann", "saw", "New", "York", "."], ["B-PER", "O", "B-LOC", "I-LOC", "O"]
TEXT = "Ann saw \n New York."
TRAINING = TrainingOptions(epochs=8, learning_rate=0.02, dev_fraction=0, progress=False, precision="32")


@pytest.fixture
def pipe():
    """Make a pipeline with a model directory."""
    pytest.importorskip("graphattn.models._spacy")

    def make(model):
        nlp = spacy.blank("en")
        nlp.add_pipe("graphattn", config={"model": str(model)})
        return nlp

    return make


@pytest.fixture
def save_tagger(tmp_path):
    """Train a tagger on one sentence and save it."""

    def train(tags):
        encoder = MSTransOptions(hidden=20, heads=5, layers=1)
        return SequenceTagger(encoder, training=TRAINING).fit([WORDS] * 8, [tags] * 8).save(tmp_path / "tagger")

    return train


def test_classes_and_attention(pipe):
    nlp, classifier = pipe(MODELS / "classify"), load(MODELS / "classify")
    texts = ["a good film", "", "bad bad plot"]
    docs = list(nlp.pipe(texts, batch_size=2))
    found = [[doc.cats[str(name)] for name in classifier.classes_] for doc in docs]
    np.testing.assert_allclose(found, classifier.predict_proba(texts), atol=1e-6)
    assert docs[2]._.attention.table().equals(classifier.attention(texts[2]).table())
    with pytest.raises(ConfigError, match=r"call nlp\(text\)"):
        _ = spacy.blank("en")("a text")._.attention


def test_options_of_predictions_have_the_names_of_predict_rows(save_tagger):
    classifier = load(MODELS / "classify")
    texts, name = ["a good film", "bad bad plot"], str(classifier.classes_[0])
    options = {"threshold": {name: 0.01}, "min_confidence": 0.4, "top_k": 1}
    nlp = spacy.blank("en")
    nlp.add_pipe("graphattn", config={"model": str(MODELS / "classify"), **options})
    docs = list(nlp.pipe(texts))
    assert [doc._.prediction for doc in docs] == classifier.predict_rows(texts, **options)
    assert set(docs[0].cats) == set(map(str, classifier.classes_))
    assert spacy.blank("en")("a text")._.prediction is None
    nlp = spacy.blank("en")
    nlp.add_pipe("graphattn", config={"model": str(save_tagger(ENTITIES)), "top_k": 1})
    with pytest.raises(ConfigError, match="top_k does not apply"):
        nlp("a text")


def test_entities_are_those_of_spacys_tokens(pipe, save_tagger):
    nlp = pipe(save_tagger(ENTITIES))
    docs = list(nlp.pipe([TEXT, "", "\n"]))
    assert [(span.text, span.label_) for span in docs[0].ents] == [("Ann", "PER"), ("New York", "LOC")]
    assert not docs[1].ents
    assert not docs[2].ents
    assert docs[0]._.attention.words["text"][-5:] == tuple(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tags", "attribute"), [("PROPN VERB PROPN PROPN PUNCT", "pos_"), ("NNP VBD NNP NNP .", "tag_")]
)
def test_tags(pipe, save_tagger, tags, attribute):
    doc = pipe(save_tagger(tags.split()))(TEXT)
    assert [getattr(token, attribute) for token in doc if not token.is_space] == tags.split()


@pytest.mark.slow
def test_a_pipeline_on_disk_contains_the_model(pipe, tmp_path):
    shutil.copytree(MODELS / "classify", tmp_path / "model")
    nlp = pipe(tmp_path / "model")
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded("a good film").cats == nlp("a good film").cats
    copied = spacy.blank("en").from_config(nlp.config)
    with pytest.raises(ModelDirectoryError):
        copied("a good film")


def test_other_models_are_an_error(pipe):
    with pytest.raises(ConfigError, match="needs a classifier or a tagger"):
        pipe(MODELS / "translate")("a text")


def test_a_model_that_reads_columns_beside_the_text(pipe, tmp_path):
    training = TrainingOptions(epochs=0, dev_fraction=0)
    classifier = TextClassifier(training=training, feature_columns=("level:category",))
    rows = [{"text": "a film", "level": level, "label": level} for level in ("high", "low")]
    with pytest.raises(ConfigError, match="reads the columns level beside the text"):
        pipe(classifier.fit(rows).save(tmp_path / "model"))("a film")


@pytest.fixture(scope="module")
def short_tagger(tmp_path_factory):
    """A tagger on a random BERT with positions for 48 tokens, which rejects longer texts."""
    transformers, folder = pytest.importorskip("transformers"), tmp_path_factory.mktemp("short")
    write_model(transformers.BertModel(transformers.BertConfig(**SIZES)), folder / "bert")
    training = TrainingOptions(epochs=1, dev_fraction=0, progress=False, precision="32")
    tagger = SequenceTagger(pretrained=str(folder / "bert"), training=training)
    return tagger.fit([["a", "b"]] * 4, [["B-X", "O"]] * 4).save(folder / "tagger")


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 128])
@pytest.mark.parametrize("bad", [[0], [3, 4], [6], range(7)])
def test_a_text_with_an_error_goes_to_the_handler_alone(pipe, short_tagger, batch_size, bad):
    texts = ["a b " * 40 if number in bad else f"a {number}" for number in range(7)]
    nlp, calls = pipe(short_tagger), []
    stream = nlp.pipe(texts, batch_size=batch_size)
    with pytest.raises(DataError):
        _ = list(stream)
    nlp.set_error_handler(lambda *call: calls.append(call))
    docs = list(nlp.pipe(texts, batch_size=batch_size))
    assert [doc.text for doc in docs] == [text for number, text in enumerate(texts) if number not in bad]
    assert all(doc.has_annotation("ENT_IOB") for doc in docs)
    component = nlp.get_pipe("graphattn")
    assert [(name, proc, [doc.text for doc in docs]) for name, proc, docs, _ in calls] == [
        ("graphattn", component, [texts[number]]) for number in bad
    ]
    assert {type(error) for *_, error in calls} == {DataError}


def test_texts_before_an_error_are_kept(pipe, short_tagger):
    stream = pipe(short_tagger).pipe(["a", "b", "a b " * 40, "a"], batch_size=128)
    assert [next(stream).text, next(stream).text] == ["a", "b"]
    with pytest.raises(DataError):
        next(stream)


def test_one_text_with_an_error(pipe, short_tagger):
    nlp, calls = pipe(short_tagger), []
    with pytest.raises(DataError):
        nlp("a b " * 40)
    nlp.set_error_handler(lambda *call: calls.append(call))
    assert not nlp("a b " * 40).has_annotation("ENT_IOB")
    assert nlp("a b").has_annotation("ENT_IOB")
    assert len(calls) == 1


def test_a_model_that_is_missing_is_no_error_of_a_text(pipe, tmp_path):
    nlp, calls = pipe(tmp_path / "nowhere"), []
    nlp.set_error_handler(lambda *call: calls.append(call))
    with pytest.raises(ModelDirectoryError):
        list(nlp.pipe(["a", "b"]))
    assert (nlp.pipe_labels["graphattn"], calls) == ([], [])


def test_labels(pipe, save_tagger):
    names = [str(name) for name in load(MODELS / "classify").classes_]
    assert pipe(MODELS / "classify").pipe_labels == {"graphattn": names}
    nlp = pipe(save_tagger(ENTITIES))
    assert nlp.pipe_labels == {"graphattn": ["LOC", "PER"]} == nlp.meta["labels"]
    assert set(pipe(save_tagger("DT VBD NNP NNP .".split())).pipe_labels["graphattn"]) == {"DT", "VBD", "NNP", "."}


def make_examples(nlp, annotations):
    return [spacy.training.Example.from_dict(nlp.make_doc(text), gold) for text, gold in annotations]


def test_entities_are_evaluated(pipe, save_tagger):
    nlp = pipe(save_tagger(ENTITIES))
    gold = [("Ann saw New York.", {"entities": [(0, 3, "PER"), (4, 7, "LOC")]}), ("Ann saw .", {"entities": []})]
    scores = nlp.evaluate(make_examples(nlp, gold))
    found = [{(span.label_, span.text) for span in nlp(text).ents} for text, _ in gold]
    right = len(found[0] & {("PER", "Ann"), ("LOC", "saw")})
    assert scores["ents_p"] == pytest.approx(right / sum(map(len, found)))
    assert scores["ents_r"] == pytest.approx(right / 2)
    assert 0 < scores["ents_f"] < 1
    assert scores["ents_per_type"].keys() == {"PER", "LOC"}


@pytest.mark.slow
@pytest.mark.parametrize(("tags", "attribute"), [("PROPN VERB PROPN PROPN PUNCT", "pos"), ("NNP SYM SYM SYM .", "tag")])
def test_tags_are_evaluated(pipe, save_tagger, tags, attribute):
    nlp, key = pipe(save_tagger(tags.split())), {"pos": "pos", "tag": "tags"}[attribute]
    gold = [*tags.split()[:3], *["X"] * 2]
    example = spacy.training.Example.from_dict(spacy.tokens.Doc(nlp.vocab, WORDS), {"words": WORDS, key: gold})
    assert nlp.evaluate([example])[f"{attribute}_acc"] == pytest.approx(3 / 5)


@pytest.mark.parametrize("multilabel", [False, True])
def test_classes_are_evaluated_as_the_model_decides(pipe, tmp_path, multilabel):
    texts, encoder = ["good", "bad", "good bad", "so so"] * 4, MSTransOptions(hidden=8, heads=2, layers=1)
    labels = [("x", "y"), ("y",), ("x",), ()] * 4 if multilabel else ["x", "y", "x", "y"] * 4
    model = TextClassifier(encoder, training=TRAINING, multilabel=multilabel).fit(texts, labels)
    examples, golds, accuracies = texts[:4], labels[:4], set()
    for threshold in (0.01, 0.3, 0.5, 0.97):
        model.set_thresholds({"x": threshold})
        nlp = pipe(model.save(tmp_path / "model"))
        gold = [{"cats": {name: float(name in of_text) for name in "xy"}} for of_text in golds]
        scores = nlp.evaluate(make_examples(nlp, zip(examples, gold, strict=True)))
        expected = model.evaluate(examples, golds)["micro_f1" if multilabel else "accuracy"]
        assert 100 * scores["cats_micro_f"] == pytest.approx(expected, abs=1e-3)
        assert scores["cats_f_per_type"].keys() == {"x", "y"}
        accuracies.add(expected)
    assert len(accuracies) > 1, "thresholds change decisions"


def test_the_pipeline_knows_what_the_component_sets(pipe):
    nlp = pipe(MODELS / "classify")
    nlp.add_pipe("sentencizer")
    analysis = nlp.analyze_pipes()
    assert {"doc.cats", "doc.ents", "token.tag", "token.pos"} <= {*analysis["summary"]["graphattn"]["assigns"]}
    assert {"cats_score", "ents_f", "tag_acc", "pos_acc"} <= {*analysis["summary"]["graphattn"]["scores"]}
    assert analysis["problems"]["graphattn"] == []
    with nlp.select_pipes(disable=["graphattn"]):
        assert not nlp("a film").cats
    assert nlp("a film").cats
    assert isinstance(nlp.get_pipe("graphattn"), spacy.pipeline.Pipe)


def test_processes_use_the_handler(pipe, short_tagger):
    nlp = pipe(short_tagger)
    nlp.set_error_handler(spacy.util.ignore_error)
    texts = ["a", "a b " * 40, "b", "a b"]
    assert [doc.text for doc in nlp.pipe(texts, n_process=2, batch_size=2)] == ["a", "b", "a b"]
