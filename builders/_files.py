"""The names of the modules for paths, text lines, atomic writes and locks, for code that still imports them here."""

from graphattn.builders._atomic import (
    atomic_file,
    atomic_folder,
    locate_replaced_folder,
    read_sealed,
    remove_leftovers,
    seal,
    unseal,
    write_sealed,
)
from graphattn.builders._locks import file_lock, folder_lock, is_locked
from graphattn.builders._paths import (
    FilePath,
    cache_folder,
    describe_directory,
    display_name,
    is_standard_input,
    is_store,
    is_stream,
    resolve_path,
    write_error,
)
from graphattn.builders._regular_files import file_sha256
from graphattn.builders._text_lines import BLANKS, TextLines, lines_within, open_text, read_numbered_lines, split_suffix

__all__ = [
    "BLANKS",
    "FilePath",
    "TextLines",
    "atomic_file",
    "atomic_folder",
    "cache_folder",
    "describe_directory",
    "display_name",
    "file_lock",
    "file_sha256",
    "folder_lock",
    "is_locked",
    "is_standard_input",
    "is_store",
    "is_stream",
    "lines_within",
    "locate_replaced_folder",
    "open_text",
    "read_numbered_lines",
    "read_sealed",
    "remove_leftovers",
    "resolve_path",
    "seal",
    "split_suffix",
    "unseal",
    "write_error",
    "write_sealed",
]
