"""Whether texts have what a model reads: marks and features of words, and words that it knows, split as it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.builders import Sentence
from graphattn.builders._graph_builder import CLS_ID
from graphattn.builders._layout import Layout
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._stored import is_stored
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import WordSplitter, words_of
from graphattn.exceptions import DataError, GraphAttnWarning, Hint
from graphattn.models._estimators.texts import Texts

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


def share_of_cut_words(texts: Texts, splitter: WordSplitter) -> float | None:
    """Share of the given words that the rule for raw texts would cut; None if all texts are raw."""
    sample = chain.from_iterable(islice(column, _SAMPLE) for column in texts.columns)
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


def hint_at_unsplit_texts(texts: Texts) -> Hint | None:
    """A hint for raw texts of fewer than two words with more than ten letters on average."""
    sample: list[Any] = [
        words
        for column, split in zip(texts.columns, texts.sources, strict=True)
        for text, words in islice(zip(column, split, strict=True), _SAMPLE)
        if isinstance(text, str)
    ]
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
    texts: Texts, layouts: Sequence[Layout], vocabulary: Vocabulary, *, cut: float | None, expected: float | None
) -> GraphAttnWarning | None:
    """A warning for raw texts that are split otherwise than the training set; a hint for unknown words."""
    is_raw = cut is not None and any(
        isinstance(text, str) for column in texts.columns if not is_stored(column) for text in column
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


def check_word_counts(texts: Texts, vocabulary: Vocabulary) -> None:
    """Reject tags whose number is not that of the words."""
    column = texts.sources[0]
    if is_stored(column):
        counts = column.num_words().tolist()
    else:
        of_texts = iter(vocabulary.sentences([source for source in column if isinstance(source, str)]))
        sentences = (next(of_texts) if isinstance(source, str) else source for source in column)
        counts = [item.num_words if isinstance(item, Sentence) else len(item) for item in sentences]
    for index, (count, tags) in enumerate(zip(counts, texts.labels, strict=True)):
        if count != len(tags):
            number = index if texts.numbers is None else texts.numbers[index]
            raise DataError(
                f"sentence {number} of the {texts.where} has {count} words but {len(tags)} tags",
                field="tags",
                hint="Give one tag for each word.",
            )


def have_predicates(texts: Texts) -> bool:
    """Whether predicates are marked; a store keeps no marks."""
    column = texts.columns[0]
    return not is_stored(column) and any(getattr(x, "predicates", None) is not None for x in column)


def require_predicates(texts: Texts) -> None:
    """Reject sentences without marks of predicates."""
    column = texts.columns[0]
    for index, source in enumerate([None] if is_stored(column) else column):
        if getattr(source, "predicates", None) is None:
            what, path, line = _locate_sentence(source, index, texts.where)
            raise DataError(
                f"{what} marks no predicate, as those that the model learnt from do",
                path=path,
                line=line,
                field="predicates",
                hint="Give CoNLL columns and {predicate_column}, or sentences with predicates, 0 or 1 for each word.",
                options=("predicate_column",),
            )


def require_features(texts: Texts, names: Iterable[str]) -> None:
    """Reject sentences without a feature of words."""
    column = texts.columns[0]
    if is_stored(column):
        raise DataError(
            f"the model reads the features {', '.join(names)} of words, and a store keeps none",
            hint="Give the corpus itself.",
        )
    for index, source in enumerate(column):
        missing = next((name for name in names if name not in (getattr(source, "features", None) or ())), None)
        if missing is not None:
            what, path, line = _locate_sentence(source, index, texts.where)
            raise DataError(
                f"{what} has no feature {missing!r} of words, which the model needs",
                path=path,
                line=line,
                hint=f"Give Sentence(words, features={{{missing!r}: ...}}) or rows with this column, one value for "
                f"each word; of files, {{feature_columns={missing}=COLUMN}} says which column has it.",
                options=("feature_columns",),
            )


def _locate_sentence(source: Any, index: int, where: str) -> tuple[str, str | None, int | None]:
    """What errors call a sentence, with its file and line if they are known."""
    path, line = getattr(source, "origin", None) or (None, None)
    return "this sentence" if path else f"sentence {index} of the {where}", path, line
