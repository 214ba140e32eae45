"""Attention results with known dense weights, and a real browser that opens pages."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from graphattn.experiments._serving.requests import Limits
from graphattn.experiments.page._server import make_app
from graphattn.models import (
    DecoderOptions,
    MSTransOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
    Translator,
)
from graphattn.models.inspection.page import PageModel, write_page

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
GOOD = {"label": "good", "probabilities": {"bad": 0.25, "good": 0.75}}
WORDS = "the plot was not silly and nobody in the cinema thought it was long".split()


@dataclass(frozen=True)
class PageResult:
    """A result in the form of ``to_page()``, and each map as a dense array: NaN where there is no edge."""

    page: dict
    dense: dict[tuple[int, int], np.ndarray]

    @property
    def tokens(self) -> list[str]:
        return [token for tokens in self.page["tokens"].values() for token in tokens]


def random_weights(targets: int, sources: int, radius: int, random: np.random.Generator) -> np.ndarray:
    """Random weights within a window; each row sums to one."""
    inside = np.abs(np.arange(targets)[:, None] - np.arange(sources)) <= radius
    scores = np.where(inside, np.exp(2 * random.normal(size=(targets, sources))), np.nan)
    return scores / np.nansum(scores, axis=1, keepdims=True)


def as_map(dense: np.ndarray, layer: int, head: int, relation: str, parts: tuple[str, str]) -> dict:
    target, source = np.nonzero(~np.isnan(dense))
    return {
        **{"layer": layer, "head": head, "relation": relation, "scale": None},
        **{"source_part": parts[0], "target_part": parts[1]},
        **{"source": source.tolist(), "target": target.tolist(), "weight": dense[target, source].tolist()},
    }


@pytest.fixture(scope="session")
def make_result() -> Callable[..., PageResult]:
    """Make the result of a text, with a head per relation: ``make_result(tokens, relations=(("window:3", 1),))``."""

    def make(
        tokens: list[str] = WORDS,
        *,
        relations: tuple[tuple[str, int], ...] = (("window:3", 1), ("window:5", 2), ("all", 10**6)),
        layers: int = 2,
        title: str | None = None,
        prediction: dict | None = None,
        words: list[int] | None = None,
        parses: dict | None = None,
        seed: int = 1,
    ) -> PageResult:
        random, dense, maps = np.random.default_rng(seed), {}, []
        for layer in range(layers):
            for head, (relation, radius) in enumerate(relations):
                dense[layer, head] = random_weights(len(tokens), len(tokens), radius, random)
                maps.append(as_map(dense[layer, head], layer, head, relation, ("text", "text")))
        page = {
            "version": 1,
            "title": " ".join(tokens) if title is None else title,
            "prediction": GOOD if prediction is None else prediction,
            "tokens": {"text": list(tokens)},
            "parts": ["text"],
            "words": {"text": words or list(range(len(tokens)))},
            "parses": parses or {},
            "maps": maps,
        }
        return PageResult(page, dense)

    return make


@pytest.fixture(scope="session")
def translators() -> list[Translator]:
    """Two translators of a few words, hardly trained: one with attention in its encoder, one without."""
    sources = ["the dog sees the bird", "the bird sees the dog", "the dog"] * 4
    targets = ["der Hund sieht der Vogel", "der Vogel sieht der Hund", "der Hund"] * 4
    return [
        Translator(
            encoder,
            inputs=SubwordOptions(vocabulary_size=60),
            decoder=DecoderOptions(2, 2, 16, 0.0),
            training=TranslationTraining(epochs=1, max_tokens=200, dev_fraction=0.0, progress=False),
            search=SearchOptions(beam=2, min_length=3, max_length=8),
        ).fit(sources, targets)
        for encoder in (MSTransOptions(hidden=16, heads=2, layers=1, scales=("3", "N"), alpha=0.0), "bilstm")
    ]


@pytest.fixture(scope="session")
def pair_result() -> PageResult:
    """A pair whose second text attends to the first."""
    tokens = {"first": ["[CLS]", "rain", "falls"], "second": ["[CLS]", "it", "is", "wet"]}
    dense = random_weights(4, 3, 10, np.random.default_rng(2))
    page = {
        **{"version": 1, "title": "rain falls / it is wet", "parts": list(tokens), "tokens": tokens},
        "prediction": {"label": "entailment", "probabilities": {"entailment": 0.9, "neutral": 0.1}},
        "words": {"first": [0, 1, 2], "second": [0, 1, 2, 3]},
        "parses": {},
        "maps": [as_map(dense, 0, 0, "cross", ("first", "second"))],
    }
    return PageResult(page, {(0, 0): dense})


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Headless Chromium, driven by Playwright."""
    program = os.environ.get("GRAPHATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("there is no chromium; install it or name one with GRAPHATTN_CHROMIUM")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        serve_models = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield serve_models
        serve_models.close()


@dataclass
class BrowserLog:
    """Messages on a page's console, and its requests."""

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser) -> Iterator[Callable]:
    """Open an address: ``visit(address, scheme="dark", size=(400, 800))``; fail on messages and foreign requests."""
    log, contexts = BrowserLog(), []

    def open_at(address: str, *, scheme: str = "light", size: tuple[int, int] = (1280, 900)):
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: log.console.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: log.console.append(f"uncaught: {error}"))
        tab.on("request", lambda request: log.requests.append(request.url))
        tab.goto(address)
        return tab

    open_at.log = log
    yield open_at
    for context in contexts:
        context.close()
    assert log.console == []
    foreign = [url for url in log.requests if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1"))]
    assert foreign == [], "the page requested other hosts"


@pytest.fixture
def show(visit, tmp_path: Path) -> Callable:
    """Write results, a list for each model, as a page and open it: ``show([result], at="view=matrix")``."""

    def write_and_open(*models: list[PageResult], at: str = "", title: str = "Attention", **how):
        columns = [PageModel(f"model {n}", [result.page for result in results]) for n, results in enumerate(models)]
        path = tmp_path / "page.html"
        write_page(path, columns, title=title)
        return visit(path.as_uri() + (f"#{at}" if at else ""), **how)

    return write_and_open


@pytest.fixture(scope="session")
def find_violations() -> Callable[..., list[str]]:
    """Serious violations of accessibility rules that axe-core finds on an open page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")

    def run(tab) -> list[str]:
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes']][:3]}"
            for each in axe.Axe().run(tab).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    return run


@pytest.fixture(scope="session")
def serve_models(serve_app) -> Callable:
    """A server of models in this process: ``with serve_models(models, texts=1) as port:``."""

    def serve(models: list, *, run: Callable | None = None, **options: object) -> AbstractContextManager[int]:
        return serve_app(make_app(models, **options), options.get("limits") or Limits(), run)

    return serve
