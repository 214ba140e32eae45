"""Backends: ways to compute attention over the edges of relations, each with one function, ``attend``.

A backend takes :class:`~graphattn._edges.Edges` and plain tensors, not DGL graphs, layers or text.
"""
