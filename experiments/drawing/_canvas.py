"""Basics of all pictures: colours, fonts, printable texts, formats, and atomic files."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as Curve

from graphattn.builders._atomic import atomic_file
from graphattn.builders._paths import FilePath, resolve_path
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, warn_caller
from graphattn.models.inspection.notebook import is_right_to_left, printable

PALETTE = ("#0072b2", "#c04a00", "#007a5a", "#a63f7c", "#8a6800", "#4a63c9", "#5a6170")
"""The colours of relations on the page, after Okabe and Ito: colour-blind readers can distinguish them."""
INK, GREY, FAINT = "#1d2129", "#5a6170", "#eceae4"
"""Letters, softer ones, and lines of a grid."""
NOTE, LINE = 8.0, 0.16
"""Size of a note in points, and inches of a line of it."""
FORMATS = (".png", ".svg", ".pdf")
MAX_TOKENS = 100
TOKEN_SIZE = 11.0
"""Points; all other lengths are inches."""
# matplotlib's own font has Latin, Greek, Cyrillic and Arabic letters; those of these that are installed add more.
_MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Segoe UI Symbol", "Arial Unicode MS"),
)
_MEASURING_DPI, _DPI = 100, 160
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
"""Behind the label of an arc."""


def assign_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour of :data:`PALETTE` for each name, in this order."""
    return dict(zip(dict.fromkeys(names), cycle(PALETTE), strict=False))


def isolate(text: str) -> str:
    """A part of a title, which keeps its place among the others if it runs from right to left.

    Examples
    --------
    >>> isolate("so"), isolate("כן")
    ('so', '\u2068כן\u2069')
    """
    letters = map(unicodedata.bidirectional, text)
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}" if {"R", "AL"} & {*letters} else text


def check_format(path: FilePath) -> Path:
    """Return the path if a picture can have its suffix."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"cannot draw to {path.name!r}; the name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    return path


def check_count(count: int, what: str, most: int) -> None:
    """Raise a ConfigError if there are too many tokens, heads or the like for a picture."""
    if count > most:
        raise ConfigError(f"{count} {what} do not fit into a picture; it shows up to {most}")


def prepare_labels(texts: Iterable[str], what: str, most: int, *, longest: int = 24) -> list[str]:
    """Texts as labels on one line, for which fonts are added; an error if there are too many for a picture."""
    labels = [printable(text, longest) for text in texts]
    check_count(len(labels), what, most)
    add_fonts(labels)
    return labels


def write_text(figure: Figure, x: float, y: float, text: str, **options: Any) -> None:
    """Write a text at a place in inches from the lower left corner."""
    width, height = figure.get_size_inches()
    figure.text(x / width, y / height, text, parse_math=False, **options)


def write_notes(figure: Figure, notes: Sequence[str], *, left: float = 0.15) -> None:
    """Write lines below a picture, of which the last one ends at its lower edge."""
    for line, text in enumerate(reversed(notes)):
        write_text(figure, left, 0.1 + LINE * line, text, size=NOTE, color=GREY)


@contextmanager
def default_style() -> Iterator[None]:
    """Ignore the user's matplotlibrc, and write the same bytes each time; :func:`add_fonts` warns of missing glyphs."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "graphattn"
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


class Picture(Figure):
    """A figure that notebooks show, also where pyplot, which knows how to show figures, is not loaded."""

    def _repr_png_(self) -> bytes:
        with default_style(), BytesIO() as file:
            self.savefig(file, format="png")
            return file.getvalue()


@contextmanager
def new_picture(path: FilePath | None, width: float = 1, height: float = 1) -> Iterator[Figure]:
    """A figure to draw on, which is written at the end if there is a path."""
    path = None if path is None else check_format(path)
    with default_style():
        matplotlib.rcParams["font.family"] = font_families()
        figure = Picture(figsize=(width, height), facecolor="white")
        yield figure
        if path is not None:
            _write_figure(figure, path)


def _write_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, without a date."""
    suffix = path.suffix.lower()
    metadata = {".png": {"Software": "graphattn"}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    try:
        resolve_path(path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            figure.savefig(temporary, format=suffix[1:], dpi=_DPI, metadata=metadata, facecolor="white")
    except OSError as error:
        raise DataError(
            f"cannot write the picture: {error.strerror or error}",
            path=path,
            hint="Name a file in a folder that can be written to.",
        ) from error


_FAMILIES: list[str] = []
_SCRIPTS_WITHOUT_FONT: set[str] = set()


def font_families() -> list[str]:
    """The fonts of tokens, in order of preference; :func:`add_fonts` adds others."""
    if not _FAMILIES:
        installed = set(font_manager.fontManager.get_font_names())
        _FAMILIES.extend(["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed)])
    return list(_FAMILIES)


@cache
def _characters(path: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(path).get_charmap())


def add_fonts(texts: Iterable[str]) -> None:
    """Add installed fonts for letters that the others lack; warn, once for each script, if there is none."""
    missing = {letter for text in texts for letter in text if letter.isprintable() and not letter.isascii()}
    for family in font_families():
        missing -= set(map(chr, _characters(font_manager.findfont(font_manager.FontProperties(family=[family])))))
    for entry in font_manager.fontManager.ttflist if missing else ():
        if entry.name in _FAMILIES or entry.name.startswith("Last Resort"):  # has boxes for all characters
            continue
        with suppress(OSError, RuntimeError):  # a damaged font
            if covered := missing & set(map(chr, _characters(entry.fname))):
                _FAMILIES.append(entry.name)
                missing -= covered
    scripts = set(map(_name_script, missing)) - _SCRIPTS_WITHOUT_FONT
    if scripts:
        _SCRIPTS_WITHOUT_FONT.update(scripts)
        names = ", ".join(sorted(scripts))
        problem = f"no installed font has characters of {names}, so pictures show boxes"
        warn_caller(GraphAttnWarning(f"{problem}; install a font, such as Noto Sans"))


def _name_script(character: str) -> str:
    """The first word of a letter's name, which is that of its script."""
    is_letter = unicodedata.category(character)[0] in "LM"
    return unicodedata.name(character, "unknown scripts").split()[0].capitalize() if is_letter else "symbols"


def add_arrow(
    axes: Axes, points: Sequence[tuple[float, float]], turns: Sequence[Any], *, shrink: float = 0, **look: Any
) -> None:
    """Draw an arrow along a curve, whose ``turns`` are codes of matplotlib's ``Path``."""
    curve = Curve(points, turns)
    axes.add_patch(FancyArrowPatch(path=curve, shrinkA=shrink, shrinkB=shrink, mutation_scale=1.3, **look))


def text_width(text: str, size: float) -> float:
    """The width of a text in inches; ``size`` is in points."""
    font = font_manager.FontProperties(family=font_families(), size=size)
    width, _, _ = _measuring_renderer().get_text_width_height_descent(text, font, ismath=False)
    return float(width) / _MEASURING_DPI


def wrap_text(text: str, size: float, width: float) -> list[str]:
    """The text in lines of a width in inches; ``size`` is in points, and a longer word is a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


@cache
def _measuring_renderer() -> RendererAgg:
    canvas = FigureCanvasAgg(Figure(dpi=_MEASURING_DPI))
    return canvas.get_renderer()


def token_centres(texts: Sequence[str], words: Sequence[int]) -> list[float]:
    """The centres of tokens in a row, from the left end of the row; closer within a word.

    Sentences of scripts that run from right to left begin at the right.
    """
    centres: list[float] = []
    end = 0.0
    for number, text in enumerate(texts):
        half = max(text_width(text, TOKEN_SIZE), 0.16) / 2
        gap, step = (0.1, 0.3) if number and words[number] == words[number - 1] else (0.26, 0.52)
        centres.append(max(end + gap + half, centres[-1] + step) if number else half)
        end = centres[-1] + half
    return [end - centre for centre in centres] if is_right_to_left("".join(texts)) else centres
