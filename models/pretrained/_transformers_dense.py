"""Models of ``transformers`` as modules of padded vectors, in which masks stand for edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._ragged import count_up
from graphattn.builders import TextGraphBuilder
from graphattn.builders._layout import Layout
from graphattn.exceptions import ConfigError
from graphattn.models._files.masks import make_masks
from graphattn.models.pretrained._layers import position_rows
from graphattn.models.pretrained._packing import last_states, list_parameters
from graphattn.models.pretrained._transformers_architecture import first_line
from graphattn.models.pretrained._transformers_encoder import TransformersEncoder, detach_embedding

_PROBE = 2, 7
"""Texts and tokens with which the states are compared."""
_TOLERANCE = 1e-3
"""Difference of states that rounding explains, relative to the largest."""


class DenseTransformers(nn.Module):
    """A model that ``transformers`` computes with ``eager`` attention; its states are compared once with the encoder's.

    The edges of pretraining are the model's own masks; others, which all layers share, are a mask for each head.
    """

    takes_empty_texts = False  # they have special tokens

    def __init__(self, encoder: TransformersEncoder):
        super().__init__()
        architecture, first = encoder.architecture, encoder.layer_heads[0]
        self.heads = None if encoder.has_edges_of_pretraining else first
        if self.heads is not None and any(heads != first for heads in encoder.layer_heads):
            raise ConfigError(
                f"a model of type {architecture.family!r} whose layers have {{heads}} along different edges cannot be "
                "exported as padded texts with masks; give all layers the same, or those of pretraining",
                options=("heads",),
            )
        self.relations, self.first_position = encoder.relations(), architecture.first_position
        self.has_types = architecture.types > 0
        model: Any = encoder.make_plain_model()
        table = model.get_input_embeddings()
        with torch.no_grad():
            table.weight.fill_(1)
            self.scale = table(torch.zeros(1, dtype=torch.long))[0]  # some families scale what they look up
        detach_embedding(model)
        self.model, self.names = model, frozenset(list_parameters(model))
        self._check_states(encoder)

    @override
    def forward(self, tokens: Tensor, mask: Tensor, ids: Tensor, segments: Tensor | None) -> Tensor:
        inputs: dict[str, Any] = {"inputs_embeds": tokens * self.scale, "attention_mask": mask}
        if self.heads is not None:
            inputs["attention_mask"] = self._mask_heads(mask, self.heads)
        if "position_ids" in self.names:
            positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape[0], -1)
            rows = position_rows(positions.flatten(), ids.flatten(), self.first_position)
            inputs["position_ids"] = rows.view(ids.shape)
        if segments is not None and self.has_types:
            inputs["token_type_ids"] = segments
        if "use_cache" in self.names:
            inputs["use_cache"] = False
        return last_states(self.model(**inputs))

    def _mask_heads(self, mask: Tensor, heads: dict[str, int]) -> Tensor:
        """(B, H, L, L) numbers that are added to scores."""
        masks = make_masks(self.relations, mask)
        visible = torch.cat([masks[name].unsqueeze(1).expand(-1, count, -1, -1) for name, count in heads.items()], 1)
        return torch.where(visible, 0.0, torch.finfo(torch.float32).min)

    def _check_states(self, encoder: TransformersEncoder) -> None:
        """Compare the states of random vectors, one text shorter than the other."""
        texts, length = _PROBE
        length = min(length, encoder.max_length)
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(texts, length, encoder.architecture.embedding, generator=generator)
        ids, mask = torch.ones(texts, length, dtype=torch.long), torch.ones(texts, length, dtype=torch.long)
        mask[-1, length // 2 + 1 :] = 0
        real = mask.bool()
        lengths = mask.sum(1).numpy()
        layout = Layout(lengths, lengths, count_up(lengths), features={"id": ids[real].numpy()})
        graph = TextGraphBuilder(encoder.relations(), cls=False).text_batch(layout)
        family = encoder.architecture.family
        try:
            with torch.no_grad():
                expected = encoder(graph, vectors[real].to(encoder.device)).cpu()
                states = self.eval()(vectors, mask, ids, None)[real]
        except Exception as error:  # each family fails in its own way
            raise ConfigError(
                f"a model of type {family!r} cannot be exported: transformers does not compute it from vectors of "
                f"words ({first_line(error)}); use its to_huggingface, or its save"
            ) from error
        if float((states - expected).abs().max() / expected.abs().max().clamp(min=1e-6)) > _TOLERANCE:
            raise ConfigError(
                f"a model of type {family!r} cannot be exported: transformers computes other states from padded "
                "vectors of words; use its to_huggingface, or its save"
            )
