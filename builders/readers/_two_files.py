"""Read two files, one of texts and one of labels, line by line: ``texts.txt,labels.txt``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Example, Label, TableRow
from graphattn.builders._text_lines import open_text
from graphattn.builders.readers._rows import KeepRow, Skip, map_with_errors
from graphattn.exceptions import DataError


def split_two_files(path: FilePath) -> tuple[str, str] | None:
    """The file of texts and the file of labels that a path names; None if it is one file."""
    texts, comma, labels = os.fspath(path).partition(",")
    if not comma or os.path.exists(path) or not (os.path.exists(texts) or os.path.exists(labels)):
        return None
    return texts, labels


def read_two_files(
    texts: FilePath,
    labels: FilePath,
    *,
    label_separator: str | None = None,
    multilabel: bool = False,
    encoding: str | None = None,
    keep_row: KeepRow | None = None,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read a text and a label on each line of two files, one at a time.

    Parameters
    ----------
    texts, labels : the files, plain or compressed
    label_separator : the characters between several labels of a text
    multilabel : a line has several labels, also without a separator; an empty one has none
    encoding, keep_row, skip : as for :func:`read_corpus`

    Raises
    ------
    DataError
        when a label is missing, or one file has more lines than the other

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "texts.txt").write_text("a fine film\\nso dull\\n")
    >>> _ = (folder / "labels.txt").write_text("1\\n0\\n")
    >>> [(example.text, example.label) for example in read_two_files(folder / "texts.txt", folder / "labels.txt")]
    [('a fine film', '1'), ('so dull', '0')]
    """
    has_several = multilabel or label_separator is not None
    with open_text(texts, encoding) as text_lines, open_text(labels, encoding) as label_lines:

        def parse(pair: tuple[str | None, str | None]) -> Example:
            text, name = (None if line is None else line.removesuffix("\n") for line in pair)
            if text is None or name is None:
                ended, longer = (text_lines, label_lines) if text is None else (label_lines, text_lines)
                missing = "text" if text is None else "label"
                problem = f"there is no {missing}, since {ended.path} ends before it"
                raise DataError(problem, path=longer.path, line=longer.line, hint="Give as many texts as labels.")
            if not name.strip() and not has_several:
                hint = "Delete the line in both files, or name the label."
                raise DataError("the label is empty", path=label_lines.path, line=label_lines.line, hint=hint)
            parts = name.split(label_separator) if label_separator is not None else [name]
            label: Label = tuple(filter(None, map(str.strip, parts))) if has_several else name.strip()
            if keep_row is not None:
                keep_row(TableRow(("text", "label"), (text, name)))
            return Example(text, label=label)

        yield from map_with_errors(zip_longest(text_lines, label_lines), parse, skip)
