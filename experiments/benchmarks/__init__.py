"""Measurements of speed and memory: one module for each sub-command of ``graphattn bench``, and what they share.

What is compared runs in turns on the same tokens, in the same type, on the same threads; medians and their ratios are
told. Contenders, clocks, tables and plots belong here; what computes attention belongs on the floors below.
"""
