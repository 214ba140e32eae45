"""Outputs of a translator as lines, and its measures on a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphattn.builders.files import numbered_lines
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.cli.flags import flags_of
from graphattn.experiments.cli.output_files import encode_line

if TYPE_CHECKING:
    from graphattn.models import SearchOptions, Translator


def changed_search(search: SearchOptions, text: str) -> SearchOptions:
    """Options of a search with some changed.

    Parameters
    ----------
    search : the options
    text : changes, such as ``"beam=8,length_penalty=1"``

    Raises
    ------
    ConfigError
        when there is no such option, or its value is impossible

    Examples
    --------
    >>> from graphattn.models import SearchOptions
    >>> search = changed_search(SearchOptions(), "beam=8, max_length=20")
    >>> search.beam, search.max_length
    (8, 20)
    """
    flags, values = {flag.name: flag for flag in flags_of(search)}, {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, sign, value = part.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or name not in flags:
            raise ConfigError(f"--search: {part!r} is no change; write OPTION=VALUE with one of: {', '.join(flags)}")
        values[name] = value.strip()
    try:
        changed = replace(search, **{name: flags[name].parse(value) for name, value in values.items()})
        changed.validate()
    except ConfigError as error:
        raise ConfigError(f"--search: {error}") from error
    return changed


def change(translator: Translator, search: str, longest: int | None) -> None:
    """Let a translator search otherwise, and take longer or only shorter sources, than when it was trained.

    Parameters
    ----------
    translator : a fitted one
    search : changes, as for :func:`changed_search`
    longest : most sub-words of a source; None for what it is
    """
    translator.search = changed_search(translator.search, search)
    if longest is not None:
        translator.inputs.longest = longest


def translated_lines(
    translator: Translator, items: Iterable[Any], *, count: int = 1, plain: bool = False, chunk: int = 512
) -> Iterator[str]:
    """Outputs as text, a chunk of sources at a time.

    Parameters
    ----------
    translator : a fitted one
    items : sources
    count : outputs for each
    plain : the texts alone instead of JSON; of several outputs each with the source's number and its score before it
    chunk : sources that are held in memory and translated together
    """
    waiting, number = iter(items), 0
    while part := list(islice(waiting, chunk)):
        lines = []
        found = translator.outputs(part, count=count, first=number + 1)
        for item, outputs in zip(part, found, strict=True):
            number += 1
            if not plain:
                texts = [{"text": own.text, "score": round(own.score, 6)} for own in outputs]
                lines.append(encode_line({**_shown(item), "outputs": texts}).rstrip("\n"))
            elif count == 1:
                lines.append(outputs[0].text)
            else:
                lines += [f"{number}\t{own.score:.6f}\t{own.text}" for own in outputs]
        yield "".join(f"{line}\n" for line in lines)


def _shown(item: Any) -> dict[str, Any]:
    text = getattr(item, "text", item)
    return {"text": text} if isinstance(text, str) else {"words": list(getattr(text, "words", text))}


def measured(
    translator: Translator,
    sources: Sequence[Any],
    references: Sequence[str],
    other: Path | None = None,
    *,
    search: str = "",
    longest: int | None = None,
) -> dict[str, Any]:
    """Metrics of a translator, with sacrebleu's signatures.

    Parameters
    ----------
    translator : a fitted one
    sources, references : the corpus
    other : another translator's directory, or a file of outputs, to compare with by paired bootstrap resampling
    search, longest : what to :func:`change` of both translators
    """
    from graphattn.models.training.text_metrics import compared, signatures, text_metrics

    change(translator, search, longest)
    theirs = [] if other is None else _outputs_of(other, sources, search, longest)  # first: it may not fit
    texts = translator.predict(sources)
    figures: dict[str, Any] = {**text_metrics(references, texts), "signatures": signatures(references, texts)}
    if other is not None:
        figures["compared"] = compared(references, {"model": texts, str(other): theirs})
    return figures


def _outputs_of(other: Path, sources: Sequence[Any], search: str, longest: int | None) -> list[str]:
    if other.is_dir():
        translator = loaded_translator(other)
        change(translator, search, longest)
        return translator.predict(sources)
    texts = [line for _, line in numbered_lines(other)]
    if len(texts) != len(sources):
        raise DataError(f"{len(texts)} outputs for {len(sources)} sources", path=other, hint="Give one on each line.")
    return texts


def loaded_translator(path: Path) -> Translator:
    """The translator in a directory.

    Raises
    ------
    ConfigError
        when the model is for another task
    """
    from graphattn.models import Translator, load

    model = load(path)
    if not isinstance(model, Translator):
        raise ConfigError(f"{path} is a model for the task {model.task!r}; give a translator's directory")
    return model
