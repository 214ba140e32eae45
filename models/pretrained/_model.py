"""What all pretrained Transformers share: tokenizer, limits, edges of heads, frozen layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._validation import require_choice, require_range
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._word_boundaries import Source
from graphattn.builders.relations import Relation
from graphattn.exceptions import ConfigError, DataError
from graphattn.layers._linear import embedding
from graphattn.models._encoders.base import Encoder, LayerWeights
from graphattn.models._encoders.relation_heads import head_relation
from graphattn.models._options import resolve_precision
from graphattn.models.pretrained._checkpoint import find_transformer
from graphattn.models.pretrained._export import NativeHead
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture


class PretrainedEmbedding(nn.Module):
    """The word vectors of a pretrained model."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.trained = nn.Parameter(torch.empty(count, width).normal_(std=0.02))

    def forward(self, ids: Tensor) -> Tensor:
        """(N,) -> (N, width)."""
        return embedding(self.trained, ids)


class PretrainedModel(Encoder):
    """Base of pretrained Transformers on graphs: each head attends along the edges of a relation.

    Attributes
    ----------
    architecture : sizes and switches of the model
    max_length : tokens of the longest text
    layer_heads : relation -> number of heads, for each layer
    embedding : the word vectors; None inside a model that has its own
    vocabulary : the directory's tokenizer; None for an encoder that was not read from one
    gradient_checkpointing : compute states again in the backward pass
    """

    architecture: AnyArchitecture
    layer_heads: list[dict[str, int]]
    embedding: PretrainedEmbedding | None
    vocabulary: PretrainedVocabulary | None = None
    is_quantized = False
    gradient_checkpointing = False

    def __init__(self, architecture: AnyArchitecture, max_length: int | None):
        super().__init__()
        self.architecture, self.width = architecture, architecture.hidden
        self.max_length = architecture.max_length if max_length is None else max_length
        require_range("max_length", self.max_length, min=1)

    @classmethod
    def from_directory(
        cls,
        directory: str | Path,
        *,
        heads: str | Mapping[str, int] | None = None,
        max_length: int | None = None,
        extend_positions: str = "copy",
        precision: str = "32",
    ) -> PretrainedModel:
        """Read a Hugging Face directory, or download a model from the hub.

        Parameters
        ----------
        directory : with ``config.json`` and ``model.safetensors``; or a name on the hub
        heads : edges of the heads, such as ``"window:257|global"``; those of pretraining when None
        max_length : tokens of the longest text; that of pretraining when None
        extend_positions : position vectors beyond those of the model are ``"copy"``, copies (Beltagy et al. 2020,
            section 5), or ``"interpolate"``
        precision : of linear layers: ``"32"``; or ``"int8"``, for predictions on a CPU

        Returns
        -------
        A :class:`PretrainedEncoder`; a :class:`TransformersEncoder` for a family that only ``transformers`` computes

        Raises
        ------
        ModelDirectoryError
            when the directory is incomplete, damaged, or of a family that mixes texts
        ConfigError
            for heads that do not fit the model, or an unknown ``extend_positions`` or ``precision``
        MissingPackageError
            for a family that needs ``transformers`` without this package
        """
        require_choice("extend_positions", extend_positions, ("copy", "interpolate"))
        require_choice("precision", precision, ("32", "int8"))
        (open_directory,) = OPEN_DIRECTORY
        source = open_directory(find_transformer(directory))
        encoder = source.read_encoder(heads=heads, max_length=max_length, extend_positions=extend_positions)
        encoder.vocabulary = source.read_vocabulary()
        if resolve_precision(precision) == "int8":
            from graphattn.layers._int8 import Int8Linear, quantize  # loads the compiler of kernels

            quantize(encoder)
            if not any(isinstance(module, Int8Linear) for module in encoder.modules()):
                raise ConfigError(
                    f"a model of type {encoder.architecture.family!r} has no linear layers that int8 could round; use "
                    "{precision=32}",
                    options=("precision",),
                )
            encoder.is_quantized = True
        return encoder

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the parameters."""

    def check_gradient_checkpointing(self) -> None:
        """Reject a model that cannot compute states again in the backward pass."""

    @abstractmethod
    def freeze(self, tuned_layers: int) -> None:
        """Freeze the word vectors and all but the last layers, and turn off their dropout.

        Parameters
        ----------
        tuned_layers : number of layers that are trained
        """

    @abstractmethod
    def learning_rates(self, maximum: float, decay: float) -> dict[str, float]:
        """Parameter -> its learning rate: ``maximum`` in the last layer, times ``decay`` in each one below.

        Parameters
        ----------
        maximum : rate of the last layer
        decay : factor from a layer to the one below
        """

    @abstractmethod
    def to_huggingface(
        self,
        directory: str | Path,
        *,
        embedding: Tensor | None = None,
        vocabulary: PretrainedVocabulary | None = None,
        head: NativeHead | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        """Write a directory for ``transformers`` and ``sentence-transformers``, with the same ids, states and vectors.

        Parameters
        ----------
        directory : a new directory
        embedding, vocabulary : word vectors and tokenizer of an encoder that has none of its own
        head, missing : a head that ``transformers`` has, or what it lacks of the model, for the directory's README

        Raises
        ------
        ConfigError
            when heads have other edges than in pretraining, which ``transformers`` lacks, or the directory exists
        DataError
            when the directory cannot be written
        """

    @abstractmethod
    def forward(
        self, graph: TextBatch, tokens: Tensor | None = None, *, weights: list[LayerWeights] | None = None
    ) -> Tensor:
        """Encode.

        Parameters
        ----------
        graph : a batch with this encoder's relations; its tokens have an ``id`` and may have a ``segment``
        tokens : (N, embedding width) word vectors; those of the ids when None
        weights : list to which each layer's attention weights are appended

        Returns
        -------
        (N, width)
        """

    def batch(self, texts: Sequence[Source]) -> TextBatch:
        """The graph of some texts, for :meth:`forward`.

        Parameters
        ----------
        texts : raw texts, lists of words, or sentences

        Raises
        ------
        DataError
            when a text is longer than ``max_length``
        ConfigError
            when the encoder was not read from a directory
        """
        if self.vocabulary is None:
            raise ConfigError("the encoder has no tokenizer; read it with from_directory")
        builder = TextGraphBuilder(self.relations(), vocabulary=self.vocabulary)
        layout = builder.join([builder.layout(texts)])
        self.check_lengths(layout.lengths)
        return builder.text_batch(layout)

    def check_lengths(
        self,
        lengths: npt.NDArray[np.integer],
        numbers: Sequence[int] | None = None,
        *,
        where: str = "",
        options: Sequence[str] = ("max_length", "heads"),
    ) -> None:
        """Raise DataError when a text is longer than ``max_length``.

        Parameters
        ----------
        lengths : (B,) tokens of each text
        numbers : of the texts in the user's data, from 0; in order when None
        where : the user's data, such as ``"dev set"``
        options : what the user calls the maximum length and the heads
        """
        length, heads = options
        for row in np.flatnonzero(lengths > self.max_length).tolist():
            number = row if numbers is None else numbers[row]
            text = f"text {number + 1}" if where or len(lengths) > 1 else "the text"
            text += f" of the {where}" if where else ""
            raise DataError(
                f"{text} has {lengths[row]:,} tokens; the model reads {self.max_length:,}",
                hint=f"Split or shorten it, or let the model read longer texts with {{{length}}} and windows, "
                f"{{{heads}=window:257|global}}.",
                options=options,
            )

    @property
    def has_edges_of_pretraining(self) -> bool:
        """Whether all heads attend along the edges that they had in pretraining."""
        heads = self.architecture.heads
        return self.layer_heads == [{relation: heads} for relation in self.architecture.relations]

    def check_native(self) -> None:
        """Reject a model that ``transformers`` does not have, such as one whose heads have other edges."""
        if not self.has_edges_of_pretraining:
            raise ConfigError("transformers has no other edges than those of pretraining; keep these edges")

    @override
    def train(self, mode: bool = True) -> Self:
        if mode and self.is_quantized:
            raise ConfigError("int8 is for predictions; read the model with {precision=32}", options=("precision",))
        super().train(mode)
        for module in self.list_frozen_modules():
            module.eval()
        return self

    @abstractmethod
    def list_frozen_modules(self) -> Sequence[nn.Module]:
        """The modules that :meth:`freeze` froze, whose dropout stays off."""

    @override
    def relations(self) -> list[Relation]:
        names = dict.fromkeys(name for heads in self.layer_heads for name in heads)
        return [head_relation(name) for name in names]

    @override
    def heads_along(self) -> dict[str, int]:
        return dict(sum(map(Counter, self.layer_heads), Counter[Any]()))


class PretrainedDirectory(ABC):
    """A directory of a pretrained model: ``architecture`` is read first, the tokenizer and the weights on demand."""

    architecture: AnyArchitecture

    @abstractmethod
    def read_vocabulary(self) -> PretrainedVocabulary:
        """The tokenizer."""

    @abstractmethod
    def read_encoder(
        self, *, heads: str | Mapping[str, int] | None, max_length: int | None, extend_positions: str
    ) -> PretrainedModel:
        """The model with its weights; arguments as for :meth:`PretrainedModel.from_directory`."""


OPEN_DIRECTORY: list[Callable[[Path], PretrainedDirectory]] = []
"""The function that opens a directory; its module, which imports all kinds of models and this one, puts it here."""
