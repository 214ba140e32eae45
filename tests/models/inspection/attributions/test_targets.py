"""The explained class is the predicted one, also with a CRF."""

from functools import partial

import torch

from graphattn.models.inspection.attributions import gradient_times_weight
from graphattn.models.inspection.attributions._targets import select_class


def test_with_a_crf_the_best_sequence_is_explained(corpus, tiny):
    tagger = tiny("crf", training={"epochs": 1}).fit(*corpus("crf"))
    count = len(tagger.classes_)
    with torch.no_grad():  # the scores prefer the last tag, but it never follows itself
        tagger.model_.head.crf.transitions.zero_()
        tagger.model_.head.crf.transitions[-1, -1] = -100
    scores = torch.zeros(4, count)
    scores[:, -1], scores[:, 0] = 1.0, torch.tensor([0.0, 0.9, 0.0, 0.9])
    explained = partial(select_class, tagger.model_.head, tagger.classes_.tolist(), scores)
    assert explained().classes == (count - 1, 0, count - 1, 0)
    assert explained(word=1).classes == (0,)
    assert explained(label=tagger.classes_[1], word=1).classes == (1,)


def test_without_a_crf_the_most_probable_tag_of_each_word_is_explained(corpus, tiny):
    tagger = tiny("tagger", training={"epochs": 1}).fit(*corpus("tagger"))
    scores = torch.tensor([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
    assert select_class(tagger.model_.head, tagger.classes_.tolist(), scores).classes == (1, 0)


def test_the_predicted_tag_is_explained(corpus, tiny):
    words, tags = corpus("crf")
    tagger = tiny("crf", training={"epochs": 2}).fit(words, tags)
    sentence = max(words, key=len)
    predicted = tagger.predict_details([sentence]).decisions[0].tolist()
    for word, decided in enumerate(predicted[:3]):
        own = gradient_times_weight(tagger, sentence, word=word)
        named = gradient_times_weight(tagger, sentence, word=word, label=tagger.classes_[decided])
        assert own.equals(named)
