"""Options that all estimators of labels share: inputs, training, and the layers after the encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import Any

import torch
from typing_extensions import override

from graphattn._devices import Hardware, check_device_name
from graphattn._validation import require_choice
from graphattn.builders._word_boundaries import DEFAULT_SPLIT, SPLITS
from graphattn.exceptions import ConfigError, GraphAttnWarning, warn_caller
from graphattn.options import DEVICE_HELP, Options, option

BF16_FLAGS = ("amx_bf16", "bf16")
"""CPU flags of instructions for bfloat16 products that are faster than float32's; the last is ARM's."""
BF16_FLAG_OF_AMD = "avx512_bf16"
"""The same on AMD's processors. Where Intel's have it without AMX, float32 is faster."""


INPUTS: dict[str, Any] = {}
"""Level of tokens -> class of inputs; :func:`~graphattn.models.register_inputs` adds one."""
CLS_HELP = "begin each text with a token [CLS] (default: yes, except for mtsa, duo and duo-transformer)"
"""Help of an option."""


@dataclass
class InputOptions(Options):
    """How text becomes vectors: tokens, vocabulary, word vectors, character features."""

    level: str = option("word", "tokens are words or subwords", choices=INPUTS)
    split: str = option(
        DEFAULT_SPLIT,
        "how raw text is split: into words; also keeping #tags, @names, URLs and emoticons whole; or at white space",
        choices=SPLITS,
    )
    cls: bool | None = option(None, CLS_HELP)
    lowercase: bool = option(True, "ignore case in the vocabulary (character features of words still use it)")
    zero_digits: bool = option(
        False, "write each digit as 0 in the vocabulary; numbers that look alike share the mean of their vectors"
    )
    min_count: int = option(1, "rarer words become [UNK] unless they have a vector", min=1)
    vocabulary_size: int | None = option(None, "maximum size of the vocabulary", min=1)
    vectors: tuple[str, ...] | str | None = option(
        None,
        "word vectors in text format (GloVe, word2vec, fastText; .xz .gz .bz2); see combine for several files",
        common=True,
    )
    vectors_words: str = option("all", "which words with a vector enter the vocabulary", choices=("all", "corpus"))
    tune_vectors: bool = option(True, "train the vectors of the training set's words")
    unit_vectors: bool = option(False, "divide each word vector by its length")
    normalize_vectors: bool = option(True, "scale the vectors to unit variance")
    always_project: bool = option(
        True, "map token vectors to the encoder's width with a linear layer even if they have it already"
    )
    combine: str = option(
        "concatenation",
        "combine several files of vectors: concatenate, average (padded with zeros), or project each with a learnt map",
        choices=("concatenation", "average", "projection"),
    )
    embedding: int = option(300, "width of token embeddings without word vectors", min=1)
    embedding_start: str = option(
        "ppmi",
        "initial token embeddings without word vectors: random, or from the co-occurrences in the training set",
        choices=("random", "ppmi"),
    )
    embedding_dropout: float = option(0.3, "dropout on token embeddings", min=0, below=1)
    word_dropout: float = option(0.1, "probability that [UNK] replaces a token in training", min=0, below=1)
    max_tokens_per_text: int | None = option(
        None, "truncate longer texts to this many tokens (default: 8192 if edges grow with the square of it)", min=1
    )
    strip_html: bool = option(False, "remove HTML tags from raw texts, and decode entities such as &amp;")
    characters: bool | None = option(None, "add character CNN and capitalisation features (default: taggers only)")
    predicate_embedding: int = option(100, "width of the embedding that marks predicates, if the corpus does", min=1)
    character_embedding: int = option(30, "width of character embeddings", min=1)
    character_filters: int = option(50, "number of filters of the character CNN", min=1)
    suffixes: int = option(0, "add embeddings of each word's suffixes up to this length", min=0, max=10)
    gazetteer: str | None = option(
        None, "file of names, one per line, with an optional type after a tab; tokens get their place in such a name"
    )

    def vector_files(self) -> tuple[str, ...]:
        """The files in ``vectors``."""
        if self.vectors is None:
            return ()
        return (self.vectors,) if isinstance(self.vectors, (str, os.PathLike)) else tuple(self.vectors)

    @override
    def check(self) -> None:
        if self.level == "bpe" and self.vectors:
            raise ConfigError(
                "{vectors} are for whole words; leave them out, or set {level=word}", options=("vectors", "level")
            )


OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("linear", "cosine", "constant", "inverse-sqrt", "exponential", "inverse")


EPOCHS_BESIDE_LINEAR_MODEL: Mapping[str, int] = {"visits": 40_000, "maximum": 4, "least": 15_000, "most": 20}
"""See :meth:`TrainingOptions.resolve_epochs`."""
EPOCHS_WITH_VECTORS: Mapping[str, int] = {**EPOCHS_BESIDE_LINEAR_MODEL, "least": 30_000}
"""Beside a linear model, which cannot read word vectors, so that the encoder adds more."""
EPOCHS_OF_TAGGERS_WITH_VECTORS: Mapping[str, int] = {**EPOCHS_WITH_VECTORS, "visits": 100_000, "maximum": 10}
"""Tags of words gain more by long training than classes of texts."""


@dataclass
class TrainingOptions(Options):
    """How a model is trained."""

    epochs: int | None = option(
        None,
        "maximum number of passes over the training set (default: beside a linear model 4, more for small training "
        "sets; else 20, fewer for large ones); 0: the linear model alone",
        min=0,
        common=True,
    )
    minutes: float | None = option(
        None, "time for training: as many epochs as fit, by the speed of the first steps", above=0, common=True
    )
    batch_size: int = option(32, "maximum number of sentences in a batch (over all processes)", min=1, common=True)
    max_tokens: int | None = option(
        32_768, "maximum number of tokens in a batch; a longer text is its own batch", min=1
    )
    max_edges: int | None = option(None, "maximum number of edges in a batch", min=1)
    optimizer: str = option(
        "adam", "Adam, AdamW with decoupled decay, or gradient descent with momentum 0.9", choices=OPTIMIZERS
    )
    learning_rate: float = option(5e-4, "maximum learning rate", above=0, common=True)
    weight_decay: float = option(5e-5, "weight decay, except on biases, norms and embeddings", min=0)
    beta2: float = option(0.999, "decay rate of Adam's mean of squared gradients", min=0, below=1)
    schedule: str = option(
        "linear", "decay after warm-up; exponential and inverse fall after each epoch", choices=SCHEDULES
    )
    decay: float = option(
        0.05, "for the schedules exponential, (1 - decay) ^ epoch, and inverse, 1 / (1 + decay * epoch)", min=0, below=1
    )
    warmup: float = option(0.1, "share of all steps in which the learning rate rises", min=0, below=1)
    warmup_steps: int | None = option(None, "number of warm-up steps, instead of a share", min=1)
    clip: float | None = option(5.0, "maximum norm of the gradient", above=0)
    label_smoothing: float = option(0.0, "probability mass spread over all classes", min=0, below=1)
    average: float | None = option(
        None,
        "evaluate and keep a moving average of the weights with this decay rate (0.99: over about 100 steps)",
        min=0,
        below=1,
    )
    average_epochs: int | None = option(
        None, "evaluate and keep the mean of the weights after each of this many last epochs", min=1
    )
    accumulate: int = option(1, "number of batches whose gradients are averaged per step", min=1)
    patience: int | None = option(4, "stop after this many epochs without a better dev metric", min=1)
    metric: str | None = option(
        None, "dev metric that chooses the best epoch (default: accuracy; F1 for entity tags and several labels)"
    )
    dev_fraction: float = option(
        0.1, "share of the training set that is held out if there is no dev set", min=0, below=1
    )
    precision: str = option(
        "auto",
        "number format of matrix products in training; auto is bf16 where the hardware supports it, else 32",
        choices=("32", "bf16", "auto"),
    )
    seed: int = option(0, "random seed; equal seeds give equal results on one machine", min=0, below=2**32, common=True)
    device: str = option("auto", DEVICE_HELP)
    devices: int = option(1, "number of GPUs, or of processes on a CPU", min=1)
    nodes: int = option(1, "number of machines", min=1)
    strategy: str = option("auto", "Lightning's strategy (auto, ddp, ddp_spawn, fsdp ...)")
    run_dir: str | None = option(None, "folder for checkpoints and logs")
    resume: bool = option(True, "continue from the last checkpoint in run_dir, if there is one", common=True)
    checkpoint_minutes: float | None = option(
        10.0, "minutes between checkpoints within an epoch; none: only after each epoch", min=0
    )
    logs: bool = option(True, "write logs into run_dir: CSV, and TensorBoard's where it is installed")
    progress: bool = option(True, "show a progress bar on a terminal")

    @override
    def check(self) -> None:
        check_device_name(self.device)
        if ":" in self.device and self.devices > 1:
            raise ConfigError(
                f"{{device={self.device}}} is one GPU and {{devices}} is {self.devices}; let {{device}} be cuda",
                options=("device", "devices"),
            )
        if self.average is not None and self.average_epochs is not None:
            raise ConfigError("set {average} or {average_epochs}, not both", options=("average", "average_epochs"))

    def dev_metric(self, measured: Sequence[str], main: str, *, dev_set: bool) -> str:
        """The dev metric that chooses the best epoch.

        Parameters
        ----------
        measured : names of all metrics
        main : the default
        dev_set : whether there is a dev set

        Raises
        ------
        ConfigError
            for an unknown ``metric``, or one without a dev set
        """
        if self.metric is not None and self.metric not in measured:
            raise ConfigError(
                f"{{metric}} {self.metric!r} is not measured; choose one of: {', '.join(measured)}", options=("metric",)
            )
        if self.metric is not None and not dev_set:
            raise ConfigError(
                "{metric} needs a dev set; give one or a larger {dev_fraction}, or leave {metric} out",
                options=("metric", "dev_fraction"),
            )
        return self.metric or main

    def resolve_epochs(
        self, examples: int, *, visits: int = 150_000, maximum: int = 20, least: int = 0, most: int = 640
    ) -> int:
        """``epochs``; by default enough for about ``visits`` training examples in total, from 3 to ``maximum``.

        Small training sets have more epochs, up to ``most``, so that ``least`` examples are read in total.
        """
        if self.epochs is not None:
            return self.epochs
        return max(3, min(maximum, visits // examples), min(most, -(-least // examples)))

    def resolve_precision(self) -> str:
        """``precision``, with ``"auto"`` resolved for this machine: ``"32"`` or ``"bf16"``."""
        return resolve_precision(self.precision, self.device)


PRECISIONS = ("32", "bf16", "int8", "auto")
"""Those of predictions; ``"int8"`` is not for training."""


def resolve_precision(precision: str | None, device: str | torch.device = "auto") -> str:
    """The precision on a device: ``"auto"`` is ``"32"`` or ``"bf16"``, and ``"int8"`` is ``"32"`` without it.

    None is 32 on a CPU, else auto.
    """
    if precision is None:
        precision = "32" if torch.device(device).type == "cpu" else "auto"
    require_choice("precision", precision, PRECISIONS)
    if precision == "int8":
        if str(device) not in ("auto", "cpu"):
            raise ConfigError(
                f"{{precision=int8}} is for CPUs, and {{device}} is {str(device)!r}; give {{device=cpu}}",
                options=("precision", "device"),
            )
        return resolve_int8()
    if precision != "auto":
        return precision
    return "bf16" if supports_bf16(str(device)) else "32"


def resolve_int8() -> str:
    """``"int8"``, or with a warning ``"32"`` where the processor has no such products."""
    from graphattn.layers._int8 import multiplies_int8  # loads the compiler of kernels

    if multiplies_int8():
        return "int8"
    if parent_process() is None:  # workers of a command would repeat it
        warn_caller(
            GraphAttnWarning(
                "this processor has no products of int8 (AVX-512-VNNI or AVX-VNNI); float32 is used instead"
            )
        )
    return "32"


def supports_bf16(device: str = "auto", hardware: Hardware | None = None) -> bool:
    """Whether a device has instructions for bfloat16 products; without them, they are slower than float32."""
    kind, _, number = device.partition(":")
    if kind in ("auto", "cuda"):
        gpus = (Hardware.detect() if hardware is None else hardware).gpus
        gpus = tuple(gpu for gpu in gpus if gpu.is_usable) if kind == "auto" else gpus[int(number or 0) :]
        if gpus:
            return gpus[0].has_bf16
    if kind not in ("auto", "cpu"):
        return False
    flags: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in older PyTorch
    if "AMD" in str(flags.get("cpu_name")) and flags.get(BF16_FLAG_OF_AMD, False):
        return True
    return any(flags.get(flag, False) for flag in BF16_FLAGS)


@dataclass
class HeadOptions(Options):
    """The layers after the encoder."""

    pooling: str | None = option(
        None,
        "sentence vector: half the sum of [CLS] and the maximum, their concatenation, one of them, the mean, mean and "
        "maximum concatenated, the last token, mean, [CLS] or last token scaled to length 1, or weights per token and "
        "feature (default: cls+max, max without [CLS]; mtsa: source2token; duo: mean; frozen: as the pretrained model)",
        choices=(
            *("cls+max", "concat", "max", "mean", "mean-max", "cls", "last", "unit-mean", "unit-cls", "unit-last"),
            "source2token",
        ),
    )
    head_hidden: int | None = option(
        None, "width of the classifier's hidden layer; 0 for none (default: the encoder's width; duo: 0)", min=0
    )
    word_pieces: str = option(
        "first", "vector of a word of several tokens: that of the first, or their mean", choices=("first", "mean")
    )
    pair_features: str = option(
        "difference",
        "features of a pair besides its vectors and their difference: the absolute difference, or the product",
        choices=("difference", "product"),
    )
    head_dropout: float = option(0.3, "dropout on the input of the head's layers", min=0, below=1)
    crf: bool | None = option(
        None,
        "score tag sequences with a conditional random field (default: unless there are class weights)",
        common=True,
    )
    linear_branch: bool = option(
        True,
        "add a linear model (n-grams; with a CRF spelling of words), weighed on the dev set after training",
        common=True,
    )
