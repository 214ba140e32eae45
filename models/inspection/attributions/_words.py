"""Attributions of words: the words of one text, coloured in notebooks, and the words of a corpus with the largest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from graphattn._edges import features_of
from graphattn._networkx_graphs import CLS
from graphattn._schema import TOKEN
from graphattn._validation import require_choice, require_range
from graphattn.builders._spelling import compose
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.inspectable import Inspectable, encode_input
from graphattn.models._results.numbers import choose_format
from graphattn.models.inspection._attention_weights import word_texts
from graphattn.models.inspection._branch_scores import BranchScores
from graphattn.models.inspection._edge_kinds import word_ids_of
from graphattn.models.inspection.attributions._integrated_gradients import integrate
from graphattn.models.inspection.notebook import BOX, MOST_TOKENS, format_branches, format_direction

_NO_WORD = re.compile(r"\[CLS\]|\[\w+ \d+\]")
"""``[CLS]`` and nodes that relations add, such as ``[relay 0]``."""
_RAISED, _LOWERED = (86, 180, 233), (230, 159, 0)
"""Blue and orange that people with any colour vision can tell apart (Okabe and Ito 2008)."""


@dataclass(frozen=True, eq=False)
class WordAttributions:
    """The attribution of each word of one text; a notebook displays the text with coloured words.

    The attributions add up to ``value - baseline``.

    Parameters
    ----------
    table : columns part, position (with ``[CLS]``, that is 0), word and attribution; special tokens of a pretrained
        model, which have none, are left out
    explains : the explained quantity, such as ``log-odds of good``
    baseline : the quantity if all words were unknown
    value : the quantity, as the model predicts it
    branches : how much the linear branch and the graph encoder give; None for a model without a linear branch
    """

    table: pd.DataFrame
    explains: str
    baseline: float
    value: float
    branches: BranchScores | None = None

    def top_words(self, k: int = 10) -> pd.DataFrame:
        """The words with the largest absolute attribution, see :func:`top_words`."""
        return top_words(self, k)

    def _repr_html_(self) -> str:
        return words_html(self)


def word_attributions(
    estimator: Inspectable,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
    steps: int = 50,
) -> WordAttributions:
    """Sum :func:`integrated_gradients` over the tokens of each word.

    Parameters
    ----------
    estimator : a fitted estimator
    x : one input
    label, word, target : what to explain, as for :func:`gradient_times_weight`
    steps : as for :func:`integrated_gradients`

    Raises
    ------
    ConfigError, DataError
        as :func:`integrated_gradients`

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=1))
    >>> classifier = classifier.fit(["a good film", "a bad film"] * 4, [1, 0] * 4)
    >>> words = word_attributions(classifier, "a bad film", label=0)
    >>> words.table.word.tolist(), words.explains
    (['[CLS]', 'a', 'bad', 'film'], 'log-odds of 0')
    >>> bool(abs(words.table.attribution.sum() - (words.value - words.baseline)) < 1e-2)
    True
    """
    inputs = encode_input(estimator, x, target=target)
    integral = integrate(estimator, inputs, label=label, word=word, steps=steps)
    special = features_of(inputs.first_batch.graph, TOKEN).get("special")
    tables = []
    for text in inputs.graph_texts:
        cls, sentence = inputs.builder.cls, inputs.first_sentences[text]
        is_of_text = integral.table.part == text
        of_text = integral.table[is_of_text]
        words, numbers = word_texts(sentence, cls=cls), word_ids_of(sentence, cls=cls)
        sums = np.bincount(numbers, of_text.attribution, len(words))
        of_words = pd.DataFrame({"part": text, "position": range(len(words)), "word": words, "attribution": sums})
        tables.append(of_words if special is None else of_words.drop(np.array(numbers)[special.numpy()[is_of_text]]))
    table = pd.concat(tables, ignore_index=True)
    return WordAttributions(table, integral.explained.describe(), integral.start, integral.end, integral.branches)


def top_words(
    attributions: WordAttributions | pd.DataFrame | Iterable[WordAttributions | pd.DataFrame],
    k: int = 10,
    *,
    by: str = "total",
    min_texts: int = 1,
) -> pd.DataFrame:
    """The words with the largest absolute attribution, in one text or over a corpus.

    Parameters
    ----------
    attributions : of one text, or an iterable of those of many; :class:`WordAttributions`, or a table from
        :func:`gradient_times_weight`, :func:`integrated_gradients`, rollout or flow. An edge counts for the word that
        is attended to
    k : number of words
    by : ``"total"``, the sum over all texts, or ``"mean"``, the mean over texts with the word
    min_texts : omit words of fewer texts

    Returns
    -------
    Columns word (composed), total, mean and texts; largest first

    Raises
    ------
    ConfigError
        when ``k`` or ``min_texts`` is below 1, there is no such ``by``, or a table has no attributions of words

    Examples
    --------
    >>> first = pd.DataFrame({"word": ["a", "dull", "film"], "attribution": [0.1, -2.0, 0.5]})
    >>> second = pd.DataFrame({"word": ["fine", "film"], "attribution": [1.0, 0.5]})
    >>> top_words([first, second], 2)
       word  total  mean  texts
    0  dull   -2.0  -2.0      1
    1  film    1.0   0.5      2
    """
    require_range("k", k, min=1)
    require_range("min_texts", min_texts, min=1)
    require_choice("by", by, ("total", "mean"))
    if isinstance(attributions, (WordAttributions, pd.DataFrame)):
        attributions = [attributions]
    totals: dict[str, float] = {}
    texts: dict[str, int] = {}
    for of_text in attributions:
        for word, value in _sums_by_word(of_text).items():
            totals[word] = totals.get(word, 0.0) + value
            texts[word] = texts.get(word, 0) + 1
    words = pd.DataFrame({"word": list(totals), "total": list(totals.values()), "texts": list(texts.values())})
    words.insert(2, "mean", words.total / words.texts)
    words = words[words.texts >= min_texts].sort_values(by, key=np.abs, ascending=False, kind="stable")
    return words.head(k).reset_index(drop=True)


def _sums_by_word(attributions: WordAttributions | pd.DataFrame) -> dict[str, float]:
    table = attributions.table if isinstance(attributions, WordAttributions) else attributions
    column = next((name for name in ("word", "source_word") if name in table), None)
    if column is None or "attribution" not in table:
        raise ConfigError("top_words needs tables with the columns attribution, and word or source_word")
    sums: dict[str, float] = table.groupby(table[column].map(compose), sort=False).attribution.sum().to_dict()
    return {word: value for word, value in sums.items() if _NO_WORD.fullmatch(word) is None}


def words_html(words: WordAttributions) -> str:
    """The text with words coloured by attribution, blue for positive and orange for negative, and a legend.

    Black letters have a contrast of at least 4.5 on every colour (WCAG 2.1, AA); negative words are also underlined,
    and the mouse shows each value.
    """
    largest = float(words.table.attribution.abs().max()) if len(words.table) else 0.0
    paragraphs = []
    for _, rows in words.table.groupby("part", sort=False):
        shown = rows[(rows.position > 0) | (rows.word != CLS)]
        boxes = [_format_word(*pair, largest) for pair in zip(shown.word, shown.attribution, strict=True)]
        more = len(boxes) - MOST_TOKENS
        text = " ".join(boxes[:MOST_TOKENS]) + (f" … {more:,} more" if more > 0 else "")
        paragraphs.append(f'<p{format_direction(shown.word)} style="line-height:1.9">{text}</p>')
    ramp = ",".join(_attribution_color(share) for share in (-1, -0.5, 0, 0.5, 1))
    bar = f"display:inline-block;width:8em;height:0.8em;margin:0 4px;background:linear-gradient(to right,{ramp})"
    form = choose_format([words.value, words.baseline], 2)
    value, baseline = (format(number, form) for number in (words.value, words.baseline))
    low, high = (format(number, choose_format([largest], 2, "+")) for number in (-largest, largest))
    legend = (
        f"<p>{escape(words.explains)}, {value} ({baseline} if no word were known): "
        f'<u>lowered</u> {low} <span style="{bar}"></span> {high} raised</p>'
    )
    return "<div>" + "".join(paragraphs) + legend + format_branches(words.branches) + "</div>"


def _format_word(word: str, value: float, largest: float) -> str:
    share = value / largest if largest else 0.0
    style = f"{BOX};color:#000;background:{_attribution_color(share)}"
    style += ";text-decoration:underline" if value < 0 else ""
    return f'<span style="{style}" title="{format(value, choose_format([largest], 3, "+"))}">{escape(word)}</span>'


def _attribution_color(share: float) -> str:
    """Between orange for -1, white for 0 and blue for 1, as ``rgb(...)``."""
    strongest = _RAISED if share > 0 else _LOWERED
    return f"rgb({','.join(str(round(255 + (part - 255) * abs(share))) for part in strongest)})"
