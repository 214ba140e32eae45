"""The page that shows attention: one HTML file, or the same live from a server on this machine."""

from graphattn.experiments.page._document import PageModel, page_model, render_page, write_page
from graphattn.experiments.page._request_queue import Limits, LiveModel, count_texts, live_model
from graphattn.experiments.page._server import serve

__all__ = [
    "Limits",
    "LiveModel",
    "PageModel",
    "count_texts",
    "live_model",
    "page_model",
    "render_page",
    "serve",
    "write_page",
]
