"""Entry point of the console script: handles Ctrl-C while the commands are being imported."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; Ctrl-C during its import exits without a traceback."""
    # PyTorch's matrix products keep a compiled kernel for each shape, and batches have many
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    try:
        from graphattn.experiments.cli.main import main as run
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
    run()
