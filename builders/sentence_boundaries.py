"""Where the sentences of a text end, told by punctuation: a simple rule for texts that come without boundaries."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = ".!?\u2026\u3002\uff01\uff1f"  # with the ellipsis, the ideographic full stop and its wide companions
_CLOSERS = "\"'\u201d\u2019\u00bb)]}"  # quotes and brackets
_BLANK = "\u2581?"  # may stand before a word in sub-words that remember blanks
_END = re.compile(f"{_BLANK}[{re.escape(_MARKS)}]+[{re.escape(_CLOSERS)}]*")
_CLOSING = re.compile(f"{_BLANK}[{re.escape(_CLOSERS)}]+")


def sentence_ids(words: Sequence[str]) -> tuple[int, ...]:
    """The 0-based sentence of each word.

    A sentence ends with a word of sentence-final punctuation alone, and with the closing quotes and brackets behind
    it. An abbreviation that keeps its full stop (``Dr.``) ends none.

    Parameters
    ----------
    words : those of one text

    Examples
    --------
    >>> sentence_ids(["He", "said", '"', "no", ".", '"', "Dr.", "X", "left", "!"])
    (0, 0, 0, 0, 0, 0, 1, 1, 1, 1)
    """
    ids, sentence, ended = [], 0, False
    for word in words:
        ends = _END.fullmatch(word) is not None
        if ended and not ends and not _CLOSING.fullmatch(word):
            sentence, ended = sentence + 1, False
        ended = ended or ends
        ids.append(sentence)
    return tuple(ids)
