"""The picture of the architecture: its names exist, it has all folders, and the committed picture is current."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from graphattn.experiments.drawing.architecture import FLOORS, PATH, draw_architecture

ROOT = Path(__file__).resolve().parents[3]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"


def resolve(name):
    """Import the longest module of a dotted name and look up the rest."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[count:], module)
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("step", PATH, ids=lambda step: step.title)
def test_every_step_exists_on_its_floor(step):
    floor = FLOORS[step.floor].name
    prefix = "graphattn." if floor == "graphattn" else f"graphattn.{floor}."
    assert f"graphattn.{step.name}".startswith(prefix)
    assert callable(resolve(f"graphattn.{step.name}"))


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_every_room_exists(floor):
    prefix = "graphattn" if floor.name == "graphattn" else f"graphattn.{floor.name}"
    for room in (part for rooms in floor.rooms for part in rooms.split(", ")):
        import_module(f"{prefix}.{room.rstrip('/').replace('/', '.')}")


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_every_folder_is_in_the_picture(floor):
    folder = ROOT / floor.name
    if not folder.is_dir():
        pytest.skip("there is no clone")
    rooms = {part.split("/")[0] for rooms in floor.rooms for part in rooms.split(", ")}
    folders = {path.parent.name for path in folder.glob("*/__init__.py") if not path.parent.is_symlink()}
    assert folders <= rooms


def test_the_committed_picture_is_current(tmp_path):
    if not PICTURE.is_file():
        pytest.skip("there is no clone")
    drawn = draw_architecture(tmp_path / "architecture.svg")
    old, new = (re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8")) for path in (PICTURE, drawn))
    assert old == new
