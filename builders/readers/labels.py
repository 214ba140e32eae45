"""Turn the label field of a corpus into the label of an example."""

from __future__ import annotations

from collections.abc import Iterable

from graphattn.builders.sentence import Label
from graphattn.exceptions import ConfigError, DataError


def parse_label(field: str, separator: str | None, *, path: str, line: int) -> Label:
    """The label a field holds, without the blanks around it.

    Parameters
    ----------
    field : as it stands in the file
    separator : what stands between the labels of one example; None when each example has exactly one
    path, line : where the field stands, for errors

    Returns
    -------
    One name; with a ``separator`` a tuple of names, which may be empty.

    Examples
    --------
    >>> parse_label(" 1 ", None, path="train.csv", line=2)
    '1'
    >>> parse_label("joy|love", "|", path="train.csv", line=2)
    ('joy', 'love')
    """
    if separator is not None:
        return distinct_labels(field.split(separator))
    label = field.strip()
    if not label:
        raise DataError(
            "the label is empty",
            path=path,
            line=line,
            hint="Fill it in, or read the file without its label column; where texts may have none or several, "
            "set label_separator to what stands between labels.",
        )
    return label


def check_label_separator(separator: str | None) -> None:
    """Refuse an empty one.

    Raises
    ------
    ConfigError
        when it is empty
    """
    if separator == "":
        raise ConfigError("label_separator is empty. Set it to what stands between two labels of a text, '|' say.")


def distinct_labels(names: Iterable[str]) -> tuple[str, ...]:
    """The names that are not blank, each once, in their order."""
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
