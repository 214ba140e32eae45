"""Corpora on disk as columns: many processes build them, and batches are read at memory speed.

Building: corpus -> blocks -> shards -> manifest. Reading: store -> chunks -> layouts -> batches.
"""

from graphattn.builders.store.blocks import CorpusFile
from graphattn.builders.store.build import StoreSettings, build_store
from graphattn.builders.store.datasets import GraphStream, StoreBatch
from graphattn.builders.store.manifest import Manifest
from graphattn.builders.store.store import Store

__all__ = [
    "CorpusFile",
    "GraphStream",
    "Manifest",
    "Store",
    "StoreBatch",
    "StoreSettings",
    "build_store",
]
