"""Texts, labels and names that look like markup stay text; and a script that got in would not run."""

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


def test_hostile_texts_are_texts(show, made):
    relation, label = "<b onmouseover=window.hacked=1>", "<script>window.hacked=1</script>"
    one = made(
        NASTY,
        relations=((relation, 100),),
        title=NASTY[1],
        prediction={"label": label, "probabilities": {label: 0.9, "__proto__": 0.1}},
    )
    tab = show([one, one], title=NASTY[0])
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


def test_a_script_that_got_in_would_not_run(show, made, visit):
    tab = show([made()])
    tab.evaluate(
        "() => { const s = document.createElement('script'); s.text = 'window.hacked = 1'; document.body.append(s); }"
    )
    assert tab.evaluate("window.hacked") is None
    assert len(visit.heard.console) == 1
    assert "Content Security Policy" in visit.heard.console.pop()
