"""``graphattn export``: write a model as an ONNX file, or as a directory for ``transformers``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from graphattn.exceptions import ConfigError

EXAMPLES = (
    "graphattn train classify train.tsv --no-linear-branch --out model\n\n"
    "graphattn export model --out model.onnx\n\n"
    "graphattn train classify train.tsv --pretrained sentence-transformers/all-MiniLM-L6-v2 --out tuned\n\n"
    "graphattn export tuned --check\n\n"
    "graphattn export tuned --out exported --encoder-only\n\n"
    "graphattn export sentence-transformers/all-MiniLM-L6-v2 --out encoder.onnx"
)


def export(
    model: Annotated[Path, typer.Argument(help="Model directory; or a Hugging Face directory, or a name on its hub.")],
    *,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="What to write: an .onnx file, with tokenizer.json beside it, or a directory for transformers and "
            "sentence-transformers. May be repeated."
        ),
    ] = None,
    onnx: Annotated[Path | None, typer.Option(hidden=True, help="ONNX file to write.")] = None,
    huggingface: Annotated[Path | None, typer.Option(hidden=True, help="Directory to write for transformers.")] = None,
    encoder_only: Annotated[
        bool, typer.Option("--encoder-only", help="In a directory, leave out the head, as most heads require.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what can be exported, and what prevents the rest.")
    ] = False,
) -> None:
    """Write a model for other runtimes: an ONNX file, or a directory for transformers.

    ONNX files are of classifiers, regressors and taggers with pretrained encoders or ms-trans, if their heads attend
    along windows or all tokens: inputs input_ids and attention_mask of any shape, output logits. Those of a Hugging
    Face directory have the outputs last_hidden_state and sentence_embedding.

    A directory for transformers has the tuned encoder, and the head if transformers has one like it; otherwise the
    error lists what it lacks, and --encoder-only leaves that out. Everything is checked before anything is written.
    """
    files = [path for path in out or () if path.suffix == ".onnx"] + [onnx] * (onnx is not None)
    folders = [path for path in out or () if path.suffix != ".onnx"] + [huggingface] * (huggingface is not None)
    if not (files or folders or check):
        raise ConfigError("there is nothing to write; give --out FILE.onnx or --out DIR, or --check")
    from graphattn.experiments._cli.loaded_models import find_directory
    from graphattn.models import load
    from graphattn.models.pretrained import SentenceEncoder
    from graphattn.models.pretrained._checkpoint import is_hugging_face_directory

    model = find_directory(model)
    is_hugging_face = is_hugging_face_directory(model)
    if is_hugging_face and folders:
        raise ConfigError(f"{model} is a Hugging Face directory already; write an .onnx file")
    loaded: Any = SentenceEncoder(model).fit() if is_hugging_face else load(model)
    if check:
        print(*_describe(loaded, is_hugging_face=is_hugging_face, encoder_only=encoder_only), sep="\n")
        return
    if files and folders:
        loaded.to_dense()  # an error before a directory is written
    for folder in folders:
        loaded.to_huggingface(folder, encoder_only=encoder_only)
        print(folder)
    for file in files:
        loaded.to_onnx(file)
        print(file)


def _describe(model: Any, *, is_hugging_face: bool, encoder_only: bool) -> Iterator[str]:
    """Whether a model can be written in each form, or why not."""
    from graphattn.experiments._cli.flags import as_flag
    from graphattn.models.pretrained._native_head import check_native

    try:
        model.to_dense()
        yield "ONNX: yes"
    except ConfigError as error:
        yield f"ONNX: no; {error.render(as_flag)}"
    if is_hugging_face:
        return
    try:
        check_native(model, encoder_only=encoder_only)
        yield "transformers: yes"
    except ConfigError as error:
        yield f"transformers: no; {error.render(as_flag)}"
