"""Read sentences as JSON Lines: tokens with heads, tags and labels, the fields of ``Sentence`` by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from graphattn.builders._paths import FilePath, display_name
from graphattn.builders._sentence import Sentence
from graphattn.builders._text_lines import TextLines, open_text
from graphattn.builders.readers._cells import find_cell, parse_cell_columns, read_cells
from graphattn.builders.readers._fields import (
    json_label,
    json_text,
    make_record_row,
    parse_feature_columns,
    parse_object,
    read_record_row,
)
from graphattn.builders.readers._rows import KeepRow, Skip, parse_lines
from graphattn.exceptions import DataError, verbatim

_LISTS: dict[str, type] = {
    "tokens": str,
    "word_ids": int,
    "heads": int,
    "deprels": str,
    "tags": str,
    "sentence_ids": int,
    "predicates": int,
}
_EXPECTED = {str: "a list of strings", int: "a list of whole numbers"}
_EXAMPLE = 'A line is {"tokens": ["Dogs", "bark"], "heads": [2, 0]}'


def read_sentences(
    path: FilePath,
    *,
    tags: str | None = "tags",
    feature_columns: Sequence[str] = (),
    keep_row: KeepRow | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read sentences from JSON Lines, one at a time.

    Each line is an object with ``tokens`` and, optionally, ``word_ids``, ``heads`` (1-based words, 0 for a root),
    ``deprels``, ``tags``, ``sentence_ids``, ``predicates`` (0 or 1 for each word), ``links`` (pairs of 0-based words)
    and ``label`` (a string or a number, or a list of them; blank if there is none). Other keys are ignored. The tokens
    may be called ``words``.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    tags : the field of the tags; for the default also the only field whose name ends in ``_tags``, such as
        ``ner_tags``; None reads no tags
    feature_columns : further fields with a list of one value for each word, which become the ``features`` of sentences:
        ``"pos"``, or ``"pos=xpos"`` with another name; fields with one value, which become the ``cells``, have a kind
        as for :func:`~graphattn.builders.readers.read_table`
    keep_row : receives all fields of the object of each sentence before the sentence is yielded

    Raises
    ------
    DataError
        when a line is not such an object, or its fields do not fit together; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trees.jsonl"
    >>> _ = path.write_text('{"tokens": ["Dogs", "bark"], "heads": [2, 0]}\\n')
    >>> next(read_sentences(path)).heads
    (2, 0)
    """

    name, columns = display_name(path), parse_cell_columns(feature_columns)
    cells = [column for column in columns if column.kind]
    features = parse_feature_columns(
        [text for text, column in zip(feature_columns, columns, strict=True) if not column.kind]
    )

    def parse(lines: TextLines, line: int, content: str) -> Sentence:
        record = parse_object(content)
        beside = read_cells(cells, partial(find_cell, record))
        sentence = Sentence(**parse_fields(record, tags, features), cells=beside, origin=(name, line))
        if keep_row is not None:
            keep_row(make_record_row(record, lines))
        return sentence

    def read() -> Iterator[Sentence]:
        with open_text(path) as lines:
            make_row = partial(read_record_row, lines=lines)
            yield from parse_lines(lines, partial(parse, lines), skip, make_row=make_row)

    return read()


def parse_fields(record: dict[str, Any], tags: str | None, features: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The arguments of a ``Sentence`` in a record; ``tags`` as for :func:`read_sentences`.

    ``features`` are name -> field.
    """
    features = features or {}
    others = {name: value for name, value in record.items() if name not in features.values()}
    names = {name: name for name in _LISTS} | {"tags": _find_tags(others, tags)}
    if "tokens" not in record:
        names["tokens"] = "words"
    if record.get(names["tokens"]) is None:
        raise DataError(
            "there are no tokens", field=names["tokens"] if names["tokens"] in record else "tokens", hint=_EXAMPLE + "."
        )
    fields: dict[str, Any] = {
        name: _parse_list(record[names[name]], item_type, names[name])
        for name, item_type in _LISTS.items()
        if record.get(names[name]) is not None
    }
    if features:
        fields["features"] = {name: _parse_feature(record, name, field) for name, field in features.items()}
    links = record.get("links")
    if links is not None:
        if not isinstance(links, list) or not all(_is_pair(link) for link in links):
            raise DataError("this is not a list of pairs of whole numbers", field="links", hint="Write [[0, 1]].")
        fields["links"] = tuple(map(tuple, links))
    label = record.get("label")
    if label is not None and not (isinstance(label, str) and not label.strip()):
        fields["label"] = json_label(label, None, "label")
    return fields


def _find_tags(record: dict[str, Any], tags: str | None) -> str:
    """The name of the field that holds the tags; empty for none."""
    if tags is None or tags in record:
        return tags or ""
    others = [name for name, value in record.items() if name.endswith("_tags") and isinstance(value, list)]
    if tags != "tags" or (len(others) > 1 and "label" not in record):
        present = verbatim(", ".join(map(repr, others)) or "no others")
        problem = f"the tags are not in {verbatim(repr(tags))}; there are {present}"
        raise DataError(problem, hint="Set {tags} to the field to read.", options=("tags",))
    return others[0] if len(others) == 1 else ""


def _parse_list(values: object, item_type: type, name: str) -> tuple[Any, ...]:
    if not isinstance(values, list) or not all(type(value) is item_type for value in values):
        if name.endswith("tags") and isinstance(values, list) and all(type(value) is int for value in values):
            hint = "Write the names of the tags; in Hugging Face's datasets, int2str of the feature has them."
            raise DataError("these are numbers of tags, not tags", field=name, hint=hint)
        raise DataError(f"this is not {_EXPECTED[item_type]}", field=name, hint=_EXAMPLE + ".")
    if item_type is str and not "".join(values).isascii():
        for value in values:
            json_text(value, name)
    return tuple(values)


def _parse_feature(record: dict[str, Any], name: str, field: str) -> list[str]:
    values = record.get(field)
    if not isinstance(values, list) or not all(
        isinstance(value, (str, int, float)) and value == value for value in values
    ):
        problem = "this is not a list of strings or numbers" if field in record else "there is no such field"
        hint = f"Give one value for each word; {{feature_columns={verbatim(name)}=FIELD}} reads another field of files."
        raise DataError(problem, field=field, hint=hint, options=("feature_columns",))
    return [json_text(value, field) if isinstance(value, str) else str(value) for value in values]


def _is_pair(link: object) -> bool:
    return isinstance(link, list) and len(link) == 2 and all(type(word) is int for word in link)
