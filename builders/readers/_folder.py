"""Read a folder of texts: a file is one text, and the folder that it is in names its class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from graphattn.builders._paths import FilePath, describe_directory
from graphattn.builders._sentence import Example, TableRow
from graphattn.builders._text_lines import open_text, split_suffix
from graphattn.builders.readers._formats import reject_table
from graphattn.builders.readers._rows import Skip, map_with_errors
from graphattn.exceptions import DataError, Hint, printable, warn_caller

_UNLABELLED = {"unsup", "unlabeled", "unlabelled"}
"""Folders whose texts have no label, such as IMDB's."""


def read_folder(
    path: FilePath,
    *,
    require_label: bool = True,
    encoding: str | None = None,
    skip: Skip | None = None,
    keep_row: Callable[[TableRow], None] | None = None,
) -> Iterator[Example]:
    """Read the texts of a folder, in the order of the names of classes and files.

    Each folder in it is a class, and every file there is a text, plain or compressed. Files beside these folders,
    hidden ones, and the folder ``unsup``, ``unlabeled`` or ``unlabelled`` are left out. Without folders, its ``.txt``
    files are the texts.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> (folder / "pos").mkdir()
    >>> _ = (folder / "pos" / "1.txt").write_text("A fine film.\\n")
    >>> list(read_folder(folder))
    [Example(text='A fine film.', second=None, label='pos')]
    """
    folder = Path(path)
    folders, files = _list(folder)
    classes = [each for each in folders if each.name.lower() not in _UNLABELLED]
    if classes:
        files = [file for each in classes for file in _list_texts(each, folder)]
        _hint_at_unlabelled(folders, classes)
    else:
        files = [file for file in files if split_suffix(file)[0] == ".txt"]
        if require_label or not files:
            raise _directory_error(folder, texts=len(files))

    def make_row(file: Path, text: str | None) -> TableRow:
        return TableRow(("file", "text"), (printable(file.relative_to(folder).as_posix()), text))

    def read(file: Path) -> Example:
        try:
            with open_text(file, encoding, split_returns=False) as lines:
                text = "".join(lines).removesuffix("\n")
        except DataError as error:
            error.row = make_row(file, None)
            raise
        if keep_row is not None:
            keep_row(make_row(file, text))
        return Example(text, label=printable(file.parent.name) if classes else None)

    return map_with_errors(iter(files), read, skip)


def _list(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files in a folder that are not hidden, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            visible = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda each: each.name)
    except OSError as error:
        hint = "Check the path and its permissions."
        raise DataError(f"cannot be read as a folder ({error.strerror})", path=folder, hint=hint) from error
    folders = [folder / entry.name for entry in visible if entry.is_dir()]
    return folders, [folder / entry.name for entry in visible if not entry.is_dir()]


def _list_texts(folder: Path, root: Path) -> list[Path]:
    inner, files = _list(folder)
    if inner:
        names = ", ".join(each.name for each in inner[:3]) + ", ..." * (len(inner) > 3)
        hint = f"Name the folder whose folders are the classes, such as {folder}."
        raise DataError(f"has folders in its folder {folder.name!r}: {names}", path=root, hint=hint)
    for file in files:
        reject_table(file, f"In a folder of classes each file is one text. To read the table, name it: {file}.")
    return files


def _hint_at_unlabelled(folders: list[Path], classes: list[Path]) -> None:
    for folder in folders:
        if folder not in classes:
            count = len(_list(folder)[1])
            texts = f"{count:,} text{'s' * (count != 1)} without labels"
            warn_caller(Hint(f"{folder}: {texts} left out; rename the folder if it is a class"))


def _directory_error(folder: Path, *, texts: int) -> DataError:
    content = describe_directory(folder)
    if content is not None:
        return DataError("is a directory, not a file", path=folder, hint=f"It is {content}.")
    problem = f"has {texts:,} .txt file{'s' * (texts != 1)}, but no folder for each class" if texts else "has no texts"
    return DataError(problem, path=folder, hint="Name a file inside it, or put each text into a folder of its class.")
