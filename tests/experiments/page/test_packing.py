"""Packing: unpacking restores all edges, shared edges are written once, long texts keep the strongest edges."""

import json
from base64 import b64decode
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.page._packing import pack_page


def unpack(page, index):
    """One map of a packed page as (target, source) -> weight."""
    packed = page["maps"][index]
    edges = page["edges"][packed["edges"]]
    pointers = np.frombuffer(b64decode(edges["pointers"]), "<u4").tolist()
    weights = np.frombuffer(b64decode(packed["weights"]), "<u2") * packed["unit"]
    sources = np.frombuffer(b64decode(edges["sources"]), "<u2") if "sources" in edges else None
    first = np.frombuffer(b64decode(edges["first"]), "<u4") if "first" in edges else None
    rows = {}
    for target, (begin, end) in enumerate(pairwise(pointers)):
        for edge in range(begin, end):
            source = first[target] + edge - begin if sources is None else sources[edge]
            rows[target, int(source)] = weights[edge]
    return rows


def page_of(size, *edge_lists):
    maps = [
        {
            **{"layer": 0, "head": head, "relation": "links", "scale": None, "source_part": "text"},
            **{"target_part": "text", "source": [s for s, _, _ in edges], "target": [t for _, t, _ in edges]},
            "weight": [w for _, _, w in edges],
        }
        for head, edges in enumerate(edge_lists)
    ]
    tokens = {"text": [f"t{number}" for number in range(size)]}
    header = {"title": "t", "prediction": {"label": "x", "probabilities": {"x": 1.0}}, "words": {"text": [0] * size}}
    return {"version": 1, **header, "parses": {}, "tokens": tokens, "parts": ["text"], "maps": maps}


edge_sets = st.dictionaries(
    st.tuples(st.integers(0, 6), st.integers(0, 6)), st.floats(0, 1, width=32), max_size=30
).map(lambda weights: [(source, target, weight) for (source, target), weight in weights.items()])


@given(edge_sets)
def test_unpacking_restores_every_edge(edges):
    page = pack_page(page_of(7, edges))
    json.dumps(page)
    assert page["kept"] is None
    largest = max((weight for _, _, weight in edges), default=0)
    expected = {(target, source): weight for source, target, weight in edges}
    unpacked = unpack(page, 0)
    assert unpacked.keys() == expected.keys()
    assert all(abs(unpacked[edge] - expected[edge]) <= largest / 131_070 + 1e-12 for edge in expected)


def test_heads_share_their_edges(make_result):
    page = pack_page(make_result(relations=(("window:3", 1), ("window:3", 1), ("window:5", 2)), layers=3).page)
    assert [packed["edges"] for packed in page["maps"]] == [0, 0, 1] * 3
    assert [set(edges) for edges in page["edges"]] == [{"pointers", "first"}] * 2, "windows need no sources"


def test_gaps_need_sources():
    page = pack_page(page_of(3, [(0, 1, 0.5), (2, 1, 0.5)]))
    assert set(page["edges"][0]) == {"pointers", "sources"}


@given(edge_sets, st.integers(1, 40))
def test_of_too_many_edges_each_target_keeps_the_strongest(edges, most):
    page = pack_page(page_of(7, edges, edges), max_edges=most)
    by_target = {target: sorted((w for _, t, w in edges if t == target), reverse=True) for _, target, _ in edges}
    fits = [
        k for k in range(1, 9) if sum(2 * min(k, len(weights)) for weights in by_target.values()) <= most
    ]  # each edge occurs twice
    kept = None if 2 * len(edges) <= most else max(fits, default=1)
    assert page["kept"] == kept
    unpacked = unpack(page, 1)
    for target, weights in by_target.items():
        strongest = sorted((weight for (t, _), weight in unpacked.items() if t == target), reverse=True)
        np.testing.assert_allclose(strongest, weights[:kept], atol=1e-5)


def test_too_long_a_text():
    with pytest.raises(ConfigError, match=r"^a page shows texts of up to 65,535 tokens; cut the text$"):
        pack_page(page_of(65_536, [(0, 0, 1.0)]))


@pytest.mark.parametrize(
    ("prediction", "names"),
    [
        ({"label": True}, {"label": "true"}),
        ({"label": 1.0}, {"label": "1.0"}),
        ({"labels": [2, "b"]}, {"labels": ["2", "b"]}),
    ],
)
def test_labels_have_the_names_of_their_probabilities(prediction, names):
    page = page_of(1)
    page["prediction"] = {**prediction, "probabilities": {}}
    assert pack_page(page)["prediction"] == {**names, "probabilities": {}}


def test_words_are_packed_where_they_have_several_tokens(make_result):
    assert pack_page(make_result().page)["word_texts"] == {}
    page = make_result(["[CLS]", "un", "known", "known"], words=[0, 1, 1, 2]).page
    page["word_texts"] = {"text": ["[CLS]", "unknown", "unknown", "known"]}
    assert pack_page(page)["word_texts"] == {"text": ["[CLS]", "unknown", "known"]}
