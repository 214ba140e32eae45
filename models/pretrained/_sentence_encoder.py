"""Sentence vectors of a pretrained model, as sentence-transformers computes them, and its attention."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._devices import find_device
from graphattn._edges import features_of, lengths_of
from graphattn._precision import at_least_float32
from graphattn._schema import TOKEN
from graphattn._validation import require_range
from graphattn.builders import BudgetBatches, TextGraphBuilder
from graphattn.builders._word_boundaries import Source, words_of
from graphattn.exceptions import ConfigError, DataError, ModelDirectoryError, TruncationWarning
from graphattn.layers._packed import pack
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._encoders.base import LayerWeights
from graphattn.models._estimators.inputs import CHUNK, as_collection
from graphattn.models._estimators.named_columns import KnownColumns
from graphattn.models._estimators.tasks.explain import Explainer
from graphattn.models._estimators.texts import Texts
from graphattn.models._options import InputOptions, resolve_precision
from graphattn.models._prediction import Computed, fetch_rows, run_model, token_budget, warn_of_truncation
from graphattn.models._text_model import in_evaluation
from graphattn.models.heads._pooling import UNIT, pool
from graphattn.models.pretrained._checkpoint import (
    find_directory,
    find_inside,
    find_transformer,
    read_json,
    read_modules,
)
from graphattn.models.pretrained._directory_settings import (
    CONFIG,
    NORMALIZE,
    OTHER_SENTENCES,
    POOLING,
    POOLINGS,
    SENTENCES,
    TOKENIZER_CONFIG,
    check_settings,
)
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._model import PretrainedModel
from graphattn.models.pretrained._search import find_nearest
from graphattn.models.training._plain_torch import plain_torch
from graphattn.options import Parameters

if TYPE_CHECKING:
    from graphattn.models._files.dense_model import DenseModel
    from graphattn.models.inspection import Attention
    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget

_FIX = "Use sentence-transformers for this model"
_MAX_TOKENS = 16_384
"""Tokens of a batch on a CPU."""


class Encoding:
    """What a pretrained model does that nobody has trained for a task."""

    description = "encodes texts"
    corpus_kind = "classify"
    texts_per_input = 1
    feature_names: tuple[str, ...] = ()
    known_columns = KnownColumns()
    prediction_options: frozenset[str] = frozenset()

    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        """No options, since there was no training corpus."""
        return {}


class HeadlessModel(nn.Module):
    """An encoder as the module of an :class:`~graphattn.models._estimators.inspectable.FittedModel`."""

    cross_heads = 0

    def __init__(self, encoder: PretrainedModel):
        super().__init__()
        self.encoder = encoder


class SentenceEncoder(Parameters):
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
    corpus_: ClassVar[Mapping[str, Any]] = {}
    task: ClassVar[type[Encoding]] = Encoding
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
        self.settings_ = settings = read_settings(folder)
        self.precision_ = resolve_precision(self.precision, device)
        self.encoder_ = PretrainedEncoder.from_directory(
            folder,
            heads=self.heads,
            max_length=self.max_length,
            precision="int8" if self.precision_ == "int8" else "32",
        )
        self.model_ = HeadlessModel(self.encoder_.to(device))
        if self.precision_ != "int8":
            pack(self.encoder_, self.precision_)
        self.builder_ = TextGraphBuilder(self.encoder_.relations(), vocabulary=self.encoder_.vocabulary)
        vocabulary = self.encoder_.vocabulary
        assert vocabulary is not None
        if vocabulary.truncates_left:
            raise ModelDirectoryError(f"{folder}: its tokenizer truncates texts on the left. {_FIX}")
        longest = self.max_length or min(settings.limit or self.encoder_.max_length, self.encoder_.max_length)
        special = self.builder_.count_special_tokens(1)
        prompt = len(vocabulary.encode(settings.prompt))
        if longest <= special + prompt:
            counted = f"{special} special ones" + (f" and {prompt} of its prompt" if prompt else "")
            if self.max_length is not None:
                raise ConfigError(f"{{max_length}} {longest} leaves no room beside {counted}", options=("max_length",))
            raise ModelDirectoryError(
                f"{folder}: the limit of {longest} tokens leaves no room beside {counted}. Download it again"
            )
        self.width_ = min(settings.truncate_dim or self.encoder_.width, self.encoder_.width)
        first = len(vocabulary.special_tokens.single.ids[0])
        self.left_out_ = 0 if settings.include_prompt or not settings.prompt else first + prompt
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
        return np.array([f"sentenceencoder{number}" for number in range(self.width_)], object)

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
        vectors = self.encode(X)
        if "sklearn" not in sys.modules:  # so nobody has configured it; its import takes long
            return vectors
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", vectors, X, self)

    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """:meth:`encode` by its earlier name."""
        return self.encode(X)

    def encode(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """:meth:`transform` as an array, under the name that classifiers have."""
        corpus, _ = self._encode(X)
        device = self.encoder_.device

        def encode_batch(batch: Batch, _: list[int]) -> Computed:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.precision_ == "bf16"):
                states = at_least_float32(self.encoder_(batch.graph))
                lengths = lengths_of(batch.graph, TOKEN)
                if self.left_out_:
                    states = states[features_of(batch.graph, TOKEN)["position"].to(device) >= self.left_out_]
                    lengths = lengths - self.left_out_
                pooled = pool(states, lengths, self.settings_.pooling)
                pooled = F.normalize(pooled, dim=1) if self.settings_.normalize else pooled
                return fetch_rows(pooled[:, : self.width_])

        budget = token_budget(device, on_cpu=_MAX_TOKENS)
        batches = BudgetBatches(corpus.lengths, max_tokens=budget, shuffle=False)
        vectors = run_model(self.encoder_, corpus, encode_batch, batches=batches)
        return np.array(vectors, np.float32).reshape(len(corpus), self.width_)

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
            if array.shape[1] != self.width_:
                hint = f"The vectors of this model are {self.width_} wide."
                raise DataError(f"{name}: an array of the shape {array.shape}", hint=hint)
            yield from (array[start : start + CHUNK] for start in range(0, max(len(array), 1), CHUNK))
            return
        remaining = iter(as_collection(X))
        yield self.encode(list(islice(remaining, CHUNK)))
        while part := list(islice(remaining, CHUNK)):
            yield self.encode(part)

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
    def task_(self) -> Encoding:
        """What it does with texts."""
        return self.task()

    def _check_fitted(self) -> None:
        """Read the model if that is not done; nothing is trained."""
        if not hasattr(self, "encoder_"):
            self.fit()

    def _encode(self, X: Iterable[Any]) -> tuple[Corpus, Sequence[Source]]:
        """Encode texts, truncated; also the texts themselves."""
        self._check_fitted()
        (column,) = Texts.of(X).columns
        if self.settings_.prompt:
            column = [_with_prompt(source, self.settings_.prompt) for source in column]
        limit = self.inputs_.max_tokens_per_text
        assert limit is not None
        layout = self.builder_.layout(column)
        excess = layout.lengths[layout.lengths > limit] - limit
        if len(excess):
            layout = layout.truncate(limit)
            warn_of_truncation(self.describe_truncation(len(excess), int(excess.sum())))
        return Corpus(self.builder_, [layout]), column

    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        """Encode inputs for :attr:`explainer_`; there are no ``targets``."""
        if targets is not None:
            raise ConfigError("{target} is for translators only", options=("target",))
        corpus, column = self._encode(X)
        vocabulary: Any = self.encoder_.vocabulary
        limit: Any = self.inputs_.max_tokens_per_text
        sentences = [sentence.truncate(limit) for sentence in vocabulary.sentences(column)]
        return corpus.with_sentences({"text": [vocabulary.add_special_tokens([sentence]) for sentence in sentences]})

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        return TruncationWarning(count, self.inputs_.max_tokens_per_text or 0, tokens, where)

    @property
    def explainer_(self) -> AttentionExplainer:
        """Gives the attention weights; nothing is predicted."""
        return AttentionExplainer(self.model_)

    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""
        return int(self._encode([text])[0].lengths[0])

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
        from graphattn.models._files.dense_model import DenseModel, DensePooling, make_dense_encoder

        self._check_fitted()
        if self.settings_.prompt or self.width_ < self.encoder_.width:
            raise ConfigError("a model with a prompt or truncated vectors cannot be exported; use transform")
        pooling = DensePooling(self.settings_.pooling, normalize=self.settings_.normalize)
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
        from graphattn.models._files.onnx import write_onnx

        model, vocabulary = self.to_dense(), self.encoder_.vocabulary
        limit, segments = self.inputs_.max_tokens_per_text, self.encoder_.architecture.types > 1
        assert vocabulary is not None
        assert limit is not None
        longest = limit + self.builder_.count_special_tokens(1)
        write_onnx(path, model, vocabulary, segments=segments, longest=longest)


class AttentionExplainer(Explainer):
    """The attention of an encoder without a head."""

    @override
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        from graphattn.models.inspection._capture import ForwardCapture, count_weights
        from graphattn.models.inspection.limits import check_num_weights

        layers: list[LayerWeights] = []
        encoder = self.model.encoder
        check_num_weights(count_weights(encoder, batch.graph), batch.graph)
        with in_evaluation(encoder):
            states = encoder(batch.graph, weights=layers)
        return ForwardCapture(states[:0], layers)

    @override
    def choose_target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        raise _make_no_prediction_error()

    @override
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        return inputs.title, None, {}

    @override
    def score_copies(self, batch: Batch, **changes: Any) -> Tensor:
        raise _make_no_prediction_error()


def _make_no_prediction_error() -> ConfigError:
    return ConfigError(
        "a pretrained model has no prediction to explain; train a classifier on it, or look at its attention"
    )


def _with_prompt(source: Source, prompt: str) -> Source:
    return prompt + source if isinstance(source, str) else [*prompt.split(), *words_of(source)]


@dataclass(frozen=True)
class SentenceSettings:
    """What a directory says about sentence vectors.

    ``limit`` is of tokens, None for that of the model. ``prompt`` is put before each text; its states are pooled if
    ``include_prompt``. Vectors are normalised if ``normalize``, and then truncated to ``truncate_dim`` numbers.
    """

    pooling: str = "mean"
    normalize: bool = False
    limit: int | None = None
    prompt: str = ""
    include_prompt: bool = True
    truncate_dim: int | None = None


def find_pooling(model: str) -> str | None:
    """The pooling of a sentence-transformers model, by its directory or its name on the hub; None if it has others."""
    try:
        settings = read_settings(find_directory(model))
    except ModelDirectoryError:
        return None
    pooling = settings.pooling
    return f"{UNIT}{pooling}" if settings.normalize and pooling in ("cls", "mean") else pooling


def read_settings(folder: Path) -> SentenceSettings:
    """The settings of sentence vectors in a directory; one that is not supported is an error."""
    model = find_transformer(folder)
    tokenizer = _read_options(model, TOKENIZER_CONFIG)
    limit = tokenizer.get("model_max_length", tokenizer.get("max_len"))
    modules = read_modules(folder)
    if not modules:
        return SentenceSettings(limit=limit)
    types = [module["type"] for module in modules]
    kinds = [name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name for name in types]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ModelDirectoryError(
            f"{folder} has the modules {', '.join(kinds)}; GraphAttn reads Transformer, Pooling and Normalize. {_FIX}"
        )
    for module in modules[2:]:
        _read_options(find_inside(folder, module["path"]), NORMALIZE, CONFIG)
    early = sorted(path.name for path in model.glob("sentence_*_config.json"))  # sentence_roberta_config
    options = _read_options(model, SENTENCES, SENTENCES if SENTENCES in early else next(iter(early), SENTENCES))
    pooling = _read_options(find_inside(folder, modules[1]["path"]), POOLING, CONFIG, must_exist=True)
    others = _read_options(folder, OTHER_SENTENCES)
    return SentenceSettings(
        _read_mode(folder / modules[1]["path"] / CONFIG, pooling),
        "Normalize" in kinds,
        options.get("max_seq_length") or limit,
        _find_prompt(folder / OTHER_SENTENCES, others),
        pooling.get("include_prompt") is not False,
        others.get("truncate_dim"),
    )


def _read_options(folder: Path, name: str, file: str | None = None, *, must_exist: bool = False) -> dict[str, Any]:
    """The options in a file, under this or another name, if it exists; a value that is not supported is rejected."""
    path = folder / (file or name)
    options: dict[str, Any] = read_json(folder, path.name, name) if must_exist or path.exists() else {}
    check_settings(name, options, f"{path}:", of_sentences=True)
    return options


def _find_prompt(path: Path, options: Mapping[str, Any]) -> str:
    """The prompt before each text; those of queries and documents are for other methods."""
    name, prompts = options.get("default_prompt_name"), {"query": "", "document": "", **(options.get("prompts") or {})}
    if name is None:
        return ""
    if name not in prompts:
        raise ModelDirectoryError(f"{path}: there is no prompt {name!r}. Download the model again")
    return prompts[name] or ""


def _read_mode(path: Path, config: Mapping[str, Any]) -> str:
    """The pooling in the config of a module; earlier versions have a switch for each kind."""
    switches = [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, value in config.items()
        if name.startswith("pooling_mode_") and value
    ]
    modes = config.get("pooling_mode") or switches or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ModelDirectoryError(
            f"{path} pools by {', '.join(map(str, modes))}; GraphAttn has one of {', '.join(POOLINGS)}. {_FIX}"
        )
    return str(modes[0])
