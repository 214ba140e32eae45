"""Attention on padded texts with a mask for each relation, in PyTorch's own operations."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.layers._multi_scale import MultiScaleAttention


class DenseAttention(nn.Module):
    """A :class:`MultiScaleAttention` on padded texts, for ``torch.export`` and ``torch.compile(fullgraph=True)``.

    Its edges are masks, so it computes the scores of all pairs of tokens. It shares the weights of the layer.

    Parameters
    ----------
    attention : a layer without relative positions

    Examples
    --------
    >>> layer = DenseAttention(MultiScaleAttention(8, 4, {"all": 2}))
    >>> layer({"all": torch.ones(2, 5, 5, dtype=torch.bool)}, torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, attention: MultiScaleAttention):
        super().__init__()
        self.project, self.output = attention.project, attention.output
        self.heads = {relation: count for relation, count in attention.heads.items() if count}
        self.head_feats, self.scale = attention.head_feats, attention.scale

    def forward(self, masks: Mapping[str, Tensor], inputs: Tensor, *, weights: None = None) -> Tensor:
        """Attend.

        Parameters
        ----------
        masks : relation -> (B, L, L), whether a token (second dimension) attends to another one (third); a token that
            attends to nothing gets NaN
        inputs : (B, L, in_feats), or (B L, in_feats)
        weights : not computed

        Returns
        -------
        (B, L, out_feats), or (B L, out_feats)
        """
        rows = self.project(inputs).unflatten(-1, (-1, self.head_feats))
        return self.output(self.attend_rows(masks, rows.flatten(0, -3))).reshape(*inputs.shape[:-1], -1)

    def attend_rows(
        self, masks: Mapping[str, Tensor], rows: Tensor, biases: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """(B L, 3 H, D) projected tokens -> (B L, H D), the input of ``output``.

        ``biases`` are (L, L, heads) added to the scores.
        """
        batch, length = next(iter(masks.values())).shape[:2]
        query, key, value = rows.unflatten(0, (batch, length)).transpose(1, 2).chunk(3, dim=1)
        allowed = [masks[relation].unsqueeze(1).expand(-1, count, -1, -1) for relation, count in self.heads.items()]
        mask = torch.cat(allowed, dim=1)
        if biases is not None:
            added = torch.cat([biases[relation] for relation in self.heads], dim=2).permute(2, 0, 1)
            mask = torch.where(mask, added, float("-inf"))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale)
        return attended.transpose(1, 2).flatten(0, 1).flatten(1)
