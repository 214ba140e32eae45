"""Pretrained Transformers as graphs: read a Hugging Face directory, and choose the edges of each head."""

from __future__ import annotations

from graphattn.models.pretrained import _directories as _directories  # which reads all kinds of models
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._sentence_encoder import SentenceEncoder

__all__ = ["Architecture", "PretrainedEncoder", "SentenceEncoder"]
