"""The process in which GraphAttn was imported, to be told from its forks."""

import os

PROCESS = os.getpid()
"""Its number. In a fork it stays what it was: threads of PyTorch that ran before do not live there."""
