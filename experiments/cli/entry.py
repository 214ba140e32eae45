"""Where the console script ``graphattn`` begins: before the commands are loaded, which takes a moment."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded ends it without a traceback."""
    try:
        from graphattn.experiments.cli.main import main as run
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
    run()
