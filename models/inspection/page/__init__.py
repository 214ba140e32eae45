"""The page that shows attention as one HTML file."""

from graphattn.models.inspection.page._document import PageModel, page_model, write_page

__all__ = [
    "PageModel",
    "page_model",
    "write_page",
]
