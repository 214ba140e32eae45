"""Benchmarks of speed and memory: one module for each ``graphattn bench NAME``, and the harness they share.

Contenders run interleaved on the same tokens, data type and threads; tables show medians and their ratios.
"""
