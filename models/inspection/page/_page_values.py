"""An :class:`Attention` as plain values, for the web page and for other programs.

Keys: ``version`` (1), ``title``, ``prediction``, ``branches``, ``tokens`` (part -> text of each node), ``parts`` (names
in order), ``words`` (text -> number of each token's word), ``word_texts`` (part -> the word of each node), ``parses``
(part of a parsed text -> ``heads`` and ``deprels`` of its words, numbered as in ``words``; -1 for roots and ``[CLS]``)
and ``maps``, one for each head and pair of parts, with ``layer``, ``head``, ``relation``, ``scale``, ``source_part``,
``target_part`` and, for each edge, ``source``, ``target`` and ``weight``. A prediction has ``label`` or ``labels`` and
the classes' ``probabilities``; a tagger's has ``words``, ``tags`` and a list of ``probabilities``, a translator's the
output ``text``, and a pretrained model's nothing. ``branches`` says how much each branch gives to the prediction's
score, see :meth:`BranchScores.to_json`; null for a model without a linear branch. Numbers have six decimal places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphattn._schema import WORD
from graphattn.builders._sentence import Sentence
from graphattn.models._results.class_probabilities import name_class
from graphattn.models.inspection import limits
from graphattn.models.inspection._attention_map import TARGET, AttentionMap
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection._capture import part_name
from graphattn.models.inspection._edge_kinds import word_ids_of

VERSION = 1
_DIGITS = 6


def to_page(attention: AttentionWeights, *, arrays: bool = False) -> dict[str, Any]:
    """Convert one prediction and its weights.

    With ``arrays``, edges and weights stay arrays, in a tenth of the memory; else the result is ready for
    ``json.dumps``.
    """
    if not arrays:
        limits.check_size("file", attention.num_weights, limits.MOST_ROWS)
    return {
        "version": VERSION,
        "title": attention.title,
        "prediction": _prediction(attention),
        "branches": None if attention.branches is None else attention.branches.to_json(),
        "tokens": {part: list(nodes) for part, nodes in attention.tokens.items()},
        "parts": list(attention.tokens),
        "words": {
            part: word_ids_of(sentence, cls=attention.has_cls(part)) for part, sentence in attention.sentences.items()
        },
        "word_texts": {part: list(words) for part, words in attention.words.items()},
        "parses": {
            part: _parse(sentence, cls=attention.has_cls(text))
            for text, sentence in attention.sentences.items()
            for part in (text, part_name(text, WORD))
            if sentence.heads is not None and part in attention.tokens
        },
        "maps": [_convert_map(head, arrays=arrays) for each in attention.maps for head in each.by_head()],
    }


def _parse(sentence: Sentence, *, cls: bool) -> dict[str, Any]:
    heads = [head - 1 + cls if head else -1 for head in sentence.heads or ()]
    deprels = sentence.deprels or ("dep",) * sentence.num_words
    return {"heads": [*[-1] * cls, *heads], "deprels": [*[""] * cls, *deprels]}


def _prediction(attention: AttentionWeights) -> dict[str, Any]:
    if attention.prediction is None:
        return {}
    if TARGET in attention.sentences:
        return {"text": attention.prediction}
    if isinstance(attention.probabilities, Mapping):
        several = isinstance(attention.prediction, tuple)
        label = {"labels": list(attention.prediction)} if several else {"label": attention.prediction}
        return {**label, "probabilities": _round_all(attention.probabilities)}
    (sentence,) = attention.sentences.values()
    return {
        "words": list(sentence.words),
        "tags": list(attention.prediction),
        "probabilities": [_round_all(by_class) for by_class in attention.probabilities],
    }


def _round_all(probabilities: Mapping[Any, float]) -> dict[str, float]:
    return {name_class(name): round(probability, _DIGITS) for name, probability in probabilities.items()}


def _convert_map(head: AttentionMap, *, arrays: bool) -> dict[str, Any]:
    weights = head.weights[:, 0]
    edges: dict[str, Any] = {"source": head.sources, "target": head.targets, "weight": weights}
    if not arrays:
        edges["weight"] = weights.astype(float).round(_DIGITS)
        edges = {name: values.tolist() for name, values in edges.items()}
    return {
        "layer": head.layer,
        "head": head.first_head,
        "relation": head.relation,
        "scale": head.scale,
        "source_part": head.source_part,
        "target_part": head.target_part,
        **edges,
    }
