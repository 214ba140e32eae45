"""Sentence vectors of a pretrained model, as sentence-transformers computes them, and its attention."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
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
from graphattn.models.heads._pooling import pool
from graphattn.models.pretrained._checkpoint import find_directory
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._model import PretrainedModel
from graphattn.models.pretrained._search import find_nearest
from graphattn.models.pretrained._sentence_settings import FIX, find_prompt, read_layers, read_settings
from graphattn.models.training._plain_torch import plain_torch
from graphattn.options import Parameters

if TYPE_CHECKING:
    from graphattn.models._files.dense_model import DenseModel
    from graphattn.models.inspection import Attention
    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget

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

    The directory of a sentence-transformers model says how states are pooled, what follows, and how many tokens of a
    text count. Other models give the mean of their states.

    Parameters
    ----------
    directory : of the model, or its name on the Hugging Face hub
    heads : edges of the heads, see :class:`~graphattn.models.pretrained.PretrainedEncoder`
    max_length : tokens of the longest text; by default what the directory says
    precision : of matrix products: ``"32"``, ``"bf16"``, ``"int8"`` or ``"auto"``, see :func:`graphattn.load`
    device : ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; or ``"auto"``, a GPU of CUDA if there is one, else the CPU
    prompt : name of the directory's prompt before each text, such as ``"query"``; its default prompt, if any, when None

    Raises
    ------
    ModelDirectoryError
        when the directory is incomplete, damaged or of an unknown kind
    ConfigError
        when there is no such device or prompt

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
        prompt: str | None = None,
    ):
        self.directory, self.heads, self.max_length = directory, heads, max_length
        self.precision, self.device, self.prompt = precision, device, prompt

    @plain_torch()
    def fit(self, X: object = None, y: object = None) -> Self:
        """Read the model; nothing is trained."""
        device, folder = find_device(self.device), find_directory(self.directory)
        self.settings_ = settings = read_settings(folder)
        self.prompt_ = settings.prompt if self.prompt is None else find_prompt(settings.prompts, self.prompt)
        self.precision_ = resolve_precision(self.precision, device)
        self.encoder_ = PretrainedEncoder.from_directory(
            folder,
            heads=self.heads,
            max_length=self.max_length,
            precision="int8" if self.precision_ == "int8" else "32",
        )
        self.model_ = HeadlessModel(self.encoder_.to(device))
        self.layers_, width = read_layers(settings, self.encoder_.width)
        self.layers_.to(device)
        if self.precision_ != "int8":
            pack(self.encoder_, self.precision_)
        self.builder_ = TextGraphBuilder(self.encoder_.relations(), vocabulary=self.encoder_.vocabulary)
        vocabulary = self.encoder_.vocabulary
        assert vocabulary is not None
        if vocabulary.truncates_left:
            raise ModelDirectoryError(f"{folder}: its tokenizer truncates texts on the left. {FIX}")
        longest = self.max_length or min(settings.limit or self.encoder_.max_length, self.encoder_.max_length)
        special = self.builder_.count_special_tokens(1)
        prompt = len(vocabulary.encode(self.prompt_))
        if longest <= special + prompt:
            counted = f"{special} special ones" + (f" and {prompt} of its prompt" if prompt else "")
            if self.max_length is not None:
                raise ConfigError(f"{{max_length}} {longest} leaves no room beside {counted}", options=("max_length",))
            raise ModelDirectoryError(
                f"{folder}: the limit of {longest} tokens leaves no room beside {counted}. Download it again"
            )
        self.width_ = min(settings.truncate_dim or width, width)
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

    def encode(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """:meth:`transform` as an array, under the name that classifiers have."""
        self._check_fitted()
        return self._compute_vectors(X, self.prompt_)

    def _compute_vectors(self, X: Iterable[Any], prompt: str) -> npt.NDArray[np.float32]:
        """(S, width) vectors of texts after a prompt."""
        corpus, _ = self._encode(X, prompt)
        device, left_out = self.encoder_.device, self._count_left_out(prompt)

        def encode_batch(batch: Batch, _: list[int]) -> Computed:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.precision_ == "bf16"):
                states = at_least_float32(self.encoder_(batch.graph))
            lengths = lengths_of(batch.graph, TOKEN)
            if left_out:
                states = states[features_of(batch.graph, TOKEN)["position"].to(device) >= left_out]
                lengths = lengths - left_out
            return fetch_rows(self.layers_(pool(states, lengths, self.settings_.pooling))[:, : self.width_])

        budget = token_budget(device, on_cpu=_MAX_TOKENS)
        alone = len(corpus) == 1
        batches = [[0]] if alone else BudgetBatches(corpus.lengths, max_tokens=budget, shuffle=False)
        vectors = run_model(self.encoder_, corpus, encode_batch, batches=batches)
        return np.array(vectors, np.float32).reshape(len(corpus), self.width_)

    def _count_left_out(self, prompt: str) -> int:
        """The first tokens of each text that are not pooled."""
        if self.settings_.include_prompt or not prompt:
            return 0
        vocabulary: Any = self.encoder_.vocabulary
        return len(vocabulary.special_tokens.single.ids[0]) + len(vocabulary.encode(prompt))

    def search(
        self, queries: Iterable[Any], corpus: Iterable[Any], k: int = 10
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The texts of a corpus that are most similar to each query, by the cosine of their vectors.

        All texts are compared, some at a time, so that neither their vectors nor all similarities need fit into memory.
        Prompts that the directory has for queries and for documents are put before them, unless another one was chosen.

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
        parts = self._iter_vectors(corpus, "corpus", "document", "passage", "corpus")
        return find_nearest(np.concatenate(list(self._iter_vectors(queries, "queries", "query"))), parts, k)

    def _iter_vectors(self, X: Iterable[Any], name: str, *prompts: str) -> Iterator[npt.NDArray[Any]]:
        """The vectors of texts, or those that were given, some at a time; the first of these prompts is theirs."""
        self._check_fitted()
        known = self.settings_.prompts
        chosen = next((prompt for prompt in prompts if known.get(prompt)), None) if self.prompt is None else None
        prompt = self.prompt_ if chosen is None else known[chosen]
        array: Any = X
        if getattr(X, "ndim", 1) == 2 and np.asarray(array[:1]).dtype.kind == "f":
            if array.shape[1] != self.width_:
                hint = f"The vectors of this model are {self.width_} wide."
                raise DataError(f"{name}: an array of the shape {array.shape}", hint=hint)
            yield from (array[start : start + CHUNK] for start in range(0, max(len(array), 1), CHUNK))
            return
        remaining = iter(as_collection(X))
        yield self._compute_vectors(list(islice(remaining, CHUNK)), prompt)
        while part := list(islice(remaining, CHUNK)):
            yield self._compute_vectors(part, prompt)

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

    def _encode(self, X: Iterable[Any], prompt: str) -> tuple[Corpus, Sequence[Source]]:
        """Encode texts after a prompt, truncated; also the texts themselves."""
        (column,) = Texts.of(X).columns
        if prompt:
            column = [_with_prompt(source, prompt) for source in column]
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
        self._check_fitted()
        corpus, column = self._encode(X, self.prompt_)
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
        self._check_fitted()
        return int(self._encode([text], self.prompt_)[0].lengths[0])

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
        if self.prompt_ or self.width_ < self.encoder_.width or self.settings_.has_dense_layers:
            raise ConfigError(
                "a model with a prompt, dense layers or truncated vectors cannot be exported; use transform"
            )
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
