"""docs/architecture.md has the table that its script writes, and the picture shows the same."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "draw_architecture.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("there is no clone")
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module("draw_architecture")


def test_the_table_and_the_picture_are_those_of_the_code(script, tmp_path):
    concepts = script.find_concepts()
    assert script.format_table(concepts) in script.PAGE.read_text(encoding="utf-8"), "run docs/draw_architecture.py"
    script.draw_picture(concepts, tmp_path / "new.svg")
    drawn, committed = (
        re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))
        for path in (tmp_path / "new.svg", script.PICTURE)
    )
    assert drawn == committed, "run docs/draw_architecture.py"
