"""Trained translators on the page in a real browser: their output and its attention to the source."""

from pathlib import Path

import pytest

from graphattn.experiments.page._live_models import live_model
from graphattn.models.inspection.page import page_model, write_page

SOURCE = "the dog sees the bird"


def field(tab, name, pane):
    return tab.locator(".pane").nth(pane).get_by_role("combobox", name=name, exact=True)


def read_weights(tab, pane):
    """The table of incoming edges: (token, position) -> weight."""
    rows = tab.locator(".pane").nth(pane).locator(".incoming tbody tr").all()
    cells = [(row.locator("bdi").inner_text(), *row.locator("td").all_inner_texts()[1:]) for row in rows]
    return {(token, int(position)): float(weight) for token, position, weight in cells}


def check(tab, translators):
    """Check that both panes show the output and the attention of its last token."""
    for pane, translator in enumerate(translators):
        attention = translator.attention(SOURCE)
        column = tab.locator(".pane").nth(pane)
        assert column.locator(".prediction .label").inner_text() == attention.prediction != ""
        assert column.locator(".part").all_inner_texts() == ["source", "target"]
        assert column.locator(".token").all_inner_texts() == [*attention.tokens["source"], *attention.tokens["target"]]
        last, position = attention.maps[-1].layer, len(attention.tokens["target"]) - 1
        assert field(tab, "Layer", pane).input_value() == str(last)
        field(tab, "Head", pane).select_option("1")
        column.locator(f'.token[data-token="{len(attention.tokens["source"]) + position}"]').hover()
        table = attention.only(layer=last, head=1, relation="cross").table()
        rows = table[table.target == position]
        expected = dict(zip(zip(rows.source_token, rows.source, strict=True), rows.weight, strict=True))
        assert read_weights(tab, pane) == pytest.approx(expected, rel=0.06, abs=0.005)
        tab.mouse.move(5, 5)


def test_typing_a_source(visit, serve_models, translators, find_violations):
    live = [live_model(Path(f"model-{n}"), translator) for n, translator in enumerate(translators)]
    with serve_models(live) as port:
        tab = visit(f"http://127.0.0.1:{port}/")
        tab.get_by_role("textbox", name="Text to predict").fill(SOURCE)
        tab.get_by_role("button", name="Predict").click()
        tab.locator(".token").first.wait_for()
        assert tab.locator("h2").all_inner_texts() == ["model-0 · ms-trans", "model-1 · bilstm"]
        check(tab, translators)
        assert find_violations(tab) == []


@pytest.mark.slow
def test_a_page_of_translations(visit, translators, tmp_path):
    columns = [page_model(Path(f"model-{n}"), each, [each.attention(SOURCE)]) for n, each in enumerate(translators)]
    write_page(tmp_path / "page.html", columns, title=SOURCE)
    check(visit((tmp_path / "page.html").as_uri()), translators)
