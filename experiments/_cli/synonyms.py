"""Flags that a user may mean by one that does not exist: similar names, and names that other libraries use."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

SYNONYMS = {
    "epochs": "num-epochs n-epochs max-epochs num-train-epochs total-epochs epoch",
    "batch-size": "bs batch mini-batch-size train-batch-size per-device-train-batch-size "
    "per-gpu-train-batch-size device-train-batch-size",
    "learning-rate": "lr max-lr init-lr lr-init eta base-lr rate",
    "tuning-rate": "encoder-lr bert-lr backbone-lr",
    "max-tokens-per-text": "max-length max-len maxlen max-seq-len max-seq-length max-sequence-length sequence-length "
    "seq-len truncation model-max-length",
    "pretrained-length": "max-length max-len maxlen max-seq-len max-seq-length max-sequence-length sequence-length "
    "seq-len model-max-length",
    "max-tokens": "max-length max-len max-seq-len max-seq-length",
    "longest": "max-length max-seq-length max-source-length",
    "pretrained": "model model-name model-name-or-path model-type bert transformer checkpoint backbone base-model "
    "pretrained-model pretrained-model-name-or-path",
    "model": "model-path model-dir model-name model-name-or-path checkpoint",
    "init-from": "resume-from-checkpoint load load-model checkpoint",
    "out": "output output-dir output-file output-path save save-dir save-path model-dir destination o",
    "train": "train-file train-data train-path training-file data data-path dataset corpus input input-file",
    "dev": "val valid validation eval dev-file val-file valid-file validation-file eval-file dev-data eval-data",
    "dev-fraction": "val-split validation-split val-size validation-size test-size dev-split",
    "test": "test-file test-data test-path",
    "config": "config-file cfg settings",
    "text-column": "text-col text-field text-column-name",
    "label-column": "label-col target target-column label-column-name labels y",
    "delimiter": "sep",
    "hidden": "hidden-size hidden-dim d-model dim num-hidden hidden-units",
    "embedding": "embedding-dim embedding-size embed-dim emb-dim emb-size word-dim",
    "vectors": "embeddings embedding-file word-vectors glove pretrained-vectors",
    "layers": "num-layers n-layers depth num-hidden-layers nlayers",
    "heads": "num-heads n-heads nheads num-attention-heads",
    "attn-drop": "attention-dropout attn-dropout",
    "dropout": "drop drop-rate dropout-rate p-dropout",
    "weight-decay": "wd l2",
    "warmup-steps": "num-warmup-steps",
    "warmup": "warmup-ratio warmup-proportion",
    "schedule": "scheduler lr-scheduler lr-scheduler-type",
    "optimizer": "optim",
    "accumulate": "gradient-accumulation-steps grad-accum accumulate-grad-batches accumulation-steps",
    "clip": "max-grad-norm grad-clip gradient-clip gradient-clip-val clip-grad-norm",
    "patience": "early-stopping early-stopping-patience",
    "metric": "metric-for-best-model monitor",
    "precision": "fp16 bf16 amp half mixed-precision dtype",
    "seed": "random-seed random-state",
    "device": "gpu cuda gpu-id use-cuda no-cuda cpu",
    "devices": "gpus num-gpus n-gpu",
    "logger": "report-to log-with tracker",
    "run-dir": "checkpoint-dir log-dir logging-dir",
    "resume": "resume-from-checkpoint",
    "frozen": "freeze freeze-encoder freeze-bert",
    "jobs": "n-jobs workers num-workers processes num-proc threads",
    "overwrite": "force overwrite-output-dir",
    "level": "tokenizer-type tokenization",
    "lowercase": "do-lower-case lower uncased",
    "beam": "num-beams beam-size beam-width",
    "class-weight": "class-weights balanced",
}
"""Our name -> names of the same in other libraries. A command suggests those of its own that are meant."""


def find_meant(name: str, known: Collection[str]) -> list[str]:
    """The names among ``known`` that the user may mean by one without dashes at its start, the best first.

    Examples
    --------
    >>> find_meant("lr", ["learning-rate", "cls", "clip"]), find_meant("bach-size", ["batch-size", "heads"])
    (['learning-rate'], ['batch-size'])
    """
    plain = name.strip("-").replace("_", "-").lower()
    synonyms = [ours for ours, theirs in SYNONYMS.items() if plain in theirs.split() and ours in known]
    return synonyms or get_close_matches(plain, known, n=3)
