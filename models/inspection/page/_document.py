"""The view as one HTML file with inline style, scripts and data, whose policy forbids all other resources, or as a
JavaScript module for notebooks."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from graphattn.builders._atomic import atomic_file, write_text
from graphattn.builders._paths import write_error
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.inspectable import Inspectable
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection.page._packing import pack_page
from graphattn.models.inspection.page._page_values import to_page

_VIEW_SCRIPTS = (
    "elements.js",
    "weights.js",
    "colours.js",
    "rows.js",
    "arcs.js",
    "arc_view.js",
    "matrix.js",
    "matrix_view.js",
    "picture.js",
    "prediction.js",
    "incoming.js",
    "overview.js",
    "controls.js",
    "pane.js",
    "view.js",
)
PAGE_SCRIPTS = (*_VIEW_SCRIPTS, "address.js", "live.js", "page.js")
WIDGET_SCRIPTS = (*_VIEW_SCRIPTS, "widget.js")
"""Concatenated in this order, in one scope."""

MAX_CHARACTERS = 100_000_000
"""Of a page's data."""


@dataclass(frozen=True)
class PageModel:
    """One column of the page: a model and its result for each text.

    Parameters
    ----------
    name : heading of the column
    results : ``to_page()`` of the attention result of each text, the same texts in every column
    """

    name: str
    results: Iterable[Mapping[str, Any]]


def page_model(path: str | Path, estimator: Inspectable, attentions: Iterable[AttentionWeights]) -> PageModel:
    """A column for a model, its folder, and its attention result for each text."""
    return PageModel(name_model(path, estimator), (to_page(attention, arrays=True) for attention in attentions))


def name_model(path: str | Path, estimator: Inspectable) -> str:
    """The heading of a model's column: its folder and its encoder."""
    return f"{Path(path).absolute().name} · {estimator.encoder_name}"


def write_page(path: Path, models: Sequence[PageModel], *, title: str = "Attention") -> None:
    """Write results as an HTML file that works offline.

    Parameters
    ----------
    path : the file
    models : one, or two to compare side by side
    title : of the page

    Raises
    ------
    DataError
        if it cannot be written
    ConfigError
        if it is too large for a browser
    """
    text = render_page(models, title=title)
    try:
        with atomic_file(path) as temporary:
            write_text(temporary, text)
    except OSError as error:
        raise write_error(path, error) from error


def render_page(models: Sequence[PageModel], *, title: str = "Attention", live: Mapping[str, Any] | None = None) -> str:
    """Render the page as HTML; a ConfigError if it is too large for a browser.

    For the page of a server, ``live`` has ``most_characters`` and ``texts`` (2 for pairs) of an input.
    """
    parts = {
        "policy": escape(content_policy(live=live is not None)),
        "title": escape(title),
        "style": _read_source("page.css"),
        "view": _read_source("view.html"),
        "data": dump_data(models, title=title, live=live),
        "script": _page_script(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read_source("page.html"))


def dump_data(models: Sequence[PageModel], *, title: str = "Attention", live: Mapping[str, Any] | None = None) -> str:
    """What the view shows, as JSON; arguments and errors as of :func:`render_page`."""
    columns = [{"name": model.name, "results": [pack_page(result) for result in model.results]} for model in models]
    data = dump_for_html({"version": 1, "title": title, "models": columns, "live": live})
    if len(data) > MAX_CHARACTERS:
        raise ConfigError(f"the page would have {len(data) / 1e6:,.0f} MB, too much for a browser; show fewer texts")
    return data


def render_module() -> str:
    """The view as a JavaScript module that exports ``render``, as anywidget needs it; it loads nothing."""
    constants = {"STYLE": _read_source("page.css"), "MARKUP": _read_source("view.html")}
    lines = [f"const {name} = {json.dumps(text)};\n" for name, text in constants.items()]
    return "".join(lines) + _join_sources(WIDGET_SCRIPTS)


def content_policy(*, live: bool) -> str:
    """The Content-Security-Policy: only our script and style, by their hashes, and requests to the page's server."""
    rules = {
        "default-src": "'none'",
        "script-src": _hash_source(_page_script()),
        "style-src": _hash_source(_read_source("page.css")),
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def dump_for_html(data: Any) -> str:
    r"""JSON that cannot end its HTML element.

    Examples
    --------
    >>> dump_for_html({"token": "</script>"})
    '{"token":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode('ascii')}'"


@cache
def _page_script() -> str:
    return f'(() => {{\n"use strict";\n{_join_sources(PAGE_SCRIPTS)}}})();\n'


def _join_sources(names: Sequence[str]) -> str:
    return "\n".join(_read_source(name) for name in names)


@cache
def _read_source(name: str) -> str:
    return (files("graphattn.models.inspection.page") / "sources" / name).read_text(encoding="utf-8")
