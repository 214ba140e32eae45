"""``graphattn export``: write a model as an ONNX file, or as a directory for ``transformers``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphattn.exceptions import ConfigError

EXAMPLES = (
    "graphattn train classify train.tsv --no-linear-branch --out model\n\n"
    "graphattn export model --onnx model.onnx\n\n"
    "graphattn train classify train.tsv --pretrained sentence-transformers/all-MiniLM-L6-v2 --out tuned\n\n"
    "graphattn export tuned --huggingface exported --encoder-only\n\n"
    "graphattn export sentence-transformers/all-MiniLM-L6-v2 --onnx encoder.onnx"
)


def export(
    model: Annotated[Path, typer.Argument(help="Model directory; or a Hugging Face directory, or a name on its hub.")],
    *,
    onnx: Annotated[Path | None, typer.Option(help="ONNX file to write; tokenizer.json is written beside it.")] = None,
    huggingface: Annotated[
        Path | None, typer.Option(help="Directory to write, for transformers and sentence-transformers.")
    ] = None,
    encoder_only: Annotated[
        bool, typer.Option("--encoder-only", help="With --huggingface: leave out the head, as most heads require.")
    ] = False,
) -> None:
    """Write a model for other runtimes: an ONNX file, or a directory for transformers.

    ONNX files are of classifiers, regressors and taggers with pretrained encoders or ms-trans, if their heads attend
    along windows or all tokens: inputs input_ids and attention_mask of any shape, output logits. Those of a Hugging
    Face directory have the outputs last_hidden_state and sentence_embedding.

    A directory for transformers has the tuned encoder, and the head if transformers has one like it; otherwise the
    error lists what it lacks, and --encoder-only leaves that out.
    """
    if onnx is None and huggingface is None:
        raise ConfigError("there is nothing to write; give --onnx FILE or --huggingface DIR")
    from graphattn.experiments._cli.loaded_models import find_directory
    from graphattn.models import load
    from graphattn.models.pretrained import SentenceEncoder
    from graphattn.models.pretrained._checkpoint import is_hugging_face_directory

    model = find_directory(model)
    is_hugging_face = is_hugging_face_directory(model)
    if is_hugging_face and huggingface is not None:
        raise ConfigError(f"{model} is a Hugging Face directory; leave --huggingface out")
    loaded: Any = SentenceEncoder(model).fit() if is_hugging_face else load(model)
    if huggingface is not None:
        loaded.to_huggingface(huggingface, encoder_only=encoder_only)
        print(huggingface)
    if onnx is not None:
        loaded.to_onnx(onnx)
        print(onnx)
