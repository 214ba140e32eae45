"""An :class:`Attention` as plain values, for the page that shows it and for other programs.

The keys: ``version`` (1), ``title``, ``prediction``, ``tokens`` (part -> what its nodes say), ``parts`` (their names in
order), ``words`` (text -> for each of its tokens the word it belongs to) and ``maps``, one for each head and pair of
parts, with ``layer``, ``head``, ``relation``, ``scale``, ``source_part``, ``target_part`` and, edge by edge,
``source``, ``target`` and ``weight``. A prediction has ``label`` or ``labels`` and ``probabilities`` of the classes;
that of a tagger has ``words``, ``tags`` and a list of ``probabilities``, that of a translator the ``text`` that it
writes. Weights have six decimal places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphattn.models.inspection import limits
from graphattn.models.inspection.attention_map import TARGET
from graphattn.models.inspection.words import word_ids_of

if TYPE_CHECKING:
    from graphattn.models.inspection.attention import Attention
    from graphattn.models.inspection.attention_map import AttentionMap

VERSION = 1
_DIGITS = 6


def to_page(attention: Attention, *, arrays: bool = False) -> dict[str, Any]:
    """Everything that a page shows of one prediction.

    Parameters
    ----------
    attention : the result
    arrays : leave edges and weights in arrays, which take a tenth of the memory; else all is ready for ``json.dumps``

    Raises
    ------
    ConfigError
        without ``arrays``, when there are more weights than :data:`graphattn.models.inspection.limits.MOST_ROWS`
    """
    if not arrays:
        limits.refuse_large("file", attention.num_weights, limits.MOST_ROWS)
    of_map = _with_arrays if arrays else _with_lists
    return {
        "version": VERSION,
        "title": attention.title,
        "prediction": _prediction(attention),
        "tokens": {part: list(nodes) for part, nodes in attention.tokens.items()},
        "parts": list(attention.tokens),
        "words": {part: word_ids_of(sentence) for part, sentence in attention.sentences.items()},
        "maps": [of_map(one) for several in attention.maps for one in several.by_head()],
    }


def _prediction(attention: Attention) -> dict[str, Any]:
    if TARGET in attention.sentences:
        return {"text": attention.prediction}
    if isinstance(attention.probabilities, Mapping):
        several = isinstance(attention.prediction, tuple)
        label = {"labels": list(attention.prediction)} if several else {"label": attention.prediction}
        return {**label, "probabilities": _rounded(attention.probabilities)}
    (sentence,) = attention.sentences.values()
    return {
        "words": list(sentence.words),
        "tags": list(attention.prediction),
        "probabilities": [_rounded(own) for own in attention.probabilities],
    }


def _rounded(chances: Mapping[Any, float]) -> dict[str, float]:
    return {str(name): round(chance, _DIGITS) for name, chance in chances.items()}


def _with_arrays(one: AttentionMap) -> dict[str, Any]:
    return {
        "layer": one.layer,
        "head": one.first_head,
        "relation": one.relation,
        "scale": one.scale,
        "source_part": one.source_part,
        "target_part": one.target_part,
        "source": one.sources,
        "target": one.targets,
        "weight": one.weights[:, 0],
    }


def _with_lists(one: AttentionMap) -> dict[str, Any]:
    weights = one.weights[:, 0].astype(float).round(_DIGITS)
    lists = {"source": one.sources.tolist(), "target": one.targets.tolist(), "weight": weights.tolist()}
    return {**_with_arrays(one), **lists}
