"""Sentence vectors of a pretrained model, as sentence-transformers computes them, and its attention."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._devices import find_device
from graphattn._edges import lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn._validation import require_range
from graphattn.builders import BudgetBatches, TextGraphBuilder
from graphattn.builders._word_boundaries import Source
from graphattn.exceptions import ConfigError, DataError, ModelDirectoryError, TruncationWarning
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._encoders.base import LayerWeights
from graphattn.models._estimators.inputs import CHUNK, as_collection, single_column
from graphattn.models._inspectable import EncodedInputs, Inspectable, check_input
from graphattn.models._options import InputOptions, resolve_precision
from graphattn.models._plain_torch import plain_torch
from graphattn.models._prediction import Computed, fetch_rows, run_model, token_budget, warn_of_truncation
from graphattn.models._text_model import in_evaluation
from graphattn.models.heads._pooling import UNIT, pool
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
from graphattn.models.pretrained._search import find_nearest
from graphattn.options import Parameters

if TYPE_CHECKING:
    from graphattn.models._dense_model import DenseModel
    from graphattn.models.inspection import Attention
    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget

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
"""Tokens of a batch on a CPU."""


class Encoding:
    """What a pretrained model does that nobody has trained for a task."""

    description = "encodes texts"
    corpus_kind = "classify"
    texts_per_input = 1
    feature_names: tuple[str, ...] = ()
    prediction_options: frozenset[str] = frozenset()
    check_input = staticmethod(check_input)


class HeadlessModel(nn.Module):
    """An encoder as the module of an :class:`~graphattn.models._inspectable.Inspectable`."""

    cross_heads = 0

    def __init__(self, encoder: PretrainedEncoder):
        super().__init__()
        self.encoder = encoder


class SentenceEncoder(Inspectable, Parameters):
    """Vectors of whole texts from a pretrained model, and its attention; a transformer of scikit-learn.

    The directory of a sentence-transformers model says how states are pooled, whether vectors are normalised, and how
    many tokens of a text count. Other models give the mean of their states.

    Parameters
    ----------
    directory : of the model, or its name on the Hugging Face hub
    heads : edges of the heads, see :class:`~graphattn.models.pretrained.PretrainedEncoder`
    max_length : tokens of the longest text; by default what the directory says
    precision : of matrix products: ``"32"``, ``"bf16"``, ``"int8"`` or ``"auto"``, see :func:`graphattn.load`
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; or ``"auto"``, a GPU of CUDA if there is one, else the CPU

    Raises
    ------
    ModelDirectoryError
        when the directory is incomplete, damaged or of an unknown kind
    ConfigError
        when there is no such device

    Examples
    --------
    >>> vectors = SentenceEncoder("all-MiniLM-L6-v2").transform(["A dog barks."])  # doctest: +SKIP
    >>> vectors.shape  # doctest: +SKIP
    (1, 384)
    """

    _sklearn_auto_wrap_output_keys = frozenset({"transform"})
    vectors_per_input = 1
    task = Encoding
    encoder_name = "pretrained"

    def __init__(
        self,
        directory: str | Path = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        heads: str | None = None,
        max_length: int | None = None,
        precision: str | None = None,
        device: str = "auto",
    ):
        self.directory, self.heads, self.max_length = directory, heads, max_length
        self.precision, self.device = precision, device

    @plain_torch()
    def fit(self, X: object = None, y: object = None) -> Self:
        """Read the model; nothing is trained."""
        device, folder = find_device(self.device), find_directory(self.directory)
        self.pooling_, self.normalize_, limit = read_pooling(folder)
        self.precision_ = resolve_precision(self.precision, device)
        self.encoder_ = PretrainedEncoder.from_directory(
            folder,
            heads=self.heads,
            max_length=self.max_length,
            precision="int8" if self.precision_ == "int8" else "32",
        )
        self.model_ = HeadlessModel(self.encoder_.to(device))
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
        self._check_fitted()
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
        corpus, _ = self._encode(X)
        device = self.encoder_.norm.weight.device

        def encode_batch(batch: Batch, _: list[int]) -> Computed:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.precision_ == "bf16"):
                states = at_least_float32(self.encoder_(batch.graph))
                pooled = pool(states, lengths_of(batch.graph, TOKEN), self.pooling_)
                return fetch_rows(F.normalize(pooled, dim=1) if self.normalize_ else pooled)

        budget = token_budget(device, on_cpu=_MAX_TOKENS)
        batches = BudgetBatches(corpus.lengths, max_tokens=budget, shuffle=False)
        vectors = run_model(self.encoder_, corpus, encode_batch, batches=batches)
        return np.array(vectors, np.float32).reshape(len(corpus), self.encoder_.width)

    def search(
        self, queries: Iterable[Any], corpus: Iterable[Any], k: int = 10
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The texts of a corpus that are most similar to each query, by the cosine of their vectors.

        All texts are compared, some at a time, so that neither their vectors nor all similarities need fit into memory.

        Parameters
        ----------
        queries : texts, or their (Q, width) vectors from :meth:`transform`
        corpus : texts, which may be a generator; or their (S, width) vectors, which may be on disk
            (``np.load(path, mmap_mode="r")``)
        k : number of texts for each query; there are fewer in a smaller corpus

        Returns
        -------
        (Q, k) indices into the corpus, most similar first, in order among equals; and their cosines

        Raises
        ------
        DataError
            for an empty corpus, or vectors of another width
        """
        require_range("k", k, min=1)
        parts = self._iter_vectors(corpus, "corpus")
        return find_nearest(np.concatenate(list(self._iter_vectors(queries, "queries"))), parts, k)

    def _iter_vectors(self, X: Iterable[Any], name: str) -> Iterator[npt.NDArray[Any]]:
        """The vectors of texts, or those that were given, some at a time."""
        self._check_fitted()
        array: Any = X
        if getattr(X, "ndim", 1) == 2 and np.asarray(array[:1]).dtype.kind == "f":
            if array.shape[1] != self.encoder_.width:
                hint = f"The vectors of this model are {self.encoder_.width} wide."
                raise DataError(f"{name}: an array of the shape {array.shape}", hint=hint)
            yield from (array[start : start + CHUNK] for start in range(0, max(len(array), 1), CHUNK))
            return
        remaining = iter(as_collection(X))
        yield self.sentence_vectors(list(islice(remaining, CHUNK)))
        while part := list(islice(remaining, CHUNK)):
            yield self.sentence_vectors(part)

    # -- inspection ----------------------------------------------------------------------------------------------------

    def attention(self, x: Any) -> Attention:
        """Read one text and return the attention weights; there is no prediction.

        Parameters
        ----------
        x : a text, a list of words, or a sentence; a longer one than the model reads is truncated, with a warning

        Raises
        ------
        DataError
            when there are too many weights
        """
        from graphattn.models.inspection._attention import predict_attention  # loads networkx and pandas

        return predict_attention(self, x)

    @property
    @override
    def task_(self) -> Encoding:
        return self.task()

    @override
    def _check_fitted(self) -> None:
        """Read the model if that is not done; nothing is trained."""
        if not hasattr(self, "encoder_"):
            self.fit()

    def _encode(self, X: Iterable[Any]) -> tuple[Corpus, Sequence[Source]]:
        """Encode texts, truncated; also the texts themselves."""
        self._check_fitted()
        (column,) = single_column(X)
        limit = self.inputs_.max_tokens_per_text
        assert limit is not None
        layout = self.builder_.layout(column)
        excess = layout.lengths[layout.lengths > limit] - limit
        if len(excess):
            layout = layout.truncate(limit)
            warn_of_truncation(self.describe_truncation(len(excess), int(excess.sum())))
        return Corpus(self.builder_, [layout]), column

    @override
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> EncodedInputs:
        if targets is not None:
            raise ConfigError("{target} is for translators only", options=("target",))
        corpus, column = self._encode(X)
        vocabulary: Any = self.encoder_.vocabulary
        limit: Any = self.inputs_.max_tokens_per_text
        sentences = [sentence.truncate(limit) for sentence in vocabulary.sentences(column)]
        return EncodedInputs(corpus, {"text": [vocabulary.add_special_tokens([sentence]) for sentence in sentences]})

    @override
    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        return TruncationWarning(count, self.inputs_.max_tokens_per_text or 0, tokens, where)

    @override
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        from graphattn.models.inspection._capture import ForwardCapture, count_weights
        from graphattn.models.inspection.limits import check_num_weights

        layers: list[LayerWeights] = []
        check_num_weights(count_weights(self.encoder_, batch.graph), batch.graph)
        with in_evaluation(self.encoder_):
            states = self.encoder_(batch.graph, weights=layers)
        return ForwardCapture(states[:0], layers)

    @override
    def describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        return inputs.title, None, {}

    @override
    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        raise _make_no_prediction_error()

    @override
    def score_copies(self, batch: Batch, **changes: Any) -> Tensor:
        raise _make_no_prediction_error()

    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""
        return int(self._encode([text])[0].lengths[0])

    def get_reading_defaults(self) -> dict[str, Any]:
        """No options, since there was no training corpus."""
        return {}

    # -- other formats -------------------------------------------------------------------------------------------------

    def to_dense(self) -> DenseModel:
        """A plain PyTorch module of padded ids, for ``torch.export`` and ``torch.compile`` without graph breaks.

        Its inputs are ``input_ids`` and ``attention_mask`` (B, L), and ``token_type_ids``; its outputs the states
        (B, L, width) and the vectors (B, width).

        Raises
        ------
        ConfigError
            for heads along other relations than windows and ``all``
        """
        from graphattn.models._dense_model import DenseModel, DensePooling, make_dense_encoder

        self._check_fitted()
        pooling = DensePooling(self.pooling_, normalize=self.normalize_)
        assert self.encoder_.embedding is not None
        return DenseModel(self.encoder_.embedding.trained, make_dense_encoder(self.encoder_), pooling=pooling)

    def to_onnx(self, path: str | Path) -> None:
        """Write :meth:`to_dense` as an ONNX file, for any number of texts and tokens, and ``tokenizer.json`` beside it.

        The outputs are ``last_hidden_state`` and ``sentence_embedding``.

        Parameters
        ----------
        path : the file

        Raises
        ------
        ConfigError
            as for :meth:`to_dense`, or when another ``tokenizer.json`` is in the folder
        MissingPackageError
            without the packages of ``graphattn[onnx]``
        """
        from graphattn.models._onnx import write_onnx

        model, vocabulary = self.to_dense(), self.encoder_.vocabulary
        limit, segments = self.inputs_.max_tokens_per_text, self.encoder_.architecture.types > 1
        assert vocabulary is not None
        assert limit is not None
        longest = limit + self.builder_.count_special_tokens(1)
        write_onnx(path, model, vocabulary, segments=segments, longest=longest)


def _make_no_prediction_error() -> ConfigError:
    return ConfigError(
        "a pretrained model has no prediction to explain; train a classifier on it, or look at its attention"
    )


def find_pooling(model: str) -> str | None:
    """The pooling of a sentence-transformers model, by its directory or its name on the hub; None if it has others."""
    try:
        pooling, normalize, _ = read_pooling(find_directory(model))
    except ModelDirectoryError:
        return None
    return f"{UNIT}{pooling}" if normalize and pooling in ("cls", "mean") else pooling


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
