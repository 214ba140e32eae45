"""The translator: training, reproducibility, resuming, saving, and errors in its input."""

import json
import math
import sys
import warnings
from pathlib import Path
from unicodedata import normalize

import pytest
import torch

import graphattn
from graphattn.builders import Example, Sentence
from graphattn.builders.parsers import _cache as parse_cache
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, MissingPackageError, ModelDirectoryError
from graphattn.experiments._cli.predict import predict_lines
from graphattn.models._decoders.options import (
    PRESETS,
    DecoderOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models._encoders import ENCODERS
from graphattn.models._estimators.inspectable import encode_input
from graphattn.models._estimators.translator import Translator
from graphattn.options import ParsingOptions


@pytest.fixture(scope="session")
def small(tiny):
    """A translator that trains quickly: ``small(encoder, inputs={...}, training={...})``."""
    return lambda encoder="transformer", **arguments: tiny("translator", encoder, **arguments)


def trees(texts):
    """Sentences with heads, so that every encoder has its arcs."""
    return [Sentence(text.split(), heads=range(len(text.split()))) for text in texts]


@pytest.mark.slow
def test_it_memorises_pairs_and_generalises(toy_pairs):
    sources, targets = toy_pairs(250)
    sizes = {"hidden": 64, "layers": 2, "heads": 4, "ffn": 128, "dropout": 0.0}
    translator = Translator(
        ENCODERS["transformer"][0].for_translation(sizes),
        inputs=SubwordOptions(vocabulary_size=200, embedding_dropout=0.0),
        decoder=DecoderOptions(2, 4, 128, 0.0),
        training=TranslationTraining(
            epochs=12, max_tokens=400, learning_rate=5e-3, warmup_steps=30, label_smoothing=0.0, dev_fraction=0.0
        ),
    )
    translator.fit(sources[:200], targets[:200])
    assert translator.score(sources[:200], targets[:200]) > 0.95
    assert translator.score(sources[200:], targets[200:]) > 0.9


@pytest.mark.slow
def test_the_dev_set_selects_the_epoch_by_bleu(small, toy_pairs):
    sources, targets = toy_pairs(30)
    references = [(target, "another one") for target in targets[20:]]
    translator = small(training={"epochs": 3}, search=SearchOptions(max_length=None))
    translator.fit(sources[:20], targets[:20], dev=(sources[20:], references))
    names = {"bleu", "chrf", "rouge_1", "rouge_2", "rouge_l", "exact_match"}
    assert [row.keys() - {"epoch", "train_loss"} for row in translator.history_] == [{f"dev_{n}" for n in names}] * 3
    translator.search.beam = 1  # like the dev set
    best = max(row["dev_bleu"] for row in translator.history_)
    assert translator.evaluate(sources[20:], references)["bleu"] == pytest.approx(best, abs=1e-6)


def test_a_missing_library_is_reported_before_texts_are_generated(small, toy_pairs, monkeypatch):
    sources, targets = toy_pairs(8)
    translator = small(training={"epochs": 1, "dev_fraction": 0.0}).fit(sources, targets)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    monkeypatch.setattr(translator, "predict", None)
    for measure in (translator.evaluate, translator.report):
        with pytest.raises(MissingPackageError):
            measure(sources, targets)


ANIMALS = {"dog": "狗", "cat": "猫", "bird": "鸟"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("training", "reference", "metric", "hint"),
    [
        ({}, "那只{}找到了一只{}。", None, "'zh'"),
        ({"bleu_tokenizer": "char"}, "那只{}找到了一只{}。", None, None),
        ({"bleu_tokenizer": "13a"}, "那只{}找到了一只{}。", "chrf", "too short for bleu"),
        ({"bleu_tokenizer": "13a", "metric": "bleu"}, "那只{}找到了一只{}。", "bleu", None),
        ({}, "Der {} findet den {}.", None, None),
        ({}, "{} + {}", "chrf", "too short for bleu"),
        ({"metric": "rouge_2"}, "{}{}", "chrf", "too short for rouge_2"),
        ({"metric": "exact_match"}, "{}-{}", "exact_match", None),
    ],
)
def test_chrf_chooses_the_epoch_where_another_metric_would_be_zero(small, training, reference, metric, hint):
    names = list(ANIMALS.values() if "只" in reference else ANIMALS)
    sources = [f"the {one} finds a {two}" for one in ANIMALS for two in ANIMALS]
    targets = [reference.format(one, two) for one in names for two in names]
    translator = small(training={"epochs": 2, **training})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translator.fit(sources, targets, dev=(sources, targets))
    assert [hint in str(warning.message) for warning in caught] == [True] * (hint is not None)
    assert {warning.filename for warning in caught} <= {__file__}
    assert translator.training_.metric == metric
    name = f"dev_{metric or 'bleu'}"
    assert translator.best_epoch()[name] == max(row[name] for row in translator.history_)


def test_references_may_be_decomposed(small, toy_pairs):
    sources, targets = toy_pairs(8)
    targets = [f"Đây là ví dụ: {target}" for target in targets]
    translator = small(training={"epochs": 1}).fit(sources, [normalize("NFD", target) for target in targets])
    composed = translator.evaluate(sources, targets)
    assert composed["chrf"] > 0
    assert translator.evaluate(sources, [normalize("NFD", target) for target in targets]) == composed


def test_an_empty_list_of_references(small, toy_pairs):
    """Reported before the first epoch, and in ``evaluate``."""
    sources, targets = toy_pairs(8)
    model = small(training={"epochs": 1})
    message = "target 2 is an empty list. Give a text, or a list of references."
    with pytest.raises(DataError, match=message):
        model.fit(sources, targets, dev=(sources[:2], ["a", []]))
    with pytest.raises(DataError, match=message):
        model.fit(sources, targets).evaluate(sources[:2], ["a", []])


def test_a_count_below_one(small, toy_pairs):
    model = small(training={"epochs": 1}).fit(*toy_pairs(8))
    with pytest.raises(ConfigError, match="it must be at least 1"):
        model.outputs(["a"], count=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda translator, folder: translator.predict_with_probabilities(["a b"]),
        lambda translator, folder: translator.to_huggingface(folder),
        lambda translator, folder: translator.encode(["a b"]),
    ],
)
def test_a_translator_has_no_classes(use, small, toy_pairs, tmp_path):
    with pytest.raises(ConfigError, match="a model that writes texts has no "):
        use(small(training={"epochs": 1}).fit(*toy_pairs(8)), tmp_path / "model")


def test_a_translator_has_no_classes_as_attributes(small, toy_pairs):
    translator = small(training={"epochs": 1}).fit(*toy_pairs(8))
    assert not hasattr(translator, "classes_")


@pytest.mark.slow
def test_examples_contain_both_texts(small, toy_pairs):
    sources, targets = toy_pairs(20)
    examples = [Example(source, target) for source, target in zip(sources, targets, strict=True)]
    one, two = small().fit(examples, dev=examples[:5]), small().fit(sources, targets, dev=(sources[:5], targets[:5]))
    assert one.predict(examples) == two.predict(sources)
    assert one.evaluate(examples) == two.evaluate(sources, targets)
    assert one.score(examples) == pytest.approx(one.evaluate(examples)["bleu"] / 100)


def test_outputs_are_sorted_by_score(small, toy_pairs):
    sources, targets = toy_pairs(20)
    translator = small().fit(sources, targets)
    outputs = translator.outputs([sources[0], ""], count=3)
    assert len(outputs[0]) == 3
    assert sorted((own.score for own in outputs[0]), reverse=True) == [own.score for own in outputs[0]]
    assert translator.predict([sources[0], ""]) == [outputs[0][0].text, ""]


def test_perplexity_of_pairs_alone_and_together(small, toy_pairs):
    """Teacher forcing, one pair at a time: the mean over all subwords and ends of targets."""
    sources, targets = toy_pairs(9)
    translator = small(training={"epochs": 1}).fit(sources, targets)
    total, count = 0.0, 0
    for source, target in zip(sources, targets, strict=True):
        inputs = encode_input(translator, source, target=target)
        with torch.no_grad():
            scores = translator.model_(inputs.first_batch).double().log_softmax(1)
        ids = translator.subwords_.ids([target])[0].tolist()
        assert inputs.first_batch.targets.tolist()[: len(ids)] == ids
        total -= sum(float(row[token]) for row, token in zip(scores, inputs.first_batch.targets, strict=True))
        count += len(scores)
    assert translator.perplexity(sources, targets) == pytest.approx(math.exp(total / count), rel=1e-5)
    assert 1 < translator.perplexity(sources, targets) < 2 * len(translator.subwords_.vocabulary)


def test_sources_without_a_parse_give_one_warning(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translator = small("umst", training={"epochs": 1}).fit(sources, targets, dev=(sources[:3], targets[:3]))
        translator.predict(sources[:1])
        translator.evaluate(sources[:2], targets[:2])
        loaded = graphattn.load(translator.save(tmp_path / "model"))
        loaded.predict([*trees(sources[:2]), sources[2]])
        loaded.predict(sources)
    own = [str(warning.message) for warning in caught if warning.category is GraphAttnWarning]
    assert [text.partition(" have no parse")[0] for text in own] == ["12 of 12 sources", "1 of 3 sources"]


def test_sources_with_heads_give_no_warning(small, toy_pairs):
    sources, targets = toy_pairs(12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphAttnWarning)
        small("umst", training={"epochs": 1}).fit(trees(sources), targets).predict(trees(sources))


LONG = "dog " * 5000


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (["a", "b"], ["x"], "2 sources but 1 targets. Give one for each."),
        ([], [], "there are no training examples"),
        (["a", " "], ["x", "y"], "source 2 is empty. Delete the pair, or complete it."),
        (["a", []], ["x", "y"], "source 2 is empty. Delete the pair, or complete it."),
        (["a", "b"], ["x", ""], "target 2 is empty. Delete the pair, or complete it."),
        (["a", Example("b")], None, "source 1 has no target. Give y, or examples with both texts."),
        (
            ["a", LONG] * 2,
            ["x"] * 4,
            "source 2 has 5,000 subwords; the limit is 1,024. Shorten it, delete it, or raise longest.",
        ),
        (
            ["x"] * 4,
            ["a", LONG] * 2,
            "target 2 has 5,000 subwords; the limit is 1,024. Shorten it, delete it, or raise longest.",
        ),
        ("a text", ["x"], "a str is given where many inputs are expected. Put it into a list."),
    ],
    ids=range(9),
)
def test_bad_pairs(sources, targets, message, small):
    with pytest.raises(DataError) as caught:
        small(training={"dev_fraction": 0.0}).fit(sources, targets)
    assert str(caught.value) == message


@pytest.mark.parametrize("place", [0, 4, 39])
def test_a_long_source_is_reported_with_its_number(place, small, toy_pairs):
    """Some pairs are held out before lengths are known."""
    sources, targets = toy_pairs(40)
    sources[place] = LONG
    with pytest.raises(DataError, match=f"^source {place + 1} has [0-9,]+ subwords; the limit is 1,024\\. "):
        small(training={"dev_fraction": 0.3}).fit(sources, targets)


def test_samples_depend_on_the_number_of_the_source_and_not_on_chunks(small, toy_pairs):
    sources, targets = toy_pairs(24)
    translator = small(training={"epochs": 1}).fit(sources, targets)
    translator.search = SearchOptions(sample=True, temperature=3.0, max_length=8)
    same = [sources[0]] * 6
    whole = translator.predict(same)
    assert len(set(whole)) > 3
    for chunk in (1, 4):
        assert "".join(predict_lines(translator, same, plain=True, chunk=chunk)).splitlines() == whole


def test_a_long_source_of_a_dev_set_is_reported(small, toy_pairs):
    sources, targets = toy_pairs(12)
    with pytest.raises(DataError, match=r"^dev source 2 has [0-9,]+ subwords; the limit is 1,024\. "):
        small().fit(sources, targets, dev=([sources[0], LONG], targets[:2]))


def test_a_long_source_is_rejected_before_parsing(small, toy_pairs, monkeypatch):
    sources, targets = toy_pairs(12)
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: pytest.fail("parsed too early"))
    for side in (0, 1):
        pairs = [list(sources), list(targets)]
        pairs[side][5] = LONG
        with pytest.raises(DataError, match=f"^{('source', 'target')[side]} 6 has "):
            small("umst", training={"dev_fraction": 0.0}, parsing=ParsingOptions(parser="stanza")).fit(*pairs)


def test_errors_in_a_chunk_number_the_sources_of_the_whole_input(small, toy_pairs):
    translator = small().fit(*toy_pairs(12))
    with pytest.raises(DataError, match=r"^source 702 has "):
        translator.outputs(["a dog", LONG], first=701)


def test_a_long_source_is_rejected_by_predict(small, toy_pairs):
    sources, targets = toy_pairs(12)
    translator = small(inputs={"longest": 30}).fit(sources, targets)
    with pytest.raises(DataError) as caught:
        translator.predict([sources[0], "dog " * 31])
    assert str(caught.value) == ("source 2 has 31 subwords; the limit is 30. Shorten it, delete it, or raise longest.")
    translator.inputs.longest = 40
    assert len(translator.predict([sources[0], "dog " * 31])) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "tiny"}, "preset is 'tiny'; choose one of: small, base, deep, big"),
        ({"encoder": "rnn"}, f"encoder 'rnn' does not exist; choose one of: {', '.join(ENCODERS)}"),
        ({"search": SearchOptions(beam=0)}, "beam is 0; it must be at least 1"),
        ({"decoder": DecoderOptions(decoder_heads=5)}, "hidden is 256; it must be a multiple of decoder_heads (5)"),
        (
            {"training": TranslationTraining(metric="ter")},
            "metric 'ter' is not measured; choose one of: bleu, chrf, rouge_1, rouge_2, rouge_l, exact_match",
        ),
    ],
    ids=str,
)
def test_invalid_options(arguments, message, toy_pairs):
    with pytest.raises(ConfigError) as caught:
        Translator(**arguments).fit(*toy_pairs(12))
    assert str(caught.value) == message


def test_a_run_of_another_vocabulary_is_not_resumed(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    run = {"run_dir": str(tmp_path / "run"), "epochs": 1}
    small(training=run).fit(sources, targets)
    with pytest.raises(ConfigError) as caught:
        small(inputs={"vocabulary_size": 70}, training=run).fit(sources, targets)
    assert str(caught.value) == (
        f"a run with other options (vocabulary_size: 90, now 70) is in {tmp_path / 'run'}; resume=False discards it, "
        "another run_dir keeps it"
    )
    with pytest.raises(ConfigError, match=r"^a run with other data \(training set\) is in "):
        small(training=run).fit([*sources, "a zebra sleeps"], [*targets, "Ein zebra!"])


@pytest.mark.slow
def test_a_run_directory_with_another_vocabulary_is_rejected(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    small().fit(sources, targets).save(tmp_path / "model")
    small(inputs={"vocabulary_size": 70}).fit(sources, targets).save(tmp_path / "other")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    tokenizer = (tmp_path / "other" / "tokenizer.json").read_text()
    (tmp_path / "model" / "tokenizer.json").write_text(tokenizer)
    config["sha256"]["tokenizer.json"] = json.loads((tmp_path / "other" / "config.json").read_text())["sha256"][
        "tokenizer.json"
    ]
    del config["checksum"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelDirectoryError, match="json does not fit the other files"):
        graphattn.load(tmp_path / "model")


def test_parameters_follow_scikit_learn():
    from sklearn.base import clone

    translator = Translator("ms-trans", preset="base", search=SearchOptions(beam=7))
    again = clone(translator)
    assert again.get_params()["search__beam"] == 7
    assert again.resolve_options()["decoder"].decoder_layers == 6
    assert repr(again.set_params(training__epochs=3)).startswith("Translator(encoder='ms-trans', preset='base'")


def test_a_preset_changes_the_settings():
    training = TranslationTraining(epochs=3, beta2=0.9)
    changed = [
        Translator(training=training).set_params(preset="base"),
        Translator().set_params(training__epochs=3, training__beta2=0.9).set_params(preset="base"),
        Translator(preset="base").set_params(training__epochs=3, training__beta2=0.9),
    ]
    for translator in changed:
        options = translator.resolve_options()
        expected = {**PRESETS["base"].training, "epochs": 3, "beta2": 0.9}
        assert options["training"] == TranslationTraining(**expected)
        assert options["decoder"] == DecoderOptions(**PRESETS["base"].decoder)
    with pytest.raises(ConfigError, match="preset is 'x'; choose one of: small, base, deep, big"):
        Translator(preset="x").fit(["a"], ["b"])


def test_a_run_with_other_references_is_not_resumed(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    options = {"training": {"epochs": 1, "run_dir": str(tmp_path / "run")}}
    small(**options).fit(sources, targets, dev=(sources[:4], targets[:4]))
    with pytest.raises(ConfigError):
        small(**options).fit(sources, targets, dev=(sources[:4], targets[4:8]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5000.0])
def test_invalid_length_penalties(value):
    with pytest.raises(ConfigError, match="it must be at least -10 and at most 10"):
        SearchOptions(length_penalty=value).validate()


@pytest.fixture
def vector_file(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(
        "".join(f"{word} {number} {number**2} -1\n" for number, word in enumerate(["the", "dog", "a", "."]))
    )
    return str(path)


def test_word_vectors_of_the_duo_transformer(tiny, corpus, vector_file, tmp_path):
    """One of its embeddings comes from a file, which the saved model does not need; training continues from it."""
    sources, targets = corpus("translator", 12)
    inputs = {"vectors": vector_file}
    translator = tiny("translator", "duo-transformer", inputs=inputs, training={"epochs": 1}).fit(sources, targets)
    scores = [output.score for (output,) in translator.outputs(sources)]
    path = translator.save(tmp_path / "model")
    Path(vector_file).unlink()
    loaded = graphattn.load(path)
    assert [output.score for (output,) in loaded.outputs(sources)] == scores
    before = loaded.model_.embedding.pretrained.detach().clone()
    loaded.warm_start = True
    assert not torch.equal(loaded.fit(sources, targets).model_.embedding.pretrained, before)


def test_word_vectors_of_another_encoder(vector_file):
    with pytest.raises(ConfigError) as caught:
        Translator("transformer", inputs=SubwordOptions(vectors=vector_file)).validate()
    assert caught.value.options == ("vectors", "encoder")
