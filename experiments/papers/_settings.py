"""Options of the runs behind the result tables: the papers' values, or the best on dev sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._baselines import BASELINES
from graphattn.experiments.papers._data_sets import MTL_DOMAINS, find_data_set
from graphattn.models import TASKS, Estimator
from graphattn.models._encoders import ENCODERS, encoder_options
from graphattn.models._estimators.tasks.recipes import (
    BP_TRANSFORMER,
    CONLL,
    STAR_TRANSFORMER,
    Recipe,
    expand_recipe,
)
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import Options

Groups = dict[str, dict[str, Any]]
"""Group of options of an estimator -> those that differ from the defaults."""
Changes = Mapping[str, Mapping[str, Any]]
"""Group of options -> changes to :func:`settings`."""

VECTOR_FILES = {
    "cbow": "embeddings_trained/w2v_cbow_50d.txt.xz",
    "skipgram": "embeddings_trained/w2v_sg_300d.txt.xz",
    "fasttext": "embeddings_trained/fasttext_sg_300d.txt.xz",
    "googlenews": "embeddings_word2vec_googlenews_300d/GoogleNews.300d.subset.txt.xz",
    **dict.fromkeys(("glove", "glove_6b_100d"), "embeddings_glove_6b_100d/glove.6B.100d.subset.txt.xz"),
    "twitter": "embeddings_glove_twitter_25d/glove.twitter.27B.25d.subset.txt.xz",
}
"""Name of a set of word vectors -> its file."""
VECTORS = ("skipgram",)
FROZEN_VECTORS = ("skipgram", "fasttext", "googlenews")
ALL_VECTORS = (*FROZEN_VECTORS, "twitter")
DUO_VECTORS = ("cbow", "skipgram")

DEFAULT_RUNS: Mapping[str, tuple[str, Changes]] = {
    "default": ("ms-trans", {}),
    "default-bilstm": ("bilstm", {"head": {"linear_branch": False}}),
}
"""Name of a run with default options -> its encoder, and changes group by group."""

NAMED_SETTINGS: Mapping[str, Recipe] = {
    # half of the narrow heads look back and half ahead, so that a model without positions tells left from right
    "sides": {"encoders": {"ms-trans": {"heads": "window:1=1,window:5&forward=3,window:5&backward=3,window:N/4=3"}}},
    "relative": {"encoders": {"ms-trans": {"heads": "relative:2(window:5)=7,window:N/4=3"}}},
    "literal": {"encoders": {"ms-trans": {"literal_radius": True}}},
    "wide": {"encoders": {"ms-trans": {"scales": ("3", "5", "9", "17", "33"), "alpha": 0.5}}},
    "no-vectors": {"inputs": {"vectors": ()}},
    "star": STAR_TRANSFORMER,
    "bp": BP_TRANSFORMER,
    "conll": CONLL,
}
"""Name after a plus sign, as in ``ms-trans+sides+star`` -> what it changes. None of them is in the papers."""

MINILM = "all-MiniLM-L6-v2"
TRANSFORMERS, SENTENCE_VECTORS, SETFIT = "transformers", "sentence-vectors", "setfit"
"""Runs that are trained without GraphAttn."""
FEW_LABELS = "few-labels"
PRETRAINED_RUNS: Mapping[str, tuple[str, Changes]] = {
    "pretrained": ("pretrained", {"pretrained": {"frozen": False}}),
    # the defaults, which choose how to train where there are few labels
    FEW_LABELS: ("pretrained", {}),
    SENTENCE_VECTORS: ("pretrained", {}),
    SETFIT: ("pretrained", {}),
    "frozen": ("pretrained", {"pretrained": {"tuned_layers": 0}}),
    # dev set of SST-2, 2,000 training texts: 80.6; with the default rate of fine-tuning 79.4
    "frozen-ms-trans": ("ms-trans", {"pretrained": {"tuned_layers": 0}, "training": {"learning_rate": 5e-4}}),
    TRANSFORMERS: ("pretrained", {"inputs": {"characters": False}, "head": {"crf": False}}),
}
"""Name of a run with a pretrained model -> the encoder on top, and changes group by group; after ``=``, the model's
folder in the data folder, by default :data:`MINILM`."""

TAGGING = ("ewt", "conll2003", "wnut17", "ptb")
MTL = tuple(MTL_DOMAINS)
LONG_TEXTS = ("gcn-ohsumed", "gcn-20ng")
EPOCHS = {
    **{"sst2": 6, "sst5": 6, "r8": 14, **dict.fromkeys(MTL, 8)},
    **{"cr": 8, "mpqa": 6, "mr": 6},
    **{"gcn-r8": 20, "gcn-r52": 20, "gcn-mr": 10, "gcn-ohsumed": 10, "gcn-20ng": 8},
    **{"sick": 6, "ewt": 6, "conll2003": 18},
}


def settings(data_set: str, encoder: str) -> Groups:
    """Options of a run that differ from the defaults, by group: the paper's of Table 1, others the best on dev sets.

    After ``=``, an encoder has sets of word vectors, as in ``duo=cbow+skipgram``, a translator's an option to turn off,
    as in ``umst=without-intra-group``, and a pretrained one the model, as in ``pretrained=all-MiniLM-L6-v2``. Before
    it, an encoder may have :data:`NAMED_SETTINGS`, as in ``ms-trans+sides=glove``.

    See ``docs/results.md``. Encoders other than Duo have the same inputs, epochs and batches, and the same head except
    for MTSA's pooling and that of MS-Trans on R8. The Transformer's feed-forward layer is 600 wide, so that it has
    slightly more parameters than MS-Trans instead of three times as many. Options of translators are relative to the
    preset ``small``.
    """
    names, sign, argument = encoder.partition("=")
    name, *named = names.split("+")
    groups = _choose(data_set, name, *([argument] if sign else []))
    for each in named:
        groups = merge_changes(groups, _find_named(each, data_set, name))
    return groups


def _choose(data_set: str, name: str, *arguments: str) -> Groups:
    """Options of a run without named settings."""
    if name in DEFAULT_RUNS:
        return _choose_defaults(name, *arguments)
    if name in PRETRAINED_RUNS:
        return _choose_pretrained(data_set, name, *arguments)
    if name in BASELINES:
        raise ConfigError(f"{name} is a baseline; it has no settings")
    if name not in ENCODERS:
        known = (*ENCODERS, *BASELINES, *DEFAULT_RUNS, *PRETRAINED_RUNS)
        raise ConfigError(f"--encoder {name!r} does not exist; {suggest(name, known)}choose one of: {', '.join(known)}")
    return _CHOICES[find_data_set(data_set).task](data_set, name, *arguments)


def _find_named(name: str, data_set: str, encoder: str) -> Groups:
    """The changes of a named setting to a run with this encoder."""
    if name not in NAMED_SETTINGS:
        known = f"{suggest(name, NAMED_SETTINGS)}choose among: {', '.join(NAMED_SETTINGS)}"
        raise ConfigError(f"there are no settings {name!r} to add to {encoder}; {known}")
    options = task_groups(data_set, encoder)
    changes = expand_recipe(NAMED_SETTINGS[name], encoder_name(encoder))
    if not changes or any(not hasattr(options.get(group), each) for group in changes for each in changes[group]):
        raise ConfigError(f"the settings {name!r} are not for {encoder} on {data_set}")
    return changes


def uses_defaults(encoder: str) -> bool:
    """Whether a run has the default options of ``graphattn train``, and no dev set either."""
    return _first_name(encoder) in DEFAULT_RUNS


def _choose_defaults(name: str, vectors: str = "") -> Groups:
    """Options of a run without any, except files of word vectors."""
    groups = merge_changes({"inputs": {}, "head": {}, "training": {}}, DEFAULT_RUNS[name][1])
    if vectors:
        groups["inputs"]["vectors"] = _vector_files(vectors.split("+"))
    return groups


def _choose_pretrained(data_set: str, name: str, model: str = MINILM) -> Groups:
    """Options of a run on a pretrained model: its defaults, at most 256 tokens, characters of named entities."""
    corpus = find_data_set(data_set)
    groups: Groups = {"inputs": {}, "head": {}, "training": {}, "pretrained": {"pretrained": model}}
    task = TASKS[corpus.task].task
    if task.truncates and task.texts_per_input < 2:
        groups["inputs"]["max_tokens_per_text"] = 254  # besides [CLS] and [SEP]
    if corpus.metric == "f1":
        groups["inputs"]["characters"] = True
    return merge_changes(groups, PRETRAINED_RUNS[name][1])


def make_estimator(data_set: str, encoder: str, seed: int, changes: Changes, folder: Path) -> Estimator:
    """The estimator of a run; ``changes`` are to the options of :func:`settings`, group by group."""
    groups = merge_changes(settings(data_set, encoder), changes)
    groups.setdefault("training", {}).update(seed=seed, progress=False)
    for group, name in _DATA_FILES:
        if groups.get(group, {}).get(name):
            groups[group][name] = _join_folder(groups[group][name], folder)
    task, arguments = TASKS[find_data_set(data_set).task], groups.pop("task", {})
    if "pretrained" in groups:  # an argument, since defaults of other options depend on it
        arguments["pretrained"] = PretrainedOptions(**groups.pop("pretrained"))
    defaults = task(encoder_name(encoder), **arguments)
    values = groups.pop("encoder", {})
    resolved = defaults.resolve_options(derive=False)
    # the estimator has to know what nobody set: other defaults depend on it, and how it trains
    options = {group: type(resolved[group])(**groups[group]) for group in groups}
    return task(replace(resolved["encoder"], **values) if values else defaults.encoder, **arguments, **options)


def task_groups(data_set: str, encoder: str) -> dict[str, Options]:
    """Group of options of a run -> an instance with the defaults; ``task`` has the arguments of the estimator.

    Examples
    --------
    >>> task_groups("sst2", "ms-trans")["encoder"].alpha
    0.5
    """
    return dict(TASKS[find_data_set(data_set).task](encoder_name(encoder)).resolve_options())


def encoder_name(encoder: str) -> str:
    """The name of a run's encoder in :data:`graphattn.models._encoders.ENCODERS`."""
    name = _first_name(encoder)
    return {**DEFAULT_RUNS, **PRETRAINED_RUNS}.get(name, (name,))[0]


def _first_name(encoder: str) -> str:
    """What stands before named settings and arguments."""
    return encoder.partition("=")[0].partition("+")[0]


def data_files(data_set: str, encoder: str, changes: Changes) -> list[str]:
    """The files of word vectors and pretrained models that a run needs, below the data folder."""
    groups = merge_changes(settings(data_set, encoder), changes)
    values = [groups.get(group, {}).get(name) or () for group, name in _TRAINING_FILES]
    return [name for names in values for name in ([names] if isinstance(names, str) else names)]


_TRAINING_FILES = (("inputs", "vectors"), ("pretrained", "pretrained"))
_DATA_FILES = (*_TRAINING_FILES, ("parsing", "parser_model"))
"""Options that are files of the data folder."""


def merge_changes(first: Changes, second: Changes) -> Groups:
    """Both changes; the second wins."""
    return {group: {**first.get(group, {}), **second.get(group, {})} for group in dict.fromkeys([*first, *second])}


def _join_folder(names: str | Sequence[str], folder: Path) -> str | tuple[str, ...]:
    return str(folder / names) if isinstance(names, str) else tuple(str(folder / name) for name in names)


def _choose_labelling(
    base: Callable[[str], Groups], rate: float, data_set: str, encoder: str, vectors: str = ""
) -> Groups:
    """Options of a classifier or tagger."""
    groups = {"task": {"preset": "paper"}, **base(data_set)}
    groups["training"] |= {"epochs": EPOCHS.get(data_set, 8), "precision": "auto", "learning_rate": rate}
    if encoder in _ADJUSTMENTS:
        _ADJUSTMENTS[encoder](groups, data_set)
    names = vectors.split("+") if vectors else groups["inputs"]["vectors"]
    groups["inputs"]["vectors"] = _vector_files(names)
    return groups


def _vector_files(names: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in VECTOR_FILES]
    if unknown:
        raise ConfigError(f"there are no word vectors {unknown[0]!r}; choose among: {', '.join(VECTOR_FILES)}")
    return tuple(VECTOR_FILES[name] for name in names)


def _choose_classifier(data_set: str) -> Groups:
    plain = data_set in ("sst2", "sst5", "r8")
    inputs: dict[str, Any] = {"vectors": VECTORS if plain else ALL_VECTORS, "tune_vectors": True, "word_dropout": 0.1}
    if data_set == "r8":
        inputs |= {"vectors": FROZEN_VECTORS, "tune_vectors": False, "embedding_dropout": 0.3}
    # A tenth of so few texts is too small a dev set. Batches have 32 texts of any length, as in the first table rows.
    training = {"dev_fraction": 0.0, "max_tokens": None} if data_set in (*MTL, "r8") else {}
    return {
        "encoder": {},
        "inputs": {**inputs, "split": "whitespace"},
        "head": {"pooling": "mean" if plain else "mean-max"},
        "training": training,
    }


def _choose_pair_classifier(data_set: str) -> Groups:
    return {
        "encoder": {"dropout": 0.1},
        "inputs": {"vectors": VECTORS, "tune_vectors": True, "embedding_dropout": 0.1, "split": "words"},
        "head": {"pooling": "max", "head_dropout": 0.2},
        "training": {},
    }


def _choose_tagger(data_set: str) -> Groups:
    inputs: dict[str, Any] = {"vectors": VECTORS, "tune_vectors": True, "word_dropout": 0.1, "characters": True}
    if data_set == "conll2003":
        inputs |= {"embedding_dropout": 0.4, "character_embedding": 50, "character_filters": 128}
    return {"encoder": {}, "inputs": inputs, "head": {"crf": data_set == "conll2003"}, "training": {}}


def _choose_translator(data_set: str, encoder: str, without: str = "") -> Groups:
    options = encoder_options(encoder)
    switches = [item.name for item in fields(options) if getattr(options, item.name) is True]
    known = {f"without-{switch.replace('_', '-')}": switch for switch in switches}
    if without and without not in known:
        choice = f"choose among: {', '.join(known)}" if known else "it has nothing to leave out"
        raise ConfigError(f"there is no {encoder} {without!r}; {choice}")
    groups: Groups = {
        "encoder": {known[without]: False} if without else {},
        "decoder": {},
        "inputs": {"split": "words"},
        "training": {"precision": "auto", "average": 0.995, "metric": find_data_set(data_set).metric, "epochs": 6},
        "search": {"min_length": 0, "length_penalty": 0.6},  # the defaults of the first table rows
        "parsing": {
            "parser": "stanza",
            "parser_package": "ewt_small",
            "parser_model": "stanza_en_ewt_small",
        },
    }
    if data_set == "scitldr":  # 2,000 pairs
        groups["encoder"]["dropout"] = 0.3
        groups["decoder"]["decoder_dropout"] = 0.3
        groups["inputs"] |= {"vocabulary_size": 4000, "embedding_dropout": 0.3}
        groups["training"] |= {"epochs": 20, "max_tokens": 4000, "warmup_steps": 400}
        groups["search"] |= {"min_length": 5, "max_length": 60, "no_repeat_ngram": 3}
    return groups


_CHOICES: dict[str, Callable[..., Groups]] = {
    "classify": partial(_choose_labelling, _choose_classifier, 5e-4),
    "pair": partial(_choose_labelling, _choose_pair_classifier, 5e-4),
    "tag": partial(_choose_labelling, _choose_tagger, 1e-3),
    "translate": _choose_translator,
}


def _adjust_transformer(groups: Groups, data_set: str) -> None:
    groups["encoder"]["ffn"] = 600
    groups["training"]["learning_rate"] = 3e-4
    if data_set in MTL:
        groups["encoder"]["layers"] = 2  # as MS-Trans; a fold each of apparel and kitchen: 85.3, three layers 84.5


def _adjust_ms_trans(groups: Groups, data_set: str) -> None:
    if data_set in (*TAGGING, *MTL):
        # nine folds of MTL-16: 85.4; with the paper's scales for classification and alpha 84.8
        groups["encoder"] |= {"scales": ("1", "3", "5", "7", "9"), "alpha": 1.0}
    if data_set in MTL:
        groups["encoder"]["layers"] = 2  # two folds each of apparel and kitchen: 86.3; three layers 85.2, one 85.7
    if data_set == "r8":
        # the last fifth of the training set: 97.4 (two seeds); without positions and with the mean 96.2. There the
        # Transformer has 97.4 with the mean and 96.7 with mean and maximum, and keeps the mean
        groups["encoder"]["positions"] = True
        groups["head"]["pooling"] = "mean-max"
        groups["training"]["learning_rate"] = 3e-4


def _adjust_mtsa(groups: Groups, data_set: str) -> None:
    groups["head"].pop("pooling", None)  # MTSA has its own pooling, as Duo does
    groups["inputs"]["cls"] = True  # as in the published rows; the default was changed since
    if data_set in TAGGING:
        groups["encoder"]["layers"] = 2  # the default of taggers


def _adjust_duo(groups: Groups, data_set: str) -> None:
    groups["head"].pop("pooling", None)
    groups["inputs"]["cls"] = True  # as in the published rows
    groups["inputs"]["vectors"] = DUO_VECTORS
    groups["training"]["learning_rate"] = 1e-3
    if data_set in LONG_TEXTS:
        groups["inputs"].update(word_dropout=0.3, embedding_dropout=0.4)
        groups["training"]["learning_rate"] = 2e-3
        if data_set == "gcn-20ng":
            groups["encoder"]["window"] = "15"  # posts of thousands of words
    else:
        groups["inputs"]["tune_vectors"] = False  # the paper's model has fewer than 0.4 M trained parameters


def _adjust_duo_transformer(groups: Groups, data_set: str) -> None:
    if data_set not in (*TAGGING, "sick"):
        groups["inputs"]["vectors"] = DUO_VECTORS  # one for each of its two streams


_ADJUSTMENTS = {
    "transformer": _adjust_transformer,
    "ms-trans": _adjust_ms_trans,
    "mtsa": _adjust_mtsa,
    "duo": _adjust_duo,
    "duo-transformer": _adjust_duo_transformer,
}
