"""Entry point of the console script: handles Ctrl-C while the commands are being imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C during its import exits without a traceback."""
    try:
        from graphattn.experiments.cli.main import main as run
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
    run()
