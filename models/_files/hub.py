"""The Hugging Face hub: downloads of models, which are kept for later, and uploads of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphattn import __version__
from graphattn._optional_packages import import_optional
from graphattn.exceptions import ConfigError, ModelDirectoryError, verbatim
from graphattn.models._files.model_card import set_name
from graphattn.models._files.saving import (
    CARD,
    CONFIG,
    WEIGHTS,
    check_notes,
    is_model_directory,
    is_run,
    read_model,
)

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_FILES = ["*.json", "*.yaml", WEIGHTS, CARD]
"""Of a model of ours; nothing in them is executed."""
_OWNERS = (
    ("google-bert", re.compile(r"bert-(?:base|large)-(?:un)?cased(?:-.+)?|bert-base-(?:chinese|german-cased)")),
    ("google-bert", re.compile(r"bert-base-multilingual-(?:un)?cased")),
    ("FacebookAI", re.compile(r"(?:xlm-)?roberta-(?:base|large)(?:-mnli|-finetuned-conll.+)?")),
    ("distilbert", re.compile(r"distilbert-base-(?:(?:un|multilingual-|german-)?cased)(?:-.+)?|distilroberta-base")),
    ("almanach", re.compile(r"camembert-(?:base|large)")),
    ("answerdotai", re.compile(r"ModernBERT-(?:base|large)", re.IGNORECASE)),
    ("microsoft", re.compile(r"mpnet-base")),
    ("google", re.compile(r"electra-(?:small|base|large)-(?:discriminator|generator)")),
    ("sentence-transformers", re.compile(r"(?:all|paraphrase|multi-qa|msmarco|nli|stsb)-(?!.*\bt5).+", re.IGNORECASE)),
)
"""Owner on the hub -> names without it, which older programs and examples give."""
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def is_hub_name(name: str | Path) -> bool:
    """Whether this is OWNER/NAME, and no path on this machine: there is no folder OWNER."""
    return _NAME.fullmatch(Path(name).as_posix()) is not None and not Path(name).parent.is_dir()


def check_has_owner(name: str | Path) -> None:
    """Reject the name of a known model without its owner, such as ``bert-base-uncased``, if it is no directory."""
    owner = next((owner for owner, names in _OWNERS if names.fullmatch(str(name))), None)
    if owner is not None and not Path(name).exists():
        raise ModelDirectoryError(f"{name} is no directory; on the Hugging Face hub it is {owner}/{name}. Give this")


def find_model(name: str | Path, revision: str | None = None) -> Path:
    """The directory of a model of ours: this path, or a download of OWNER/NAME."""
    if not is_hub_name(name):
        return Path(name)
    name = Path(name).as_posix()
    folder = download(name, [CONFIG], revision=revision)
    if not is_model_directory(folder):
        raise ModelDirectoryError(
            f"{name} on the Hugging Face hub is no model of GraphAttn; one of another library is for "
            "`graphattn train --pretrained` and `graphattn encode`"
        )
    return download(name, _FILES, revision=folder.name)  # of the same commit, even if there is a newer one now


def download(name: str, files: Sequence[str], *, without: Sequence[str] = (), revision: str | None = None) -> Path:
    """The folder with the files of a repository that match these patterns."""
    problem = f"{verbatim(name)} is no directory, and "
    hub = import_optional("huggingface_hub", f"{problem}downloads from the Hugging Face hub need", "hub")
    with _explain_errors(f"{problem}it could not be downloaded from the Hugging Face hub"):
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=files, ignore_patterns=without))


def push(folder: Path, name: str, *, private: bool, message: str) -> str:
    """Upload a model directory in one commit, to a repository that is made if there is none; return its address."""
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{verbatim(repr(name))} is no name on the Hugging Face hub; give OWNER/NAME")
    hub = import_optional("huggingface_hub", "uploads to the Hugging Face hub need", "hub")
    if is_run(folder):
        raise ModelDirectoryError(
            f"{folder} is the folder of a training run that has not ended; give a model directory"
        )
    files = read_model(folder)
    check_notes(folder)
    contents: dict[str, Any] = {file: folder / file for file in (CONFIG, *files.config["sha256"])}
    if files.card:
        contents[CARD] = set_name(files.card, name).encode()
    with _explain_errors(f"{name} could not be pushed to the Hugging Face hub"):
        api = hub.HfApi(library_name="graphattn", library_version=__version__)
        address = str(api.create_repo(name, private=private or None, exist_ok=True))
        operations = [hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=of) for file, of in contents.items()]
        api.create_commit(name, operations, commit_message=message)
    return address


@contextmanager
def _explain_errors(problem: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # also of its HTTP library, which is another one in other versions
        raise ModelDirectoryError(f"{problem} ({verbatim(_find_reason(error))})") from error


def _find_reason(error: Exception) -> str:
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if isinstance(error, errors.LocalEntryNotFoundError):
        if isinstance(error.__cause__, errors.OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set, and there is no copy from earlier"
        return f"there is no connection, and no copy from earlier: {type(error.__cause__ or error).__name__}"
    if isinstance(error, errors.LocalTokenNotFoundError):
        return _LOG_IN
    if isinstance(error, errors.RevisionNotFoundError):
        return "there is no such revision"
    if isinstance(error, errors.RepositoryNotFoundError) or status == 401:
        return f"there is no such repository, or it is not yours to see: {_LOG_IN}"
    if status == 403:
        return "your token has no right to write there"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
