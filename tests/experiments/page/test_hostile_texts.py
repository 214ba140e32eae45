"""Texts, labels and names that look like markup stay text, and an injected script does not run."""

import pytest

NASTY = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "{{script}}",
    "&lt;b&gt;",
    "\u202eright to left",
    "a\u0000b",
    "",
    "\n",
    "\ud800",
]


def test_markup_stays_text(show, make_result):
    relation, label = "<b onmouseover=window.hacked=1>", "<script>window.hacked=1</script>"
    result = make_result(
        NASTY,
        relations=((relation, 100),),
        title=NASTY[1],
        prediction={"label": label, "probabilities": {label: 0.9, "__proto__": 0.1}},
    )
    tab = show([result, result], title=NASTY[0])
    assert tab.title() == NASTY[0]
    tab.locator(".token").first.hover()
    assert NASTY[0] in tab.locator(".incoming").inner_text()
    assert tab.locator(".token").nth(4).text_content() == NASTY[4]
    assert tab.locator(".prediction .label").inner_text() == label
    tab.get_by_text("Matrix", exact=True).click()
    tab.locator(".scroller").focus()
    tab.keyboard.press("ArrowDown")
    assert NASTY[0][:29] in tab.locator(".tip").inner_text()
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img, b, script").count() == 2
    assert "hacked" in tab.locator("[name=text]").inner_text()


@pytest.mark.slow
def test_an_injected_script_does_not_run(show, make_result, visit):
    tab = show([make_result()])
    tab.evaluate(
        "() => { const s = document.createElement('script'); s.text = 'window.hacked = 1'; document.body.append(s); }"
    )
    assert tab.evaluate("window.hacked") is None
    assert len(visit.log.console) == 1
    assert "Content Security Policy" in visit.log.console.pop()
