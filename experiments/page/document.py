"""The page as one self-contained HTML file: style, scripts and data inlined, everything else forbidden."""

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

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.output_files import new_file
from graphattn.experiments.page.packing import packed

SCRIPTS = (
    "elements.js",
    "weights.js",
    "address.js",
    "colours.js",
    "rows.js",
    "arcs.js",
    "arc_view.js",
    "matrix.js",
    "matrix_view.js",
    "prediction.js",
    "incoming.js",
    "overview.js",
    "controls.js",
    "pane.js",
    "live.js",
    "page.js",
)
"""In the order in which they are put together; names of one are known to all."""

MOST_CHARACTERS = 100_000_000
"""Of a page's data."""


@dataclass(frozen=True)
class PageModel:
    """One column of the page: a model and what it says of each text.

    Parameters
    ----------
    name : what stands above the column
    results : for each text what ``to_page()`` of the attention result gives, the same texts in every column
    """

    name: str
    results: Iterable[Mapping[str, Any]]


def write_page(path: Path, models: Sequence[PageModel], *, title: str = "Attention") -> None:
    """Write results as an HTML file that works from disk, without a network.

    Parameters
    ----------
    path : the file
    models : one, or two to be shown side by side
    title : of the page

    Raises
    ------
    DataError
        when it cannot be written
    ConfigError
        when there is more than a browser can take
    """
    text = page_html(models, title=title)
    with new_file(path) as file:
        file.write(text)


def page_html(models: Sequence[PageModel], *, title: str = "Attention", live: Mapping[str, Any] | None = None) -> str:
    """The page's HTML.

    Parameters
    ----------
    models, title : as for :func:`write_page`
    live : for the page of a server, what it takes: ``most_characters``, and ``texts`` (2 for pairs)

    Raises
    ------
    ConfigError
        when there is more than a browser can take
    """
    columns = [{"name": model.name, "results": [packed(result) for result in model.results]} for model in models]
    data = json_in_html({"version": 1, "title": title, "models": columns, "live": live})
    if len(data) > MOST_CHARACTERS:
        raise ConfigError(
            f"the page would have {len(data) / 1e6:,.0f} MB, more than a browser opens well; show fewer texts"
        )
    parts = {
        "policy": escape(content_policy(live=live is not None)),
        "title": escape(title),
        "style": _source("page.css"),
        "data": data,
        "script": _script(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _source("page.html"))


def content_policy(*, live: bool) -> str:
    """The Content-Security-Policy: our own script and style by their hashes; requests only to the page's own server."""
    rules = {
        "default-src": "'none'",
        "script-src": _hash(_script()),
        "style-src": _hash(_source("page.css")),
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def json_in_html(data: Any) -> str:
    r"""JSON that cannot end the element it stands in.

    Examples
    --------
    >>> json_in_html({"token": "</script>"})
    '{"token":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode('ascii')}'"


@cache
def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(_source(name) for name in SCRIPTS) + "})();\n"


@cache
def _source(name: str) -> str:
    return (files("graphattn.experiments.page") / "sources" / name).read_text(encoding="utf-8")
