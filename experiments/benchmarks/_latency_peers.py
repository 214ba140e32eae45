"""Run one model on texts, as a script: ``python _latency_peers.py NAME '{"threads": 1, ...}'``.

It imports only the library that it measures, so that each has a process of its own. After loading it prints the
versions of its packages as JSON. Each line of its input is a JSON list of texts; it answers with the milliseconds from
the texts to what the model says of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

Run = Callable[[list[str]], object]
"""Texts -> vectors or labels."""
Request = dict[str, Any]
"""``threads``, and directories: ``model`` (Hugging Face), ``onnx`` (files of exports), ``classifier`` (GraphAttn).

``texts`` are for calibration and training.
"""
_LONGEST = 256
"""Tokens of a text that models read."""


def load_sentence_encoder(request: Request, precision: str) -> Run:
    """Load GraphAttn's sentence encoder."""
    import_module("torch").set_num_threads(request["threads"])
    encoder = import_module("graphattn.models.pretrained").SentenceEncoder(
        request["model"], precision=precision, device="cpu"
    )
    run: Run = encoder.fit().encode
    if encoder.precision_ != precision:
        raise SystemExit(f"this processor has no fast products of {precision}")
    if precision == "bf16" and not import_module("torch").ops.mkldnn._is_mkldnn_bf16_supported():
        raise SystemExit("this processor has no products in bfloat16")
    return run


def load_classifier(request: Request) -> Run:
    """Load GraphAttn's own classifier."""
    import_module("torch").set_num_threads(request["threads"])
    run: Run = import_module("graphattn").load(request["classifier"], device="cpu", packed=True).predict
    return run


def load_transformers(request: Request) -> Run:
    """Load the model in ``transformers``; vectors are means of its states."""
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.set_num_threads(request["threads"])
    model = transformers.AutoModel.from_pretrained(request["model"]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(request["model"])

    def run(texts: list[str]) -> object:
        with torch.inference_mode():
            batch = tokenizer(texts, padding=True, truncation=True, max_length=_LONGEST, return_tensors="pt")
            mask = batch["attention_mask"].unsqueeze(2)
            pooled = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(pooled, dim=1).numpy()

    return run


def load_sentence_transformers(request: Request) -> Run:
    """Load the model in sentence-transformers."""
    import_module("torch").set_num_threads(request["threads"])
    model = import_module("sentence_transformers").SentenceTransformer(request["model"], device="cpu")
    return partial(model.encode, show_progress_bar=False, batch_size=64)


def load_onnx(request: Request, file: str) -> Run:
    """Load an export in ONNX Runtime, in int8 with weights by channel and inputs of products by tensor as they come."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    path = Path(request["folder"]) / file
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return partial(_pool_states, _load_tokenizer(request), lambda inputs: session.run(None, inputs)[0])


def load_openvino(request: Request, precision: str) -> Run:
    """Load the export in OpenVINO, in int8 with scales that nncf calibrates on some texts."""
    openvino, tokenizer = import_module("openvino"), _load_tokenizer(request)
    core = openvino.Core()
    model = core.read_model(Path(request["folder"]) / "model.onnx")
    if precision == "int8":
        nncf = import_module("nncf")
        inputs = [_make_inputs(tokenizer.encode_batch([text])) for text in request["texts"]]
        kind = nncf.ModelType.TRANSFORMER
        model = nncf.quantize(model, nncf.Dataset(inputs), model_type=kind, subset_size=len(inputs))
    hint = "bf16" if precision == "bf16" else "f32"
    if hint == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise SystemExit("this processor has no products in bfloat16")
    options = {"INFERENCE_NUM_THREADS": request["threads"], "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(model, "CPU", {**options, "INFERENCE_PRECISION_HINT": hint})
    return partial(_pool_states, tokenizer, lambda inputs: compiled(inputs)[0])


def _load_tokenizer(request: Request) -> Any:
    tokenizer = import_module("tokenizers").Tokenizer.from_file(str(Path(request["model"]) / "tokenizer.json"))
    tokenizer.enable_truncation(_LONGEST)
    tokenizer.enable_padding()
    return tokenizer


def _make_inputs(encodings: Sequence[Any]) -> dict[str, Any]:
    numpy = import_module("numpy")
    columns = {"ids": [each.ids for each in encodings], "mask": [each.attention_mask for each in encodings]}
    return {name: numpy.array(rows, numpy.int64) for name, rows in columns.items()}


def _pool_states(tokenizer: Any, apply: Callable[[dict[str, Any]], Any], texts: list[str]) -> object:
    """The normalised mean of the states of each text."""
    inputs = _make_inputs(tokenizer.encode_batch(texts))
    mask = inputs["mask"][:, :, None]
    pooled = (apply(inputs) * mask).sum(1) / mask.sum(1)
    return pooled / (pooled**2).sum(1, keepdims=True) ** 0.5


def load_spacy(request: Request) -> Run:
    """Train spaCy's ``textcat`` on a few texts."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # or spaCy imports it
    spacy = import_module("spacy")
    spacy.registry._entry_point_factories.entry_points = False
    pipeline, make = spacy.blank("en"), import_module("spacy.training").Example.from_dict
    pipeline.add_pipe("textcat")
    examples = [
        make(pipeline.make_doc(text), {"cats": {"yes": float(number % 2), "no": float(1 - number % 2)}})
        for number, text in enumerate(request["texts"])
    ]
    pipeline.initialize(lambda: examples)
    pipeline.update(examples)
    return lambda texts: [document.cats for document in pipeline.pipe(texts)]


def load_fast_text(request: Request) -> Run:
    """Train fastText's classifier on a few texts."""
    path = Path(request["folder"]) / "texts.txt"
    lines = (f"__label__{number % 2} {text}\n" for number, text in enumerate(request["texts"]))
    path.write_text("".join(lines), encoding="utf-8")
    model = import_module("fasttext").train_supervised(str(path), wordNgrams=2, bucket=200_000, thread=1, verbose=0)
    return model.predict


LOADERS: dict[str, tuple[Callable[[Request], Run], Sequence[str]]] = {
    "ours": (partial(load_sentence_encoder, precision="32"), ("graphattn", "torch")),
    "ours-bfloat16": (partial(load_sentence_encoder, precision="bf16"), ("graphattn", "torch")),
    "ours-int8": (partial(load_sentence_encoder, precision="int8"), ("graphattn", "torch")),
    "transformers": (load_transformers, ("transformers", "torch")),
    "sentence-transformers": (load_sentence_transformers, ("sentence-transformers", "torch")),
    "onnx": (partial(load_onnx, file="model.onnx"), ("onnxruntime",)),
    "onnx-int8": (partial(load_onnx, file="int8.onnx"), ("onnxruntime",)),
    "openvino": (partial(load_openvino, precision="32"), ("openvino",)),
    "openvino-bfloat16": (partial(load_openvino, precision="bf16"), ("openvino",)),
    "openvino-int8": (partial(load_openvino, precision="int8"), ("openvino", "nncf")),
    "ms-trans": (load_classifier, ("graphattn", "torch")),
    "spacy": (load_spacy, ("spacy",)),
    "fasttext": (load_fast_text, ("fasttext-numpy2",)),
}
"""Name -> what loads the model, and the packages whose versions are told."""


def main() -> None:
    """Load a model, and answer lines of texts with milliseconds."""
    name, request = sys.argv[1], json.loads(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    load, packages = LOADERS[name]
    run = load(request)
    print(json.dumps({package: version(package) for package in packages}), file=answers, flush=True)
    for line in sys.stdin:
        texts = json.loads(line)
        start = time.perf_counter()
        run(texts)
        print(1000 * (time.perf_counter() - start), file=answers, flush=True)


if __name__ == "__main__":
    main()
