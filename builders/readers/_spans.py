"""Read texts with spans of characters as JSON: our predictions, and exports of doccano, Label Studio and Prodigy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from graphattn.builders._paths import FilePath, display_name
from graphattn.builders._sentence import Sentence
from graphattn.builders._text_lines import TextLines, open_text
from graphattn.builders._word_boundaries import DEFAULT_SPLIT, WordSplitter
from graphattn.builders.readers._fields import LeftOutRecords, json_text, make_record_row, parse_object, read_record_row
from graphattn.builders.readers._rows import KeepRow, Skip, parse_lines
from graphattn.builders.readers._samples import SAMPLE_LINES
from graphattn.exceptions import DataError

_SPAN_FIELDS = ("spans", "entities", "ents", "label", "labels")
"""Fields that hold a text's spans even if no text of the file has one."""
_TOOLS = frozenset({"annotation_id", "_task_hash"})
"""Fields of Label Studio's JSON_MIN and of Prodigy, which leave out an empty list of spans."""


class _CharacterSpan(NamedTuple):
    start: int
    end: int
    type: str

    def __str__(self) -> str:
        return f"{self.type!r} from {self.start} to {self.end}"


def read_spans(
    path: FilePath, *, split: str = DEFAULT_SPLIT, keep_row: KeepRow | None = None, skip: Skip | None = None
) -> Iterator[Sentence]:
    """Read texts with spans, such as entities, one at a time; words get IOB2 tags.

    Each line is an object with ``text`` and, in any other field, a list of spans: objects with ``start``, ``end`` (one
    past the last character), or both in ``span``, and ``label`` or ``type``, or ``[start, end, label]``. So do
    ``graphattn predict --output spans``, doccano, Prodigy (whose ``tokens`` are the words) and spaCy write them. Label
    Studio's JSON and JSON_MIN and Rasa's examples work too. A text that was not accepted (Prodigy), or has no
    annotation (Label Studio) is left out. A text without spans has an empty list in a usual field such as ``spans``, or
    in one that holds spans on an earlier line or among the first 200.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    split : the rule that splits texts into words
    keep_row : receives all fields of the object of each sentence before the sentence is yielded

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.jsonl"
    >>> _ = path.write_text('{"text": "Ada wrote.", "label": [[0, 3, "PER"]]}\\n')
    >>> [(sentence.tokens, sentence.tags) for sentence in read_spans(path)]
    [(('Ada', 'wrote', '.'), ('B-PER', 'O', 'O'))]
    """
    return _read(path, WordSplitter.by_rule(split), keep_row, skip)


def _read(path: FilePath, splitter: WordSplitter, keep_row: KeepRow | None, skip: Skip | None) -> Iterator[Sentence]:
    name = display_name(path)
    left_out = LeftOutRecords(name)

    def parse(line: int, content: str) -> Sentence | None:
        record = parse_object(content)
        if left_out.rejects(record):
            return None
        spans = _find_spans(record, span_fields)
        left_out.unlabelled += spans is None
        if spans is None:
            return None
        sentence = _make_sentence(record, spans, splitter, (name, line))
        if sentence is not None and keep_row is not None:
            keep_row(make_record_row(record, lines))
        return sentence

    with open_text(path) as lines:
        span_fields = _sample_span_fields(lines)
        items = parse_lines(lines, parse, skip, make_row=lambda content: read_record_row(content, lines))
        yield from (item for item in items if item is not None)
    left_out.report()


def _sample_span_fields(lines: TextLines) -> set[str]:
    """Fields that hold spans in the first lines, and usual ones."""
    fields = {*_SPAN_FIELDS}
    for line in lines.sample(SAMPLE_LINES):
        with suppress(DataError):
            fields.update(_list_span_fields(parse_object(line)))
    return fields


def _list_span_fields(record: dict[str, Any]) -> list[str]:
    return [name for name, value in record.items() if isinstance(value, list) and value and all(map(_is_span, value))]


def _find_spans(record: dict[str, Any], span_fields: set[str]) -> list[Any] | None:
    """The list of spans in a record; None if nobody annotated it.

    An empty list in one of the ``span_fields`` says that there are none. Others that have spans are added to them.
    """
    annotations = record.get("annotations")
    if isinstance(annotations, list) and all(isinstance(item, dict) and "result" in item for item in annotations):
        return _find_regions(annotations)
    filled = _list_span_fields(record)
    if len(filled) > 1:
        names = " and ".join(map(repr, filled))
        raise DataError(f"spans in {names}", hint="Keep one of these fields.")
    span_fields.update(filled)
    if filled:
        spans: list[Any] = record[filled[0]]
        return spans
    for name in _SPAN_FIELDS:
        items = record.get(name)
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            problem = f"the objects in {name!r} are no spans, but have the keys {', '.join(map(repr, items[0]))}"
            raise DataError(problem, hint="Name these 'start', 'end' and 'label'.")
    if any(record.get(name) == [] for name in span_fields):
        return []
    if not _TOOLS.isdisjoint(record):
        return []
    fields = ", ".join(map(repr, record))
    hint = 'A line is {"text": "Ada wrote.", "spans": [{"start": 0, "end": 3, "label": "PER"}]}.'
    raise DataError(f"no spans in the fields {fields}", hint=hint)


def _find_regions(annotations: list[dict[str, Any]]) -> list[Any] | None:
    """The spans of a text in Label Studio's JSON; None if nobody annotated it."""
    annotations = [item for item in annotations if not item.get("was_cancelled")]
    annotations = [item for item in annotations if item.get("ground_truth")] or annotations
    if len(annotations) > 1:
        hint = "Keep one of them, or mark it as ground truth."
        raise DataError(f"{len(annotations)} annotations of one text", hint=hint)
    if not annotations:
        return None
    return [item["value"] for item in annotations[0]["result"] or () if _is_span(item.get("value"))]


def _is_span(item: object) -> bool:
    if isinstance(item, list):
        return len(item) == 3 and type(item[0]) is type(item[1]) is int
    return isinstance(item, dict) and _find_ends(item)[0] is not None and _find_type(item) is not None


def _find_ends(span: dict[str, Any]) -> tuple[Any, Any]:
    if isinstance(span.get("span"), list) and len(span["span"]) == 2:
        return tuple(span["span"])
    return span.get("start", span.get("start_offset")), span.get("end", span.get("end_offset"))


def _find_type(span: dict[str, Any]) -> Any:
    of_rasa = span.get("entity") if "value" in span else None  # others may have the text there
    names = span.get("label"), span.get("type"), *_list_labels(span), of_rasa
    return next((name for name in names if name is not None), None)


def _list_labels(span: dict[str, Any]) -> list[Any]:
    labels = span.get("labels")
    return labels if isinstance(labels, list) else [labels] if isinstance(labels, str) else []


def _make_sentence(
    record: dict[str, Any], items: list[Any], splitter: WordSplitter, origin: tuple[str, int]
) -> Sentence | None:
    text = _find_text(record)
    spans = sorted({_parse_span(item, text) for item in items})
    words = _find_words(record.get("tokens"), text) or next(splitter.split_with_offsets([text]))
    if not words and not spans:
        return None
    tags = ["O"] * len(words)
    for span in spans:
        inside = [at for at, (word, start) in enumerate(words) if start < span.end and start + len(word) > span.start]
        if not inside:
            raise _span_error(span, "covers no word", "Delete it.")
        for at in inside:
            word, start = words[at]
            if start < span.start or start + len(word) > span.end:
                hint = f"Let it begin and end where words do, here at {start} or {start + len(word)}."
                raise _span_error(span, f"cuts the word {word!r}", hint)
        tags[inside[0] : inside[-1] + 1] = [f"B-{span.type}", *[f"I-{span.type}"] * (len(inside) - 1)]
    for before, after in pairwise(spans):
        if after.start < before.end:
            raise _span_error(after, f"overlaps {before}", "Keep one of them: a word has one tag.")
    return Sentence([word for word, _ in words], tags=tags, origin=origin)


def _find_text(record: dict[str, Any]) -> str:
    """The text in ``text`` or, in Label Studio's ``data``, the only string."""
    fields = record["data"] if isinstance(record.get("data"), dict) else record
    strings = [name for name, value in fields.items() if isinstance(value, str)]
    name = strings[0] if fields is not record and len(strings) == 1 else "text"
    if name not in fields:
        present = ", ".join(map(repr, fields))
        hint = "Name the field of the text 'text'."
        raise DataError(f"there is no 'text' among the fields {present}", hint=hint)
    return json_text(fields[name], name)


def _find_words(tokens: Any, text: str) -> list[tuple[str, int]]:
    """The words of Prodigy and spaCy with their offsets, without blank ones; empty if there are none."""
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        return []
    ends = [(token.get("start"), token.get("end")) for token in tokens]
    if not all(type(end) is int for pair in ends for end in pair):
        return []
    return [(text[start:end], start) for start, end in ends if text[start:end].strip()]


def _parse_span(item: Any, text: str) -> _CharacterSpan:
    if isinstance(item, list):
        span, covered = _CharacterSpan(*item), None
    else:
        span, covered = _CharacterSpan(*_find_ends(item), _find_type(item)), item.get("text")
        labels = _list_labels(item)
        if any(label != labels[0] for label in labels):
            raise _span_error(span, f"has {len(labels)} labels", "Keep one of them: a word has one tag.")
    if not all(type(end) is int for end in span[:2]) or not isinstance(span.type, str) or not span.type.strip():
        raise _span_error(span, "has no two whole numbers and a name", "Write them as [0, 3, 'PER'].")
    if isinstance(covered, str) and text[span.start : span.end] != covered:
        units = text.encode("utf-16-le")  # of JavaScript, in which Label Studio counts
        start, end = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in span[:2])
        if text[start:end] != covered:
            shown = text[span.start : span.end]
            raise _span_error(span, f"covers {shown!r}, not {covered!r}", "Correct its offsets.")
        span = _CharacterSpan(start, end, span.type)
    if not 0 <= span.start < span.end <= len(text):
        problem = f"is not within the text of {len(text)} characters"
        raise _span_error(span, problem, "Count characters from 0, the end is one past the last.")
    shown, longer = text[span.start : span.end], text[span.start : span.end + 1]
    # a name such as "Apple Inc." may also be that of a span without its full stop
    is_cut = text[span.end : span.end + 1].isalnum()
    if isinstance(item, dict) and is_cut and longer in item.values() and shown not in item.values():
        raise _span_error(span, f"covers {shown!r}, not {longer!r}", "The end is one past the last character.")
    return span


def _span_error(span: _CharacterSpan, problem: str, hint: str) -> DataError:
    return DataError(f"the span {span} {problem}", field="spans", hint=hint)
