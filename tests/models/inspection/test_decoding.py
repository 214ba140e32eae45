"""Attention of a translator: the encoder's maps, and the decoder's from source to target."""

import json

import numpy as np
import pytest
import torch

from graphattn.exceptions import DataError
from graphattn.models._encoders import ENCODERS
from graphattn.models._estimators.state import make_corpus


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
def test_maps_of_both_sides(encoder, translators, source):
    translator = translators(encoder)
    attention = translator.attention(source)
    assert attention.prediction == translator.predict([source])[0]
    assert attention.tokens["source"][0] == attention.tokens["target"][0] == "[CLS]"
    cross = [one for one in attention.maps if one.relation == "cross"]
    assert {(one.source_part, one.target_part) for one in cross} == {("source", "target")}
    heads = 4 if encoder == "duo-transformer" else 2
    assert [one.weights.shape[1] for one in cross] == [heads, heads]
    table = attention.table()
    sums = table.groupby(["layer", "head", "target_part", "target"]).weight.sum()
    np.testing.assert_allclose(sums[sums > 1e-6], 1, atol=1e-4)
    own = [one for one in attention.maps if one.relation != "cross"]
    assert bool(own) == (encoder != "bilstm")
    assert min(one.layer for one in cross) == 1 + max((one.layer for one in own), default=-1)
    assert json.dumps(attention.to_page())


def test_weights_equal_those_of_generating_each_token(translators):
    translator = translators("transformer")
    text = "Ein hund!"
    attention = translator.attention("the dog", text)
    assert attention.prediction == text
    assert "".join(attention.tokens["target"][1:]).replace("▁", " ").strip() == text
    model, (ids,) = translator.model_, translator.subwords_.ids([text])
    batch, weights, log_probability = make_corpus(translator, ["the dog"])[[0]], [], 0.0
    with torch.inference_mode():
        state = model.decoder.start(model.encode(batch))
        for read, write in zip([2, *ids], [*ids, 2], strict=True):
            seen = []
            scores = model.advance(torch.tensor([[read]]), state, weights=seen)[0, 0]
            log_probability += float(scores.log_softmax(0)[int(write)])
            weights.append(seen[1][0, :, 0].numpy())  # second layer: (H, S)
    (last,) = (one for one in attention.maps if one.layer == 3)
    for head in range(2):
        for place, row in enumerate(weights):
            chosen = last.targets == (place + 1) % len(weights)
            np.testing.assert_allclose(last.weights[chosen, head], row[head], atol=1e-5)
    assert attention.probabilities[text] == pytest.approx(np.exp(log_probability), rel=1e-4)


def test_a_source_without_words(translators):
    with pytest.raises(DataError, match="no words"):
        translators("transformer").attention("  ")
