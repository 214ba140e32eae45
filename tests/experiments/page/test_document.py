"""The HTML file: complete, without network access, and texts of a corpus cannot become markup."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.page import PageModel, write_page
from graphattn.models.inspection.page._document import (
    PAGE_SCRIPTS,
    WIDGET_SCRIPTS,
    content_policy,
    dump_for_html,
    render_page,
)

SOURCES = files("graphattn.models.inspection.page").joinpath("sources")


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_every_script_is_in_the_page():
    assert sorted({*PAGE_SCRIPTS, *WIDGET_SCRIPTS}) == sorted(
        entry.name for entry in SOURCES.iterdir() if entry.name.endswith(".js")
    )


@pytest.mark.parametrize("name", sorted({*PAGE_SCRIPTS, *WIDGET_SCRIPTS, "page.css"}))
def test_sources_cannot_end_their_element(name):
    text = SOURCES.joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text
    text = text.replace("http://www.w3.org/2000/svg", "the namespace")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?:", text)


def test_the_file_needs_no_other_file(make_result):
    html = render_page([PageModel("a", [make_result().page])])
    assert "{{" not in html
    assert re.findall(r"""(?:src|href)=["']?([^"'\s>]{5})""", html) == ["data:"], "the icon"


def test_only_our_script_and_style_may_run(make_result):
    html = render_page([PageModel("a", [make_result().page])])
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1])
    assert policy == content_policy(live=False)
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        body = re.search(rf"<{element}>(.*?)</{element}>", html, re.DOTALL)[1]
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


@given(st.text())
def test_any_text_stays_data(text):
    html = dump_for_html([text])
    assert json.loads(html) == [text]
    assert not set("<>&") & set(html)
    assert html.isascii()


def test_names_do_not_become_markup(make_result):
    nasty = "</title></script><script>hacked()</script>{{script}}"
    html = render_page([PageModel(nasty, [make_result([nasty]).page])], title=nasty)
    assert html.count("<script") == 2
    assert html.count("hacked()</script>") == 0
    (model,) = data_of(html)["models"]
    assert model["name"] == nasty
    assert model["results"][0]["tokens"] == {"text": [nasty]}


def test_a_file_is_written_atomically(make_result, tmp_path):
    path = tmp_path / "page.html"
    write_page(path, [PageModel("a", [make_result().page])], title="Eins & zwei")
    assert "<title>Eins &amp; zwei</title>" in path.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_too_large_a_page(make_result, monkeypatch):
    monkeypatch.setattr("graphattn.models.inspection.page._document.MAX_CHARACTERS", 10)
    with pytest.raises(ConfigError, match=r"^the page would have 0 MB, too much for a browser; show fewer texts$"):
        render_page([PageModel("a", [make_result(["a"]).page])])
