"""Read fastText's training format: lines such as ``__label__joy what a day``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Example, Label
from graphattn.builders._text_lines import BLANKS
from graphattn.builders.readers._fields import drop_repeated_labels
from graphattn.builders.readers._rows import Skip, parse_lines
from graphattn.exceptions import ConfigError, DataError, verbatim


def read_fasttext(
    path: FilePath,
    *,
    multilabel: bool = False,
    prefix: str = "__label__",
    require_label: bool = True,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from lines such as ``__label__joy what a day``, one at a time.

    As in fastText, every word that begins with the prefix is a label, and words are between ASCII blanks: a no-break
    space is part of a label.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    multilabel : give each example a tuple of labels, empty when it has none
    prefix : the first characters of a label
    require_label : reject lines without a label when ``multilabel`` is False, and blank lines except at the end;
        otherwise a line without one, or whose label has no name, has the label None

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("__label__joy __label__love what a day\\n")
    >>> list(read_fasttext(path, multilabel=True))
    [Example(text='what a day', second=None, label=('joy', 'love'))]
    """
    if not prefix or {*BLANKS} & {*prefix}:
        raise ConfigError(
            f"{{prefix}} is {prefix!r}. Set it to the first characters of labels, '__label__' for example",
            options=("prefix",),
        )
    labelled = re.compile(rf"(?<![^{BLANKS}]){re.escape(prefix)}([^{BLANKS}]*)")

    def parse(_: int, line: str) -> Example:
        labels = [label.strip() for label in labelled.findall(line)]
        if "" in labels and require_label:
            raise DataError(f"{prefix!r} has no name after it", hint="Add the name.")
        joined = next((name for name in labels if prefix in name), None)
        if joined is not None and require_label and len(prefix) > 1:
            problem = f"the label {joined!r} has {prefix!r} inside"
            raise DataError(verbatim(problem), hint="Put a blank before each label.")
        label: Label | None = drop_repeated_labels(labels)
        if not multilabel:
            label = _single_label([name for name in labels if name], prefix, require_label=require_label)
        return Example(labelled.sub("", line).strip(BLANKS), label=label)

    return parse_lines(path, parse, skip, reject_blank=require_label)


def _single_label(labels: list[str], prefix: str, *, require_label: bool) -> str | None:
    if len(labels) > 1:
        problem = f"{len(labels)} labels where one is expected"
        raise DataError(problem, hint="Use {multilabel=True}.", options=("multilabel",))
    if not labels and require_label:
        raise DataError(f"no word begins with {prefix!r}", hint="Add the label.")
    return labels[0] if labels else None
