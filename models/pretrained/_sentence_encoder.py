"""Sentence vectors of a pretrained model, as sentence-transformers computes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from graphattn._edges import lengths_of
from graphattn._schema import TOKEN
from graphattn.builders import BudgetBatches, TextGraphBuilder
from graphattn.exceptions import ModelDirectoryError, TruncationWarning
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._estimators.inputs import single_column
from graphattn.models._options import InputOptions, resolve_precision
from graphattn.models._prediction import require_finite, run_model, split_rows
from graphattn.models.heads._pooling import pool
from graphattn.models.pretrained._checkpoint import (
    CONFIG,
    OTHER_SENTENCES,
    POOLING,
    SENTENCES,
    TOKENIZER_CONFIG,
    find_directory,
    find_inside,
    find_transformer,
    read_json,
    read_modules,
)
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.options import Parameters

_POOLINGS = ("mean", "cls", "max")
_FIX = "Use sentence-transformers for this model"
_ARGUMENTS = (
    *("model_args", "model_kwargs", "config_args", "config_kwargs"),
    *("tokenizer_args", "processor_kwargs", "processing_kwargs"),
)
_SUPPORTED: Mapping[str, Mapping[str, Any]] = {
    TOKENIZER_CONFIG: {"truncation_side": "right"},
    SENTENCES: {
        "do_lower_case": False,
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        **{name: {} for name in _ARGUMENTS},
    },
    OTHER_SENTENCES: {"model_type": "SentenceTransformer", "default_prompt_name": None},
    CONFIG: {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"},  # of Normalize
}
"""File -> key -> the value that is read, besides None; other keys change no vectors."""
_MAX_TOKENS = 16_384
"""Tokens of a batch."""


class SentenceEncoder(Parameters):
    """Vectors of whole texts from a pretrained model; a transformer of scikit-learn.

    The directory of a sentence-transformers model says how states are pooled, whether vectors are normalised, and how
    many tokens of a text count. Other models give the mean of their states.

    Parameters
    ----------
    directory : of the model, or its name on the Hugging Face hub
    heads : edges of the heads, see :class:`~graphattn.models.pretrained.PretrainedEncoder`
    max_length : tokens of the longest text; by default what the directory says
    precision : of matrix products: ``"32"``, ``"bf16"``, ``"int8"`` or ``"auto"``, see :func:`graphattn.load`

    Raises
    ------
    ModelDirectoryError
        when the directory is incomplete, damaged or of an unknown kind

    Examples
    --------
    >>> vectors = SentenceEncoder("all-MiniLM-L6-v2").transform(["A dog barks."])  # doctest: +SKIP
    >>> vectors.shape  # doctest: +SKIP
    (1, 384)
    """

    _sklearn_auto_wrap_output_keys = frozenset({"transform"})
    vectors_per_input = 1
    corpus_kind = "classify"

    def __init__(
        self,
        directory: str | Path = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        heads: str | None = None,
        max_length: int | None = None,
        precision: str = "32",
    ):
        self.directory, self.heads, self.max_length, self.precision = directory, heads, max_length, precision

    def fit(self, X: object = None, y: object = None) -> Self:
        """Read the model; nothing is trained."""
        folder = find_directory(self.directory)
        self.pooling_, self.normalize_, limit = read_pooling(folder)
        self.precision_ = resolve_precision(self.precision)
        self.encoder_ = PretrainedEncoder.from_directory(
            folder,
            heads=self.heads,
            max_length=self.max_length,
            precision="int8" if self.precision_ == "int8" else "32",
        )
        self.builder_ = TextGraphBuilder(self.encoder_.relations(), vocabulary=self.encoder_.vocabulary)
        longest = self.max_length or min(limit or self.encoder_.max_length, self.encoder_.max_length)
        special = self.builder_.count_special_tokens(1)
        if longest <= special:
            raise ModelDirectoryError(
                f"{folder}: the limit of {longest} tokens leaves no room beside {special} special ones. Set max_length"
            )
        self.inputs_ = InputOptions(max_tokens_per_text=longest - special)
        return self

    def fit_transform(self, X: Iterable[Any], y: object = None) -> Any:
        """Read the model and transform texts."""
        return self.fit().transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what :meth:`transform` returns: ``"default"``, ``"pandas"`` or ``"polars"``; None changes nothing."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The names of the columns of vectors: ``sentenceencoder0`` and so on."""
        if not hasattr(self, "encoder_"):
            self.fit()
        return np.array([f"sentenceencoder{number}" for number in range(self.encoder_.width)], object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags, tags.requires_fit = TransformerTags(preserves_dtype=[]), False
        return tags

    def transform(self, X: Iterable[Any]) -> Any:
        """(S, width) vectors of texts, an array unless :meth:`set_output` or scikit-learn's configuration says other.

        Parameters
        ----------
        X : raw texts, lists of words, or sentences; longer ones than the model reads are truncated, with a warning
        """
        vectors = self.sentence_vectors(X)
        if "sklearn" not in sys.modules:  # so nobody has configured it; its import takes long
            return vectors
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", vectors, X, self)

    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """:meth:`transform` as an array, under the name that classifiers have."""
        if not hasattr(self, "encoder_"):
            self.fit()
        (column,) = single_column(X)
        limit = self.inputs_.max_tokens_per_text
        assert limit is not None
        layout = self.builder_.layout(column)
        excess = layout.lengths[layout.lengths > limit] - limit
        if len(excess):
            layout = layout.truncate(limit)
            warnings.warn(self.describe_truncation(len(excess), int(excess.sum())), stacklevel=2)
        device = self.encoder_.norm.weight.device.type

        def encode_batch(batch: Batch, _: list[int]) -> Iterable[Any]:
            with torch.autocast(device, torch.bfloat16, enabled=self.precision_ == "bf16"):
                states = require_finite(self.encoder_(batch.graph))
                pooled = pool(states, lengths_of(batch.graph, TOKEN), self.pooling_)
                return split_rows(F.normalize(pooled, dim=1) if self.normalize_ else pooled)

        batches = BudgetBatches(layout.lengths, max_tokens=_MAX_TOKENS, shuffle=False)
        vectors = run_model(self.encoder_, Corpus(self.builder_, [layout]), encode_batch, batches=batches)
        return np.array(vectors, np.float32).reshape(len(layout), self.encoder_.width)

    def describe_truncation(self, count: int, tokens: int) -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        return TruncationWarning(count, self.inputs_.max_tokens_per_text or 0, tokens)


def read_pooling(folder: Path) -> tuple[str, bool, int | None]:
    """The pooling of sentence vectors in a directory, whether they are normalised, and the limit of tokens, if any."""
    model = find_transformer(folder)
    tokenizer = _read_options(model, TOKENIZER_CONFIG)
    modules = read_modules(folder)
    if not modules:
        return "mean", False, tokenizer.get("model_max_length")
    types = [module["type"] for module in modules]
    kinds = [name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name for name in types]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ModelDirectoryError(
            f"{folder} has the modules {', '.join(kinds)}; GraphAttn reads Transformer, Pooling and Normalize. {_FIX}"
        )
    for module in modules[2:]:
        _read_options(find_inside(folder, module["path"]), CONFIG)
    _read_options(folder, OTHER_SENTENCES)
    early = sorted(path.name for path in model.glob("sentence_*_config.json"))  # sentence_roberta_config
    options = _read_options(model, SENTENCES, next(iter(early), SENTENCES))
    pooling = _read_mode(find_inside(folder, modules[1]["path"]))
    return pooling, "Normalize" in kinds, options.get("max_seq_length") or tokenizer.get("model_max_length")


def _read_options(folder: Path, name: str, file: str | None = None) -> dict[str, Any]:
    """The options in a file, under this or another name, if it exists; a value that is not supported is rejected."""
    path = folder / (file or name)
    options: dict[str, Any] = read_json(folder, path.name, name) if path.exists() else {}
    for key, value in _SUPPORTED[name].items():
        if options.get(key) not in (None, value):
            raise ModelDirectoryError(f"{path}: {key} is {options[key]!r}, which GraphAttn does not support. {_FIX}")
    return options


def _read_mode(folder: Path) -> str:
    """The pooling in the config of a module; earlier versions have a switch for each kind."""
    path, config = folder / CONFIG, read_json(folder, CONFIG, POOLING)
    switches = [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, value in config.items()
        if name.startswith("pooling_mode_") and value
    ]
    modes = config.get("pooling_mode") or switches or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise ModelDirectoryError(
            f"{path} pools by {', '.join(map(str, modes))}; GraphAttn has one of {', '.join(_POOLINGS)}. {_FIX}"
        )
    return str(modes[0])
