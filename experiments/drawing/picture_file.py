"""Where a picture goes: its format is checked before anything is drawn, and it appears when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing.canvas import font_families, own_settings, printable, write_figure
from graphattn.experiments.drawing.graph import FORMATS
from graphattn.models.inspection import Attention

INK, GREY, FAINT = "#222222", "#777777", "#EEEEEE"


@contextmanager
def picture(path: str | os.PathLike[str], width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on, which is written when that is done.

    Parameters
    ----------
    path : its suffix says how: ``.png``, ``.svg`` or ``.pdf``
    width, height : inches

    Raises
    ------
    ConfigError
        for another suffix
    DataError
        when the file cannot be written
    """
    path = check_format(path)
    with own_settings():
        import matplotlib

        matplotlib.rcParams["font.family"] = font_families()
        figure = Figure(figsize=(width, height), facecolor="white")
        yield figure
        write_figure(figure, path)


def heading(attention: Attention, width: float) -> str:
    """The prediction and as much of the text as fits into a width in inches."""
    found = attention.prediction
    said = ", ".join(map(str, found)) if isinstance(found, (tuple, list)) else str(found)
    room = max(20, int(9 * width))
    said = printable(said, max(12, room // 3))
    return f"{said} · {printable(attention.title, max(12, room - len(said) - 3))}"


def check_format(path: str | os.PathLike[str]) -> Path:
    """The path, if a picture can be written there.

    Raises
    ------
    ConfigError
        when its suffix is another
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"cannot draw to {path.name!r}; the name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    return path
