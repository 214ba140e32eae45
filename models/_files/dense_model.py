"""Models as plain PyTorch modules of padded ids, for ``torch.export``, ``torch.compile`` and ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.layers._linear import Linear
from graphattn.layers._padded import DenseAttention
from graphattn.models._encoders import Encoder
from graphattn.models._encoders.base import LayerWeights, run_layers, sinusoids
from graphattn.models._encoders.ms_trans import MSTransEncoder
from graphattn.models._files.masks import can_draw, make_masks
from graphattn.models._text_model import TextModel
from graphattn.models.heads._pooling import UNIT, Source2TokenPooling
from graphattn.models.pretrained._encoder import PretrainedEncoder, distance_buckets
from graphattn.models.pretrained._layers import HeadRange, Rotation, head_ranges, rotate
from graphattn.models.pretrained._model import PretrainedModel
from graphattn.models.pretrained._stack import StackedEncoder


class _PretrainedAttention(DenseAttention):
    """:class:`~graphattn.models.pretrained._layers.PretrainedAttention` on padded texts."""

    def attend(
        self,
        masks: Mapping[str, Tensor],
        inputs: Tensor,
        rotation: Rotation | None,
        biases: Mapping[HeadRange, Tensor] | None,
        weights: LayerWeights | None,
    ) -> Tensor:
        """(B L, hidden) -> (B L, hidden), the input of ``output``; ``biases`` are (L, L, heads)."""
        rows = self.project(inputs).unflatten(1, (-1, self.head_feats))
        if rotation is not None:
            rows = rotate(rows, rotation)
        if biases is None:
            return self.attend_rows(masks, rows)
        return self.attend_rows(masks, rows, {key[0]: biases[key] for key in head_ranges(self.heads)})


class _DenseMSTrans(nn.Module):
    takes_empty_texts = True

    def __init__(self, encoder: MSTransEncoder):
        super().__init__()
        self.relations, self.width = encoder.relations(), encoder.width
        self.adds_positions = encoder.options.positions
        self.layers = cast(Any, deepcopy(encoder.layers))
        for layer in self.layers:
            layer.attention = DenseAttention(layer.attention)

    @override
    def forward(self, tokens: Tensor, mask: Tensor, ids: Tensor, segments: Tensor | None) -> Tensor:
        if self.adds_positions:
            tokens = tokens + sinusoids(torch.arange(tokens.shape[1], device=tokens.device), self.width, tokens.dtype)
        masks: Any = make_masks(self.relations, mask)
        return run_layers(self.layers, masks, tokens.flatten(0, 1), None).view_as(tokens)


class _DensePretrained(nn.Module):
    takes_empty_texts = False  # they have special tokens

    def __init__(self, encoder: PretrainedEncoder):
        super().__init__()
        self.relations, self.buckets = encoder.relations(), encoder.architecture.buckets
        self.encoder = cast(Any, deepcopy(encoder))
        self.encoder.embedding = self.encoder.pooler = None
        for layer in self.encoder.layers:
            layer.attention = _PretrainedAttention(layer.attention)

    @override
    def forward(self, tokens: Tensor, mask: Tensor, ids: Tensor, segments: Tensor | None) -> Tensor:
        encoder, columns = self.encoder, torch.arange(ids.shape[1], device=ids.device)
        positions = columns.expand_as(ids).flatten()
        states = encoder.embed(
            tokens.flatten(0, 1), positions, ids.flatten(), None if segments is None else segments.flatten()
        )
        biases = None
        if self.buckets:
            buckets = distance_buckets(columns - columns.unsqueeze(1), self.buckets)
            biases = encoder.look_up_biases({relation.name: buckets for relation in self.relations})
        states = encoder.run_layers(make_masks(self.relations, mask), states, positions, biases)
        if encoder.last_norm is not None:
            states = encoder.last_norm(states)
        return states.unflatten(0, ids.shape)


class _DenseStack(nn.Module):
    takes_empty_texts = False

    def __init__(self, encoder: StackedEncoder):
        super().__init__()
        assert encoder.upper is not None
        self.lower, self.upper = make_dense_encoder(encoder.lower), make_dense_encoder(encoder.upper)
        self.project = deepcopy(encoder.project)

    @override
    def forward(self, tokens: Tensor, mask: Tensor, ids: Tensor, segments: Tensor | None) -> Tensor:
        states = self.project(self.lower(tokens, mask, ids, segments))
        return self.upper(states, mask, ids, segments)


_ENCODERS: Mapping[type[Encoder], Any] = {
    MSTransEncoder: _DenseMSTrans,
    PretrainedEncoder: _DensePretrained,
    StackedEncoder: _DenseStack,
}


def make_dense_encoder(encoder: Encoder) -> Any:
    """A module of (B, L, F) token vectors, the (B, L) mask of tokens, ids and segments, if any -> (B, L, width).

    A ConfigError names the parts of the encoder that have no such form.
    """
    check_exportable(find_graph_parts(encoder))
    return _find_form(encoder)(encoder)


def _find_form(encoder: Encoder) -> Any:
    """The class of an encoder's dense form; None if it has none."""
    if type(encoder) not in _ENCODERS and isinstance(encoder, PretrainedModel):
        from graphattn.models.pretrained._transformers_dense import DenseTransformers  # imports pandas

        return DenseTransformers
    return _ENCODERS.get(type(encoder))


_FIXES = {
    "features of characters": "{characters=False}",
    "features of suffixes, names and columns": "no {suffixes}, {gazetteer} or {feature_columns}",
    "columns beside the text": "no {feature_columns}",
    "marks of predicates": "no {predicate_column}",
    "the linear branch": "{linear_branch=False}",
    "a head on two texts apart": "{join_pairs=True}",
    "the conditional random field": "{crf=False}",
    "the mean of a word's tokens": "{word_pieces=first}",
}
"""Part of a model that plain Transformers lack -> options of a model without it."""


def check_exportable(missing: Sequence[str]) -> None:
    """Raise ConfigError for parts of a model that cannot be exported, with options of a model without them."""
    if missing:
        encoder = "{heads} along windows or all tokens"
        if not all(part in _FIXES or part.startswith("heads along ") for part in missing):
            encoder = "{encoder=ms-trans} or {encoder=pretrained}"
        fixes = dict.fromkeys(_FIXES.get(part, encoder) for part in missing)
        problem = f"{', '.join(missing)} cannot be exported as padded texts with masks"
        raise ConfigError(
            f"{problem}; train a model with {', '.join(fixes)}",
            options=(
                "linear_branch", "characters", "crf", "word_pieces", "join_pairs", "suffixes", "gazetteer",
                "feature_columns", "predicate_column", "encoder", "heads",
            ),
        )  # fmt: skip


class DensePooling(nn.Module):
    """(B, L, F) token vectors -> (B, F) sentence vectors, as :func:`~graphattn.models.heads._pooling.pool`."""

    def __init__(self, pooling: str, source2token: Source2TokenPooling | None = None, *, normalize: bool = False):
        super().__init__()
        self.pooling, self.normalize = pooling.removeprefix(UNIT), normalize or pooling.startswith(UNIT)
        self.source2token = deepcopy(source2token)

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        pooled = self._pool(states, mask.unsqueeze(2))
        return F.normalize(pooled, dim=1) if self.normalize else pooled

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        if self.source2token is not None:
            module = self.source2token
            scores = module.outer(F.elu(module.inner(states))).masked_fill(mask == 0, float("-inf"))
            return (scores.softmax(1).masked_fill(mask == 0, 0) * states).sum(1)
        first = states[:, 0]
        if self.pooling == "cls":
            return first
        if self.pooling == "last":
            is_last = mask - F.pad(mask[:, 1:], (0, 0, 0, 1))  # padding follows the text
            return (states * is_last).sum(1)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        if self.pooling == "mean":
            return mean
        top = states.masked_fill(mask == 0, float("-inf")).amax(1)
        top = top.masked_fill(mask.sum(1) == 0, 0)
        pairs = {"concat": (first, top), "mean-max": (mean, top)}
        if self.pooling in pairs:
            return torch.cat(pairs[self.pooling], dim=1)
        return top if self.pooling == "max" else 0.5 * (first + top)


class DenseModel(nn.Module):
    """Padded ids -> scores, with the weights of a model at the time of the call.

    ``vectors`` are (V, F) input vectors of all ids. A ``pooling`` makes one vector for each text, ``head`` maps vectors
    to scores; ``rescale`` is the mean and the unit of a regressor's targets.
    """

    def __init__(
        self,
        vectors: Tensor,
        encoder: Any,
        *,
        pooling: DensePooling | None = None,
        head: nn.Module | None = None,
        rescale: tuple[float, float] = (0.0, 1.0),
    ):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors.detach().clone())
        self.encoder, self.pooling, self.head, self.rescale = encoder, pooling, deepcopy(head), rescale
        if any(isinstance(module, Linear) and module.is_quantized for module in self.modules()):
            raise ConfigError(
                "the model's weights were rounded to int8; load it with {precision=32} to export it",
                options=("precision",),
            )
        self.requires_grad_(False).eval()

    @override
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        count = input_ids.shape[1]
        if self.encoder.takes_empty_texts:  # a column of padding: ONNX cannot reshape tensors without numbers
            input_ids, attention_mask = F.pad(input_ids, (0, 1)), F.pad(attention_mask, (0, 1))
        states = self.encoder(self.embedding(input_ids), attention_mask, input_ids, token_type_ids)
        rows = states if self.pooling is None else self.pooling(states, attention_mask)
        if self.head is None:
            return states, rows
        scores: Tensor = self.head(rows)
        if self.pooling is None:
            scores = scores[:, :count]
        mean, unit = self.rescale
        return scores if self.rescale == (0.0, 1.0) else scores * unit + mean


def list_own_layers(model: TextModel) -> dict[str, bool]:
    """Part of a model that plain Transformers lack -> whether the model has it."""
    embedding, head = model.embedding, model.head
    return {
        "features of characters": embedding.characters is not None,
        "features of suffixes, names and columns": embedding.lexicon is not None,
        "marks of predicates": embedding.predicate is not None,
        "the linear branch": model.linear_branch is not None,
        "a head on two texts apart": head.compares_texts,
        "columns beside the text": head.columns is not None,
        "the conditional random field": head.crf is not None,
        "the mean of a word's tokens": head.per_word and head.options.word_pieces == "mean",
    }


def find_graph_parts(encoder: Encoder) -> list[str]:
    """List what padded texts and masks of windows cannot express of an encoder."""
    if isinstance(encoder, StackedEncoder):
        return [part for each in (encoder.lower, encoder.upper) if each is not None for part in find_graph_parts(each)]
    if _find_form(encoder) is None:
        return [f"the encoder {type(encoder).__name__.removesuffix('Encoder')}"]
    return [f"heads along {relation.name}" for relation in encoder.relations() if not can_draw(relation)]


def make_dense_model(model: TextModel, rescale: tuple[float, float] = (0.0, 1.0)) -> DenseModel:
    """The dense form of a classifier, a tagger or a regressor; a ConfigError names what has none."""
    encoder, head = model.encoder, model.head
    missing = [name for name, has in list_own_layers(model).items() if has]
    check_exportable(missing + find_graph_parts(encoder))
    words = torch.arange(len(model.embedding.trained) + len(model.embedding.table), device=model.device)
    with torch.inference_mode(False), torch.no_grad():
        vectors = model.embedding(words)
    pooling = None if head.pooling is None else DensePooling(head.pooling, head.source2token)
    return DenseModel(vectors, make_dense_encoder(encoder), pooling=pooling, head=head.layers, rescale=rescale)
