"""Translators whose sources a pretrained model reads."""

import pytest
import torch

from graphattn import load
from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, DataError
from graphattn.models import Translator
from graphattn.models._decoders.options import DecoderOptions, SearchOptions, SubwordOptions, TranslationTraining
from graphattn.models._encoders import MSTransOptions, NoEncoderOptions
from graphattn.models._estimators.inspectable import encode_input
from graphattn.models._estimators.state import make_corpus
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.training._module import TrainingModule

SOURCES = ["a dog", "the cat", "a cat", "the dog"] * 4
TARGETS = ["ein Hund", "die Katze", "eine Katze", "der Hund"] * 4
TRAINING = {"epochs": 2, "dev_fraction": 0, "progress": False, "precision": "32"}
SMALL = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"))


@pytest.fixture
def folder(save_model):
    return save_model("bert")


def make(folder, encoder=None, training=TRAINING, **options):
    return Translator(
        NoEncoderOptions(hidden=8) if encoder is None else encoder,
        inputs=SubwordOptions(vocabulary_size=40),
        decoder=DecoderOptions(1, 2, 16),
        training=TranslationTraining(**training),
        search=SearchOptions(beam=2, max_length=8),
        pretrained=PretrainedOptions(str(folder), **options),
    )


CASES = {
    "tuned": {},
    "frozen": {"tuned_layers": 0},
    "windows": {"pretrained_heads": "window:3|global=4"},
    "arcs": {"pretrained_heads": "2:all=3,dependency=1"},
    "below ms-trans": {"encoder": SMALL},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:.*have no parse")
def test_a_saved_model_writes_the_same(folder, tmp_path, case):
    translator = make(folder, **CASES[case]).fit(SOURCES, TARGETS)
    translator.save(tmp_path / "model")
    for file in folder.iterdir():
        file.unlink()  # a saved model needs nothing else
    loaded = load(tmp_path / "model")
    sources = [*SOURCES[:4], "", "unknown words and numbers 12", ["the", "dog"]]
    assert loaded.outputs(sources, count=2) == translator.outputs(sources, count=2)
    assert loaded.perplexity(SOURCES, TARGETS) == translator.perplexity(SOURCES, TARGETS)
    assert loaded.predict([""]) == [""]
    assert {"pretrained": str(folder)}.items() <= loaded.changed_options().items()


def test_the_memory_is_that_of_the_directory(folder):
    translator = make(folder, tuned_layers=0).fit(SOURCES, TARGETS)
    encoder = PretrainedEncoder.from_directory(folder)
    batch = make_corpus(translator, SOURCES[:3])[[0, 1, 2]]
    with torch.no_grad():
        memory, expected = translator.model_.encode(batch), encoder(encoder.batch(SOURCES[:3]))
        kept = memory.mask[:, 0, 0]
        torch.testing.assert_close(memory.states[kept], expected)
    assert translator.count_tokens("a dog") == len("adog") + 2


@pytest.mark.slow
def test_it_learns(folder):
    training = {**TRAINING, "epochs": 80, "learning_rate": 5e-3, "warmup_steps": 20, "label_smoothing": 0.0}
    wide = NoEncoderOptions(hidden=32)
    translator = make(folder, wide, training, tuning_rate=1e-3).fit(SOURCES, TARGETS)
    assert translator.predict(SOURCES[:4]) == TARGETS[:4]


def test_targets_have_sub_words_of_their_own(folder):
    translator = make(folder).fit(SOURCES, TARGETS)
    words = translator.subwords_.vocabulary.words
    assert "▁Hund" in words
    assert not any(word.startswith("▁d") and "o" in word for word in words)
    inputs = encode_input(translator, "a dog", target="ein Hund")
    assert inputs.first_sentences["source"].tokens[0] == "[CLS]"
    table = translator.attention("a dog", target="ein Hund").table()
    assert set(table[table.relation == "cross"].source_token) == {"[CLS]", *"adog", "[SEP]"}


def test_learning_rates(folder):
    translator = make(folder, tuning_rate=1e-4, layer_decay=0.5).fit(SOURCES, TARGETS)
    module = TrainingModule(translator.model_, translator.training_, loader=[None], dev=None, measure=None)
    groups = module.make_optimizer()[0].param_groups
    rates = {id(parameter): group["initial_lr"] for group in groups for parameter in group["params"]}
    named = dict(translator.model_.named_parameters())
    assert rates[id(named["sources.trained"])] == 1.25e-5
    assert rates[id(named["encoder.layers.2.ffn.widen.weight"])] == 1e-4
    assert rates[id(named["embedding.trained"])] == translator.training_.learning_rate


def test_warm_start_and_another_fit(folder):
    translator = make(folder).fit(SOURCES, TARGETS)
    before = translator.perplexity(SOURCES, TARGETS)
    rates = {"training__learning_rate": 1e-9, "pretrained__tuning_rate": 1e-9}
    translator.set_params(warm_start=True, training__epochs=1, **rates).fit(SOURCES, TARGETS)
    assert translator.perplexity(SOURCES, TARGETS) == pytest.approx(before, rel=1e-3)
    translator.set_params(warm_start=False, pretrained=PretrainedOptions(), encoder=SMALL)
    assert translator.fit(SOURCES, TARGETS).source_vocabulary_ is None
    assert translator.set_params(pretrained=str(folder)).fit(SOURCES, TARGETS).source_vocabulary_ is not None


def test_sources_over_the_limit(folder):
    translator = make(folder).fit(SOURCES, TARGETS)
    with pytest.raises(DataError, match=r"text 2 has 62 tokens; the model reads 48"):
        translator.predict(["a", " ".join(["a"] * 60)])


def test_sources_with_heads(folder):
    sources = [Sentence(text.split(), heads=[0, 1]) for text in SOURCES]
    translator = make(folder, pretrained_heads="2:all=3,dependency=1").fit(sources, TARGETS)
    assert "dependency" in set(translator.attention(sources[0], target="ein Hund").table().relation)


def test_encoders_that_do_not_fit(folder):
    assert Translator(pretrained=str(folder)).resolve_options()["encoder"].name == "pretrained"
    assert Translator(pretrained=str(folder)).resolve_options()["encoder"].hidden == 256
    assert Translator().resolve_options()["encoder"].name == "transformer"
    with pytest.raises(ConfigError, match="has two embeddings of its own"):
        Translator("duo-transformer", pretrained=str(folder)).validate()
    with pytest.raises(ConfigError, match="encoder=pretrained needs pretrained"):
        Translator("pretrained").validate()


def test_warm_start_with_a_pretrained_model_needs_one_with_it(folder):
    plain = Translator(SMALL, inputs=SubwordOptions(vocabulary_size=40), decoder=DecoderOptions(1, 2, 16))
    plain.set_params(training=TranslationTraining(**TRAINING), pretrained=None)
    plain.fit(SOURCES, TARGETS).set_params(pretrained=str(folder), warm_start=True)
    with pytest.raises(ConfigError, match="continues a pretrained model only as such"):
        plain.fit(SOURCES, TARGETS)
