"""Ways to compute attention over the edges of one relation; each file is one backend with one function, ``attend``.

A backend gets :class:`~graphattn.edges.Edges` and plain tensors. DGL graphs, layers and text belong elsewhere.
"""
