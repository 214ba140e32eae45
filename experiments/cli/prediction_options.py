"""Options of a trained model that commands may change: its parser, a translator's search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.builders.files import numbered_lines
from graphattn.exceptions import ConfigError, DataError, ModelDirectoryError
from graphattn.experiments.cli.flags import Values, as_flag, flags_of
from graphattn.validation import suggest

if TYPE_CHECKING:
    from graphattn.models import Estimator, SearchOptions
    from graphattn.models.pretrained import SentenceEncoder


def reject_unused(model: Path, estimator: Estimator | type[Estimator], **options: Any) -> None:
    """Reject options that this task does not have; those that are not set are None, False or empty."""
    for name, value in options.items():
        if value and name not in estimator.task.prediction_options:
            raise ConfigError(
                f"{as_flag(name)} does not apply to {model}, which {estimator.task.description}; leave it out"
            )


def load_model(
    model: Path,
    parser: Values,
    *,
    precision: str = "32",
    max_tokens_per_text: int | None = None,
    digest: str | None = None,
) -> Estimator:
    """Load a model, and change its parser and its limit of tokens.

    Parameters
    ----------
    model : its directory
    parser : changes of its :class:`~graphattn.models.ParsingOptions`; they have no effect unless the encoder uses
        dependency arcs
    precision : see :func:`graphattn.load`
    max_tokens_per_text : texts are truncated to this; None for the limit of the training
    digest : of the only model to load, see :func:`~graphattn.models.saving.read_digest`; None for any

    Raises
    ------
    ConfigError
        when a task of your own has no parser
    ModelDirectoryError
        when the directory has another model
    """
    from graphattn.models.estimators.loading import load_files
    from graphattn.models.saving import read_model

    files = read_model(model)
    if digest not in (None, files.digest):
        raise replaced_error(model)
    estimator = load_files(model, files, precision=precision)
    for name in parser:
        if "parsing" not in estimator.option_groups:
            raise ConfigError(
                f"{as_flag(name)} does not apply to {model}, which {estimator.task.description}; leave it out"
            )
    if max_tokens_per_text is not None:
        if "max_tokens_per_text" in estimator.unused_options or not hasattr(estimator.inputs_, "max_tokens_per_text"):
            raise ConfigError(f"--max-tokens-per-text does not apply to {model}, which {estimator.task.description}")
        estimator.inputs_.max_tokens_per_text = max_tokens_per_text
    return estimator.set_params(**{f"parsing__{name}": value for name, value in parser.items()})


def load_sentence_encoder(
    model: Path, parser: Values, *, precision: str, max_tokens_per_text: int | None, digest: str
) -> SentenceEncoder:
    """The sentence encoder of a Hugging Face directory; arguments as for :func:`load_model`."""
    from graphattn.models.pretrained import SentenceEncoder
    from graphattn.models.pretrained.checkpoint import digest_directory

    for name in parser:
        raise ConfigError(f"{as_flag(name)} does not apply to {model}, whose edges need no parse; leave it out")
    encoder = SentenceEncoder(model, precision=precision).fit()
    if digest_directory(model) != digest:
        raise replaced_error(model)
    limit = encoder.inputs_.max_tokens_per_text
    if max_tokens_per_text is not None and limit is not None:
        encoder.inputs_.max_tokens_per_text = min(limit, max_tokens_per_text)
    return encoder


def replaced_error(model: Path) -> ModelDirectoryError:
    """The error of a model that another replaced after the command had begun."""
    return ModelDirectoryError(f"{model} was replaced while the command ran. Run it again to use the new model")


def change_search(estimator: Estimator, changes: str, longest: int | None) -> None:
    """Change the search of a translator, or the limit on its sources, after training.

    Parameters
    ----------
    estimator : a fitted estimator
    changes : see :func:`apply_search_changes`; may be empty
    longest : maximum number of sub-words of a source; None leaves it unchanged
    """
    if changes:
        search = estimator.get_params(deep=False)["search"]
        estimator.set_params(search=apply_search_changes(search, changes))
    if longest is not None:
        estimator.set_params(inputs__longest=longest)


def apply_search_changes(search: SearchOptions, changes: str) -> SearchOptions:
    """Copy the options of a search with some changed.

    Parameters
    ----------
    search : the options
    changes : such as ``"beam=8,length_penalty=1"``

    Raises
    ------
    ConfigError
        when there is no such option, or its value is not valid

    Examples
    --------
    >>> from graphattn.models import SearchOptions
    >>> search = apply_search_changes(SearchOptions(), "beam=8, max_length=20")
    >>> search.beam, search.max_length
    (8, 20)
    """
    flags, values = {flag.name: flag for flag in flags_of(search)}, {}
    for part in filter(None, map(str.strip, changes.split(","))):
        name, sign, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or name not in flags:
            problem = f"there is no option {name!r}; {suggest(name, flags)}" if sign else f"{part!r} is not valid; "
            raise ConfigError(f"--search: {problem}write OPTION=VALUE with one of: {', '.join(flags)}")
        values[name] = value.strip()
    try:
        changed = replace(search, **{name: flags[name].parse(value) for name, value in values.items()})
        changed.validate()
    except ConfigError as error:
        raise ConfigError(f"--search: {error}") from error
    return changed


def outputs_to_compare(path: Path, sources: Sequence[Any], changes: str, longest: int | None) -> Sequence[str]:
    """The outputs of another translator for the sources, or those in a file, one on each line.

    Parameters
    ----------
    path : a model directory or a file
    sources : the corpus
    changes, longest : see :func:`change_search`
    """
    if path.is_dir():
        from graphattn.models import load

        translator = load(path)
        if "compare" not in translator.task.prediction_options:
            raise ConfigError(f"{path} {translator.task.description}; give --compare a translator or a file of outputs")
        change_search(translator, changes, longest)
        return [str(output) for output in translator.predict(sources)]
    outputs = [line for _, line in numbered_lines(path)]
    if len(outputs) != len(sources):
        raise DataError(f"{len(outputs)} outputs for {len(sources)} sources", path=path, hint="Give one on each line.")
    return outputs
