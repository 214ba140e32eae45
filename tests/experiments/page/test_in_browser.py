"""The page in a real browser shows the dense weights: by mouse, keyboard and address, and in print."""

import time

import numpy as np
import pytest

from graphattn.models.inspection import BranchScores


def token(tab, number, pane=0):
    return tab.locator(".pane").nth(pane).locator(f'.token[data-token="{number}"]')


def field(tab, name):
    return tab.get_by_role("combobox", name=name, exact=True)


def read_incoming(tab, pane=0):
    """The rows of the table of incoming edges: (token, position, weight)."""
    rows = tab.locator(".pane").nth(pane).locator(".incoming tbody tr").all()
    return [(row.locator("bdi").inner_text(), *row.locator("td").all_inner_texts()[1:]) for row in rows]


def compute_incoming(tokens, dense, target, most=14):
    """The same rows from dense weights, strongest first."""
    present = [(weight, -source) for source, weight in enumerate(dense[target]) if not np.isnan(weight)]
    strongest = sorted(present, reverse=True)[:most]
    return [(tokens[-source], str(-source), weight) for weight, source in strongest]


def assert_rows(rows, expected):
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    weights = [float(row[2]) for row in rows]
    np.testing.assert_allclose(weights, [row[2] for row in expected], rtol=0.06, atol=0.005)


# Read a copy: the browser draws a canvas that is read often in software, and logs a warning.
DOTS = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, canvas.width, canvas.height).data;
}"""


def count_painted(tab, selector):
    """Count the visible dots of a canvas."""
    dots = f"({DOTS})(canvas).filter((value, index) => index % 4 === 3 && value > 0).length"
    count = f"canvas => canvas.hidden ? 0 : {dots}"
    return tab.locator(selector).first.evaluate(count)


def wait_for_drawing(tab):
    """Wait until the page is drawn."""
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def becomes(read, expected):
    """Whether a value becomes the expected one within seconds (the page's policy forbids Playwright's waiting)."""
    deadline = time.monotonic() + 5
    while read() != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


def set_slider(tab, name, value):
    tab.locator(f"[name={name}]").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )
    wait_for_drawing(tab)


def test_a_text_and_its_prediction(show, make_result):
    result = make_result()
    tab = show([result], title="A title")
    assert tab.title() == "A title"
    assert tab.locator(".token").all_inner_texts() == result.tokens
    assert tab.locator(".prediction .label").inner_text() == "good"
    chances = [row.split("\n") for row in tab.locator(".chances li").all_inner_texts()]
    assert chances == [["good", "75.0 %"], ["bad", "25.0 %"]]
    assert count_painted(tab, "canvas.arcs") > 100


def test_hovering_over_a_token_shows_the_weights_of_the_selected_head(show, make_result):
    result = make_result()
    tab = show([result])
    field(tab, "Layer").select_option("0")
    field(tab, "Head").select_option("1")
    assert tab.locator(".legend").inner_text() == "window:5"
    token(tab, 6).hover()
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, result.dense[0, 1], 6))
    assert tab.locator(".incoming h3").inner_text() == "“nobody” attends to"
    assert tab.locator(".token.active").all_inner_texts() == ["nobody"]
    assert token(tab, 5).get_attribute("data-weight") == f"{result.dense[0, 1][6, 5]:.2f}".lstrip("0")
    assert count_painted(tab, "canvas.focus") > 20
    tab.mouse.move(5, 5)
    assert tab.locator(".token.active").count() == 0
    assert count_painted(tab, "canvas.focus") == 0


def test_several_tokens_show_the_sum_of_their_weights(show, make_result):
    result = make_result()
    tab = show([result])
    field(tab, "Layer").select_option("0")
    field(tab, "Head").select_option("1")
    dense = result.dense[0, 1].copy()
    summed = np.where(np.isnan(dense[3:6]).all(0), np.nan, np.nansum(dense[3:6], axis=0))
    dense[3] = summed
    token(tab, 3).click()
    token(tab, 5).click(modifiers=["Shift"])
    assert tab.locator(".token.active").all_inner_texts() == result.tokens[3:6]
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, dense, 3))
    assert tab.locator(".incoming h3").inner_text() == f"“{' '.join(result.tokens[3:6])}” attend to"
    token(tab, 9).hover()
    assert tab.locator(".token.active").all_inner_texts() == result.tokens[3:6]
    tab.keyboard.press("Escape")
    assert tab.locator(".token.active").count() == 0
    token(tab, 3).hover()
    tab.mouse.down()
    token(tab, 5).hover()
    tab.mouse.up()
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, dense, 3))
    tab.keyboard.press("Escape")
    tab.keyboard.press("Shift+ArrowRight")
    tab.keyboard.press("Shift+ArrowRight")
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, dense, 3))
    token(tab, 6).click()
    assert tab.locator(".token.active").all_inner_texts() == result.tokens[6:7]


def join_dense(dense, words):
    """Weights between words: sums over the tokens of a source, means over those of a target; NaN for no edge."""
    belongs = (np.arange(max(words) + 1)[:, None] == np.array(words)).astype(float)
    joined = (belongs / belongs.sum(1, keepdims=True)) @ np.nan_to_num(dense) @ belongs.T
    return np.where(belongs @ ~np.isnan(dense) @ belongs.T > 0, joined, np.nan)


def test_subwords_are_joined_to_words(show, make_result):
    pieces, numbers = ["[CLS]", "the", "un", "known", "saw", "the", "un", "known"], [0, 1, 2, 2, 3, 4, 5, 5]
    words = ["[CLS]", "the", "unknown", "saw", "the", "unknown"]
    parses = {"text": {"heads": [-1, 2, 3, -1, 5, 3], "deprels": ["", "det", "nsubj", "root", "det", "obj"]}}
    result = make_result(pieces, words=numbers, parses=parses)
    result.page["word_texts"] = {"text": [words[number] for number in numbers]}
    tab = show([result], [make_result(words, relations=(("window:3", 1),))], at="layer=0&head=1&token=6")
    switch = tab.get_by_role("checkbox", name="Join sub-words")
    assert not switch.is_checked()
    switch.check()
    shown = tab.locator(".pane").first.locator(".token").all_inner_texts()
    assert shown == words
    assert tab.locator(".pane").first.locator(".token.active").count() == 0, "its number was that of a token"
    dense = join_dense(result.dense[0, 1], numbers)
    for number in (2, 4, 5):
        token(tab, number).hover()
        assert_rows(read_incoming(tab), compute_incoming(words, dense, number))
    assert tab.locator(".incoming th").first.inner_text() == "word"
    assert "obj<" in tab.locator(".pane").first.locator(".incoming .deprel").all_inner_texts()
    assert tab.locator(".pane").nth(1).locator(".token.active").all_inner_texts() == ["unknown"]
    assert "A word attends with the mean of its tokens" in tab.locator(".edges").first.inner_text()
    token(tab, 5).click()
    assert becomes(lambda: {"unit=words", "token=5"} <= set(tab.evaluate("location.hash")[1:].split("&")), True)
    tab.reload()
    assert switch.is_checked()
    assert tab.locator(".pane").first.locator(".token.active").all_inner_texts() == ["unknown"]
    tab.get_by_text("Matrix", exact=True).click()
    assert tab.locator(".matrix-view").first.is_visible()
    switch.uncheck()
    tab.get_by_text("Arcs", exact=True).click()
    assert tab.locator(".pane").first.locator(".token").all_inner_texts() == pieces


def test_without_subwords_there_is_nothing_to_join(show, make_result):
    tab = show([make_result()], at="unit=words")
    assert tab.get_by_role("checkbox", name="Join sub-words").count() == 0
    assert tab.locator(".token").count() == 14


def test_an_empty_picture_says_why(show, make_result):
    tab = show([make_result(relations=(("window:N/16", 0), ("window:1", 0)))])
    note = tab.locator(".edges").inner_text()
    assert "Every head shown here sees one token, itself. A window of N/16 is one token wide below 32 tokens" in note
    assert "Weights are means over 2 heads." in note
    assert "sees one token" not in show([make_result()]).locator(".edges").inner_text()


def test_names_of_classes_break_at_dots_and_slashes(show, make_result):
    result = make_result()
    result.page["prediction"] = {"label": "a", "probabilities": {"a": 0.5, "comp.sys/mac": 0.5}}
    tab = show([result])
    name = tab.locator(".chances .class", has_text="comp")
    assert name.inner_html() == "comp.<wbr>sys/<wbr>mac"


def test_heads_of_one_relation(show, make_result):
    result = make_result(relations=(("window:3", 1), ("window:5", 2), ("window:3", 1)))
    tab = show([result])
    field(tab, "Relation").select_option("window:3")
    options = field(tab, "Head").locator("option").all_inner_texts()
    assert options == ["all, their mean", "0 · window:3", "2 · window:3"]
    token(tab, 3).hover()
    mean = (result.dense[1, 0] + result.dense[1, 2]) / 2
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, mean, 3))


def test_the_overview_selects_a_head(show, make_result):
    tab = show([make_result()])
    tab.get_by_role("button", name="Layer 0, head 2: all").click()
    assert field(tab, "Layer").input_value() == "0"
    assert field(tab, "Head").input_value() == "2"
    tab.keyboard.press("ArrowLeft")
    assert field(tab, "Head").input_value() == "1"
    pressed = tab.locator(".overview [aria-pressed=true]").all()
    assert [button.get_attribute("aria-label") for button in pressed] == ["Layer 0, head 1: window:5"]


def test_a_layer_is_one_row_of_heads_and_a_pretrained_model_has_no_prediction(show, make_result):
    for heads in (12, 16):
        tab = show([make_result(relations=(("all", 10**6),) * heads, prediction={})])
        for layer in tab.locator(".overview .layer").all():
            boxes = [button.bounding_box() for button in layer.locator("button").all()]
            assert (len(boxes), len({box["y"] for box in boxes})) == (heads, 1)
        assert tab.locator(".grid").evaluate("grid => grid.scrollWidth <= grid.clientWidth")
        assert tab.locator(".prediction").inner_text() == ""


def test_keys_move_between_tokens(show, make_result):
    result = make_result()
    tab = show([result], at="layer=1&head=2")
    tab.locator(".overview button").last.focus()
    tab.keyboard.press("Tab")
    tab.evaluate("document.activeElement.blur()")
    token(tab, 0).focus()
    for key, position in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 13), ("Home", 0)):
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.dataset.token") == str(position)
    tab.keyboard.press("ArrowRight")
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, result.dense[1, 2], 1))
    assert tab.locator('.token[tabindex="0"]').count() == 1, "one stop for the Tab key"
    tab.keyboard.press("Escape")
    assert tab.locator(".token.active").count() == 0


HEBREW = ["[CLS]", "הכלב", "הגדול", "רץ", "מהר", "אל", "הבית", "BBC", "."]


@pytest.mark.parametrize("width", [1200, 420])
def test_tokens_from_right_to_left(show, make_result, width):
    tab = show([make_result(HEBREW)], size=(width, 900))
    rows = [row.locator(".token").all() for row in tab.locator(".row").all()]
    assert (len(rows) > 1) == (width == 420)
    for row in rows:
        places = [each.bounding_box()["x"] for each in row]
        assert places == sorted(places, reverse=True)
    stage = tab.locator(".rows").bounding_box()
    assert min(row[-1].bounding_box()["x"] for row in rows) >= stage["x"]
    token(tab, 1).focus()
    for key, position in (("ArrowLeft", 2), ("ArrowRight", 1), ("ArrowRight", 0), ("End", 8)):
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.dataset.token") == str(position)


def test_up_and_down_go_to_the_nearest_token_of_the_next_row(show, make_result):
    tab = show([make_result()], size=(360, 900))
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360, "without horizontal scrolling"
    token(tab, 1).focus()
    tab.keyboard.press("ArrowDown")
    below = tab.evaluate("Number(document.activeElement.dataset.token)")
    rows = tab.locator(".row")
    assert rows.nth(1).locator(f'[data-token="{below}"]').count() == 1
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate("Number(document.activeElement.dataset.token)") <= 2


def test_the_threshold_keeps_strong_edges(show, make_result):
    result = make_result()
    tab, paint = show([result], at="layer=1&head=2"), []
    largest = np.nanmax(result.dense[1, 2])
    for slider in (0, 10, 35, 50, 90, 100):
        set_slider(tab, "threshold", slider)
        paint.append(count_painted(tab, "canvas.arcs"))
        threshold = largest * (slider / 100) ** 2
        count = np.sum(result.dense[1, 2] >= threshold - largest / 131_070)
        assert tab.locator(".edges").inner_text() == f"{count} of 196 edges have at least this weight."
        assert float(tab.locator(".threshold output").inner_text()) == pytest.approx(threshold, rel=0.06, abs=0.005)
    assert paint[1] > paint[3] > paint[4] > 0


def test_the_matrix_describes_each_cell(show, make_result):
    result = make_result()
    tab = show([result], at="layer=1&head=1")
    tab.get_by_text("Matrix", exact=True).click()
    wait_for_drawing(tab)
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    weight = result.dense[1, 1][2, 2]
    text = tab.locator(".status").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert text.startswith("“was” attends to “was”: ")
    assert text.endswith("(window:5)")
    assert float(text.split()[-2]) == pytest.approx(weight, rel=0.06, abs=0.005)
    assert tab.locator(".tip").is_visible()
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    assert tab.locator(".tip").inner_text().endswith("no edge")
    assert_rows(read_incoming(tab), compute_incoming(result.tokens, result.dense[1, 1], 2))


def test_the_cell_under_the_mouse(show, make_result):
    tab = show([make_result()], at="view=matrix&layer=1&head=2")
    wait_for_drawing(tab)
    box = tab.locator(".scroller").bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    text = tab.locator(".tip").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert text.startswith("“long” attends to “long”: ")
    tab.mouse.move(5, 5)
    assert not tab.locator(".tip").is_visible()


def test_the_matrix_is_painted_where_edges_are(show, make_result):
    result = make_result(relations=(("window:3", 1),))
    tab = show([result], at="view=matrix&layer=0&head=0")
    set_slider(tab, "zoom", 100)
    alone = count_painted(tab, ".matrix-view canvas")
    wide = show([make_result(relations=(("all", 100),))], at="view=matrix&layer=0&head=0")
    set_slider(wide, "zoom", 100)
    cells = np.sum(~np.isnan(result.dense[0, 0]))
    assert count_painted(wide, ".matrix-view canvas") - alone == pytest.approx((196 - cells) * 34**2, rel=0.05)


def test_an_address_selects_a_view(show, make_result):
    texts = [make_result(["first"]), make_result(seed=5)]
    tab = show(texts, at="text=1&view=arcs&layer=0&head=1&relation=window:5&threshold=0.25&token=4")
    assert tab.locator("[name=text]").input_value() == "1"
    assert field(tab, "Layer").input_value() == "0"
    assert field(tab, "Head").input_value() == "1"
    assert tab.locator(".threshold output").inner_text() == "0.25"
    assert tab.locator(".token.active").get_attribute("data-token") == "4"
    assert_rows(read_incoming(tab), compute_incoming(texts[1].tokens, texts[1].dense[0, 1], 4))


def test_the_address_follows_the_view_and_restores_it(show, make_result):
    tab = show([make_result()])
    field(tab, "Layer").select_option("0")
    field(tab, "Head").select_option("2")
    token(tab, 3).click()
    tab.get_by_text("Matrix", exact=True).click()
    expected = {"text=0", "view=matrix", "layer=0", "head=2", "relation=all", "token=3"}
    assert becomes(lambda: set(tab.evaluate("location.hash")[1:].split("&")), expected)
    tab.evaluate("location.hash = '#text=0&view=arcs&layer=1&head=0&token=7'")
    assert becomes(lambda: tab.locator(".token.active").get_attribute("data-token"), "7")
    assert field(tab, "Layer").input_value() == "1"


@pytest.mark.parametrize(
    "at",
    ["layer=99&head=-1&token=5000&text=7&edges=x,1-2-3,99-1,,1-", "view=evil&token=x&threshold=NaN&relation=", "%"],
)
def test_invalid_addresses_are_ignored(show, make_result, at):
    tab = show([make_result()], at=at)
    assert tab.locator(".token").count() == 14
    assert field(tab, "Layer").input_value() == "1"


def test_buttons_select_texts_and_a_shorter_one_resets_the_active_token(show, make_result):
    texts = [make_result(["word"] * 200), make_result(["a", "short", "text"])]
    tab = show(texts, texts)
    assert tab.get_by_role("button", name="Previous text").is_disabled()
    token(tab, 120).click()
    tab.get_by_role("button", name="Next text").click()
    assert tab.get_by_role("button", name="Next text").is_disabled()
    wait_for_drawing(tab)
    for pane in tab.locator(".pane").all():
        assert pane.locator(".token").all_inner_texts() == ["a", "short", "text"]
        assert "of 25 edges" in pane.locator(".edges").inner_text()
        assert pane.locator(".token.active").count() == 0
    assert becomes(lambda: "text=1" in tab.evaluate("location.href"), True)  # tab.url waits for an event


def test_two_models_side_by_side(show, make_result):
    ours, theirs = make_result(), make_result(relations=(("all", 100),), seed=9)
    tab = show([ours], [theirs], at="layer=1&head=0&layer.2=0&head.2=0")
    left, right = (tab.locator(".pane").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    token(tab, 2, pane=1).hover()
    assert_rows(read_incoming(tab, 0), compute_incoming(ours.tokens, ours.dense[1, 0], 2))
    assert_rows(read_incoming(tab, 1), compute_incoming(ours.tokens, theirs.dense[0, 0], 2))


def test_a_pair_attends_from_text_to_text(show, pair_result):
    tab = show([pair_result])
    assert tab.locator(".part").all_inner_texts() == ["first", "second"]
    token(tab, 3 + 1).hover()
    assert_rows(read_incoming(tab), compute_incoming(pair_result.tokens[:3], pair_result.dense[0, 0], 1))
    tab.get_by_text("Matrix", exact=True).click()
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "End", "ArrowDown"):
        tab.keyboard.press(key)
    text = tab.locator(".tip").inner_text().replace("\u2068", "").replace("\u2069", "")
    assert text.startswith("“it” attends to “[CLS]”")


def test_the_mean_is_over_the_heads_of_a_token(show, make_result):
    result = make_result()
    result.page["tokens"]["relay"] = ["[relay 0]"]
    ends = {"source_part": "text", "target_part": "relay", "source": [0, 5], "target": [0, 0], "weight": [0.25, 0.75]}
    result.page["maps"].append({"layer": 1, "head": 3, "relation": "star", "scale": None, **ends})
    tab = show([result], at="layer=1&head=all")
    token(tab, 3).hover()
    heaviest = max(np.nanmax(result.dense[1, head][3]) for head in range(3))
    assert float(read_incoming(tab)[0][2]) == pytest.approx(heaviest / 3, rel=0.06)
    token(tab, 14).hover()
    assert [row[2] for row in read_incoming(tab)] == ["0.75", "0.25"]


def test_tags_are_below_the_words(show, make_result):
    tokens, words = ["[CLS]", "Ada", "Love", "lace", "wrote"], [0, 1, 2, 2, 3]
    prediction = {"words": ["Ada", "Lovelace", "wrote"], "tags": ["B-PER", "I-PER", "O"], "probabilities": []}
    tab = show([make_result(tokens, words=words, prediction=prediction)])
    tags = [each.get_attribute("data-tag") for each in tab.locator(".token").all()]
    assert tags == [None, "B-PER", "I-PER", None, None]
    assert tab.locator(".tags li").all_inner_texts() == ["B-PER 1", "I-PER 1", "O 1"]


def test_dependencies_are_in_the_table_and_beside_a_cell(show, make_result):
    tokens, words = ["[CLS]", "dog", "s", "sleep"], [0, 1, 1, 2]
    parses = {"text": {"heads": [-1, 2, -1], "deprels": ["", "nsubj", "root"]}}
    tab = show([make_result(tokens, words=words, parses=parses, relations=(("all", 9),))])
    for number, expected in ((3, {"dog": "nsubj>", "s": "nsubj>"}), (2, {"sleep": "nsubj<"})):
        token(tab, number).hover()
        rows = tab.locator(".incoming tbody tr").all()
        names = {row.locator("bdi").inner_text(): row.locator(".deprel").all_inner_texts() for row in rows}
        assert {name: deprels for name, deprels in names.items() if deprels} == {
            name: [deprel] for name, deprel in expected.items()
        }
    tab.get_by_text("Matrix", exact=True).click()
    tab.locator(".scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    assert "(all, nsubj<)" in tab.locator(".tip").inner_text()


def test_predictions_of_other_tasks(show, make_result):
    several = {"labels": ["calm", "clear"], "probabilities": {"calm": 0.9, "clear": 0.8, "loud": 0.1}}
    long = "ein guter Film , der lange im Kopf bleibt , und länger"
    tab = show([make_result(prediction=prediction) for prediction in (several, {"text": long}, {"text": ""})])
    assert tab.locator(".prediction .label").inner_text() == "calm, clear"
    assert tab.locator(".chances .decided .class").all_inner_texts() == ["calm", "clear"]
    for text in (long, "empty output"):
        tab.get_by_role("button", name="Next text").click()
        assert tab.locator(".prediction .label").inner_text() == text
        assert tab.locator(".chances").count() == 0


def test_what_each_branch_gives_is_below_the_prediction(show, make_result):
    small = BranchScores("log-odds of good against bad", {"n-grams": (2.1,), "graph encoder": (0.1,)})
    large = BranchScores("log-odds of good against bad", {"n-grams": (0.1,), "graph encoder": (2.1,)})
    results = [make_result() for _ in range(3)]
    for result, branches in zip(results, (small, large), strict=False):
        result.page["branches"] = branches.to_json()
    tab = show(results)
    shown = tab.locator(".branches")
    assert shown.inner_text().split("\n") == [str(small), f"{small.note}."]
    assert shown.locator("strong").count() == 1
    tab.click(".next")
    assert shown.inner_text() == str(large)
    tab.click(".next")
    assert shown.inner_text() == ""


def luminance(colour):
    return sum(int(part) for part in colour[4:-1].split(",")) / 765


MAX_RED = f"""canvas => {{
    const data = ({DOTS})(canvas);
    return data.reduce((most, value, at) => (at % 4 === 0 && data[at + 3] > 200 ? Math.max(most, value) : most), 0);
}}"""


def test_light_and_dark(show, make_result):
    tab = show([make_result(relations=(("all", 100),))])
    reds = []
    for scheme, background, ink in (("light", 0.9, 0.2), ("dark", 0.1, 0.9)):
        tab.emulate_media(color_scheme=scheme)
        wait_for_drawing(tab)
        style = tab.evaluate(
            "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
        )
        assert [luminance(colour) for colour in style] == pytest.approx([background, ink], abs=0.1)
        reds.append(tab.locator("canvas.arcs").evaluate(MAX_RED))
    assert reds[0] < reds[1], "blue is lighter on a dark background"


def test_printing_row_by_row(show, make_result):
    tab = show([make_result(["word"] * 200)], at="layer=0&head=1", scheme="dark")
    assert tab.pdf().startswith(b"%PDF")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    rows = tab.locator(".row").count()
    assert tab.locator("canvas.printed").count() == rows > 10
    assert count_painted(tab, "canvas.printed") > 100
    widest = tab.evaluate(
        "Math.max(...[...document.querySelectorAll('.token')].map(t => t.offsetLeft + t.offsetWidth))"
    )
    assert widest <= 680
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("canvas.printed").count() == 0
    assert tab.locator(".row").count() < rows


def test_narrow_panes_print_fewer_rows(show, make_result):
    result = make_result(["word"] * 60)
    tab = show([result], [result], at="layer=0&head=1", size=(1000, 1200))
    rows = tab.locator(".row").count()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("canvas.printed").count() == tab.locator(".row").count() < rows
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator(".row").count() == rows


@pytest.mark.slow
@pytest.mark.parametrize("at", ["layer=1&head=1&token=3", "view=matrix", "unit=words&token=3"])
def test_accessibility(show, make_result, find_violations, at):
    tab = show(
        [make_result(words=[*range(13), 12]), make_result(["two"])], [make_result(), make_result(["two"])], at=at
    )
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_timeout(150)  # colours change gradually
        assert find_violations(tab) == []
