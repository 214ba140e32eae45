"""The models of commands: each process loads one, and flags change its parser, its search and its limits."""

from __future__ import annotations

import atexit
import os
import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn import __version__
from graphattn._validation import suggest
from graphattn.exceptions import ConfigError, ModelDirectoryError
from graphattn.experiments._cli.flags import Values, as_flag
from graphattn.options import list_options, parse_assignments

if TYPE_CHECKING:
    from graphattn.models import Estimator, SearchOptions
    from graphattn.models.pretrained import SentenceEncoder


@dataclass(frozen=True)
class ModelSettings:
    """Arguments with which each process loads the model."""

    path: Path  # the model directory
    digest: str  # digest of its contents; a process that loads another model stops
    parser: tuple[tuple[str, Any], ...] = ()  # pairs of name and value, see :func:`load_model`
    search: str = ""  # see :func:`change_search`
    longest: int | None = None  # see :func:`change_search`
    precision: str | None = None  # see :func:`graphattn.load`
    device: str = "auto"  # see :func:`graphattn.load`
    max_tokens_per_text: int | None = None  # see :func:`load_model`
    threshold: str = ""  # see :func:`change_thresholds`
    prompt: str | None = None  # see :class:`~graphattn.models.pretrained.SentenceEncoder`
    modules: tuple[str, ...] = ()  # the user's modules to import first
    threads: int | None = None  # threads of each process; None for PyTorch's default
    is_hugging_face: bool = False  # whether it is a Hugging Face directory
    weights: Path | None = None  # file of quantized weights that processes share; the first one writes it

    @classmethod
    def of(
        cls,
        path: Path,
        *,
        engine: str = "local",
        jobs: int = 1,
        device: str = "auto",
        is_hugging_face: bool = False,
        **options: Any,
    ) -> ModelSettings:
        """The settings for several processes, which share the threads of this one; on Ray, each finds its device."""
        import torch

        from graphattn._devices import find_device
        from graphattn.experiments._cli.user_modules import list_imported_modules
        from graphattn.models._files.hub import find_model
        from graphattn.models._files.saving import read_digest

        load_once.cache_clear()  # the model of an earlier command in this process
        threads = max(1, torch.get_num_threads() // jobs) if jobs > 1 and engine == "local" else None
        if is_hugging_face:
            from graphattn.models.pretrained._checkpoint import digest_directory

            digest = digest_directory(path)
        else:
            path = find_model(path)
            digest = read_digest(path)
        options |= {
            "device": device if engine == "ray" else str(find_device(device)),
            "modules": list_imported_modules(),
        }
        if threads is not None and options.get("precision") == "int8":
            folder = tempfile.TemporaryDirectory(prefix="graphattn-")
            atexit.register(folder.cleanup)
            options["weights"] = Path(folder.name) / "weights"
        return cls(path, digest, threads=threads, is_hugging_face=is_hugging_face, **options)

    @property
    def has_gpu(self) -> bool:
        """Whether the model runs on a GPU of CUDA."""
        return self.device.startswith("cuda")

    def load_to_read(self, engine: str) -> Estimator:
        """The model for the process that reads texts, with all its threads; on Ray, that process may have no GPU."""
        return load_once(replace(self, threads=None, device="cpu" if engine == "ray" else self.device))

    @property
    def decisive(self) -> tuple[Any, ...]:
        """Settings that determine the results."""
        changes = (self.parser, self.search, self.longest, self.precision, self.max_tokens_per_text, self.threshold)
        prompt = () if self.prompt is None else (self.prompt,)
        return __version__, self.digest, self.device.partition(":")[0], *changes, *prompt


@lru_cache(maxsize=1)
def load_once(settings: ModelSettings) -> Estimator:
    """Load a model, or the sentence encoder of a Hugging Face directory, once in each process."""
    import torch

    from graphattn.experiments._cli.user_modules import import_modules

    if settings.threads is not None and settings.threads != torch.get_num_threads():
        torch.set_num_threads(settings.threads)
        os.environ["RAYON_NUM_THREADS"] = str(settings.threads)  # of the tokenizers
    import_modules(settings.modules)
    load: Any = load_model
    if settings.is_hugging_face:
        load = partial(load_sentence_encoder, prompt=settings.prompt)
    estimator = load(
        settings.path,
        dict(settings.parser),
        precision=settings.precision,
        device=settings.device,
        max_tokens_per_text=settings.max_tokens_per_text,
        digest=settings.digest,
    )
    changes = {"search": settings.search, "longest": settings.longest, "threshold": settings.threshold}
    changes |= {} if settings.is_hugging_face else {"prompt": settings.prompt}
    reject_unused(settings.path, estimator, **changes)
    change_search(estimator, settings.search, settings.longest)
    if settings.threshold:
        change_thresholds(estimator, settings.threshold)
    if settings.weights is not None:
        from graphattn.models._files.saving import share_weights

        model: Any = estimator.encoder_ if settings.is_hugging_face else estimator.model_
        share_weights(model, settings.weights)
    return estimator


def load_model(
    model: Path,
    parser: Values,
    *,
    precision: str | None = "32",
    device: str = "auto",
    max_tokens_per_text: int | None = None,
    digest: str | None = None,
    packed: bool = True,
) -> Estimator:
    """Load a model, also from the Hugging Face hub, and change its parser and its limit of tokens.

    The parser has no effect unless the encoder uses dependency arcs. A model with another digest is an error.
    """
    from graphattn.models._estimators.loading import load_files
    from graphattn.models._files.hub import find_model
    from graphattn.models._files.saving import read_model

    model = find_model(model)
    files = read_model(model)
    if digest not in (None, files.digest):
        raise _make_replaced_error(model)
    estimator = load_files(model, files, precision=precision, device=device, packed=packed)
    for name in parser:
        if "parsing" not in estimator.option_groups:
            raise ConfigError(
                f"{as_flag(name)} does not apply to {model}, which {estimator.task.description}; leave it out"
            )
    if max_tokens_per_text is not None:
        if "max_tokens_per_text" in estimator.unused_options or not hasattr(estimator.inputs_, "max_tokens_per_text"):
            raise ConfigError(f"--max-tokens-per-text does not apply to {model}, which {estimator.task.description}")
        estimator.inputs_.max_tokens_per_text = max_tokens_per_text
    return (
        estimator.set_params(**{f"parsing__{name}": value for name, value in parser.items()}) if parser else estimator
    )


def find_directory(model: Path) -> Path:
    """The directory of a model of ours or of Hugging Face, which is downloaded for a name on its hub."""
    from graphattn.models._files.hub import check_has_owner, is_hub_name
    from graphattn.models.pretrained import _checkpoint

    check_has_owner(model)
    return _checkpoint.find_directory(model) if is_hub_name(model) else model


def load_any_model(
    model: Path, parser: Values, *, digest: str | None = None, **options: Any
) -> Estimator | SentenceEncoder:
    """Load a model of ours, or the sentence encoder of a Hugging Face directory."""
    from graphattn.models.pretrained._checkpoint import digest_directory, is_hugging_face_directory

    if is_hugging_face_directory(model):
        return load_sentence_encoder(model, parser, digest=digest or digest_directory(model), **options)
    return load_model(model, parser, digest=digest, **options)


def load_sentence_encoder(
    model: Path,
    parser: Values,
    *,
    precision: str | None = None,
    device: str = "auto",
    max_tokens_per_text: int | None = None,
    digest: str | None = None,
    prompt: str | None = None,
    **options: Any,
) -> SentenceEncoder:
    """The sentence encoder of a Hugging Face directory; arguments as for :func:`load_model`, and its own."""
    from graphattn.models.pretrained import SentenceEncoder
    from graphattn.models.pretrained._checkpoint import digest_directory

    for name in parser:
        raise ConfigError(f"{as_flag(name)} does not apply to {model}, whose edges need no parse; leave it out")
    try:
        encoder = SentenceEncoder(model, precision=precision, device=device, prompt=prompt, **options).fit()
    except ConfigError as error:  # of an argument that a flag gives under another name
        for name in options:
            error.rename_option(name, f"pretrained_{name.removeprefix('max_')}")
        raise
    if digest is not None and digest_directory(model) != digest:
        raise _make_replaced_error(model)
    limit = encoder.inputs_.max_tokens_per_text
    if max_tokens_per_text is not None and limit is not None:
        encoder.inputs_.max_tokens_per_text = min(limit, max_tokens_per_text)
    return encoder


def _make_replaced_error(model: Path) -> ModelDirectoryError:
    return ModelDirectoryError(f"{model} was replaced while the command ran. Run it again to use the new model")


def reject_unused(model: Path, estimator: Estimator, **options: Any) -> None:
    """Reject options that this task does not have; those that are not set are None, False or empty."""
    for name, value in options.items():
        if value and name not in estimator.task.prediction_options:
            raise ConfigError(
                f"{as_flag(name)} does not apply to {model}, which {estimator.task.description}; leave it out"
            )


def change_search(estimator: Estimator, changes: str, longest: int | None) -> None:
    """Change a translator's search, such as ``beam=8``, and the maximum number of sub-words of its sources."""
    if changes:
        search = estimator.get_params(deep=False)["search"]
        estimator.set_params(search=apply_search_changes(search, changes))
    if longest is not None:
        estimator.set_params(inputs__longest=longest)


def change_thresholds(estimator: Any, text: str) -> None:
    """Change a classifier's thresholds: ``0.3`` for all of several labels, or ``spam=0.3`` for one class."""
    try:
        thresholds: float | dict[str, float] | None = float(text)
    except ValueError:
        thresholds = parse_assignments(text)
    if thresholds is None:
        raise ConfigError(
            f"--threshold is {text!r}; write a probability, or CLASS=PROBABILITY with commas between several"
        )
    estimator.set_thresholds(thresholds)


def apply_search_changes(search: SearchOptions, changes: str) -> SearchOptions:
    """Copy the options of a search with some changed.

    Examples
    --------
    >>> from graphattn.models import SearchOptions
    >>> search = apply_search_changes(SearchOptions(), "beam=8, max_length=20")
    >>> search.beam, search.max_length
    (8, 20)
    """
    options, values = {option.name: option for option in list_options(search)}, {}
    for change in filter(None, map(str.strip, changes.split(","))):
        name, sign, value = change.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or name not in options:
            problem = f"there is no option {name!r}; {suggest(name, options)}" if sign else f"{change!r} is not valid; "
            raise ConfigError(f"--search: {problem}write OPTION=VALUE with one of: {', '.join(options)}")
        values[name] = value.strip()
    try:
        changed = replace(search, **{name: options[name].parse(value) for name, value in values.items()})
        changed.validate()
    except ConfigError as error:
        raise ConfigError(f"--search: {error}") from error
    return changed
