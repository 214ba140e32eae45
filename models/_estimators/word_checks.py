"""Whether texts have words that a model knows, split as those of its training set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from graphattn.builders._graph_builder import CLS_ID
from graphattn.builders._layout import Layout
from graphattn.builders._lazy_texts import LazyTexts
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import SplitText, WordSplitter, words_of
from graphattn.exceptions import GraphAttnWarning, Hint
from graphattn.models._estimators.inputs import Columns

_SAMPLE = 1024  # texts of a training set
_MANY_TOKENS = 1 << 22  # of a training set larger than memory
_MANY_WORDS = 100
"""Fewer words say little about a share."""
_CUT = 0.05
"""Share of cut words that causes a warning; in English corpora of four kinds of tokenization it is below 0.03."""
_CUT_BY_PRETRAINED = 0.15
"""As above; BERT's rules, which split dates, hyphens and user names, cut up to 0.1 of the words in such corpora."""
_REMEDY = (
    "give words instead, separated by blanks ({format=words}), as lists, or as Stanza's tokenizer finds them "
    "(graphattn build --parser stanza --parser-cuts; StanzaParser.read in Python)"
)


def share_of_cut_words(columns: Columns, splitter: WordSplitter) -> float | None:
    """Share of the given words that the rule for raw texts would cut; None if all texts are raw."""
    sample = chain.from_iterable(islice(column, _SAMPLE) for column in columns)
    counts = Counter(chain.from_iterable(words_of(text) for text in sample if not isinstance(text, str)))
    if not counts:
        return None
    split = splitter.split_batch(list(counts))
    cut = sum(count for (word, count), words in zip(counts.items(), split, strict=True) if words != [word])
    return cut / counts.total()


def expect_unknown_words(layouts: Sequence[Layout], vocabulary: Vocabulary) -> float:
    """Share of unknown words to expect in texts like these: that of words that occur once (Good 1953)."""
    ids = _word_ids(layouts)
    counts = np.bincount(ids, minlength=len(vocabulary))
    return float((counts[counts == 1].sum() + counts[vocabulary.unknown_id]) / max(len(ids), 1))


def hint_at_unsplit_texts(columns: Columns) -> Hint | None:
    """A hint for raw texts, given as their words, of fewer than two words with more than ten letters on average."""
    sample = [text for column in columns for text in islice(column, _SAMPLE) if isinstance(text, SplitText)]
    words = list(chain.from_iterable(sample))
    letters = sum(map(len, words)) / max(len(words), 1)
    if len(sample) < _MANY_WORDS or len(words) >= 2 * len(sample) or letters <= 10:
        return None
    return Hint(
        f"a text has {len(words) / len(sample):.1f} words of {letters:.0f} letters on average, so texts may not be "
        "split; separate their words by blanks, or use {level=bpe}",
        options=("level",),
    )


def warn_about_words(
    columns: Columns, layouts: Sequence[Layout], vocabulary: Vocabulary, *, cut: float | None, expected: float | None
) -> GraphAttnWarning | None:
    """A warning for raw texts that are split otherwise than the training set; a hint for unknown words."""
    is_raw = cut is not None and any(
        isinstance(text, str) for column in columns if not isinstance(column, LazyTexts) for text in column
    )
    limit = _CUT_BY_PRETRAINED if isinstance(vocabulary, PretrainedVocabulary) else _CUT
    if is_raw and cut is not None and cut > limit:
        return GraphAttnWarning(
            f"raw text is split by other rules than the training set, of whose words these rules would cut {cut:.0%}; "
            + _REMEDY,
            options=("format",),
        )
    if expected is None:
        return None
    ids = _word_ids(layouts)
    if len(ids) < _MANY_WORDS:
        return None
    unknown = float((ids == vocabulary.unknown_id).mean())
    if is_raw and unknown > 0.15 + 2 * expected:
        return GraphAttnWarning(
            f"the model does not know {unknown:.0%} of the words in these raw texts ({expected:.0%} are expected), so "
            f"they are probably split otherwise than its training set; {_REMEDY}",
            options=("format",),
        )
    if unknown > max(0.5, 2 * expected):
        return Hint(
            f"the model does not know {unknown:.0%} of the words in these texts ({expected:.0%} are expected); check "
            "that their language, spelling and splitting are those of the training set, or train with {level=bpe} or "
            "word vectors ({vectors})",
            options=("level", "vectors"),
        )
    return None


def _word_ids(layouts: Sequence[Layout]) -> npt.NDArray[np.integer]:
    ids: npt.NDArray[np.integer] = np.concatenate([layout.features["id"][:_MANY_TOKENS] for layout in layouts])
    words: npt.NDArray[np.integer] = ids[ids != CLS_ID]
    return words
