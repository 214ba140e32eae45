"""Corpora on disk as columns: many processes build them, and batches are read at memory speed.

Building: corpus -> blocks -> shards -> manifest. Reading: store -> chunks -> layouts -> batches.
"""

from graphattn.builders.store._blocks import CorpusFile
from graphattn.builders.store._build import StoreSettings, build_store
from graphattn.builders.store._datasets import GraphStream, StoreBatch
from graphattn.builders.store._manifest import Manifest
from graphattn.builders.store._store import Store

__all__ = [
    "CorpusFile",
    "GraphStream",
    "Manifest",
    "Store",
    "StoreBatch",
    "StoreSettings",
    "build_store",
]
