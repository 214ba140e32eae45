"""Read tables without a header: ``label<TAB>text``, pairs, and any order of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphattn.builders.files import FilePath, open_text, split_suffix
from graphattn.builders.readers.labels import check_label_separator, parse_label
from graphattn.builders.readers.rows import PlainRows, QuotedRows, equal_rows
from graphattn.builders.readers.skipping import Skip, map_with_errors
from graphattn.builders.sentence import Example
from graphattn.exceptions import ConfigError

_ROLES = ("label", "text", "second")


def read_labelled_lines(
    path: FilePath,
    *,
    columns: str | Sequence[str | None] = ("label", "text"),
    separator: str | None = None,
    label_separator: str | None = None,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from lines of a fixed number of fields, one at a time.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    columns : what each field holds: ``"text"``, ``"second"`` (of a pair), ``"label"``, or None for a field to skip;
        ``"text"`` reads one text per line
    separator : what stands between two fields, quotes being ordinary characters; None means a tab, and in a file
        named ``.csv`` a comma with CSV's double quotes
    label_separator : what stands between several labels of one example
    skip : is handed the error of each line that is left out; None stops at the first

    Returns
    -------
    An iterator over the lines as :class:`~graphattn.builders.sentence.Example`; an empty text is kept.

    Raises
    ------
    ConfigError
        when ``columns`` names no text, or one thing twice, or something else, or a separator is empty
    DataError
        when a line has another number of fields or an empty label; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tsv"
    >>> _ = path.write_text("pos\\t9\\ta fine film\\n")
    >>> list(read_labelled_lines(path, columns=("label", None, "text")))
    [Example(text='a fine film', second=None, label='pos')]
    """
    roles = (columns,) if isinstance(columns, str) else tuple(columns)
    _check_columns(roles)
    if separator == "":
        raise ConfigError("separator is empty. Set it to what stands between two fields, a tab say.")
    check_label_separator(label_separator)
    return _read_lines(path, roles, separator, label_separator, skip)


def _check_columns(roles: tuple[str | None, ...]) -> None:
    for role in roles:
        if role is not None and (role not in _ROLES or roles.count(role) > 1):
            problem = "twice" if role in _ROLES else "which no column can hold"
            raise ConfigError(
                f"columns {roles} name {role!r} {problem}."
                " Use 'text', 'second' and 'label' once each, None to skip one."
            )
    if "text" not in roles:
        raise ConfigError(f"columns {roles} name no 'text'. Say which column holds the text.")


def _read_lines(
    path: FilePath,
    roles: tuple[str | None, ...],
    separator: str | None,
    label_separator: str | None,
    skip: Skip | None,
) -> Iterator[Example]:
    place = {role: position for position, role in enumerate(roles) if role is not None}
    label, second = place.get("label"), place.get("second")
    with open_text(path) as lines:
        quoted = separator is None and split_suffix(path)[0] == ".csv"
        rows = QuotedRows(lines, ",") if quoted else PlainRows(lines, separator or "\t")
        full = equal_rows(
            rows,
            len(roles),
            lines.path,
            expected=f"{len(roles)} expected ({', '.join(role or 'skipped' for role in roles)})",
            hint="Complete the line, or set columns to what each field holds, None to skip one.",
            skip=skip,
        )

        def example(numbered: tuple[int, list[str]]) -> Example:
            line, row = numbered
            return Example(
                row[place["text"]],
                None if second is None else row[second],
                None if label is None else parse_label(row[label], label_separator, path=lines.path, line=line),
            )

        yield from map_with_errors(full, example, skip)
