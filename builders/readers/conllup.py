"""Read CoNLL-U with other columns: CoNLL-U Plus, CoNLL-X, Malt-TAB and their like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from graphattn.builders.files import BLANKS, FilePath, display_name, numbered_lines
from graphattn.builders.readers.conllu import UNSPECIFIED, TreeColumns, read_trees
from graphattn.builders.readers.rows import Skip, raise_or_skip
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import DataError

GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.*)", re.IGNORECASE)
"""The comment that names the columns."""
_ROLES = {"index": "id", "token": "form", "tag": "upos"}
"""Names of columns that users may give -> those of CoNLL-U."""


def read_conllup(
    path: FilePath,
    *,
    columns: Sequence[str | None] | None = None,
    tags: str | None = "upos",
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read sentences from CoNLL-U with other columns, one at a time: CoNLL-U Plus, CoNLL-X, Malt-TAB and their like.

    Parameters
    ----------
    path : the treebank, plain or compressed, or ``"-"`` for standard input
    columns : what each column holds: ``"index"``, ``"token"``, ``"tag"``, ``"head"``, ``"deprel"``, a name of your own,
        or None to skip it; lines may have more columns at their ends. None reads the names in the line
        ``# global.columns = ...``
    tags : the column of the tags, or ``COLUMN:KEY``, as for :func:`read_conllu`
    skip : receives the error of each sentence that is left out; None raises the first

    Returns
    -------
    An iterator over the sentences as :class:`~graphattn.builders.sentence.Sentence`; they have heads if there is a
    column of heads.

    Raises
    ------
    ConfigError
        when the columns lack the tokens or the tags
    DataError
        when there are no names of columns, or a line is not valid; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tab"
    >>> _ = path.write_text("Dogs\\tNNS\\t2\\tSBJ\\nbark\\tVBP\\t0\\tROOT\\n\\n")
    >>> sentence = next(read_conllup(path, columns=("token", "tag", "head", "deprel")))
    >>> sentence.heads, sentence.tags
    ((2, 0), ('NNS', 'VBP'))
    """
    if columns is None:
        return _read_with_global_columns(path, tags, skip)
    names = [_ROLES.get(name.lower(), name.lower()) if name else UNSPECIFIED for name in columns]
    layout = TreeColumns.of(names, tags, exact=False)
    return read_trees(numbered_lines(path), display_name(path), layout, raise_or_skip, skip)


def _read_with_global_columns(path: FilePath, tags: str | None, skip: Skip | None) -> Iterator[Sentence]:
    lines = numbered_lines(path)
    for line, content in lines:
        named = GLOBAL_COLUMNS.match(content)
        if named is not None:
            names = named[1].lower().split()
            yield from read_trees(lines, display_name(path), TreeColumns.of(names, tags), raise_or_skip, skip)
            return
        if content.strip(BLANKS) and not content.startswith("#"):
            raise DataError(
                "the columns have no names",
                path=display_name(path),
                line=line,
                hint="Begin the file with # global.columns = ID FORM ..., or set {columns} to what each column holds.",
                options=("columns",),
            )
