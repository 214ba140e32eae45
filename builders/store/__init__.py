"""Corpora on disk as columns: built by many processes, read as batches at memory speed, larger than memory.

Cutting corpora into shards, writing and checking them, and reading them as sentences and graphs belong here. What the
graphs are made of is said by relations, what the words depend on by parsers; neither is known here.
"""

from graphattn.builders.store.build import StoreSettings, build_store
from graphattn.builders.store.corpora import CorpusFile
from graphattn.builders.store.datasets import GraphDataset, GraphStream, StoreBatch
from graphattn.builders.store.executors import LocalEngine
from graphattn.builders.store.manifest import Manifest
from graphattn.builders.store.store import Store

__all__ = [
    "CorpusFile",
    "GraphDataset",
    "GraphStream",
    "LocalEngine",
    "Manifest",
    "Store",
    "StoreBatch",
    "StoreSettings",
    "build_store",
]
