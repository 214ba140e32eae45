"""Write the tables of runs into the pages: ``python docs/fill_tables.py``.

A table stands between ``<!-- graphattn reproduce ... -->``, the command that prints it, and ``<!-- end of table -->``.
Commands run in this folder's parent.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from graphattn.experiments._cli.main import app

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(?<=<!-- )(graphattn reproduce [^>]*?)( -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def fill_tables(page: str) -> str:
    """The text of a page with all tables as the committed runs give them."""
    return TABLE.sub(lambda match: f"{match[1]}{match[2]}{print_table(match[1])}", page)


def print_table(command: str) -> str:
    """The lines of the table that a command prints, after an empty line."""
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    finally:
        os.chdir(here)
    if result.exit_code:
        raise SystemExit(f"{command}: {result.stderr}")
    return "\n" + "".join(f"{line}\n" for line in result.stdout.splitlines() if line.startswith("|")) + "\n"


def main() -> None:
    """Fill the tables of all pages in this folder."""
    for path in sorted(Path(__file__).parent.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (filled := fill_tables(page)) != page:
            path.write_text(filled, encoding="utf-8")
            print(f"filled {path.name}")


if __name__ == "__main__":
    main()
