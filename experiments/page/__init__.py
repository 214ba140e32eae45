"""The page that shows attention: one HTML file, or the same live from a server on this machine."""

from graphattn.experiments.page.answers import Limits, LiveModel
from graphattn.experiments.page.document import PageModel, page_html, write_page
from graphattn.experiments.page.estimators import live_model, page_model, texts_of
from graphattn.experiments.page.server import serve

__all__ = [
    "Limits",
    "LiveModel",
    "PageModel",
    "live_model",
    "page_html",
    "page_model",
    "serve",
    "texts_of",
    "write_page",
]
