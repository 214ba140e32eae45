"""Models of ``transformers`` with attention along edges, for people who stay in transformers.

Importing this module makes ``attn_implementation="graphattn"`` known to ``transformers``. :func:`edges` chooses the
edges of a model's heads, :func:`capture` shows the weight of every edge, and :func:`pack` reads texts without padding.
"""

from __future__ import annotations

from graphattn._optional_packages import import_optional

import_optional("transformers", "graphattn.transformers needs", "transformers")

from graphattn.models.pretrained._contexts import Captured, capture, edges  # noqa: E402
from graphattn.models.pretrained._interface import attend_edges, make_mask, register  # noqa: E402
from graphattn.models.pretrained._packing import PackedModel, pack  # noqa: E402

register()

__all__ = ["Captured", "PackedModel", "attend_edges", "capture", "edges", "make_mask", "pack"]
