"""The page that shows attention: one HTML file, or the same live from a server on this machine."""

from graphattn.experiments.page.document import PageModel, page_html, write_page

__all__ = ["PageModel", "page_html", "write_page"]
