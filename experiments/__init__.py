"""Floor 3: what is done with the floors below: the command line, the demo, the result tables, pictures, benchmarks.

A command is a file in ``_cli``; corpora of the tables and their settings, measurements and drawing belong here.
What a program imports to build graphs or to train does not, but on a floor below; and no floor below imports this one.
"""
