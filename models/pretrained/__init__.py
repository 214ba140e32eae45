"""Pretrained Transformers as graphs: read a Hugging Face directory, and choose the edges of each head."""

from __future__ import annotations

from graphattn.models.pretrained.architecture import FAMILIES, Architecture
from graphattn.models.pretrained.encoder import PretrainedEncoder
from graphattn.models.pretrained.sentence_encoder import SentenceEncoder

__all__ = ["FAMILIES", "Architecture", "PretrainedEncoder", "SentenceEncoder"]
