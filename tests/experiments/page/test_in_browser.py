"""The page in a real browser: what it shows equals the dense weights, by mouse, by keyboard, by address, on paper."""

import time

import numpy as np
import pytest


def token(tab, place, pane=0):
    return tab.locator(".pane").nth(pane).locator(f'.token[data-token="{place}"]')


def field(tab, name):
    return tab.get_by_role("combobox", name=name, exact=True)


def seen_incoming(tab, pane=0):
    """The rows of the table of incoming edges: (token, place, weight)."""
    rows = tab.locator(".pane").nth(pane).locator(".incoming tbody tr").all()
    return [(row.locator("bdi").inner_text(), *row.locator("td").all_inner_texts()[1:]) for row in rows]


def expected_incoming(tokens, dense, target, most=14):
    """The same from dense weights, strongest first."""
    present = [(weight, -source) for source, weight in enumerate(dense[target]) if not np.isnan(weight)]
    strongest = sorted(present, reverse=True)[:most]
    return [(tokens[-source], str(-source), weight) for weight, source in strongest]


def same(seen, expected):
    assert [row[:2] for row in seen] == [row[:2] for row in expected]
    weights = [float(row[2]) for row in seen]
    np.testing.assert_allclose(weights, [row[2] for row in expected], rtol=0.06, atol=0.005)


# A copy is read: a canvas that is read often would be drawn without the graphics card, and says so on the console.
DOTS = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, canvas.width, canvas.height).data;
}"""


def painted(tab, selector):
    """How many dots of a canvas can be seen."""
    dots = f"({DOTS})(canvas).filter((value, index) => index % 4 === 3 && value > 0).length"
    count = f"canvas => canvas.hidden ? 0 : {dots}"
    return tab.locator(selector).first.evaluate(count)


def settled(tab):
    """Wait until what was asked for is drawn."""
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def eventually(look, expected):
    """Whether something becomes as expected, within seconds (the page's policy forbids Playwright's own waiting)."""
    deadline = time.monotonic() + 5
    while look() != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


def set_slider(tab, name, value):
    tab.locator(f"[name={name}]").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )
    settled(tab)


def test_a_text_is_shown_with_its_prediction(show, made):
    one = made()
    tab = show([one], title="A title")
    assert tab.title() == "A title"
    assert tab.locator(".token").all_inner_texts() == one.tokens
    assert tab.locator(".prediction .label").inner_text() == "good"
    chances = [row.split("\n") for row in tab.locator(".chances li").all_inner_texts()]
    assert chances == [["good", "75.0 %"], ["bad", "25.0 %"]]
    assert painted(tab, "canvas.arcs") > 100


def test_a_head_is_chosen_and_a_token_pointed_at(show, made):
    one = made()
    tab = show([one])
    field(tab, "Layer").select_option("0")
    field(tab, "Head").select_option("1")
    assert tab.locator(".legend").inner_text() == "window:5"
    token(tab, 6).hover()
    same(seen_incoming(tab), expected_incoming(one.tokens, one.dense[0, 1], 6))
    assert tab.locator(".incoming h3").inner_text() == "“nobody” looks at"
    assert tab.locator(".token.active").all_inner_texts() == ["nobody"]
    assert token(tab, 5).get_attribute("data-weight") == f"{one.dense[0, 1][6, 5]:.2f}".lstrip("0")
    assert painted(tab, "canvas.focus") > 20
    tab.mouse.move(5, 5)
    assert tab.locator(".token.active").count() == 0
    assert painted(tab, "canvas.focus") == 0


def test_heads_that_look_along_a_relation(show, made):
    one = made(relations=(("window:3", 1), ("window:5", 2), ("window:3", 1)))
    tab = show([one])
    field(tab, "Relation").select_option("window:3")
    options = field(tab, "Head").locator("option").all_inner_texts()
    assert options == ["all, their mean", "0 · window:3", "2 · window:3"]
    token(tab, 3).hover()
    mean = (one.dense[1, 0] + one.dense[1, 2]) / 2
    same(seen_incoming(tab), expected_incoming(one.tokens, mean, 3))


def test_the_overview_chooses_a_head(show, made):
    tab = show([made()])
    tab.get_by_role("button", name="Layer 0, head 2: all").click()
    assert field(tab, "Layer").input_value() == "0"
    assert field(tab, "Head").input_value() == "2"
    tab.keyboard.press("ArrowLeft")
    assert field(tab, "Head").input_value() == "1"
    pressed = tab.locator(".overview [aria-pressed=true]").all()
    assert [button.get_attribute("aria-label") for button in pressed] == ["Layer 0, head 1: window:5"]


def test_tokens_by_keyboard(show, made):
    one = made()
    tab = show([one], at="layer=1&head=2")
    tab.locator(".overview button").last.focus()
    tab.keyboard.press("Tab")
    tab.evaluate("document.activeElement.blur()")
    token(tab, 0).focus()
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 13), ("Home", 0)):
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.dataset.token") == str(place)
    tab.keyboard.press("ArrowRight")
    same(seen_incoming(tab), expected_incoming(one.tokens, one.dense[1, 2], 1))
    assert tab.locator('.token[tabindex="0"]').count() == 1, "one stop for the tabulator"
    tab.keyboard.press("Escape")
    assert tab.locator(".token.active").count() == 0


def test_up_and_down_go_to_the_nearest_token_of_the_next_row(show, made):
    tab = show([made()], size=(420, 900))
    token(tab, 1).focus()
    tab.keyboard.press("ArrowDown")
    below = tab.evaluate("Number(document.activeElement.dataset.token)")
    rows = tab.locator(".row")
    assert rows.nth(1).locator(f'[data-token="{below}"]').count() == 1
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate("Number(document.activeElement.dataset.token)") <= 2


@pytest.mark.parametrize("slider", [0, 35, 70, 100])
def test_the_threshold_leaves_heavy_edges(show, made, slider):
    one = made()
    tab = show([one], at="layer=1&head=2")
    set_slider(tab, "threshold", slider)
    largest = np.nanmax(one.dense[1, 2])
    threshold = largest * (slider / 100) ** 2
    count = np.sum(one.dense[1, 2] >= threshold - largest / 131_070)
    assert tab.locator(".edges").inner_text() == f"{count} of 196 edges weigh that much."
    assert float(tab.locator(".threshold output").inner_text()) == pytest.approx(threshold, rel=0.06, abs=0.005)


def test_fewer_edges_are_less_paint(show, made):
    tab = show([made()], at="layer=1&head=2")
    paint = []
    for slider in (10, 50, 90):
        set_slider(tab, "threshold", slider)
        paint.append(painted(tab, "canvas.arcs"))
    assert paint[0] > paint[1] > paint[2] > 0


def test_the_matrix_tells_each_cell(show, made):
    one = made()
    tab = show([one], at="layer=1&head=1")
    tab.get_by_text("Matrix", exact=True).click()
    settled(tab)
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    weight = one.dense[1, 1][2, 2]
    told = tab.locator(".status").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert told.startswith("“was” looks at “was”: ")
    assert told.endswith("(window:5)")
    assert float(told.split()[-2]) == pytest.approx(weight, rel=0.06, abs=0.005)
    assert tab.locator(".tip").is_visible()
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    assert tab.locator(".tip").inner_text().endswith("no edge")
    same(seen_incoming(tab), expected_incoming(one.tokens, one.dense[1, 1], 2))


def test_the_cell_under_the_mouse(show, made):
    tab = show([made()], at="view=matrix&layer=1&head=2")
    settled(tab)
    box = tab.locator(".scroller").bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    told = tab.locator(".tip").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert told.startswith("“long” looks at “long”: ")
    tab.mouse.move(5, 5)
    assert not tab.locator(".tip").is_visible()


def test_the_matrix_is_painted_where_edges_are(show, made):
    one = made(relations=(("window:3", 1),))
    tab = show([one], at="view=matrix&layer=0&head=0")
    set_slider(tab, "zoom", 100)
    alone = painted(tab, ".matrix-view canvas")
    wide = show([made(relations=(("all", 100),))], at="view=matrix&layer=0&head=0")
    set_slider(wide, "zoom", 100)
    cells = np.sum(~np.isnan(one.dense[0, 0]))
    assert painted(wide, ".matrix-view canvas") - alone == pytest.approx((196 - cells) * 34**2, rel=0.05)


def test_an_address_names_a_view(show, made):
    texts = [made(["one"]), made(seed=5)]
    tab = show(texts, at="text=1&view=arcs&layer=0&head=1&relation=window:5&threshold=0.25&token=4")
    assert tab.locator("[name=text]").input_value() == "1"
    assert field(tab, "Layer").input_value() == "0"
    assert field(tab, "Head").input_value() == "1"
    assert tab.locator(".threshold output").inner_text() == "0.25"
    assert tab.locator(".token.active").get_attribute("data-token") == "4"
    same(seen_incoming(tab), expected_incoming(texts[1].tokens, texts[1].dense[0, 1], 4))


def test_the_address_follows_and_leads_back(show, made):
    tab = show([made()])
    field(tab, "Layer").select_option("0")
    field(tab, "Head").select_option("2")
    token(tab, 3).click()
    tab.get_by_text("Matrix", exact=True).click()
    expected = {"text=0", "view=matrix", "layer=0", "head=2", "relation=all", "token=3"}
    assert eventually(lambda: set(tab.evaluate("location.hash")[1:].split("&")), expected)
    tab.evaluate("location.hash = '#text=0&view=arcs&layer=1&head=0&token=7'")
    assert eventually(lambda: tab.locator(".token.active").get_attribute("data-token"), "7")
    assert field(tab, "Layer").input_value() == "1"


@pytest.mark.parametrize("at", ["layer=99&head=-1&token=5000&text=7", "view=evil&token=x&threshold=NaN&relation=", "%"])
def test_an_address_that_makes_no_sense_is_overlooked(show, made, at):
    tab = show([made()], at=at)
    assert tab.locator(".token").count() == 14
    assert field(tab, "Layer").input_value() == "1"


def test_texts_are_turned_over(show, made):
    tab = show([made(["first"]), made(["second", "text"])])
    assert tab.get_by_role("button", name="Previous text").is_disabled()
    tab.get_by_role("button", name="Next text").click()
    assert tab.locator(".token").all_inner_texts() == ["second", "text"]
    assert tab.get_by_role("button", name="Next text").is_disabled()


def test_a_shorter_text_after_a_lit_token_of_a_longer_one(show, made):
    texts = [made(["word"] * 200), made(["a", "short", "text"])]
    tab = show(texts, texts)
    token(tab, 120).click()
    tab.get_by_role("button", name="Next text").click()
    settled(tab)
    for pane in tab.locator(".pane").all():
        assert pane.locator(".token").all_inner_texts() == ["a", "short", "text"]
        assert "of 25 edges" in pane.locator(".edges").inner_text()
        assert pane.locator(".token.active").count() == 0
    assert eventually(lambda: "text=1" in tab.evaluate("location.href"), True)  # tab.url waits for an event


def test_two_models_side_by_side(show, made):
    ours, theirs = made(), made(relations=(("all", 100),), seed=9)
    tab = show([ours], [theirs], at="layer=1&head=0&layer.2=0&head.2=0")
    left, right = (tab.locator(".pane").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    token(tab, 2, pane=1).hover()
    same(seen_incoming(tab, 0), expected_incoming(ours.tokens, ours.dense[1, 0], 2))
    same(seen_incoming(tab, 1), expected_incoming(ours.tokens, theirs.dense[0, 0], 2))


def test_a_pair_attends_from_text_to_text(show, made_pair):
    tab = show([made_pair])
    assert tab.locator(".part").all_inner_texts() == ["first", "second"]
    token(tab, 3 + 1).hover()
    same(seen_incoming(tab), expected_incoming(made_pair.tokens[:3], made_pair.dense[0, 0], 1))
    tab.get_by_text("Matrix", exact=True).click()
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "End", "ArrowDown"):
        tab.keyboard.press(key)
    told = tab.locator(".tip").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert told.startswith("“it” looks at “[CLS]”")


def test_the_mean_is_over_the_heads_that_a_token_has(show, made):
    one = made()
    one.page["tokens"]["relay"] = ["[relay 0]"]
    ends = {"source_part": "text", "target_part": "relay", "source": [0, 5], "target": [0, 0], "weight": [0.25, 0.75]}
    one.page["maps"].append({"layer": 1, "head": 3, "relation": "star", "scale": None, **ends})
    tab = show([one], at="layer=1&head=all")
    token(tab, 3).hover()
    heaviest = max(np.nanmax(one.dense[1, head][3]) for head in range(3))
    assert float(seen_incoming(tab)[0][2]) == pytest.approx(heaviest / 3, rel=0.06)
    token(tab, 14).hover()
    assert [row[2] for row in seen_incoming(tab)] == ["0.75", "0.25"]


def test_tags_stand_below_the_words(show, made):
    tokens, words = ["[CLS]", "Ada", "Love", "lace", "wrote"], [0, 1, 2, 2, 3]
    prediction = {"words": ["Ada", "Lovelace", "wrote"], "tags": ["B-PER", "I-PER", "O"], "probabilities": []}
    tab = show([made(tokens, words=words, prediction=prediction)])
    tags = [one.get_attribute("data-tag") for one in tab.locator(".token").all()]
    assert tags == [None, "B-PER", "I-PER", None, None]
    assert tab.locator(".tags li").all_inner_texts() == ["B-PER 1", "I-PER 1", "O 1"]


def test_several_labels(show, made):
    prediction = {"labels": ["calm", "clear"], "probabilities": {"calm": 0.9, "clear": 0.8, "loud": 0.1}}
    tab = show([made(prediction=prediction)])
    assert tab.locator(".prediction .label").inner_text() == "calm, clear"
    assert tab.locator(".chances .decided .class").all_inner_texts() == ["calm", "clear"]


@pytest.mark.parametrize("said", ["ein guter Film , der lange im Kopf bleibt , und länger", ""])
def test_a_translation_is_a_sentence(show, made, said):
    tab = show([made(prediction={"text": said})])
    assert tab.locator(".prediction .label").inner_text() == (said or "nothing is written")
    assert tab.locator(".chances").count() == 0


def luminance(colour):
    return sum(int(part) for part in colour[4:-1].split(",")) / 765


def test_light_and_dark(show, made):
    for scheme, background, ink in (("light", 0.9, 0.2), ("dark", 0.1, 0.9)):
        style = show([made()], scheme=scheme).evaluate(
            "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
        )
        assert abs(luminance(style[0]) - background) < 0.1
        assert abs(luminance(style[1]) - ink) < 0.1


REDDEST = f"""canvas => {{
    const data = ({DOTS})(canvas);
    return data.reduce((most, value, at) => (at % 4 === 0 && data[at + 3] > 200 ? Math.max(most, value) : most), 0);
}}"""


def test_arcs_change_with_the_scheme(show, made):
    tab = show([made(relations=(("all", 100),))])
    reds = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        settled(tab)
        reds.append(tab.locator("canvas.arcs").evaluate(REDDEST))
    assert reds[0] < reds[1], "blue gets lighter on dark ground"


def test_it_prints_row_by_row(show, made):
    tab = show([made(["word"] * 200)], at="layer=0&head=1", scheme="dark")
    assert tab.pdf().startswith(b"%PDF")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    rows = tab.locator(".row").count()
    assert tab.locator("canvas.printed").count() == rows > 10
    assert painted(tab, "canvas.printed") > 100
    widest = tab.evaluate(
        "Math.max(...[...document.querySelectorAll('.token')].map(t => t.offsetLeft + t.offsetWidth))"
    )
    assert widest <= 680
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("canvas.printed").count() == 0
    assert tab.locator(".row").count() < rows


def test_narrow_panes_print_rows_that_are_fewer(show, made):
    one = made(["word"] * 60)
    tab = show([one], [one], at="layer=0&head=1", size=(1000, 1200))
    rows = tab.locator(".row").count()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("canvas.printed").count() == tab.locator(".row").count() < rows
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator(".row").count() == rows


def test_a_narrow_window_needs_no_scrolling_sideways(show, made):
    tab = show([made()], size=(360, 800))
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("at", ["layer=1&head=1&token=3", "view=matrix", "token=2"])
def test_nothing_bars_anyone(show, made, serious, scheme, at):
    tab = show([made(), made(["two"])], [made(), made(["two"])], at=at, scheme=scheme)
    tab.wait_for_timeout(150)  # colours change gradually
    assert serious(tab) == []
