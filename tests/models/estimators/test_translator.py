"""The translator: learns, repeats, resumes, is saved, and says what is wrong with its input."""

import json
import warnings

import numpy as np
import pytest
import torch

import graphattn
from graphattn.builders import Example, Sentence
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, ModelDirectoryError, NotFittedError
from graphattn.experiments.cli.predict import predict_lines
from graphattn.models.decoders.options import (
    DecoderOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models.encoders import ENCODERS
from graphattn.models.estimators.translator import Translator

every_encoder = pytest.mark.parametrize("encoder", ENCODERS)


@pytest.fixture(scope="session")
def small():
    """A translator that trains in a blink: ``small(encoder, inputs={...}, training={...})``."""

    def make(encoder="transformer", inputs=None, training=None, **arguments):
        sizes = {"hidden": 16, "layers": 1, "heads": 4, "ffn": 24, "dropout": 0.1}
        return Translator(
            ENCODERS[encoder][0].for_translation(sizes) if isinstance(encoder, str) else encoder,
            inputs=SubwordOptions(**{"vocabulary_size": 90, **(inputs or {})}),
            decoder=DecoderOptions(1, 2, 24, 0.1),
            training=TranslationTraining(
                **{"epochs": 2, "max_tokens": 200, "warmup_steps": 5, "learning_rate": 0.01, **(training or {})}
            ),
            **{"search": SearchOptions(beam=2, max_length=12), **arguments},
        )

    return make


def trees(texts):
    """Sentences with heads, so that every encoder has its arcs."""
    return [Sentence(text.split(), heads=range(len(text.split()))) for text in texts]


def weights_of(translator):
    return {name: tensor.clone() for name, tensor in translator.model_.state_dict().items()}


def test_it_learns_pairs_by_heart_and_what_they_have_in_common(toy_pairs):
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


@every_encoder
def test_a_saved_model_is_the_same_bit_for_bit(encoder, small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    translator = small(encoder).fit(trees(sources), targets)
    loaded = graphattn.load(translator.save(tmp_path / "model"))
    assert loaded.outputs(trees(sources), count=2) == translator.outputs(trees(sources), count=2)
    assert weights_of(loaded).keys() == weights_of(translator).keys()
    assert all(torch.equal(own, weights_of(loaded)[name]) for name, own in weights_of(translator).items())
    assert (loaded.history_, loaded.search) == (translator.history_, translator.search)


def test_a_new_process_predicts_the_same(small, toy_pairs, tmp_path, fresh_process):
    sources, targets = toy_pairs(20)
    translator = small().fit(sources, targets)
    translator.save(tmp_path / "model")
    script = """
import graphattn
found = graphattn.load(given["path"]).outputs(given["sources"])
print(json.dumps([[own.text, own.score.hex()] for own, in found]))
"""
    answer = fresh_process(script, path=str(tmp_path / "model"), sources=sources)
    expected = [[own.text, own.score.hex()] for (own,) in translator.outputs(sources)]
    assert json.loads(answer.stdout) == expected, answer.stderr


def test_a_killed_run_ends_as_an_undisturbed_one(small, toy_pairs, tmp_path, killed_at):
    sources, targets = toy_pairs(40)
    undisturbed = small(training={"epochs": 3}).fit(sources, targets)
    disturbed = small(training={"epochs": 3, "run_dir": str(tmp_path / "run")})
    with killed_at(1, 1):
        disturbed.fit(sources, targets)
    disturbed.fit(sources, targets)
    assert disturbed.history_ == undisturbed.history_
    expected = weights_of(undisturbed)
    assert all(torch.equal(own, expected[name]) for name, own in weights_of(disturbed).items())


def test_same_seed_same_bits(small, toy_pairs):
    pairs = toy_pairs(20)
    one, two = (small().fit(*pairs) for _ in range(2))
    other = small(training={"seed": 1}).fit(*pairs)
    assert one.history_ == two.history_ != other.history_
    assert one.outputs(pairs[0]) == two.outputs(pairs[0])


def test_the_dev_set_chooses_the_epoch_by_bleu(small, toy_pairs):
    sources, targets = toy_pairs(30)
    references = [(target, "another one") for target in targets[20:]]
    translator = small(training={"epochs": 3}).fit(sources[:20], targets[:20], dev=(sources[20:], references))
    names = {"epoch", "train_loss", "dev_bleu", "dev_chrf", "dev_rouge_1", "dev_rouge_2", "dev_rouge_l"}
    assert [row.keys() for row in translator.history_] == [names] * 3
    translator.search.beam = 1  # as on the dev set
    translator.search.max_length = None
    best = max(row["dev_bleu"] for row in translator.history_)
    small_again = small(training={"epochs": 3}, search=SearchOptions(max_length=None))
    small_again.fit(sources[:20], targets[:20], dev=(sources[20:], references)).search.beam = 1
    best = max(row["dev_bleu"] for row in small_again.history_)
    assert small_again.evaluate(sources[20:], references)["bleu"] == pytest.approx(best, abs=1e-6)


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


def test_examples_carry_both_texts(small, toy_pairs):
    sources, targets = toy_pairs(20)
    examples = [Example(source, target) for source, target in zip(sources, targets, strict=True)]
    one, two = small().fit(examples, dev=examples[:5]), small().fit(sources, targets, dev=(sources[:5], targets[:5]))
    assert one.predict(examples) == two.predict(sources)
    assert one.evaluate(examples) == two.evaluate(sources, targets)
    assert one.score(examples) == pytest.approx(one.evaluate(examples)["bleu"] / 100)


def test_outputs_are_texts_with_falling_scores(small, toy_pairs):
    sources, targets = toy_pairs(20)
    translator = small().fit(sources, targets)
    outputs = translator.outputs([sources[0], ""], count=3)
    assert len(outputs[0]) == 3
    assert sorted((own.score for own in outputs[0]), reverse=True) == [own.score for own in outputs[0]]
    assert translator.predict([sources[0], ""]) == [outputs[0][0].text, ""]


def test_sources_without_a_parse_go_without_arcs_which_is_said_once(small, toy_pairs, tmp_path):
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


def test_sources_with_heads_are_warned_of_by_nobody(small, toy_pairs):
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
def test_a_long_source_is_named_by_its_place_in_what_was_given(place, small, toy_pairs):
    """A share of the pairs is held out before lengths are known."""
    sources, targets = toy_pairs(40)
    sources[place] = LONG
    with pytest.raises(DataError, match=f"^source {place + 1} has [0-9,]+ subwords; the limit is 1,024\\. "):
        small(training={"dev_fraction": 0.3}).fit(sources, targets)


def test_a_sample_depends_on_the_place_of_its_source_and_not_on_chunks(small, toy_pairs):
    sources, targets = toy_pairs(24)
    translator = small(training={"epochs": 1}).fit(sources, targets)
    translator.search = SearchOptions(sample=True, temperature=3.0, max_length=8)
    same = [sources[0]] * 6
    whole = translator.predict(same)
    assert len(set(whole)) > 3
    for chunk in (1, 4):
        assert "".join(predict_lines(translator, same, plain=True, chunk=chunk)).splitlines() == whole


def test_a_long_source_is_named_by_the_dev_set_it_stands_in(small, toy_pairs):
    sources, targets = toy_pairs(12)
    with pytest.raises(DataError, match=r"^dev source 2 has [0-9,]+ subwords; the limit is 1,024\. "):
        small().fit(sources, targets, dev=([sources[0], LONG], targets[:2]))


def test_a_long_source_is_refused_before_hours_of_parsing(small, toy_pairs, monkeypatch):
    sources, targets = toy_pairs(12)
    monkeypatch.setattr(Translator, "_sentences", lambda *given: pytest.fail("parsed too early"))
    for side in (0, 1):
        pairs = [list(sources), list(targets)]
        pairs[side][5] = LONG
        with pytest.raises(DataError, match=f"^{('source', 'target')[side]} 6 has "):
            small("umst", training={"dev_fraction": 0.0}).fit(*pairs)


def test_a_part_of_more_sources_is_counted_as_the_whole(small, toy_pairs):
    translator = small().fit(*toy_pairs(12))
    with pytest.raises(DataError, match=r"^source 702 has "):
        translator.outputs(["a dog", LONG], first=701)


def test_a_long_source_is_refused_when_predicting_too(small, toy_pairs):
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
            "metric 'ter' is not measured; choose one of: bleu, chrf, rouge_1, rouge_2, rouge_l",
        ),
    ],
    ids=str,
)
def test_impossible_options(arguments, message, toy_pairs):
    with pytest.raises(ConfigError) as caught:
        Translator(**arguments).fit(*toy_pairs(12))
    assert str(caught.value) == message


def test_a_run_of_another_vocabulary_is_not_resumed(small, toy_pairs, tmp_path, monkeypatch):
    sources, targets = toy_pairs(20)
    run = {"run_dir": str(tmp_path / "run"), "epochs": 1}
    small(training=run).fit(sources, targets)
    with pytest.raises(ConfigError) as caught:
        small(inputs={"vocabulary_size": 70}, training=run).fit(sources, targets)
    assert str(caught.value) == (
        f"{tmp_path / 'run'} holds a run with another inputs.vocabulary_size (90, now 70). Give another run_dir, the "
        "same options and data to resume, or resume=False to start again"
    )
    with pytest.raises(ConfigError, match="holds a run with another training set"):
        small(training=run).fit([*sources, "a zebra sleeps"], [*targets, "Ein zebra!"])


def test_a_directory_with_another_vocabulary_is_refused(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    small().fit(sources, targets).save(tmp_path / "model")
    small(inputs={"vocabulary_size": 70}).fit(sources, targets).save(tmp_path / "other")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    tokenizer = (tmp_path / "other" / "tokenizer.json").read_text()
    (tmp_path / "model" / "tokenizer.json").write_text(tokenizer)
    config["sha256"]["tokenizer.json"] = json.loads((tmp_path / "other" / "config.json").read_text())["sha256"][
        "tokenizer.json"
    ]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelDirectoryError, match="config.json does not fit the other files"):
        graphattn.load(tmp_path / "model")


def test_not_fitted():
    for use in (lambda t: t.predict(["a"]), lambda t: t.save("x"), lambda t: t.evaluate(["a"], ["b"])):
        with pytest.raises(NotFittedError) as caught:
            use(Translator())
        assert str(caught.value) == ("this Translator is not trained yet; call fit, or graphattn.load a saved one")


def test_parameters_as_scikit_learn_has_them():
    from sklearn.base import clone

    translator = Translator("ms-trans", preset="base", search=SearchOptions(beam=7))
    again = clone(translator)
    assert again.get_params()["search__beam"] == 7
    assert again.decoder.decoder_layers == 6
    assert repr(again.set_params(training__epochs=3)).startswith("Translator(encoder='ms-trans', preset='base'")


def test_bfloat16(small, toy_pairs):
    sources, targets = toy_pairs(20)
    translator = small(training={"precision": "bf16"}).fit(sources, targets)
    assert all(np.isfinite(own.score) for (own,) in translator.outputs(sources))


def test_another_preset_brings_its_own_settings():
    translator = Translator().set_params(preset="base")
    assert repr(translator.decoder) == repr(Translator(preset="base").decoder)
    assert repr(translator.training) == repr(Translator(preset="base").training)
    options = TranslationTraining()
    assert Translator(training=options).set_params(training__epochs=7).training is options
    kept = Translator(training=TranslationTraining(epochs=3)).set_params(preset="base")
    assert kept.training.epochs == 3
    assert kept.decoder == Translator(preset="base").decoder
    with pytest.raises(ConfigError, match="preset is 'x'; choose one of: small, base, deep, big"):
        Translator().set_params(preset="x")
    translator.preset = "x"
    with pytest.raises(ConfigError, match="preset is 'x'; choose one of: small, base, deep, big"):
        translator.fit(["a"], ["b"])


def test_a_run_with_other_references_is_not_resumed(small, toy_pairs, tmp_path):
    sources, targets = toy_pairs(20)
    options = {"training": {"epochs": 1, "run_dir": str(tmp_path / "run")}}
    small(**options).fit(sources, targets, dev=(sources[:4], targets[:4]))
    with pytest.raises(ConfigError):
        small(**options).fit(sources, targets, dev=(sources[:4], targets[4:8]))


def test_a_fit_that_fails_leaves_what_was_there(small, toy_pairs):
    sources, targets = toy_pairs(20)
    wrong = {"dev": ([sources[0] * 300], [targets[0]])}
    translator = small(training={"epochs": 1})
    with pytest.raises(DataError):
        translator.fit(sources, targets, **wrong)
    with pytest.raises(NotFittedError):
        translator.predict(sources[:1])
    found = translator.fit(sources, targets).predict(sources[:3])
    with pytest.raises(DataError):
        translator.fit(sources, targets, **wrong)
    assert translator.predict(sources[:3]) == found


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5000.0])
def test_length_penalties_that_cannot_be(value):
    with pytest.raises(ConfigError, match="it must be at least -10 and at most 10"):
        SearchOptions(length_penalty=value).validate()
