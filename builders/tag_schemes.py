"""Chunk tags: detect IOB1, IOB2 and BIOES, turn them into spans, and convert one scheme into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphattn.exceptions import ConfigError, DataError

Span = tuple[str, int, int]

SCHEMES = ("IOB1", "IOB2", "BIOES", "none")

_PREFIXES = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES"}
_Parsed = tuple[str, str]
_Place = tuple[int, int, str]

_OUTSIDE: _Parsed = ("O", "")
_PLAIN: _Parsed = ("", "")


def detect_scheme(tag_sequences: Iterable[Sequence[str]], *, name: Callable[[int], str] = "sequence {}".format) -> str:
    """Name the scheme in which sequences of tags are written.

    ``E-`` or ``S-`` anywhere means BIOES. Otherwise a span that begins with ``I-`` means IOB1, and one that begins with
    ``B-`` without following a span of its own type means IOB2. Tags that are neither ``O`` nor of the form ``B-TYPE``
    (or a bare ``B``) are plain (``"none"``); ``O`` alone fits every scheme and counts as IOB2.

    Parameters
    ----------
    tag_sequences : the tags of each sentence; read once, so it may be a generator
    name : what errors call a sequence, by its 0-based number

    Returns
    -------
    ``"IOB1"``, ``"IOB2"``, ``"BIOES"`` or ``"none"``.

    Raises
    ------
    DataError
        when the sequences follow neither IOB1 nor IOB2 throughout, or plain tags stand among those of spans; the
        message tells where

    Examples
    --------
    >>> detect_scheme([["I-PER", "I-PER", "O"], ["I-LOC", "B-LOC"]])
    'IOB1'
    >>> detect_scheme([["B-PER", "I-PER", "O"]]), detect_scheme([["S-PER"]]), detect_scheme([["DT", "NN"]])
    ('IOB2', 'BIOES', 'none')
    """
    first: dict[str, _Place] = {}
    for number, tags in enumerate(tag_sequences):
        previous = _OUTSIDE
        for position, tag in enumerate(tags, start=1):
            current = _split(tag, "BIES") or _PLAIN
            kinds = [scheme for scheme in ("IOB1", "IOB2") if _fault(previous, current, scheme)]
            if current is _PLAIN:
                kinds.append("plain")
            if current[0] in "ES":
                kinds.append("BIOES")
            if current[1]:
                kinds.append("typed")
            for kind in kinds:
                first.setdefault(kind, (number, position, tag))
            previous = current
    return _judge(first, name)


def spans(tags: Sequence[str], scheme: str, *, repair: bool = False) -> list[Span]:
    """The spans that tags mark, as (type, first token, token after the last).

    Parameters
    ----------
    tags : one for each token
    scheme : ``"IOB1"``, ``"IOB2"``, ``"BIOES"``; or ``"none"``, in which each token is a span of its own
    repair : read an invalid sequence as conlleval does instead of refusing it: a tag that cannot continue the span
        before it begins a new one, and a span that is not closed ends where it stops

    Raises
    ------
    ConfigError
        when there is no such scheme
    DataError
        when a tag is not of the scheme (whatever ``repair`` is) or cannot stand where it does

    Examples
    --------
    >>> spans(["B-PER", "I-PER", "O", "B-LOC"], "IOB2")
    [('PER', 0, 2), ('LOC', 3, 4)]
    >>> spans(["O", "I-PER"], "IOB2", repair=True)
    [('PER', 1, 2)]
    """
    _check_scheme(scheme)
    if scheme == "none":
        return [(tag, position, position + 1) for position, tag in enumerate(tags)]
    parsed = _parse(tags, scheme)
    if not repair:
        _check_order(tags, parsed, scheme)
    return _spans(parsed, scheme)


def tags_of_spans(marked: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Write spans as tags, the inverse of :func:`spans`.

    Parameters
    ----------
    marked : (type, first token, token after the last), in their order
    length : number of tokens
    scheme : ``"IOB1"``, ``"IOB2"``, ``"BIOES"`` or ``"none"``

    Raises
    ------
    ConfigError
        when there is no such scheme
    DataError
        when a span is empty, overlaps the one before, or ends beyond the last token

    Examples
    --------
    >>> tags_of_spans([("PER", 0, 2), ("PER", 2, 3)], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    before: Span = ("", 0, 0)
    for span in marked:
        name, start, end = span
        if not before[2] <= start < end <= length:
            raise DataError(
                f"span {span} does not fit between token {before[2]} and token {length}",
                field="tags",
                hint="Spans stand in order, do not overlap, and hold at least one token.",
            )
        touches = before[0] == name and before[2] == start > 0
        tags[start:end] = _write(name, end - start, scheme, touches=touches)
        before = span
    return tags


def convert(tags: Sequence[str], source: str, target: str, *, repair: bool = False) -> list[str]:
    """Rewrite tags of one scheme in another; the spans stay the same.

    Parameters
    ----------
    tags : one for each token
    source, target : ``"IOB1"``, ``"IOB2"`` or ``"BIOES"``; plain tags (``"none"``) convert only into themselves
    repair : see :func:`spans`

    Raises
    ------
    ConfigError
        when there is no such scheme, or only one of them is ``"none"``
    DataError
        when the tags are not valid in ``source``

    Examples
    --------
    >>> convert(["I-PER", "I-PER", "B-PER", "O"], "IOB1", "BIOES")
    ['B-PER', 'E-PER', 'S-PER', 'O']
    """
    _check_scheme(source)
    _check_scheme(target)
    if "none" in (source, target):
        if source != target:
            raise ConfigError(
                f"tags cannot go from {source} to {target}. Plain tags mark no spans: leave them as they are."
            )
        return list(tags)
    return tags_of_spans(spans(tags, source, repair=repair), len(tags), target)


def _judge(first: dict[str, _Place], name: Callable[[int], str]) -> str:
    """The scheme, from where a tag of each kind, or a tag that breaks IOB1 or IOB2, stands first."""

    def place(kind: str) -> str:
        number, position, tag = first[kind]
        return f"tag {position} ({tag!r}) of {name(number)}"

    clash = None
    if "plain" in first:
        if "typed" not in first:
            return "none"
        clash = f"{place('typed')} belongs to spans and {place('plain')} does not"
    elif "BIOES" in first:
        return "BIOES"
    elif "IOB1" in first and "IOB2" in first:
        clash = f"{place('IOB1')} breaks IOB1 and {place('IOB2')} breaks IOB2"
    if clash:
        raise DataError(clash, field="tags", hint="Correct the tags, or name their scheme and set repair to True.")
    return "IOB1" if "IOB2" in first else "IOB2"


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise ConfigError(f"there is no tag scheme {scheme!r}. Use one of {', '.join(map(repr, SCHEMES))}.")


def _split(tag: str, prefixes: str) -> _Parsed | None:
    """Prefix and type of a tag; None when it has neither the form ``B-TYPE`` nor is a bare ``B`` or ``O``."""
    prefix, dash, name = tag.partition("-")
    if tag == "O":
        return _OUTSIDE
    if len(prefix) != 1 or prefix not in prefixes or bool(dash) != bool(name):
        return None
    return prefix, name


def _parse(tags: Sequence[str], scheme: str) -> list[_Parsed]:
    parsed = []
    for position, tag in enumerate(tags, start=1):
        pair = _split(tag, _PREFIXES[scheme])
        if pair is None:
            forms = ", ".join(f"{prefix}-TYPE" for prefix in _PREFIXES[scheme])
            raise DataError(
                f"tag {position} ({tag!r}) is not of {scheme}", field="tags", hint=f"Its tags are O, {forms}."
            )
        parsed.append(pair)
    return parsed


def _check_order(tags: Sequence[str], parsed: list[_Parsed], scheme: str) -> None:
    previous = _OUTSIDE
    for position, current in enumerate([*parsed, _OUTSIDE]):
        problem = _fault(previous, current, scheme)
        if problem:
            where = f"tag {position + 1} ({tags[position]!r})" if position < len(tags) else "the end"
            raise DataError(
                f"{where} {problem} in {scheme}", field="tags", hint="Correct the tags, or set repair to True."
            )
        previous = current


def _fault(previous: _Parsed, current: _Parsed, scheme: str) -> str | None:
    """What is wrong with one tag after another; None when nothing is."""
    prefix, name = current
    inside = previous[0] in "BI"
    continues = inside and previous[1] == name
    if scheme == "IOB1":
        return "does not follow a span of its own type" if prefix == "B" and not continues else None
    if prefix in "IE":
        return None if continues else "does not continue a span"
    return "comes before the span is closed" if scheme == "BIOES" and inside else None


def _spans(parsed: list[_Parsed], scheme: str) -> list[Span]:
    found: list[Span] = []
    name, start = "", -1  # the open span; none is open while start is -1
    for position, (prefix, current) in enumerate([*parsed, _OUTSIDE]):
        if start >= 0 and (prefix in "OBS" or current != name):
            found.append((name, start, position))
            start = -1
        if start < 0 and prefix != "O":
            name, start = current, position
        if prefix in "ES":
            found.append((name, start, position + 1))
            start = -1
    return found


def _write(name: str, length: int, scheme: str, *, touches: bool) -> list[str]:
    """Tags of one span; ``touches`` when a span of the same type ends right before it."""
    if scheme == "none":
        return [name] * length
    prefixes = ["I"] * length
    if scheme != "IOB1" or touches:
        prefixes[0] = "B"
    if scheme == "BIOES":
        prefixes[-1] = "E" if length > 1 else "S"
    return [f"{prefix}-{name}" if name else prefix for prefix in prefixes]
