"""An estimator as the files of a model directory, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import torch

from graphattn.models._encoders import encoder_options
from graphattn.models._estimators.class_weights import deserialize_class_weight, serialize_class_weight
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._estimators.tasks.classify import Classification
from graphattn.models._files.model_card import OF_THIS_MACHINE
from graphattn.models._files.saving import ModelFiles
from graphattn.models.heads._word_features import WordFeatureBranch

StateT = TypeVar("StateT", bound=EstimatorState)


def list_config_types(kind: type[EstimatorState]) -> dict[str, Any]:
    """Name -> JSON type of the values that ``save`` writes to ``config.json``; optional ones may be null."""
    shared = {"encoder": dict[str, Any], "preset": str, "history": list[dict[str, float]]}
    shared |= {"mixture": dict[str, float], "corpus": dict[str, Any], "set_options": dict[str, list[str]]}
    return {**shared, **kind.argument_groups(), **kind.task.config_types()}


def collect_files(estimator: EstimatorState, notes: Mapping[str, str]) -> ModelFiles:
    """What ``save`` writes, with additional text files."""
    groups = {
        name: getattr(estimator, f"{name}_", getattr(estimator, name)).to_dict() for name in estimator.argument_groups()
    }
    groups["training"] |= OF_THIS_MACHINE
    groups_as_set = {
        "encoder": estimator.select_encoder(),
        **{name: getattr(estimator, name) for name in estimator.argument_groups()},
    }
    config = {
        "task": estimator.task.name,
        "encoder": estimator.encoder_.to_dict(),
        "preset": estimator.preset,
        **groups,
        "set_options": {name: sorted(vars(options)) for name, options in groups_as_set.items()},
        "history": estimator.history_,
        "mixture": estimator.mixture_,
        "corpus": estimator.corpus_,
        "class_weight": serialize_class_weight(estimator.task_.labels.class_weight),
        **estimator.text_inputs_.to_config(),
        **estimator.task_.to_config(),
    }
    weights = {name: tensor.detach().cpu() for name, tensor in estimator.model_.state_dict().items()}
    weights |= estimator.text_inputs_.list_frozen_weights(estimator.model_)
    tokenizer, source_tokenizer = estimator.task_.list_tokenizers(estimator.text_inputs_)
    return ModelFiles(config, estimator.task_.labels.classes, tokenizer, weights, notes, source_tokenizer)


def restore_estimator(kind: type[StateT], files: ModelFiles) -> StateT:
    """Restore an estimator that was saved."""
    config, weights = files.config, files.weights
    arguments = {item.name: config.get(item.name, item.default) for item in fields(kind.option_groups["task"])}
    if "class_weight" in arguments:
        arguments["class_weight"] = deserialize_class_weight(arguments["class_weight"])
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    saved: dict[str, Any] = {name: group.from_dict(config[name]) for name, group in kind.argument_groups().items()}
    saved["encoder"] = encoder_options(config["encoder"])
    names = config["set_options"]
    estimator = kind(**{name: options.keep(names.get(name, ())) for name, options in saved.items()}, **arguments)
    saved["task"] = of_task = kind.option_groups["task"](**arguments)
    set_in_task = [item.name for item in fields(of_task) if getattr(of_task, item.name) != item.default]
    in_order = {name: saved[name] for name in ("task", "encoder", *saved)}
    estimator.restore_options(in_order, {**names, "task": set_in_task})
    estimator.corpus_, estimator.history_ = config["corpus"], config["history"]
    inputs, task = estimator.text_inputs_, estimator.task_
    inputs.spelling = inputs.has_branch = "linear_branch.keys" in weights and task.linear_branch is WordFeatureBranch
    task.restore(inputs, files)
    with torch.random.fork_rng():
        estimator.model_, estimator.encoder_ = task.head.make_model(inputs, estimator.encoder_, estimator.options_)
    inputs.restore_frozen_weights(estimator.model_, weights)
    if task.linear_branch is not None and "linear_branch.keys" in weights:
        of_branch = {name: value for name, value in weights.items() if name.startswith("linear_branch.")}
        estimator.model_.linear_branch = task.linear_branch.like(of_branch)
    estimator.mixture_, estimator.card_, estimator.notes_ = config["mixture"], files.card, files.notes
    estimator.model_.load_state_dict(weights)
    estimator.model_.eval()
    if isinstance(task, Classification) and (thresholds := config.get("thresholds")) is not None:
        task.head.set_thresholds(estimator.model_, thresholds)
    return estimator
