"""Fit a linear head on the vectors of a frozen encoder, which reads each text once."""

from __future__ import annotations

import copy
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn.builders._atomic import read_sealed, write_with_checksum
from graphattn.models._corpus import Corpus, digest_of
from graphattn.models._prediction import encode_corpus
from graphattn.models._text_model import TextModel
from graphattn.models.heads import ClassificationHead
from graphattn.models.training._decisions import split_folds
from graphattn.models.training._linear_models import fit_linear, weights_of

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Inverse strengths of the regularization to choose from, for features of the head's ``frozen_lengths``."""
_DEFAULT_STRENGTH, _CONTRASTIVE_STRENGTH = 10.0, 1.0
"""That of too few texts to choose, and that of vectors by an encoder that was trained on the same texts."""
_CHUNK = 4096
"""Texts that are encoded at once, and cached in one file."""
_SECONDS = 10.0
"""Time between lines on progress."""
_MOST_FOLDED = 2000
"""Texts of which all folds are used to choose the strength; of more, one."""

Log = Callable[[str], None]
Floats = npt.NDArray[np.float32]


def fit_frozen(
    model: TextModel,
    corpus: Corpus,
    dev: Corpus | None,
    *,
    evaluate: Callable[[list[Any]], dict[str, float]] | None,
    refit: bool,
    encoder_is_tuned: bool,
    folder: Path | None,
    about: str,
    log: Log,
) -> tuple[dict[str, float], Floats | None]:
    """Fit the head's linear layer: logistic regression, or ridge regression for numbers.

    The strength of the regularization is chosen on the dev set, or by cross-validation, unless ``encoder_is_tuned``:
    vectors of the same texts then say nothing about others. ``refit`` adds the dev set afterwards. Vectors are cached
    in ``folder``; ``about`` are the options on which they depend. Returns a row of the history, and (S, C) scores of
    the dev set before the refit.
    """
    head, start = model.head, time.monotonic()
    assert isinstance(head, ClassificationHead)
    vectors = encode_items(model, corpus, folder, about, log)
    fit = _Fit(head, vectors, corpus.targets, weights_of(corpus))
    held = None
    if dev is not None:
        vectors = encode_items(model, dev, folder, about, log)
        held = _Fit(head, vectors, dev.targets, weights_of(dev))
    encoded = time.monotonic()
    strength = _CONTRASTIVE_STRENGTH if encoder_is_tuned and held is None else fit.choose_strength(held)
    fit.set_head(strength)
    row: dict[str, float] = {"epoch": 1, "train_loss": fit.loss_of_head()}
    scores = None
    if held is not None:
        rows = held.scores_of_head()
        scores = rows.numpy()
        assert evaluate is not None
        decided = list(head.decide(rows, None).numpy())  # type: ignore[arg-type]
        row |= {f"dev_{name}": value for name, value in evaluate(decided).items()}
        if refit:
            fit.join(held).set_head(strength)
    seconds = f"{encoded - start:.1f} s to encode, {time.monotonic() - encoded:.1f} s to fit"
    log(f"frozen: {len(corpus):,} texts, strength {strength:g}, loss {row['train_loss']:.4f}, {seconds}")
    return row, scores


class _Fit:
    """The head's linear layer, to be fitted on (S, F) ``vectors``."""

    def __init__(self, head: ClassificationHead, vectors: Floats, targets: Any, weights: npt.NDArray[np.floating]):
        self.head, self.vectors, self.targets, self.weights = head, vectors, targets, weights
        text, beside = np.split(
            vectors, [vectors.shape[1] - (0 if head.columns is None else head.columns.width)], axis=1
        )
        parts = np.split(text, len(head.frozen_lengths), axis=1)
        lengths = [
            (np.average(np.linalg.norm(part, axis=1), weights=weights if weights.any() else None) or 1) / length
            for part, length in zip(parts, head.frozen_lengths, strict=True)
        ]
        of_text = np.repeat(np.array(lengths, np.float32), parts[0].shape[1])
        self.scale = np.append(of_text, np.ones(beside.shape[1], np.float32))  # a column is about as long as a text

    def select(self, numbers: npt.NDArray[np.int64]) -> _Fit:
        """Some of the texts."""
        return _Fit(self.head, self.vectors[numbers], self.targets[numbers], self.weights[numbers])

    def join(self, other: _Fit) -> _Fit:
        """The texts of both."""
        pairs = ((self.vectors, other.vectors), (self.targets, other.targets), (self.weights, other.weights))
        return _Fit(self.head, *map(np.concatenate, pairs))

    def choose_strength(self, dev: _Fit | None) -> float:
        """The strength with the least loss on the dev set, or else on folds."""
        folds = [(self, dev)] if dev is not None else self._split()
        if not folds:
            return _DEFAULT_STRENGTH
        losses = [sum(rest.loss_on(held, strength) for rest, held in folds) for strength in STRENGTHS]
        return STRENGTHS[int(np.argmin(losses))]

    def _split(self) -> list[tuple[_Fit, _Fit]]:
        counted = self.select(np.flatnonzero(self.weights))
        folds = split_folds(len(counted.vectors), counted.targets if self.targets.dtype.kind in "iu" else None)
        if len(counted.vectors) > _MOST_FOLDED:
            folds = folds[:1]
        return [(counted.select(rest), counted.select(held)) for rest, held in folds]

    @torch.no_grad()
    def loss_on(self, held: _Fit, strength: float) -> float:
        """The loss of other texts."""
        weight, bias = self.fit(strength)
        return float(held._loss(torch.from_numpy(held.vectors) @ weight.T + bias))

    def fit(self, strength: float) -> tuple[Tensor, Tensor]:
        """(C, F) weight and (C,) bias."""
        coefficients, bias = fit_linear(self.head, self.vectors / self.scale, self.targets, self.weights, strength)
        return torch.from_numpy(coefficients / self.scale), torch.from_numpy(bias)

    @torch.no_grad()
    def set_head(self, strength: float) -> None:
        """Give the head the fitted weights."""
        for parameter, fitted in zip(self.head.output.parameters(), self.fit(strength), strict=True):
            parameter.copy_(fitted)

    @torch.no_grad()
    def scores_of_head(self) -> Tensor:
        """(S, C) scores of the head as it is."""
        weight, bias = (parameter.cpu() for parameter in self.head.output.parameters())
        return torch.from_numpy(self.vectors) @ weight.T + bias

    def loss_of_head(self) -> float:
        """The mean loss of the head as it is."""
        return float(self._loss(self.scores_of_head()) / self.weights.sum())

    def _loss(self, scores: Tensor) -> Tensor:
        targets, weights = torch.from_numpy(self.targets), torch.from_numpy(self.weights)
        return copy.deepcopy(self.head).cpu().loss(scores, targets, None, weights)  # type: ignore[arg-type]


def encode_items(model: TextModel, corpus: Corpus, folder: Path | None, about: str, log: Log) -> Floats:
    """(S, F) inputs of the head's linear layer, in the order of the corpus.

    Features of columns beside the texts come last.

    With a ``folder``, each chunk of them is cached in a file, whose name has a digest of the model, its options
    ``about`` vectors, and the corpus.
    """
    head, parts, shown = model.head, list[Floats](), time.monotonic()
    assert isinstance(head, ClassificationHead)
    name = "" if folder is None else _name_cache(model, corpus, about)
    for start in range(0, len(corpus), _CHUNK):
        path = None if folder is None else folder / f"vectors-{name}-{start // _CHUNK}.npy"
        cached = None if path is None else read_sealed(path)
        if cached is not None:
            parts.append(np.load(io.BytesIO(cached), allow_pickle=False))
            continue
        chunk = corpus.select(np.arange(start, min(start + _CHUNK, len(corpus))))
        rows = torch.from_numpy(encode_corpus(model, chunk)).unflatten(0, (len(chunk), -1))
        with torch.no_grad():
            parts.append(head.items_of(rows.transpose(0, 1).flatten(0, 1)).numpy())
        if path is not None:
            content = io.BytesIO()
            np.save(content, parts[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            write_with_checksum(path, content.getvalue())
        if time.monotonic() - shown > _SECONDS:
            log(f"frozen: {start + len(chunk):,} of {len(corpus):,} texts encoded")
            shown = time.monotonic()
    vectors = np.concatenate(parts)
    if head.columns is None or corpus.cells is None:
        return vectors
    with torch.no_grad():
        device = head.output.weight.device
        beside = head.columns(torch.from_numpy(corpus.cells).to(device)).cpu()
    return np.concatenate([vectors, beside.numpy()], axis=1)


def _name_cache(model: TextModel, corpus: Corpus, about: str) -> str:
    tensors = [*model.embedding.state_dict().values(), *model.encoder.state_dict().values()]
    return digest_of(*(tensor.cpu().numpy() for tensor in tensors), corpus.fingerprint(), about)
