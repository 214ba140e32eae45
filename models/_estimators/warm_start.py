"""Continue from a trained model: the options that must stay, and its weights in a model with more classes or words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphattn.exceptions import ConfigError, GraphAttnWarning, warn_caller
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._features.token_embedding import TokenEmbedding
from graphattn.options import Options

_CHANGEABLE = {
    *("longest", "max_tokens_per_text", "min_count", "vocabulary_size", "tune_threshold", "repair_tags"),
    *("pretrained", "frozen", "contrastive", "tuned_layers", "tuning_rate", "layer_decay", "gradient_checkpointing"),
}
"""Options that a model may change when it is trained further, besides all kinds of dropout."""


def list_decided_options(previous: EstimatorState) -> dict[str, dict[str, Any]]:
    """Group -> options that keep the value of the model to continue from, unless they are set.

    They describe the model, whatever a new preset or training set would choose; or the training set, or the directory
    of a pretrained model, decided them.
    """
    groups = {name: options for name, options in previous.options_.items() if name != "training"}
    if type(previous.select_encoder()) is type(previous.encoder_):
        groups["encoder"] = previous.encoder_
    decided = {name: _list_fixed(options.copy()) for name, options in groups.items()}
    pretrained = previous.pretrained_
    decided["pretrained"] |= {name: getattr(pretrained, name) for name in ("frozen", "contrastive")}
    if pretrained.contrastive and previous.pretrained.tuned_layers == 0 and not previous.pretrained.contrastive:
        decided["pretrained"]["contrastive"] = False
        problem = "{contrastive} of the model to continue from is dropped: {tuned_layers=0} leaves nothing to train"
        warn_caller(GraphAttnWarning(problem, options=("contrastive", "tuned_layers")))
    is_trained_alike = previous.pretrained.frozen in (None, pretrained.frozen) and previous.training.metric is None
    if previous.task.has_contrastive and pretrained.pretrained and is_trained_alike:
        decided["training"] = {"dev_fraction": previous.training_.dev_fraction}
    return decided


def _list_fixed(options: Options) -> dict[str, Any]:
    """Option -> value of those that describe a model."""
    return {name: value for name, value in vars(options).items() if _is_fixed(name)}


def _is_fixed(name: str) -> bool:
    """Whether an option describes a model, so that it stays the same."""
    return name not in _CHANGEABLE and not name.endswith("dropout")


def describe_architecture(estimator: EstimatorState) -> dict[str, Any]:
    """Option -> value of those that describe the model of an estimator."""
    values = estimator.encoder_.to_dict()
    for name, options in estimator.options_.items():
        values |= {} if name == "training" else options.to_dict()
    return values


def copy_model(previous: EstimatorState, estimator: EstimatorState) -> None:
    """Copy the weights of the model to continue from, whose options must be the same."""
    check_same_options(describe_architecture(previous), describe_architecture(estimator))
    copied = estimator.text_inputs_.copy_vectors(previous.text_inputs_, previous.model_, estimator.model_)
    classes = estimator.task_.labels.match_classes(previous.task_.labels)
    copy_weights(previous.model_, estimator.model_, classes, without=copied)


def check_same_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Reject another value of an option that describes the trained model."""
    for name in now:
        if name in before and _is_fixed(name) and not _are_equal(before[name], now[name]):
            option = "encoder" if name == "name" else name
            raise ConfigError(
                f"{{{option}}} is {now[name]!r}, but the model to continue from has {before[name]!r}; leave it out, or "
                "train from scratch",
                options=(option,),
            )


def _are_equal(before: Any, now: Any) -> bool:
    """Whether values of an option are equal; weights of heads are in the order of their relations."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return list(before.items()) == list(now.items())
    return bool(before == now)


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
    """Copy weights to a model that may have more classes, or the same in another order.

    ``classes`` are the new ids of the old classes; the weights of new classes stay as they are. Weights named in
    ``without`` are not copied.
    """
    weights, class_axes = before.state_dict(), _count_class_axes(model) if len(classes) else {}
    for name, tensor in model.state_dict().items():
        if name in without:
            continue
        source = weights[name].to(tensor.dtype)
        of_classes = class_axes.get(name, 0)
        sizes = enumerate(zip(source.shape, tensor.shape, strict=True))
        places = np.ix_(
            *(np.asarray(classes) if axis < of_classes or old != new else np.arange(new) for axis, (old, new) in sizes)
        )
        tensor[tuple(map(torch.from_numpy, places))] = source


def _count_class_axes(model: nn.Module) -> dict[str, int]:
    """Name of a weight -> number of its axes that are classes, which are the first."""
    head: Any = model.get_submodule("head")
    counts = {id(weight): 1 for weight in head.output.parameters()}
    counts |= {} if head.crf is None else {id(weight): weight.ndim for weight in head.crf.parameters()}
    return {name: counts[id(weight)] for name, weight in model.named_parameters() if id(weight) in counts}


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
