"""The run ``transformers``: a pretrained model of Hugging Face's ``transformers``, fine-tuned in a plain loop.

Rates, schedule, epochs, batches, dropout, the average of the weights and the epoch that is kept are those of
``pretrained``; texts are represented by the mean of their states, words by their first state. A tagger has neither
characters nor a CRF.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import override

from graphattn._optional_packages import import_optional
from graphattn.builders import BudgetBatches
from graphattn.builders.tag_schemes import convert, detect_scheme
from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._data_sets import DataSet
from graphattn.models import TASKS, SequenceTagger, TextClassifier
from graphattn.models._estimators.inputs import split_held_out
from graphattn.models._estimators.tasks.classify import Classification
from graphattn.models._estimators.tasks.tag import Tagging
from graphattn.models._options import TrainingOptions
from graphattn.models._padding import prefix_mask
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._checkpoint import find_transformer, read_architecture
from graphattn.models.pretrained._encoder import PretrainedEncoder
from graphattn.models.pretrained._options import DEFAULT_EPOCHS, PretrainedOptions
from graphattn.models.training._averaging import WeightAverage
from graphattn.models.training._metrics import classification_metrics, tagging_metrics
from graphattn.models.training._optimizer import count_parameters, make_optimizer, relative_rate

LabelledTexts = tuple[list[Any], list[list[str]]]
_OPTIONS: Mapping[str, frozenset[str]] = {
    "training": frozenset(
        {
            *("epochs", "batch_size", "max_tokens", "learning_rate", "optimizer", "weight_decay", "beta2", "schedule"),
            *("warmup", "warmup_steps", "clip", "average", "precision", "dev_fraction"),
        }
    ),
    "pretrained": frozenset({"pretrained", "tuning_rate", "layer_decay"}),
    "inputs": frozenset({"max_tokens_per_text", "characters"}),
    "head": frozenset({"head_dropout", "crf"}),
}
"""Options that the loop has, and two that a tagger does not have here."""
_IGNORED = -100
"""Label that the loss leaves out."""
_PREDICTION_BATCH = 64
"""Texts of a batch of predictions."""


def check_fine_tuning(corpus: DataSet, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise a ConfigError for a corpus of pairs, an option that the loop does not have, or without ``transformers``."""
    task = TASKS[corpus.task].task
    if task.texts_per_input > 1 or not issubclass(task, Classification | Tagging):
        raise ConfigError(f"the run transformers is for the tasks classify and tag, not {task.name}")
    for group, values in changes.items():
        for name in values.keys() - _OPTIONS.get(group, frozenset()):
            raise ConfigError(
                f"the run transformers has no option {{{name}}}; leave {group}.{name} out", options=(name,)
            )
    import_transformers()


def import_transformers() -> Any:
    """Import ``transformers`` without its warnings about unused weights and its progress bars."""
    transformers = import_optional("transformers", "the comparison needs", "bench")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@dataclass(frozen=True)
class Encoded:
    """Ids of the tokens; labels of the text, or of the words whose first tokens are at ``word_positions``."""

    ids: list[int]
    word_positions: list[int]
    labels: list[int]


class FineTunedModel(nn.Module):
    """A model of ``transformers`` with a linear layer on the mean of a text's states, or on each word's first state."""

    def __init__(self, encoder: Any, classes: int, dropout: float, *, per_word: bool):
        super().__init__()
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # it would not be trained
        self.encoder, self.per_word = encoder, per_word
        self.classify = nn.Sequential(nn.Dropout(dropout), nn.Linear(encoder.config.hidden_size, classes))

    @override
    def forward(self, texts: Sequence[Encoded]) -> Tensor:  # (texts or words, classes)
        ids = pad_sequence([torch.tensor(text.ids) for text in texts], batch_first=True)
        mask = prefix_mask(torch.tensor([len(text.ids) for text in texts])).long()
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.per_word:
            places = [(row, position) for row, text in enumerate(texts) for position in text.word_positions]
            vectors = states[torch.tensor(places).unbind(1)]
        else:
            kept = mask.unsqueeze(2)
            vectors = (states.float() * kept).sum(1) / kept.sum(1)
        scores: Tensor = self.classify(vectors)
        return scores.float()


def learning_rates(architecture: Architecture, pretrained: PretrainedOptions) -> dict[str, float]:
    """Parameter of a :class:`FineTunedModel` -> its learning rate, for those that are pretrained; equal to ours."""
    with torch.device("meta"):
        ours = PretrainedEncoder(architecture)
    rates = ours.learning_rates(pretrained.tuning_rate, pretrained.layer_decay)
    return {f"encoder.{theirs}": rate for name, rate in rates.items() for theirs in architecture.checkpoint_names(name)}


def fine_tune(estimator: TextClassifier | SequenceTagger, corpus: DataSet, splits: Mapping[str, Any]) -> dict[str, Any]:
    """Fine-tune on the training set and measure the epoch that is best on the dev set."""
    transformers, options = import_transformers(), estimator.resolve_options(derive=False)
    folder, is_tagger = find_transformer(estimator.pretrained.pretrained or ""), estimator.task.per_word
    architecture, tokenizer = read_architecture(folder), transformers.AutoTokenizer.from_pretrained(folder)
    limit, cut = architecture.max_length, options["inputs"].max_tokens_per_text
    if cut is not None:
        limit = min(limit, cut + tokenizer.num_special_tokens_to_add())
    epochs = options["training"].resolve_epochs(len(splits["train"]), **DEFAULT_EPOCHS)
    training = replace(options["training"], epochs=epochs)
    sets = _read_sets(splits, corpus, training)
    classes = _list_classes(sets["train"][1], corpus)
    encode = partial(_encode, tokenizer, classes, limit, is_tagger)
    with torch.random.fork_rng():
        torch.manual_seed(training.seed)
        encoder = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
        model = FineTunedModel(encoder, len(classes), options["head"].head_dropout, per_word=is_tagger)
        average = None if training.average is None else WeightAverage(training.average)

        def score(name: str) -> float:
            return _measure(corpus, sets[name][1], _predict(model, encode(*sets[name])), classes)

        seconds, scores = [], []
        best: dict[str, Tensor] = {}
        rates = learning_rates(architecture, options["pretrained"])
        for took in _train_epochs(model, encode(*sets["train"]), training, rates, average):
            seconds.append(took)
            with nullcontext() if average is None else average.swap_in(model):
                scores.append(score("dev"))
                if scores[-1] == max(scores):
                    best = copy.deepcopy(model.state_dict())
        model.load_state_dict(best)
        start = time.perf_counter()
        measured = corpus.list_measured_splits(splits)
        tests = {name: round(score(name), 2) for name in measured}
        inference = {
            "inference_seconds": round(time.perf_counter() - start, 3),
            "inference_texts": sum(len(splits[name]) for name in measured),
        }
    words = model.encoder.get_input_embeddings().weight.numel()
    return {
        "dev": round(max(scores), 2),
        **tests,
        "best_epoch": len(scores) - scores[::-1].index(max(scores)),
        "epochs": len(scores),
        "parameters": count_parameters(model),
        "parameters_besides_words": count_parameters(model) - words,
        "precision": training.resolve_precision(),
        "seconds_per_epoch": round(median(seconds), 3),
        **(inference if measured else {}),
    }


def _train_epochs(
    model: FineTunedModel,
    texts: Sequence[Encoded],
    training: TrainingOptions,
    rates: Mapping[str, float],
    average: WeightAverage | None,
) -> Iterator[float]:
    """Train epoch by epoch, and yield the seconds of each."""
    assert training.epochs is not None
    if average is not None:
        average.start(model)
    lengths = np.array([len(text.ids) for text in texts])
    batches = BudgetBatches(
        lengths, max_sentences=training.batch_size, max_tokens=training.max_tokens, seed=training.seed
    )
    steps = training.epochs * len(batches)
    optimizer = make_optimizer(model, rates, training)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: relative_rate(step, steps, training))
    for epoch in range(training.epochs):
        start = time.perf_counter()
        model.train()
        batches.set_epoch(epoch)
        for batch in ([texts[number] for number in numbers] for numbers in batches):
            with torch.autocast("cpu", torch.bfloat16, enabled=training.resolve_precision() == "bf16"):
                predicted = model(batch)
            targets = torch.tensor([label for text in batch for label in text.labels])
            F.cross_entropy(predicted, targets).backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip or math.inf)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if average is not None:
                average.update(model)
        yield time.perf_counter() - start


def _read_sets(splits: Mapping[str, Any], corpus: DataSet, training: TrainingOptions) -> dict[str, LabelledTexts]:
    """The texts and labels of each split; without a dev set, a share of the training set is held out as in ours."""
    sets = {name: _read_split(split, corpus) for name, split in splits.items()}
    if "dev" in sets:
        return sets
    texts, labels = sets["train"]
    strata = None if corpus.per_word else np.unique([row[0] for row in labels], return_inverse=True)[1]
    held = round(training.dev_fraction * len(texts))
    split = zip(("train", "dev"), split_held_out(len(texts), held, strata, training.seed), strict=True)
    return sets | {name: ([texts[n] for n in numbers], [labels[n] for n in numbers]) for name, numbers in split}


def _list_classes(labels: Sequence[Sequence[str]], corpus: DataSet) -> list[str]:
    classes = {label for row in labels for label in row}
    if corpus.metric == "f1":  # as in ours, also those tags of a type that do not occur
        classes |= {f"{prefix}{label[1:]}" for label in classes - {"O"} for prefix in "BIES"}
    return sorted(classes)


def _read_split(items: Sequence[Any], corpus: DataSet) -> LabelledTexts:
    """Texts and their labels: tags, entity tags as BIOES, or a list of one class."""
    if not corpus.per_word:
        return [str(item.text) for item in items], [[str(item.label)] for item in items]
    tags = [list(item.tags) for item in items]
    if corpus.metric == "f1":
        scheme = detect_scheme(tags)
        tags = [convert(names, scheme, "BIOES", repair=True) for names in tags]
    return [list(item.words) for item in items], tags


def _encode(
    tokenizer: Any, classes: Sequence[str], limit: int, is_tagger: bool, texts: list[Any], labels: list[list[str]]
) -> list[Encoded]:
    """Tokenize texts; words that were cut off have the position of the first token, and no label to learn."""
    batch = tokenizer(texts, truncation=True, max_length=limit, is_split_into_words=is_tagger)
    numbers = {name: number for number, name in enumerate(classes)}
    rows = []
    for row, names in enumerate(labels):
        words: list[int] = []
        label_ids = [numbers.get(name, 0) for name in names]
        if is_tagger:
            first: dict[int, int] = {}
            for position, word in enumerate(batch.word_ids(row)):
                if word is not None:
                    first.setdefault(word, position)
            words = [first.get(number, 0) for number in range(len(names))]
            label_ids = [label if word else _IGNORED for label, word in zip(label_ids, words, strict=True)]
        rows.append(Encoded(batch["input_ids"][row], words, label_ids))
    return rows


def _predict(model: FineTunedModel, texts: Sequence[Encoded]) -> list[list[int]]:
    """Class ids of each text or of its words; texts of similar lengths are predicted together."""
    model.eval()
    order = sorted(range(len(texts)), key=lambda number: len(texts[number].ids))
    rows: list[list[int]] = [[] for _ in texts]
    with torch.inference_mode():
        for start in range(0, len(order), _PREDICTION_BATCH):
            numbers = order[start : start + _PREDICTION_BATCH]
            decisions = iter(model([texts[number] for number in numbers]).argmax(1).tolist())
            for number in numbers:
                rows[number] = [next(decisions) for _ in texts[number].labels]
    return rows


def _measure(
    corpus: DataSet, gold: Sequence[Sequence[str]], decisions: Sequence[Sequence[int]], classes: Sequence[str]
) -> float:
    """The metric of a corpus, in percent."""
    predicted = [[classes[number] for number in row] for row in decisions]
    if not corpus.per_word:
        metrics = classification_metrics([row[0] for row in gold], [row[0] for row in predicted])
    elif corpus.metric == "f1":
        predicted = [convert(row, "BIOES", "BIOES", repair=True) for row in predicted]
        metrics = tagging_metrics(gold, predicted, "BIOES")
    else:
        metrics = tagging_metrics(gold, predicted, "none")
    return float(metrics[corpus.metric])
