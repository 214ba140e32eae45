"""Parse blocks of CoNLL-U into columns in compiled loops, without Python objects for tokens.

The parser handles valid CoNLL-U only. For anything else the caller uses
:func:`~graphattn.builders.readers.read_conllu`, which reports errors with their line.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn._ragged import Ints

_COMPILE: Any = {"nogil": True, "cache": True}
TAG_COLUMNS = {"upos": 3, "xpos": 4, None: 1}
"""Tags that are read here -> their column."""
_TAB, _NEWLINE, _RETURN, _HASH, _UNDERSCORE, _MINUS, _POINT, _ZERO, _NINE = (ord(c) for c in "\t\n\r#_-.09")
_MAX_DIGITS = 9


def read_conllu_columns(data: bytes, *, tags: str | None = "upos") -> pa.Table | None:
    """Parse whole sentences of CoNLL-U.

    Returns the columns of the sentences that ``read_conllu`` yields; None unless the text is valid CoNLL-U.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = np.frombuffer(data, np.uint8)
    lines = int(np.count_nonzero(text == _NEWLINE)) + 1
    fields = np.empty((3, 2, lines), np.int64)  # begin and end of form, tag and deprel
    heads = np.empty(lines, np.int32)
    lengths = np.empty(lines, np.int32)
    present = np.empty((3, lines), np.bool_)  # whether a sentence has heads, deprels, tags
    words, sentences = _scan(text, TAG_COLUMNS[tags], fields, heads, lengths, present)
    if words < 0:
        return None
    lengths, present = lengths[:sentences], present[:, :sentences]
    if not _are_trees(heads[:words], lengths, present[0]):
        return None
    forms, tag_names, deprels = (_strings(text, fields[column, :, :words]) for column in range(3))
    return pa.table(
        {
            "length": pa.array(lengths),
            "tokens": _lists(forms, lengths, np.ones(sentences, bool)),
            "heads": _lists(pa.array(heads[:words]), lengths, present[0]),
            "deprels": _lists(deprels, lengths, present[1]),
            "tags": _lists(tag_names, lengths, present[2] & (tags is not None)),
        }
    )


def _strings(text: npt.NDArray[Any], spans: Ints) -> pa.StringArray:
    """The substrings of a text between begins and ends."""
    begins, ends = spans
    offsets = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(ends - begins, out=offsets[1:])
    values = np.empty(int(offsets[-1]), np.uint8)
    _gather(text, begins, offsets, values)
    return pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(values))


def _lists(values: pa.Array, lengths: Ints, present: npt.NDArray[Any]) -> pa.ListArray:
    """One list for each sentence, null unless present."""
    if not present.all():
        values = values.filter(pa.array(np.repeat(present, lengths)))
        lengths = np.where(present, lengths, 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~present))


@numba.njit(**_COMPILE)
def _gather(text, begins, offsets, out):  # type: ignore[no-untyped-def]
    for word in range(len(begins)):
        source, target = begins[word], offsets[word]
        for byte in range(offsets[word + 1] - target):
            out[target + byte] = text[source + byte]


@numba.njit(**_COMPILE)
def _scan(text, tag_column, fields, heads, lengths, present):  # type: ignore[no-untyped-def]
    """Fill the columns; returns the number of words and sentences, or -1 and 0 at an invalid line."""
    words = sentences = position = first = 0  # first: first word of the sentence
    has_head = misses_head = has_deprel = has_tag = False
    tabs = np.empty(9, np.int64)
    size = len(text)
    while position <= size:
        start = position
        if start < size and text[start] == _HASH:
            while position < size and text[position] != _NEWLINE:
                if text[position] == 0:
                    return -1, 0
                position += 1
            position += 1
            continue
        columns = 0
        while position < size and text[position] != _NEWLINE:
            if text[position] == _TAB:
                if columns == 9:
                    return -1, 0
                tabs[columns] = position
                columns += 1
            elif text[position] == 0:
                return -1, 0
            position += 1
        stop = position
        if position < size and stop > start and text[stop - 1] == _RETURN:
            stop -= 1
        position += 1
        if stop == start:
            count = words - first
            if count:
                if has_head and misses_head:
                    return -1, 0
                lengths[sentences] = count
                present[0, sentences] = has_head
                present[1, sentences] = has_head and has_deprel
                present[2, sentences] = has_tag
                sentences += 1
                first = words
                has_head = misses_head = has_deprel = has_tag = False
            continue
        if columns != 9:
            return -1, 0
        kind = _kind_of_id(text, start, tabs[0], words - first + 1)
        if kind < 0:
            return -1, 0
        if kind == 0:
            continue
        for field, column in enumerate((1, tag_column, 7)):
            begin, end = tabs[column - 1] + 1, tabs[column]
            if begin == end:
                return -1, 0
            fields[field, 0, words], fields[field, 1, words] = begin, end
        has_tag |= not _is_unspecified(text, fields[1, 0, words], fields[1, 1, words])
        has_deprel |= not _is_unspecified(text, fields[2, 0, words], fields[2, 1, words])
        head = _number(text, tabs[5] + 1, tabs[6])
        if head < 0 and not _is_unspecified(text, tabs[5] + 1, tabs[6]):
            return -1, 0
        has_head |= head >= 0
        misses_head |= head < 0
        heads[words] = max(head, 0)
        words += 1
    return (words, sentences) if words == first else (-1, 0)


@numba.njit(**_COMPILE)
def _kind_of_id(text, begin, end, expected):  # type: ignore[no-untyped-def]
    """1 for the expected word, 0 for a range or an empty node, -1 otherwise."""
    if _number(text, begin, end) == expected:
        return 1
    for middle in range(begin + 1, end - 1):
        if text[middle] == _MINUS or text[middle] == _POINT:
            left, right = _number(text, begin, middle), _number(text, middle + 1, end)
            empty_node = text[middle] == _POINT and left >= 0 and right > 0
            word_range = text[middle] == _MINUS and 0 < left <= right
            return 0 if empty_node or word_range else -1
    return -1


@numba.njit(**_COMPILE)
def _number(text, begin, end):  # type: ignore[no-untyped-def]
    """Parse digits without leading zeros; -1 otherwise."""
    if begin == end or end - begin > _MAX_DIGITS or (text[begin] == _ZERO and end - begin > 1):
        return -1
    number = 0
    for position in range(begin, end):
        if text[position] < _ZERO or text[position] > _NINE:
            return -1
        number = number * 10 + (text[position] - _ZERO)
    return number


@numba.njit(**_COMPILE)
def _is_unspecified(text, begin, end):  # type: ignore[no-untyped-def]
    return end - begin == 1 and text[begin] == _UNDERSCORE


@numba.njit(**_COMPILE)
def _are_trees(heads, lengths, is_parsed):  # type: ignore[no-untyped-def]
    """Whether all heads are words of their sentence and lead to a root."""
    visited_from = np.empty(lengths.max() + 1 if len(lengths) else 1, np.int32)
    start = 0
    for sentence in range(len(lengths)):
        count = lengths[sentence]
        if is_parsed[sentence]:
            for word in range(start, start + count):
                if heads[word] > count:
                    return False
            visited_from[: count + 1] = 0
            for word in range(1, count + 1):
                node = word
                while node != 0 and visited_from[node] == 0:
                    visited_from[node] = word
                    node = heads[start + node - 1]
                if node != 0 and visited_from[node] == word:
                    return False
        start += count
    return True
