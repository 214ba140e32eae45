"""Removing edges of a translator against brute force: a graph without an edge, a mask without a token."""

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models._corpus import Batch
from graphattn.models._decoders import attention as decoder_attention
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection.attributions import _leave_one_out as leave_one_out
from graphattn.models.inspection.attributions import leave_one_edge_out

SOURCE, TARGET = "the dog sees", "ein hund!"


@pytest.fixture(scope="module")
def translator(translators):
    return translators("ms-trans")


def log_probability(translator, graph, target=TARGET):
    """Log-probability of a target, token by token."""
    model, (ids,) = translator.model_, translator.subwords_.ids([target])
    with torch.inference_mode():
        state = model.decoder.start(model.encode(Batch(graph, 1)))
        steps = zip([2, *ids], [*ids, 2], strict=True)
        return sum(
            float(model.advance(torch.tensor([[read]]), state)[0, 0].log_softmax(0)[write]) for read, write in steps
        )


def without_source(monkeypatch, place, source):
    """Mask a token of the source while the decoder generates token number ``place``."""
    plain, calls = decoder_attention.attend_rows, []

    def attend_rows(query, key, value, *, mask=None, causal=False, dropout=0.0, weights=None):
        if mask is not None:
            if len(calls) // 2 == place:  # two layers for each token
                mask = mask.clone()
                mask[..., source] = False
            calls.append(1)
        return plain(query, key, value, mask=mask, causal=causal, weights=weights)

    monkeypatch.setattr(decoder_attention, "attend_rows", attend_rows)


def test_edges_of_the_encoder(without_edge, translator, monkeypatch):
    monkeypatch.setattr(leave_one_out, "MAX_TOKENS", 60)  # several batches
    table = translator.attention(SOURCE, TARGET).table()
    named = ["relation", "source_part", "target_part", "source", "target"]
    edges = table[table.relation.isin(["window:3", "window:N/16"])][named].drop_duplicates()
    actual = leave_one_edge_out(translator, SOURCE, target=TARGET, edges=edges)
    graph = make_corpus(translator, [SOURCE])[[0]].graph
    whole = log_probability(translator, graph)
    assert len(actual) == len(edges)
    for row in actual.itertuples():
        expected = log_probability(translator, without_edge(graph, row.relation, row.source, row.target))
        assert row.log_probability == pytest.approx(expected, abs=1e-4)
        assert row.effect == pytest.approx(whole - expected, abs=1e-4)


def test_edges_to_the_text(translator, monkeypatch):
    attention = translator.attention(SOURCE, TARGET)
    (count, length) = (len(attention.tokens[part]) for part in ("target", "source"))
    every = [(source, target) for source in range(length) for target in range(count)]
    edges = pd.DataFrame(every, columns=["source", "target"])
    edges = edges.assign(relation="cross", source_part="source", target_part="target")
    actual = leave_one_edge_out(translator, SOURCE, target=TARGET, edges=edges)
    assert np.ptp(actual.effect) > 1e-3
    for row in actual.itertuples():
        with monkeypatch.context() as patch:
            without_source(patch, (row.target - 1) % count, row.source)
            expected = log_probability(translator, make_corpus(translator, [SOURCE])[[0]].graph)
        assert row.log_probability == pytest.approx(expected, abs=1e-4)


def test_the_output_is_explained_by_default(translator):
    written = translator.predict([SOURCE])[0]
    actual = leave_one_edge_out(translator, SOURCE, k=5)
    pd.testing.assert_frame_equal(actual, leave_one_edge_out(translator, SOURCE, k=5, target=written))
    assert actual.effect.is_monotonic_decreasing
    assert len(actual) == 5
    whole = translator.attention(SOURCE).probabilities[written]
    np.testing.assert_allclose(actual.log_probability + actual.effect, np.log(whole), rtol=1e-4)


def test_a_word_of_the_text(translator):
    attention = translator.attention(SOURCE, TARGET)
    (last,) = np.flatnonzero(np.array(attention.sentences["target"].word_ids) == 2)
    edges = pd.DataFrame({"relation": "cross", "source": [1], "source_part": "source", "target_part": "target"})
    for target in (last + 1, 0):  # the last word, and the end of the text
        actual = leave_one_edge_out(translator, SOURCE, target=TARGET, word=2, edges=edges.assign(target=target))
        assert (abs(actual.effect[0]) > 1e-6) == (target > 0)


def test_classes_of_a_translator(translator):
    with pytest.raises(ConfigError) as caught:
        leave_one_edge_out(translator, SOURCE, label="ein")
    assert caught.value.options == ("label", "target")
