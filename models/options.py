"""Options as dataclasses: one definition serves constructors, scikit-learn, flags, YAML and model files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np

from graphattn.exceptions import ConfigError
from graphattn.models.parameters import Parameters
from graphattn.models.training.precision import PRECISIONS
from graphattn.scales import Scale

OptionsT = TypeVar("OptionsT", bound="Options")

_KINDS: Mapping[type, tuple[type | tuple[type, ...], str]] = {
    bool: ((bool, np.bool_), "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: ((str, os.PathLike), "a text"),
    tuple: ((tuple, list), "a list"),
}


def option(default: Any, help: str, *, choices: tuple[str, ...] | None = None) -> Any:
    """A dataclass field with the sentence that ``--help`` shows and the values it may take."""
    metadata = {"help": help, "choices": choices}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Options(Parameters):
    """Base of all options; scikit-learn sees the fields as nested parameters (``training__epochs``)."""

    def check(self) -> None:
        """Refuse impossible values; called before options are used, since ``set_params`` may change them.

        Raises
        ------
        ConfigError
            naming the option and the way out
        """
        hints = get_type_hints(type(self))
        for item in fields(self):
            choices = item.metadata.get("choices")
            value = getattr(self, item.name)
            left_out = value is None and type(None) in get_args(hints[item.name])
            if choices and not left_out and value not in choices:
                raise ConfigError(
                    f"{{{item.name}}} is {value!r}; choose one of: {', '.join(map(str, choices))}", options=(item.name,)
                )
            _check_kind(item.name, value, hints[item.name])

    def copied(self: OptionsT) -> OptionsT:
        """The same values as plain Python's, in an object of its own."""
        return replace(self, **{item.name: _plain(getattr(self, item.name)) for item in fields(self)})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are written to ``config.json``."""
        return asdict(self.copied())

    @classmethod
    def from_dict(cls: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
        """Options from plain values.

        Raises
        ------
        ConfigError
            for a name that does not exist, with the names that do
        """
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"{cls.__name__} has no option {unknown[0]!r}; it has: {', '.join(sorted(known))}")
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Scale):
        return str(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_plain(part) for part in value)
    value = value.item() if isinstance(value, np.generic) else value
    return float(value) if isinstance(value, Real) and not isinstance(value, (int, float)) else value


def _check_kind(name: str, value: Any, hint: Any) -> None:
    """Refuse a value of another kind than the option's annotation says, a text for a number say."""
    allowed = get_args(hint) if type(None) in get_args(hint) else (hint,)
    kinds = [kind for part in allowed if (kind := getattr(part, "__origin__", part)) in _KINDS]
    if not kinds or (value is None and type(None) in allowed):
        return
    if not any(isinstance(value, _KINDS[kind][0]) and (kind is bool or not isinstance(value, bool)) for kind in kinds):
        raise ConfigError(
            f"{{{name}}} is {value!r}; it must be {' or '.join(_KINDS[kind][1] for kind in kinds)}", options=(name,)
        )


def at_least(options: Options, minimum: float, *names: str) -> None:
    """Refuse options below a minimum, and infinite ones; None passes."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not minimum <= value < math.inf:
            finite = " and finite" if value == math.inf else ""
            raise ConfigError(f"{{{name}}} is {value}; it must be at least {minimum}{finite}", options=(name,))


def share(options: Options, *names: str) -> None:
    """Refuse options that are no share, at least 0 and below 1; None passes."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not 0 <= value < 1:
            raise ConfigError(f"{{{name}}} is {value}; it must be at least 0 and below 1", options=(name,))


@dataclass
class InputOptions(Options):
    """How text becomes vectors: tokens, vocabulary, word vectors, character features."""

    level: str = option("word", "what attends: words or sub-words", choices=("word", "bpe"))
    split: str = option("words", "how raw text is cut: by rule or at white space", choices=("words", "whitespace"))
    lowercase: bool = option(True, "ignore case in the vocabulary (character features of whole words still see it)")
    min_count: int = option(1, "words rarer than this become [UNK], unless they have a vector")
    vocabulary_size: int | None = option(None, "largest number of vocabulary entries")
    vectors: tuple[str, ...] | str | None = option(
        None,
        "word vectors in text format (GloVe, word2vec, fastText; .xz .gz .bz2); several stand side by side",
    )
    vectors_words: str = option("all", "which words with a vector enter the vocabulary", choices=("all", "corpus"))
    tune_vectors: bool = option(False, "train the vectors of the training set's words too")
    normalize_vectors: bool = option(True, "scale the vectors to unit variance per number")
    combine: str = option(
        "concatenation",
        "several files of vectors side by side, averaged (padded with zeros), or each through a learnt projection",
        choices=("concatenation", "average", "projection"),
    )
    embedding: int = option(300, "width of token embeddings when no vectors are given")
    embedding_dropout: float = option(0.3, "dropout on token embeddings")
    word_dropout: float = option(0.0, "share of tokens replaced by [UNK] in training")
    characters: bool = option(False, "add character CNN and capitalisation features")
    character_embedding: int = option(30, "width of character embeddings")
    character_filters: int = option(50, "features the character CNN gives a token")

    def vector_files(self) -> tuple[str, ...]:
        """The files in ``vectors``; none, one or several."""
        if self.vectors is None:
            return ()
        return (self.vectors,) if isinstance(self.vectors, (str, os.PathLike)) else tuple(self.vectors)

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        at_least(self, 1, "min_count", "vocabulary_size", "embedding", "character_embedding", "character_filters")
        share(self, "embedding_dropout", "word_dropout")
        if self.level == "bpe" and self.vectors:
            raise ConfigError(
                "{vectors} are for whole words; leave them out, or set {level=word}", options=("vectors", "level")
            )


@dataclass
class TrainingOptions(Options):
    """How a model is trained."""

    epochs: int = option(20, "passes over the training set at most")
    batch_size: int = option(32, "sentences in a batch at most (over all processes)")
    max_tokens: int | None = option(32_768, "tokens in a batch at most; a longer text has one of its own")
    max_edges: int | None = option(None, "edges in a batch at most")
    optimizer: str = option("adam", "Adam, or AdamW with decoupled decay", choices=("adam", "adamw"))
    learning_rate: float = option(5e-4, "highest learning rate")
    weight_decay: float = option(5e-5, "weight decay, never on biases, norms and vectors of words and characters")
    beta2: float = option(0.999, "share of the mean of squared gradients that stays in a step of Adam")
    schedule: str = option("linear", "decay after warm-up", choices=("linear", "cosine", "constant", "inverse-sqrt"))
    warmup: float = option(0.1, "share of the steps in which the learning rate rises")
    warmup_steps: int | None = option(None, "steps in which the learning rate rises, in place of the share")
    clip: float | None = option(5.0, "largest norm of the gradient")
    label_smoothing: float = option(0.0, "share of probability spread over all classes")
    average: float | None = option(
        None,
        "measure and keep a moving average of the weights in their place; the share of it that stays in a step "
        "(0.99: an average over about 100 steps)",
    )
    average_epochs: int | None = option(
        None, "measure and keep the mean of the weights at the ends of this many last epochs in their place"
    )
    accumulate: int = option(1, "batches whose gradients are averaged before a step")
    patience: int | None = option(None, "stop after this many epochs without a better dev metric")
    metric: str | None = option(
        None, "dev metric that chooses the best epoch (default: accuracy; F1 for entity tags and several labels)"
    )
    dev_fraction: float = option(0.1, "share of the training set held out as dev set when none is given")
    precision: str = option(
        "32",
        "number format of matrix products; bf16 is faster where the hardware has it, auto takes it there",
        choices=PRECISIONS,
    )
    seed: int = option(0, "makes a run repeat bit for bit on one machine")
    accelerator: str = option("auto", "device kind, as Lightning names it (cpu, cuda, auto)")
    devices: int = option(1, "devices, or processes on a CPU")
    nodes: int = option(1, "machines")
    strategy: str = option("auto", "Lightning's strategy (auto, ddp, ddp_spawn, fsdp ...)")
    run_dir: str | None = option(None, "folder for checkpoints and logs; a run there resumes")
    resume: bool = option(True, "go on from the last checkpoint in run_dir, if there is one")
    checkpoint_minutes: float | None = option(
        10.0, "minutes between checkpoints inside an epoch; none for one after each epoch only"
    )
    logs: bool = option(True, "write CSV and TensorBoard logs into run_dir")
    progress: bool = option(True, "show a progress bar on a terminal")

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        at_least(self, 1, "epochs", "batch_size", "max_tokens", "max_edges", "accumulate", "patience")
        at_least(self, 1, "devices", "nodes", "warmup_steps", "average_epochs")
        if self.average is not None and self.average_epochs is not None:
            raise ConfigError(
                "{average} and {average_epochs} are both given; leave one of them out",
                options=("average", "average_epochs"),
            )
        at_least(self, 0, "weight_decay", "seed", "checkpoint_minutes")
        if self.seed >= 2**32:
            raise ConfigError(f"{{seed}} is {self.seed}; it must be below 2**32", options=("seed",))
        share(self, "warmup", "beta2", "label_smoothing", "average", "dev_fraction")
        if not 0 < self.learning_rate < float("inf"):
            raise ConfigError(
                f"{{learning_rate}} is {self.learning_rate}; it must be positive, 5e-4 is usual",
                options=("learning_rate",),
            )
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(
                f"{{clip}} is {self.clip}; it must be positive, or none for no clipping", options=("clip",)
            )

    def dev_metric(self, measured: Sequence[str], main: str, *, dev_set: bool) -> str:
        """The dev metric that chooses the best epoch.

        Parameters
        ----------
        measured : names of all metrics
        main : the one to take unless ``metric`` names another
        dev_set : whether there is one

        Raises
        ------
        ConfigError
            for a ``metric`` that is not measured; for ``metric`` or ``patience`` where nothing is measured
        """
        if self.metric is not None and self.metric not in measured:
            raise ConfigError(
                f"{{metric}} {self.metric!r} is not measured; choose one of: {', '.join(measured)}", options=("metric",)
            )
        idle = next((name for name in ("patience", "metric") if getattr(self, name) is not None), None)
        if idle is not None and not dev_set:
            raise ConfigError(
                f"{{{idle}}} needs a dev set; give one or a larger {{dev_fraction}}, or leave {{{idle}}} out",
                options=(idle, "dev_fraction"),
            )
        return self.metric or main


@dataclass
class HeadOptions(Options):
    """What stands on top of the encoder."""

    pooling: str | None = option(
        None,
        "sentence vector: half the sum of [CLS] and the maximum, their concatenation, one of them, the mean, mean and "
        "maximum side by side, or weights for each token and feature (default: cls+max; mtsa: source2token; duo: mean)",
        choices=("cls+max", "concat", "max", "mean", "mean-max", "cls", "source2token"),
    )
    head_hidden: int | None = option(
        None, "width of the classifier's hidden layer, 0 for none (default: the encoder's; duo: 0)"
    )
    pair_features: str = option(
        "difference",
        "what a pair is beside its two vectors and their difference: its absolute value, or the vectors' product",
        choices=("difference", "product"),
    )
    head_dropout: float = option(0.3, "dropout in front of the head's layers")
    crf: bool = option(False, "score tag sequences with a conditional random field")

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        at_least(self, 0, "head_hidden")
        share(self, "head_dropout")
