"""Chunk tags in IOB1, IOB2 and BIOES, or BIOES with other letters: detect the scheme, extract spans, convert."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphattn.exceptions import ConfigError, DataError

Span = tuple[str, int, int]
"""(type, first token, one past the last token)."""

SCHEMES = ("IOB1", "IOB2", "BIOES", "BILOU", "BMES", "BMEWO", "none")
LIKE_BIOES = {"BILOU": "BILU", "BMES": "BMES", "BMEWO": "BMEW"}
"""Schemes that are BIOES with other letters -> their letters for B, I, E and S."""

_PREFIXES = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", **LIKE_BIOES}
_Parsed = tuple[str, str]
_Location = tuple[int, int, str]

_OUTSIDE: _Parsed = ("O", "")
_PLAIN: _Parsed = ("", "")


def detect_scheme(tag_sequences: Iterable[Sequence[str]], *, name: Callable[[int], str] = "sequence {}".format) -> str:
    """Detect the scheme of tag sequences.

    Any ``E-`` or ``S-`` means BIOES. Otherwise a span that begins with ``I-`` means IOB1, and one that begins with
    ``B-`` but does not follow a span of the same type means IOB2. Tags that are neither ``O`` nor of the form
    ``B-TYPE`` (or a bare ``B``) are plain (``"none"``), unless all tags have the letters of BILOU, BMES or BMEWO.
    ``O`` alone fits every scheme and counts as IOB2.

    ``name`` maps the 0-based number of a sequence to its name in errors: sequences must not break both IOB1 and IOB2,
    nor mix plain tags with those of spans.

    Examples
    --------
    >>> detect_scheme([["I-PER", "I-PER", "O"], ["I-LOC", "B-LOC"]])
    'IOB1'
    >>> detect_scheme([["B-PER", "I-PER", "O"]]), detect_scheme([["S-PER"]]), detect_scheme([["DT", "NN"]])
    ('IOB2', 'BIOES', 'none')
    """
    first: dict[str, _Location] = {}
    distinct: set[str] = set()
    for number, tags in enumerate(tag_sequences):
        previous = _OUTSIDE
        distinct.update(tags)
        for position, tag in enumerate(tags, start=1):
            current = _split(tag, "BIES") or _PLAIN
            for feature in _features(previous, current):
                first.setdefault(feature, (number, position, tag))
            previous = current
    if "plain" in first and any(tag[:1] == "B" or "-" in tag for tag in distinct):
        for scheme, letters in LIKE_BIOES.items():
            if all(_split(tag, letters) for tag in distinct):
                return scheme
    return _decide(first, name)


def extract_spans(tags: Sequence[str], scheme: str, *, repair: bool = False) -> list[Span]:
    """Extract spans from tags, as (type, first token, one past the last token).

    Examples
    --------
    >>> extract_spans(["B-PER", "I-PER", "O", "B-LOC"], "IOB2")
    [('PER', 0, 2), ('LOC', 3, 4)]
    >>> extract_spans(["O", "I-PER"], "IOB2", repair=True)
    [('PER', 1, 2)]
    """
    _check_scheme(scheme)
    if scheme == "none":
        return [(tag, position, position + 1) for position, tag in enumerate(tags)]
    parsed = _parse(tags, scheme)
    if not repair:
        _check_order(tags, parsed, scheme)
    return _merge_into_spans(parsed)


def extract_valid_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Extract only spans whose tags are valid, as seqeval does in its strict mode.

    Examples
    --------
    >>> extract_valid_spans(["O", "I-PER", "B-LOC", "I-LOC"], "IOB2")
    [('LOC', 2, 4)]
    """
    spans = extract_spans(tags, scheme, repair=True)
    ends = {(name, end) for name, _, end in spans}
    return [
        (name, start, end)
        for name, start, end in spans
        if _write_span(name, end - start, scheme, touches=(name, start) in ends) == list(tags[start:end])
    ]


def write_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Write spans as tags, the inverse of :func:`extract_spans`.

    Examples
    --------
    >>> write_tags([("PER", 0, 2), ("PER", 2, 3)], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    previous: Span = ("", 0, 0)
    for span in spans:
        name, start, end = span
        if not previous[2] <= start < end <= length:
            raise DataError(
                f"span {span} does not fit between token {previous[2]} and token {length}",
                field="tags",
                hint="Spans are in ascending order, not empty, and do not overlap.",
            )
        touches = previous[0] == name and previous[2] == start > 0
        tags[start:end] = _write_span(name, end - start, scheme, touches=touches)
        previous = span
    return tags


def convert(tags: Sequence[str], source: str, target: str, *, repair: bool = False) -> list[str]:
    """Convert tags to another scheme; the spans stay the same.

    ``source`` and ``target`` are of ``SCHEMES``; plain tags (``"none"``) convert only to plain tags. For ``repair`` see
    :func:`extract_spans`.

    Examples
    --------
    >>> convert(["I-PER", "I-PER", "B-PER", "O"], "IOB1", "BIOES")
    ['B-PER', 'E-PER', 'S-PER', 'O']
    """
    _check_scheme(source)
    _check_scheme(target)
    if source == target == "none":
        return list(tags)
    if "none" in (source, target):
        raise ConfigError(f"cannot convert tags from {source} to {target}; plain tags mark no spans")
    return write_tags(extract_spans(tags, source, repair=repair), len(tags), target)


def _features(previous: _Parsed, current: _Parsed) -> list[str]:
    """Features of one tag from which the scheme is detected."""
    features = [scheme for scheme in ("IOB1", "IOB2") if _find_fault(previous, current, scheme)]
    if current is _PLAIN:
        features.append("plain")
    if current[0] in "ES":
        features.append("BIOES")
    if current[1]:
        features.append("typed")
    return features


def _decide(first: dict[str, _Location], name: Callable[[int], str]) -> str:
    """The scheme, from the first location of each feature; features IOB1 and IOB2 are breaches of these schemes."""

    def locate(feature: str) -> str:
        number, position, tag = first[feature]
        return f"tag {position} ({tag!r}) of {name(number)}"

    conflict = None
    if "plain" in first:
        if "typed" not in first:
            return "none"
        conflict = f"{locate('typed')} belongs to spans and {locate('plain')} does not"
    elif "BIOES" in first:
        return "BIOES"
    elif "IOB1" in first and "IOB2" in first:
        conflict = f"{locate('IOB1')} breaks IOB1 and {locate('IOB2')} breaks IOB2"
    if conflict:
        raise DataError(conflict, field="tags", hint="Correct the tags, or name their scheme and set repair to True.")
    return "IOB1" if "IOB2" in first else "IOB2"


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise ConfigError(f"there is no tag scheme {scheme!r}; choose one of {', '.join(SCHEMES)}")


def _split(tag: str, prefixes: str) -> _Parsed | None:
    """Prefix and type of a tag; None unless it is ``O``, ``B-TYPE`` or a bare ``B``."""
    prefix, dash, name = tag.partition("-")
    if tag == "O":
        return _OUTSIDE
    if len(prefix) != 1 or prefix not in prefixes or bool(dash) != bool(name):
        return None
    return prefix, name


def _parse(tags: Sequence[str], scheme: str) -> list[_Parsed]:
    parsed = []
    letters = _PREFIXES[scheme]
    for position, tag in enumerate(tags, start=1):
        pair = _split(tag, letters)
        if pair is None:
            forms = ", ".join(f"{prefix}-TYPE" for prefix in letters)
            raise DataError(
                f"tag {position} ({tag!r}) is not of {scheme}", field="tags", hint=f"Its tags are O, {forms}."
            )
        parsed.append(("BIES"[letters.index(pair[0])], pair[1]) if scheme in LIKE_BIOES and pair[0] != "O" else pair)
    return parsed


def _check_order(tags: Sequence[str], parsed: list[_Parsed], scheme: str) -> None:
    previous = _OUTSIDE
    for position, current in enumerate([*parsed, _OUTSIDE]):
        problem = _find_fault(previous, current, scheme)
        if problem:
            where = f"tag {position + 1} ({tags[position]!r})" if position < len(tags) else "the end"
            raise DataError(
                f"{where} {problem} in {scheme}", field="tags", hint="Correct the tags, or set repair to True."
            )
        previous = current


def _find_fault(previous: _Parsed, current: _Parsed, scheme: str) -> str | None:
    prefix, name = current
    inside = previous[0] in "BI"
    continues = inside and previous[1] == name
    if scheme == "IOB1":
        return "does not follow a span of its own type" if prefix == "B" and not continues else None
    if prefix in "IE":
        return None if continues else "does not continue a span"
    return "comes before the span is closed" if scheme != "IOB2" and inside else None


def _merge_into_spans(parsed: list[_Parsed]) -> list[Span]:
    spans: list[Span] = []
    name, start = "", -1  # the open span, if start is not -1
    for position, (prefix, current) in enumerate([*parsed, _OUTSIDE]):
        if start >= 0 and (prefix in "OBS" or current != name):
            spans.append((name, start, position))
            start = -1
        if start < 0 and prefix != "O":
            name, start = current, position
        if prefix in "ES":
            spans.append((name, start, position + 1))
            start = -1
    return spans


def _write_span(name: str, length: int, scheme: str, *, touches: bool) -> list[str]:
    """``touches``: a span of the same type ends right before this one."""
    if scheme == "none":
        return [name] * length
    prefixes = ["I"] * length
    if scheme != "IOB1" or touches:
        prefixes[0] = "B"
    if scheme not in ("IOB1", "IOB2"):
        prefixes[-1] = "E" if length > 1 else "S"
        prefixes = [_PREFIXES[scheme]["BIES".index(prefix)] for prefix in prefixes]
    return [f"{prefix}-{name}" if name else prefix for prefix in prefixes]
