"""The page that shows attention: one HTML file, or the same live from a server on this machine."""

from graphattn.experiments.page._document import PageModel, page_model, write_page

__all__ = [
    "PageModel",
    "page_model",
    "write_page",
]
