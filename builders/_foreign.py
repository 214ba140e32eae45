"""Formats that are not read: their names, and how to convert them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from graphattn.exceptions import DataError

_Signature = tuple[bytes, str, str]

LFS_POINTER = "a pointer of Git LFS, not the file itself"
LFS_HINT = "Fetch the file: git lfs pull."

_BINARY: Sequence[_Signature] = (
    (rb"PAR1\x15", "Parquet", "Let its name end in .parquet."),
    (rb"ARROW1\0|\xff{4}....\x10\0\0\0", "Arrow", "Let its name end in .arrow."),
    (rb"PK\x03\x04.*\bxl/", "an Excel workbook", "Save the sheet as CSV."),
    (rb"PK\x03\x04.*\bword/", "a Word document", "Save it as UTF-8 text."),
    (rb"PK\x03\x04", "a zip archive", "Extract it: unzip OLD."),
    (rb"\xd0\xcf\x11\xe0", "a file of old Excel or Word", "Save it as CSV or UTF-8 text."),
    (rb".{257}ustar", "a tar archive", "Extract it: tar -xf OLD."),
    (rb"\x1f\x8b", "compressed by gzip", "Let its name end in .gz; extract an archive: tar -xf OLD."),
    (rb"\xfd7zXZ\0", "compressed by xz", "Let its name end in .xz; extract an archive: tar -xf OLD."),
    (rb"BZh[1-9]1AY&SY", "compressed by bzip2", "Let its name end in .bz2; extract an archive: tar -xf OLD."),
    (rb"\x28\xb5\x2f\xfd", "compressed by Zstandard", "Decompress it: zstd -d OLD -o NEW."),
    (rb"\x04\x22\x4d\x18", "compressed by LZ4", "Decompress it: lz4 -d OLD NEW."),
    (rb"7z\xbc\xaf|Rar!\x1a", "an archive", "Extract it."),
    (
        rb"\x80[\x02-\x05]",
        "a pickle, which can run any code when it is loaded",
        "If you trust it, load it in Python, and write its texts and labels as CSV or Parquet.",
    ),
    (
        rb"x\x9c",
        "compressed by zlib, as spaCy's DocBin is",
        "Read it in Python, DocBin().from_disk(OLD).get_docs(nlp.vocab), and write a word and its tag on each line.",
    ),
    (rb"\x93NUMPY", "an array of NumPy", "Load it in Python, and write its texts and labels as CSV or Parquet."),
    (rb"\x89HDF\r\n", "HDF5", "Load it in Python, and write its texts and labels as CSV or Parquet."),
    (rb"SQLite format 3\0", "a database of SQLite", "Write CSV: sqlite3 -header -csv OLD 'SELECT ...' > NEW.csv."),
    (rb"%PDF-", "PDF", "Extract its text: pdftotext OLD NEW.txt."),
    (rb"\{\\rtf", "RTF", "Save it as UTF-8 text."),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a", "a picture", "Give a text."),
)
"""First bytes, name, and the way out; none of these is a text. The first that fits decides."""
_HTML = (
    rb"\s*(<!--.*?-->\s*)?<(!doctype\s+html|html)\b",
    "HTML, perhaps a page in place of the download",
    "Download the file itself, or extract the texts from the page.",
)
_SUBTITLES = (
    rb"(WEBVTT\b.*?\n|\d+\s*\n)\s*(\d\d:)?\d\d:\d\d[.,]\d{3} --> ",
    "subtitles with their times",
    "Keep the texts: grep -v -e '-->' -e '^[0-9]*$' OLD > NEW.txt.",
)
_XML = (
    rb"""\s*<(\?xml\b|!DOCTYPE\b|[a-z][\w:.-]*(\s+[\w:.-]+\s*=\s*("[^"]*"|'[^']*'))*\s*/?>\s*(\n|$))""",
    "XML or SGML",
    "Write a table of its texts and labels, for example pandas.read_xml(OLD).to_csv(NEW, index=False).",
)
_JSON_ARRAY = (
    "a JSON array of lists or strings",
    "Write objects: jq -c '.[] | {text: .[0], label: .[1]}' OLD > NEW.jsonl.",
)
_JSON_STRING = rb'"([^"\\\t\n]|\\.)*"'
_JSON_LISTS: Sequence[_Signature] = (
    (
        rb"\[\s*%b\s*,[^\t\n]*\]\s*\n\[\s*\"" % _JSON_STRING,
        "a JSON list on each line",
        _JSON_ARRAY[1].replace(".[] | ", ""),
    ),
    (
        rb"\[\s*\[\s*%b\s*,\s*\{\s*\"entities\"" % _JSON_STRING,
        _JSON_ARRAY[0],
        _JSON_ARRAY[1].replace("label: .[1]", "entities: .[1].entities"),
    ),
)
_MARKUP: Sequence[_Signature] = (
    _HTML,
    (
        rb"\s*(<[^<>\n]+>\s*\n)+[^<>\n\t]+\t",
        "the vertical format of corpus tools: words in columns between tags",
        "Write CoNLL, a blank line after each sentence: sed 's#^</s>$##; /^</d' OLD > NEW.conll.",
    ),
    _XML,
    (
        rb"([#*AEMNR]\d*\t[^\n]*\n)*T\d+\t\S+ \d+ \d+(;\d+ \d+)*\t",
        "an annotation of brat",
        "Write CoNLL from it and its text: brat's tools/anntoconll.py TEXT.",
    ),
    (
        rb"(?=\s*\(\s*([^\s()]+\s+)?\().*?\([^\s()]+ [^\s()]+\)[\s)]*\(",
        "trees in brackets, as in the Penn Treebank",
        "Read them in Python with nltk.Tree.fromstring: pos() has words and tags, label() the label of the root.",
    ),
    (
        rb"(%[^\n]*\n|\s)*@relation\s[^\n]*\n.*?@attribute\s",
        "ARFF of Weka",
        "Delete the lines up to @data; the others are CSV.",
    ),
    (
        rb"(-?\d+(\.\d+)?( \d+:-?\d[\d.]*){2,}\s*(\n|$)){2}",
        "numbers of features, as SVMlight reads them",
        "Give the texts themselves.",
    ),
    (rb"(#[^\n]*\n|\s)*msgid \"", "a catalogue of gettext", "Write CSV of sources and targets: po2csv OLD NEW.csv."),
    (rb"%YAML|---\s*\n\s*(- |[\w\"'-]+:)|version: *[\"']?\d[\d.]*[\"']?\s+\w+:", "YAML", "Write CSV or JSON Lines."),
    _SUBTITLES,
    (rb"\{\s*\n", "one JSON object, not JSON Lines", "Write one object on each line: jq -c '.KEY[]' OLD > NEW.jsonl."),
    *_JSON_LISTS,
    (
        rb"\[\s*(\n\s*[\[\"]|(%b(\s*,\s*(%b|[\w.-]+))*|\[\s*\"[^\t\n]*\])\s*\]\s*(\n|$))"
        % (_JSON_STRING, _JSON_STRING),
        *_JSON_ARRAY,
    ),
)
"""The same for files of text, which a format that is named may yet read. A line of text may begin like a list."""
_JSON: Sequence[_Signature] = (
    *_JSON_LISTS,
    (rb"\[\s*[\[\"]", *_JSON_ARRAY),
)
"""The same for files whose names end in ``.json``."""
_PARALLEL: Sequence[_Signature] = (
    _HTML,
    _SUBTITLES,
    (rb"\s*<(\?xml\b|!DOCTYPE\b|(refset|srcset|tmx)\b)", *_XML[1:]),
    (
        rb"(<(doc|url|keywords|speaker|talkid|title|description)\b[^\n]*>\s*\n){2}",
        "a text between lines of tags, as in IWSLT's training data",
        "Leave out these lines of both files: grep -v '^<' OLD > NEW.",
    ),
)
"""The same for files of a source or a target on each line, which may be code, trees or a single tag."""
_JSON_NAME = re.compile(r"\.json(\.(gz|xz|bz2))?\Z", re.IGNORECASE)


def is_lfs_pointer(head: bytes) -> bool:
    """Whether a file of any kind that begins so is only a pointer of Git LFS, as in a clone without its large files.

    Examples
    --------
    >>> is_lfs_pointer(b"version https://git-lfs/spec/v1\\noid sha256:01\\nsize 9\\n"), is_lfs_pointer(b"PAR1")
    (True, False)
    """
    return head.startswith(b"version https://git-lfs")


def reject_lfs_pointer(head: bytes, path: str) -> None:
    """Name a pointer of Git LFS, whatever the extension of the file says."""
    if is_lfs_pointer(head):
        raise DataError(f"is {LFS_POINTER}", path=path, hint=LFS_HINT)


def reject_binary(head: bytes, path: str) -> None:
    """Name what is no text, by its first bytes."""
    _reject(_BINARY, head, path)


def reject_markup(lines: Iterable[str], path: str) -> None:
    """Name a format of text that no reader reads, by its first lines."""
    head = "\n".join(lines).encode("utf-8", "surrogatepass")
    _reject(_MARKUP, head, path)
    if _JSON_NAME.search(path):
        _reject(_JSON, head, path)


def reject_parallel_markup(lines: Iterable[str], path: str) -> None:
    """The same for a file of sources or targets, of which any line may be a text."""
    _reject(_PARALLEL, "\n".join(lines).encode("utf-8", "surrogatepass"), path)


def _reject(rows: Sequence[_Signature], head: bytes, path: str) -> None:
    for pattern, name, hint in rows:
        if re.match(pattern, head, re.DOTALL if rows is _BINARY else re.DOTALL | re.IGNORECASE):
            raise DataError(f"is {name}", path=path, hint=hint)
