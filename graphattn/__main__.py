"""``python -m graphattn``: the command line."""

from graphattn.experiments.cli.entry import main

main()
