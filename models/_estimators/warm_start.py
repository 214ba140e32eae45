"""Continue from a trained model: the options that must stay, and its weights in a model with more classes or words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphattn.exceptions import ConfigError
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._token_embedding import TokenEmbedding

_CHANGEABLE = {
    *("longest", "max_tokens_per_text", "min_count", "vocabulary_size"),
    *("pretrained", "frozen", "contrastive", "tuned_layers", "tuning_rate", "layer_decay", "gradient_checkpointing"),
}
"""Options that a model may change when it is trained further, besides all kinds of dropout."""


def list_decided_options(previous: Any) -> dict[str, dict[str, Any]]:
    """Group -> options that the training set, or the directory of a pretrained model, decided for an estimator."""
    pretrained = previous.pretrained_
    decided = {"pretrained": {name: getattr(pretrained, name) for name in ("frozen", "contrastive", "join_pairs")}}
    if pretrained.frozen:
        decided["head"] = {"pooling": previous.head_.pooling}
    is_trained_alike = previous.pretrained.frozen in (None, pretrained.frozen) and previous.training.metric is None
    if previous.task.has_contrastive and pretrained.pretrained and is_trained_alike:
        decided["training"] = {"dev_fraction": previous.training_.dev_fraction}
    return decided


def describe_architecture(estimator: Any) -> dict[str, Any]:
    """Option -> value of those that describe the model of an estimator."""
    values = estimator.encoder_.to_dict()
    for name, options in estimator.options_.items():
        values |= {} if name == "training" else options.to_dict()
    return values


def copy_model(previous: Any, estimator: Any) -> None:
    """Copy the weights of the model to continue from, whose options must be the same."""
    check_same_options(describe_architecture(previous), describe_architecture(estimator))
    copied = estimator.text_inputs_.copy_vectors(previous.text_inputs_, previous.model_, estimator.model_)
    classes = estimator.task_.match_classes(previous.task_)
    copy_weights(previous.model_, estimator.model_, classes, without=copied)


def check_same_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Reject another value of an option that describes the trained model."""
    for name in now:
        if name in before and before[name] != now[name] and not name.endswith("dropout") and name not in _CHANGEABLE:
            option = "encoder" if name == "name" else name
            raise ConfigError(
                f"{{{option}}} is {now[name]!r}, but the model to continue from has {before[name]!r}; leave it out, or "
                "train from scratch",
                options=(option,),
            )


def check_same_kind(inputs: TextInputs, previous: TextInputs) -> None:
    """Raise a ConfigError if only one of the next model and the previous one has a pretrained model."""
    if inputs.uses_pretrained != previous.uses_pretrained:
        raise ConfigError(
            "{warm_start} continues a pretrained model only as such, and no other model with one; "
            "train from scratch, or change {pretrained}",
            options=("warm_start", "pretrained"),
        )


@torch.no_grad()
def copy_weights(
    before: nn.Module, model: nn.Module, classes: Sequence[int] = (), *, without: Collection[str] = ()
) -> None:
    """Copy weights to a model that may have more classes; the weights of new classes stay as they are.

    ``classes`` are the new ids of the old classes; weights named in ``without`` are not copied.
    """
    weights = before.state_dict()
    for name, tensor in model.state_dict().items():
        if name in without:
            continue
        source = weights[name].to(tensor.dtype)
        sizes = zip(source.shape, tensor.shape, strict=True)
        places = np.ix_(*(np.arange(new) if old == new else np.asarray(classes) for old, new in sizes))
        tensor[tuple(map(torch.from_numpy, places))] = source


@torch.no_grad()
def copy_vectors(
    before: TokenEmbedding, words_before: Sequence[str], embedding: TokenEmbedding, words: Sequence[str]
) -> None:
    """Copy the vectors of words; those of new words are drawn with the old ones' mean and standard deviation."""
    old = torch.cat([before.trained, before.table]).float()
    ids = {word: number for number, word in enumerate(words_before)}
    origins = torch.tensor([ids.get(word, -1) for word in words])
    rows: Tensor = old.mean(0) + old.std(0) * torch.randn(len(words), old.shape[1])
    rows[origins >= 0] = old[origins[origins >= 0]]
    trained = len(embedding.trained)
    embedding.trained.copy_(rows[:trained])
    embedding.table = rows[trained:]
