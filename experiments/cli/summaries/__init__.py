"""What a folder that GraphAttn wrote holds, in lines of text: a store, a model directory.

What is measured on a corpus does not belong here; models bring their metrics along.
"""
