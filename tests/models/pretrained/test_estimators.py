"""Estimators on a pretrained model: all tasks, alone and below another encoder, saved and loaded."""

import pickle
from functools import cache
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pandas.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from graphattn import PairClassifier, SequenceTagger, TextClassifier, load
from graphattn.builders import Sentence
from graphattn.builders.parsers import Parse
from graphattn.builders.parsers import _cache as parse_cache
from graphattn.exceptions import ConfigError, DataError, TruncationWarning
from graphattn.experiments._cli.inspect import format_prediction
from graphattn.experiments._cli.training_plan import TrainingPlan
from graphattn.models import (
    HeadOptions,
    InputOptions,
    MSTransOptions,
    PairRegressor,
    ParsingOptions,
    TrainingOptions,
)
from graphattn.models._estimators.pretrained_inputs import PretrainedInputs
from graphattn.models._estimators.state import make_corpus
from graphattn.models._estimators.word_inputs import WordInputs
from graphattn.models._features.lexicon import COLUMN_WIDTH
from graphattn.models.defaults import Facts
from graphattn.models.inspection._summary import CHUNK, summarise
from graphattn.models.inspection.attributions import gradient_times_weight, integrated_gradients, word_attributions
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._options import FINE_TUNING, PretrainedOptions
from graphattn.models.pretrained._stack import StackedEncoder
from graphattn.models.training._module import TrainingModule

from .conftest import write_model

TEXTS = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 4
LABELS = ["pos", "neg"] * 8
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-X" if word in ("film", "plot") else "O" for word in words] for words in WORDS]
PAIRS = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))
SCORES = [1.0, 2.0, 3.5, 0.5] * 4
TRAINING = TrainingOptions(epochs=2, dev_fraction=0, progress=False, precision="32")
SMALL = MSTransOptions(hidden=12, heads=2, layers=1, scales=("1", "3"))


@pytest.fixture(scope="module")
def folder(make_reference, tmp_path_factory):
    return write_model(make_reference("bert"), tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def fitted(folder):
    """An estimator of a class, which tests do not change."""
    return cache(lambda kind: fit(kind, folder)[0])


def fit(kind, folder, *, encoder=None, training=TRAINING, inputs=None, head=None, **options):
    pretrained = PretrainedOptions(str(folder), **options)
    estimator = kind(encoder, pretrained=pretrained, training=training, inputs=inputs, head=head)
    data = {TextClassifier: (TEXTS, LABELS), SequenceTagger: (WORDS, TAGS), PairClassifier: (PAIRS, LABELS)}
    data |= {PairRegressor: (PAIRS, SCORES)}
    X, y = data[kind]
    return estimator.fit(X, y), X


CASES = {
    "classifier": (TextClassifier, {}),
    "tagger": (SequenceTagger, {}),
    "tagger with characters": (SequenceTagger, {"inputs": InputOptions(characters=True)}),
    "tagger with the mean of pieces": (SequenceTagger, {"head": HeadOptions(word_pieces="mean")}),
    "tagger with suffixes": (SequenceTagger, {"inputs": InputOptions(suffixes=3)}),
    "pairs as one sequence": (PairClassifier, {}),
    "pairs apart": (PairClassifier, {"join_pairs": False}),
    "regression": (PairRegressor, {}),
    "below ms-trans": (TextClassifier, {"encoder": SMALL, "tuned_layers": 0}),
    "windows": (TextClassifier, {"pretrained_heads": "window:3|global=4"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_and_an_input_alone_predict_the_same(save_model, tmp_path, case):
    kind, options = CASES[case]
    folder = save_model("bert")
    estimator, X = fit(kind, folder, **options)
    together = estimator.predict_details(X, probabilities=True).probabilities
    for x, expected in zip(X[:4], together[:4], strict=True):
        np.testing.assert_allclose(
            estimator.predict_details([x], probabilities=True).probabilities[0], expected, atol=1e-5
        )
    estimator.save(tmp_path / "model")
    for file in folder.iterdir():
        file.unlink()  # a saved model needs nothing else
    loaded = load(tmp_path / "model")
    for again, expected in zip(loaded.predict_details(X, probabilities=True).probabilities, together, strict=True):
        np.testing.assert_array_equal(again, expected)
    assert loaded.pretrained_ == estimator.pretrained_


@pytest.mark.slow
def test_several_labels(folder, tmp_path):
    labels = [("film", "good"), ("film",), ("good",), ()] * 4
    training = TrainingOptions(epochs=60, dev_fraction=0, progress=False, precision="32", learning_rate=0.02)
    options = PretrainedOptions(str(folder), tuning_rate=1e-3)
    classifier = TextClassifier(pretrained=options, training=training, multilabel=True).fit(TEXTS, labels)
    assert classifier.predict(TEXTS[:4]) == labels[:4]
    classifier.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_without_another_encoder_there_is_none_on_top(fitted, folder):
    estimator = fitted(TextClassifier)
    assert estimator.encoder_.name == "pretrained"
    assert type(estimator.model_.encoder) is PretrainedEncoder
    assert type(fit(TextClassifier, folder, encoder="ms-trans")[0].model_.encoder) is StackedEncoder


def test_training_starts_from_the_pretrained_weights(folder):
    slow = TrainingOptions(epochs=1, dev_fraction=0, progress=False, precision="32")
    estimator, _ = fit(TextClassifier, folder, training=slow, tuning_rate=1e-12)
    expected = PretrainedEncoder.from_directory(folder).state_dict()
    state = {name.removeprefix("encoder."): value for name, value in estimator.model_.state_dict().items()}
    for name, value in expected.items():
        torch.testing.assert_close(state[name], value, atol=1e-8, rtol=0)


def test_states_are_those_of_the_directory(folder):
    estimator, _ = fit(TextClassifier, folder, tuned_layers=0)
    encoder = PretrainedEncoder.from_directory(folder)
    batch = make_corpus(estimator, TEXTS[:3])[[0, 1, 2]]
    with torch.no_grad():
        torch.testing.assert_close(estimator.model_.encode(batch), encoder(encoder.batch(TEXTS[:3])))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta", "camembert", "bert with the tokenizer of XLM-R"])
@pytest.mark.parametrize("kind", [PairClassifier, PairRegressor])
@pytest.mark.parametrize("join", [True, False])
def test_pairs_are_encoded_as_transformers_does(save_trained, transformers, name, kind, join):
    folder = save_trained(name)
    estimator, _ = fit(kind, folder, tuned_layers=0, join_pairs=join)
    inputs = estimator.encode_inputs([("a good film", "the plot")])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    reference = transformers.AutoModel.from_pretrained(folder).eval()
    pairs = [("a good film", "the plot")] if join else [("a good film",), ("the plot",)]
    with torch.no_grad():
        expected = [reference(**tokenizer(*texts, return_tensors="pt")).last_hidden_state[0] for texts in pairs]
        states = estimator.model_.encode(inputs[[0]])
    torch.testing.assert_close(states, torch.cat(expected), atol=1e-5, rtol=1e-5)


def test_more_segments_than_the_model_has(save_trained):
    folder = save_trained("roberta with segments", type_vocab_size=1)
    with pytest.raises(ConfigError) as caught:
        fit(PairClassifier, folder)
    assert caught.value.options == ("join_pairs",)
    fit(PairClassifier, folder, join_pairs=False)
    fit(TextClassifier, folder)


def test_words_of_a_byte_level_tokenizer_are_whole(save_trained):
    tagger, _ = fit(SequenceTagger, save_trained("roberta"), inputs=InputOptions(characters=True))
    assert set("".join(chain.from_iterable(WORDS))) <= set(tagger.text_inputs_.characters.characters)
    words = set(tagger.attention(["the", "plot", "is", "good"]).table().source_word)
    assert words == {"<s>", "the", "plot", "is", "good", "</s>"}


def test_further_columns_follow_the_states(folder, tmp_path):
    rows = [{"tokens": words, "case": tags, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)]
    tagger = SequenceTagger(pretrained=str(folder), training=TRAINING, feature_columns=("case",)).fit(rows)
    plain, _ = fit(SequenceTagger, folder)
    assert tagger.model_.head.output.in_features == plain.model_.head.output.in_features + COLUMN_WIDTH
    loaded = load(tagger.save(tmp_path / "model"))
    assert loaded.predict(rows) == tagger.predict(rows)
    others = [{**row, "case": ["O"] * len(row["tokens"])} for row in rows]
    assert not np.allclose(tagger.predict_proba(rows)[0], tagger.predict_proba(others)[0])


def test_tuned_layers(folder):
    estimator, _ = fit(TextClassifier, folder, tuned_layers=1)
    trained = {name for name, parameter in estimator.model_.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[2] for name in trained if name.startswith("encoder.layers")} == {"2"}
    assert not any(name.startswith(("embedding", "encoder.norm", "encoder.position")) for name in trained)
    model = estimator.model_.train()
    assert [layer.training for layer in model.encoder.layers] == [False, False, True]


def test_learning_rates_decay_towards_the_input(folder):
    estimator, _ = fit(TextClassifier, folder, tuning_rate=1e-4, layer_decay=0.5)
    rates = estimator.model_.learning_rates
    assert rates["encoder.layers.2.ffn.widen.weight"] == 1e-4
    assert rates["encoder.layers.0.ffn.widen.weight"] == 2.5e-5
    assert rates["embedding.trained"] == rates["encoder.norm.weight"] == 1.25e-5
    module = TrainingModule(estimator.model_, estimator.training_, loader=[None], dev=None, measure=None)
    groups = module.make_optimizer()[0].param_groups
    by_parameter = {id(parameter): group for group in groups for parameter in group["params"]}
    named = dict(estimator.model_.named_parameters())
    assert by_parameter[id(named["embedding.trained"])]["initial_lr"] == 1.25e-5
    assert by_parameter[id(named["head.perceptron.1.weight"])]["initial_lr"] == estimator.training_.learning_rate
    assert by_parameter[id(named["encoder.layers.0.ffn.widen.bias"])]["weight_decay"] == 0


@pytest.mark.parametrize(("count", "epochs"), [(500, 10), (6000, 5), (20_000, 3)])
def test_epochs_by_default(folder, count, epochs):
    resolved = TextClassifier(pretrained=str(folder)).resolve_options(Facts(examples=count))
    assert (resolved["training"].epochs, resolved.why("epochs")) == (epochs, "training set")


def test_defaults_of_fine_tuning():
    tuned, plain = (TextClassifier(pretrained=name).resolve_options() for name in ("minilm", None))
    assert (tuned["training"].optimizer, plain["training"].optimizer) == ("adamw", "adam")
    assert (tuned["head"].linear_branch, plain["head"].linear_branch) == (False, True)


ORDERS = {
    "constructor": lambda kind: kind(pretrained="minilm", training=TrainingOptions(epochs=3, learning_rate=5e-4)),
    "training later": lambda kind: kind(pretrained="minilm").set_params(**THREE),
    "model later": lambda kind: kind(training=TrainingOptions(epochs=3, learning_rate=5e-4)).set_params(
        pretrained="minilm"
    ),
    "one call": lambda kind: kind().set_params(pretrained="minilm", **THREE),
    "two calls": lambda kind: kind().set_params(**THREE).set_params(pretrained="minilm"),
    "preset before": lambda kind: kind(preset="paper").set_params(**THREE).set_params(pretrained="minilm"),
    "clone": lambda kind: clone(kind(pretrained="minilm").set_params(**THREE)),
    "model after clone": lambda kind: clone(kind().set_params(**THREE)).set_params(
        pretrained=clone(PretrainedOptions("minilm"))
    ),
    "pickle": lambda kind: pickle.loads(pickle.dumps(kind(pretrained="minilm").set_params(**THREE))),
    "flags": lambda kind: TrainingPlan.of(kind, {"pretrained": "minilm", "epochs": 3, "learning_rate": 5e-4}).estimator(
        run_dir=None
    ),
}
THREE = {"training__epochs": 3, "training__learning_rate": 5e-4}  # the second is the default of other models


@pytest.mark.parametrize("kind", [TextClassifier, PairClassifier, SequenceTagger, PairRegressor])
@pytest.mark.parametrize("order", ORDERS)
def test_options_that_were_not_set_have_the_defaults_of_fine_tuning(kind, order):
    options = ORDERS[order](kind).resolve_options()
    assert options["training"] == TrainingOptions(**FINE_TUNING["training"] | {"epochs": 3, "learning_rate": 5e-4})
    for group in ("head", "inputs"):
        assert FINE_TUNING[group].items() <= options[group].to_dict().items()


def test_flags_override_a_file_and_both_override_the_defaults_of_fine_tuning(tmp_path):
    (tmp_path / "settings.yaml").write_text("pretrained: minilm\nepochs: 3\naverage_epochs: 2\nclip: 2")
    estimator = TrainingPlan.of(TextClassifier, {"epochs": 4}, tmp_path / "settings.yaml").estimator()
    training = estimator.resolve_options()["training"]
    assert (training.epochs, training.average_epochs, training.clip, training.learning_rate) == (4, 2, 2, 2e-3)
    assert training.average is None  # by default there is one
    made = TextClassifier(pretrained="minilm", training=TrainingOptions(average_epochs=2)).resolve_options()
    assert made["training"].average is None


@pytest.mark.slow
def test_a_search_over_pretrained_models(folder, tmp_path):
    search = GridSearchCV(
        TextClassifier(SMALL, training=TrainingOptions(epochs=1, precision="32")),
        {"pretrained": [None, str(folder)], "training__batch_size": [8]},
        cv=2,
        refit=lambda results: 1,
        error_score="raise",
    ).fit(TEXTS, LABELS)
    best = search.best_estimator_
    assert (best.training_.optimizer, best.training_.batch_size, best.head_.linear_branch) == ("adamw", 8, False)
    loaded = load(best.save(tmp_path / "model"))
    assert (loaded.training_.optimizer, loaded.training_.average) == ("adamw", 0.995)
    without = loaded.set_params(pretrained=None).resolve_options()
    assert (without["training"].optimizer, without["training"].batch_size) == ("adam", 8)
    assert without["head"].linear_branch


def test_the_crf_counts_no_special_tokens(fitted):
    tagger = fitted(SequenceTagger)
    assert [len(tags) for tags in tagger.predict([["film"], ["a", "plot", "x"], []])] == [1, 3, 0]


def test_the_mean_of_the_pieces_of_a_word(folder):
    """The letters of each word, and no special token."""
    tagger, _ = fit(SequenceTagger, folder, head=HeadOptions(word_pieces="mean", crf=False))
    batch = make_corpus(tagger, [["ab", "c"], ["d"]])[[0, 1]]
    with torch.no_grad():
        states = tagger.model_.eval().encode(batch)  # [CLS] a b c [SEP] [CLS] d [SEP]
        words = torch.stack([states[1:3].mean(0), states[3], states[6]])
        torch.testing.assert_close(tagger.model_(batch), tagger.model_.head.output(words))


def _chain(words):
    """Each word depends on the previous one."""
    return Parse(tuple(range(len(words))), ("dep",) * len(words))


def test_dependency_arcs_between_words(folder, monkeypatch):
    parser = SimpleNamespace(parse=lambda sentences: list(map(_chain, sentences)))
    monkeypatch.setattr(parse_cache, "StanzaParser", lambda *options: parser)
    options = {"training": TRAINING, "parsing": ParsingOptions("stanza", parse_cache=None)}
    options["pretrained"] = PretrainedOptions(str(folder), pretrained_heads="2:all=3,dependency=1")
    trees = [Sentence(words, heads=_chain(words).heads, deprels=_chain(words).deprels) for words in WORDS]
    estimator = TextClassifier(**options).fit(trees, LABELS)
    table = estimator.attention(trees[0]).table()
    assert {"all", "dependency"} <= set(table.relation)
    assert set(table.deprel) == {"", "dep>", "dep<"}
    assert_frame_equal(estimator.attention(TEXTS[0]).table(), table)
    joined = PairClassifier(**options).fit([("a b", "b a")] * 4, [0, 1] * 2).attention(("a b", "b a"))
    assert joined.sentences["text"].heads == (0, 0, 2, 0, 0, 5, 0)  # [CLS] a b [SEP] b a [SEP]


@pytest.mark.parametrize(
    ("kind", "x", "join", "tokens"),
    [
        (TextClassifier, "a f g o i", True, {"text": "[CLS] a f g [SEP]"}),
        (PairClassifier, ("a f g o i", "a f"), True, {"text": "[CLS] a f g [SEP] a f [SEP]"}),
        (PairClassifier, ("a f", "a f g o i"), False, {"first": "[CLS] a f [SEP]", "second": "[CLS] a f g [SEP]"}),
    ],
)
@pytest.mark.filterwarnings("ignore::graphattn.exceptions.TruncationWarning")
def test_attention_and_attributions_name_the_tokens_of_texts_that_are_cut(folder, kind, x, join, tokens):
    options = {"join_pairs": join} if kind is PairClassifier else {}
    estimator, _ = fit(kind, folder, inputs=InputOptions(max_tokens_per_text=3), **options)
    attention = estimator.attention(x)
    assert {part: " ".join(nodes) for part, nodes in attention.tokens.items()} == tokens
    assert {int(head.sources.max()) + 1 for head in attention.maps} == {len(nodes.split()) for nodes in tokens.values()}
    table = integrated_gradients(estimator, x)
    assert table.token.tolist() == " ".join(tokens.values()).split()
    special = table.token.isin(["[CLS]", "[SEP]"])
    assert (table.attribution[~special] != 0).all()
    np.testing.assert_allclose(table.attribution[special], 0, atol=1e-6)


def test_the_prediction_of_a_tagger_is_printed_by_word(fitted):
    tagger = fitted(SequenceTagger)
    words, prediction = ["the", "plot"], tagger.predict([["the", "plot"]])[0]
    printed = format_prediction(tagger.attention(words))
    assert printed == " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction, strict=True))


def test_a_text_over_the_limit(fitted, folder):
    estimator = fitted(TextClassifier)
    long, first_tokens = " ".join(["a"] * 60), " ".join(["a"] * 46)
    with pytest.warns(TruncationWarning, match="1 text truncated to 46 tokens, which leaves out 14") as caught:
        shares = estimator.predict_proba(["a", long])
    assert set(caught[0].message.options) == {"max_tokens_per_text", "pretrained_length", "pretrained_heads"}
    np.testing.assert_allclose(shares, estimator.predict_proba(["a", first_tokens]), atol=1e-6)
    untrained = TextClassifier(pretrained=str(folder), training=TRAINING)
    with pytest.warns(TruncationWarning, match="1 text of the training set truncated to 46 tokens"):
        untrained.fit([*TEXTS[:2], long, *TEXTS], [*LABELS[:3], *LABELS])
    with pytest.warns(TruncationWarning):
        assert len(estimator.attention(long).tokens["text"]) == 48
    longer, _ = fit(TextClassifier, folder, pretrained_length=100)
    assert len(longer.predict([long])) == 1


def test_one_warning_for_a_summary_of_many_texts(fitted):
    estimator = fitted(TextClassifier)
    with pytest.warns(TruncationWarning, match="2 texts truncated to 46 tokens, which leaves out 28") as caught:
        summarise(estimator, ["a"] * (CHUNK - 1) + ["a " * 60] * 2)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (10, "1 text truncated to 10 tokens, which leaves out 50$"),
        (50, "1 text truncated to 46 tokens, which leaves out 14. The model reads no more"),
    ],
)
def test_two_limits_of_tokens(folder, limit, message):
    estimator, _ = fit(TextClassifier, folder, inputs=InputOptions(max_tokens_per_text=limit))
    with pytest.warns(TruncationWarning, match=message):
        estimator.predict([" ".join(["a"] * 60)])


def test_the_longer_text_of_a_pair_loses_tokens(fitted):
    estimator = fitted(PairClassifier)
    long, kept = " ".join(["b"] * 60), " ".join(["b"] * 43)
    with pytest.warns(TruncationWarning, match="2 pairs truncated to 45 tokens, which leaves out 92"):
        shares = estimator.predict_proba([("a a", long), ("a", "b"), (long, long)])
    expected = [("a a", kept), ("a", "b"), (" ".join(["b"] * 23), " ".join(["b"] * 22))]
    np.testing.assert_allclose(shares, estimator.predict_proba(expected), atol=1e-6)
    with pytest.warns(TruncationWarning):
        assert len(estimator.attention((long, long)).tokens["text"]) == 48


def test_a_tagger_leaves_no_word_without_a_tag(fitted):
    tagger = fitted(SequenceTagger)
    with pytest.raises(DataError, match=r"text 2 has 62 tokens; the model reads 48\. Split or shorten it") as caught:
        tagger.predict([["a"], ["a"] * 60])
    assert caught.value.options == ("pretrained_length", "pretrained_heads")


def test_encoder_pretrained_without_a_model():
    with pytest.raises(ConfigError, match="encoder=pretrained needs pretrained"):
        TextClassifier("pretrained", training=TRAINING).fit(TEXTS, LABELS)


def test_heads_that_do_not_fit(folder):
    with pytest.raises(ConfigError, match="each layer of the model has 4") as caught:
        fit(TextClassifier, folder, pretrained_heads="all=3")
    assert caught.value.options == ("pretrained_heads",)


def test_options_that_differ_from_those_of_fine_tuning(folder):
    estimator, _ = fit(TextClassifier, folder, tuning_rate=1e-3)
    changed = estimator.changed_options()
    assert (changed["pretrained"], changed["tuning_rate"]) == (str(folder), 1e-3)
    assert not {"linear_branch", "head_hidden"} & changed.keys()


def test_warm_start(folder):
    estimator, _ = fit(TextClassifier, folder)
    before = estimator.predict_proba(TEXTS)
    estimator.set_params(
        warm_start=True, training__epochs=1, training__learning_rate=1e-9, pretrained__tuning_rate=1e-9
    )
    estimator.fit(TEXTS, LABELS)
    np.testing.assert_allclose(estimator.predict_proba(TEXTS), before, atol=1e-4)


@pytest.mark.parametrize("first", [True, False])
def test_warm_start_with_or_without_the_pretrained_model(folder, first):
    kinds = {True: PretrainedOptions(str(folder)), False: PretrainedOptions()}
    estimator = TextClassifier(SMALL, pretrained=kinds[first], training=TRAINING).fit(TEXTS, LABELS)
    estimator.set_params(pretrained=kinds[not first], warm_start=True)
    with pytest.raises(ConfigError, match="continues a pretrained model only as such"):
        estimator.fit(TEXTS, LABELS)


def test_a_model_that_is_set_later_also_changes_the_defaults(folder):
    for kind in (TextClassifier, PairClassifier):
        later = kind().set_params(pretrained__tuned_layers=2).set_params(pretrained=str(folder))
        expected = kind(pretrained=PretrainedOptions(str(folder), tuned_layers=2))
        assert later.resolve_options() == expected.resolve_options()
        later.set_params(pretrained=None, pretrained__tuned_layers=None)
        assert later.resolve_options() == kind().resolve_options()


def test_one_sequence_of_two_texts_has_no_linear_branch(folder):
    with pytest.raises(ConfigError, match="linear_branch needs join_pairs=False"):
        fit(PairClassifier, folder, head=HeadOptions(linear_branch=True))


@pytest.mark.parametrize(("join", "rows"), [(True, 1), (False, 2)])
def test_sentence_vectors_of_pairs(folder, join, rows):
    estimator, X = fit(PairClassifier, folder, join_pairs=join)
    vectors = estimator.encode(X[:3])
    assert vectors.shape == (3 * rows, 24)
    np.testing.assert_allclose(vectors[:rows], estimator.encode(X[:1]), atol=1e-5)


def test_gradients_of_frozen_layers(folder):
    frozen, _ = fit(TextClassifier, folder, tuned_layers=0)
    table = gradient_times_weight(frozen, "a good film")
    assert (table.groupby("layer").gradient.apply(lambda values: values.abs().max()) > 0).all()
    assert not any(parameter.requires_grad for parameter in frozen.model_.encoder.parameters())


def test_a_tuned_model_in_transformers(fitted, transformers, tmp_path):
    estimator = fitted(TextClassifier)
    estimator.to_huggingface(tmp_path / "tuned", encoder_only=True)
    model = transformers.AutoModel.from_pretrained(tmp_path / "tuned").eval()
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "tuned").model_max_length == 48
    batch = make_corpus(estimator, ["a good film"])[[0]]
    ids = batch.graph.node_features["token"]["id"][None].long()
    with torch.no_grad():
        expected = model(input_ids=ids).last_hidden_state[0]
        torch.testing.assert_close(estimator.model_.eval().encode(batch), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(ConfigError, match="not built on a pretrained one; train with pretrained"):
        TextClassifier(SMALL, training=TRAINING).fit(TEXTS, LABELS).to_huggingface(tmp_path / "other")


@pytest.mark.parametrize(("kind", "linear_branch"), [(TextClassifier, True), (PairClassifier, False)])
def test_attributions_of_words_add_up_to_the_change_of_the_log_odds(folder, kind, linear_branch):
    """Special tokens are no words, and do not change."""
    estimator, inputs = fit(kind, folder, head=HeadOptions(linear_branch=linear_branch))
    words = word_attributions(estimator, inputs[0], label=estimator.classes_[1])
    assert words.table.word.tolist() == " ".join([inputs[0]] if kind is TextClassifier else inputs[0]).split()
    other, probability = estimator.predict_proba(inputs[:1])[0]
    assert words.value == pytest.approx(np.log(probability / other), abs=1e-4)
    assert words.table.attribution.sum() == pytest.approx(words.value - words.baseline, rel=0.01, abs=1e-3)
    assert words.table.attribution.abs().sum() > 1e-3


def test_a_fit_without_a_pretrained_model_after_one_with_it(folder):
    estimator, _ = fit(TextClassifier, folder)
    estimator.set_params(pretrained=PretrainedOptions(), encoder=SMALL)
    assert isinstance(estimator.fit(TEXTS, LABELS).text_inputs_, WordInputs)
    estimator.set_params(pretrained=str(folder), encoder=None).fit(TEXTS, LABELS)
    assert isinstance(estimator.text_inputs_, PretrainedInputs)


def test_texts_of_a_pair_that_are_encoded_apart_count_apart(fitted, folder):
    estimator, _ = fit(PairClassifier, folder, join_pairs=False)
    half = " ".join(["a"] * 40)
    assert len(estimator.predict([(half, half)])) == 1
    joined = fitted(PairClassifier)
    with pytest.warns(TruncationWarning, match="1 pair truncated to 45 tokens, which leaves out 35"):
        joined.predict([(half, half)])
