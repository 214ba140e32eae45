"""The live page in a real browser: predictions of two models for a typed text, and error messages."""

import threading

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments._serving.requests import Limits
from graphattn.experiments.page._live_models import LiveModel


@pytest.fixture
def address(make_result, serve_models):
    """Two models that return the tokens of the text; a text with "tree" or "defect" is an error."""

    def toy(name, label):
        def explain(texts):
            if "tree" in texts[0]:
                raise DataError("the sentence has no tree")
            if "defect" in texts[0]:
                raise RuntimeError("a defect")
            chances = {"label": label, "probabilities": {label: 1.0}}
            return make_result(["[CLS]", *texts[0].split()], prediction=chances).page

        return LiveModel(name, lambda text: 1 + len(text.split()), explain)

    models = [toy("ours", "good"), toy("theirs", "bad")]
    with serve_models(models, limits=Limits(characters=200, tokens=20)) as port:
        yield f"http://127.0.0.1:{port}/"


def predict(tab, text):
    tab.get_by_role("textbox", name="Text to predict").fill(text)
    with tab.expect_response("**/attention") as answer:
        tab.get_by_role("button", name="Predict").click()
    answer.value.finished()
    tab.get_by_role("button", name="Predict").wait_for()


def test_a_text_is_predicted_by_both_models(visit, address):
    tab = visit(address)
    assert tab.locator(".pane").first.is_hidden()
    predict(tab, "nobody laughed")
    tab.locator(".token").first.wait_for()
    assert tab.locator(".pane").nth(0).locator(".token").all_inner_texts() == ["[CLS]", "nobody", "laughed"]
    assert tab.locator("h2").all_inner_texts() == ["ours", "theirs"]
    assert tab.locator(".prediction .label").all_inner_texts() == ["good", "bad"]


def test_enter_predicts_and_earlier_texts_remain(visit, address):
    tab = visit(address)
    for text in ("first text", "second text"):
        field = tab.get_by_role("textbox", name="Text to predict")
        field.fill(text)
        field.press("Enter")
        tab.locator(".token", has_text=text.split()[0]).first.wait_for()
    assert tab.locator("[name=text] option").all_inner_texts() == ["1. [CLS] first text", "2. [CLS] second text"]
    tab.get_by_role("button", name="Previous text").click()
    assert tab.locator(".token").nth(1).inner_text() == "first"


def test_a_shorter_text_after_a_token_was_selected(visit, address):
    tab = visit(address)
    predict(tab, "a text of rather many words")
    tab.locator(".pane").first.locator(".token", has_text="words").click()
    predict(tab, "short")
    tab.locator(".token", has_text="short").first.wait_for()
    assert tab.locator(".failure").inner_text() == ""
    for pane in tab.locator(".pane").all():
        assert pane.locator(".token").all_inner_texts() == ["[CLS]", "short"]


def test_errors_are_shown(visit, address):
    tab = visit(address)
    for text, message in (
        ("a tree", "ours: the sentence has no tree"),
        ("a " * 30, "The text has 31 tokens; the page takes up to 20."),
        ("  ", "There is no text; type one."),
        ("a defect", "The server failed (500); its terminal says why."),
    ):
        predict(tab, text)
        assert tab.get_by_role("alert").inner_text() == message
        assert tab.get_by_role("button", name="Predict").is_enabled()
        assert "the server responded with a status of" in visit.log.console.pop(), "the browser logs the status"
        assert visit.log.console == []


def test_markup_in_answers_stays_text(visit, address):
    tab = visit(address)
    predict(tab, "</script><script>window.hacked=1</script> <img/src=x/onerror=window.hacked=1>")
    tab.locator(".token").first.wait_for()
    assert "<img/src=x/onerror=window.hacked=1>" in tab.locator(".pane").first.locator(".token").all_inner_texts()
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img").count() == 0


def test_a_stopped_server(visit, make_result, serve_models):
    with serve_models([LiveModel("toy", len, lambda texts: make_result(["a"]).page)]) as port:
        tab = visit(f"http://127.0.0.1:{port}/")
    tab.get_by_role("textbox").fill("a film")
    tab.get_by_role("button", name="Predict").click()
    tab.get_by_text("The server does not answer; is it still running?").wait_for()
    assert [message for message in visit.log.console if "ERR_CONNECTION_REFUSED" not in message] == []
    visit.log.console.clear()


def test_the_button_is_disabled_during_a_prediction(visit, make_result, serve_models):
    free = threading.Event()

    def explain(texts):
        free.wait(10)
        return make_result(["a"]).page

    with serve_models([LiveModel("toy", len, explain)]) as port:
        tab = visit(f"http://127.0.0.1:{port}/")
        tab.get_by_role("textbox").fill("a film")
        tab.get_by_role("button", name="Predict").click()
        assert tab.get_by_role("button", name="Predicting …").is_disabled()
        free.set()
        tab.locator(".token").first.wait_for()


def test_a_pair_has_two_fields(visit, pair_result, serve_models):
    with serve_models([LiveModel("toy", len, lambda texts: pair_result.page)], texts=2) as port:
        tab = visit(f"http://127.0.0.1:{port}/")
        tab.get_by_role("textbox", name="First text").fill("rain falls")
        tab.get_by_role("textbox", name="Second text").fill("it is wet")
        tab.get_by_role("button", name="Predict").click()
        tab.locator(".token").first.wait_for()
        assert tab.locator(".part").all_inner_texts() == ["first", "second"]


@pytest.mark.slow
def test_accessibility(visit, address, find_violations):
    tab = visit(address)
    assert find_violations(tab) == []
    predict(tab, "a film")
    tab.locator(".token").first.wait_for()
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_timeout(150)  # colours change gradually
        assert find_violations(tab) == []
