"""Contrastive start: move the vectors of a class together, before a linear model is fitted on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._devices import prefetch_map, to_device
from graphattn.models._corpus import Corpus
from graphattn.models._options import TrainingOptions
from graphattn.models._text_model import TextModel, set_gradients
from graphattn.models.heads import ClassificationHead
from graphattn.models.training._optimizer import clip_gradients, make_optimizer, relative_rate

BATCH = 32
"""Texts of a batch, in which each is compared with all others."""
TEMPERATURE = 0.1
"""What cosines are divided by, as in the paper of the loss."""
VISITS = 480
"""Texts that are read in total, each several times; of more texts, as many as there are."""


def train_contrastive(model: TextModel, corpus: Corpus, options: TrainingOptions, log: Callable[[str], None]) -> None:
    """Train the encoder so that texts of a class have similar vectors, before the head is fitted on them.

    Such a start is the first stage of SetFit (Tunstall et al. 2022, section 3.1). Here a batch is compared with itself,
    so that each text is read once for all its pairs. Word vectors and the head are not trained.
    """
    head, start = model.head, time.monotonic()
    assert isinstance(head, ClassificationHead) and isinstance(corpus.targets, np.ndarray)
    batches = list(draw_batches(corpus.targets, options.seed))
    losses = []
    others = [*model.embedding.parameters(), *model.head.parameters()]
    with torch.random.fork_rng(), set_gradients(others, enabled=False):
        torch.manual_seed(options.seed)
        optimizer = make_optimizer(model, model.learning_rates, options)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: relative_rate(step, len(batches), options))
        model.train()
        for batch in prefetch_map(lambda numbers: corpus.batch(numbers).prefetch(model.device), batches, model.device):
            assert batch.targets is not None
            with torch.autocast(model.device.type, torch.bfloat16, enabled=options.resolve_precision() == "bf16"):
                vectors = head.items_of(head.sentences(model.encode(batch), batch.graph))
            loss = contrastive_loss(vectors, to_device(batch.targets, vectors.device))
            loss.backward()
            if options.clip:
                clip_gradients(model.encoder.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        model.eval()
    mean = float(torch.stack(losses[-len(losses) // 4 :]).mean())
    log(f"contrastive start: {len(batches)} steps, loss {mean:.4f}, {time.monotonic() - start:.1f} s")


def contrastive_loss(vectors: Tensor, targets: Tensor) -> Tensor:
    """The supervised contrastive loss (Khosla et al. 2020, Eq. 2).

    A text should recognise, among all others of the batch, those that share its labels. Of several labels, another text
    counts by the share of both texts' labels that are common. ``vectors`` are (B, F), ``targets`` (B,) class ids or
    (B, C) zeros and ones; the loss is the mean over texts that share a label with another.
    """
    unit = F.normalize(vectors.float(), dim=1)
    if targets.dim() == 1:
        shared = (targets[:, None] == targets).float()
    else:
        labels = targets.float()
        either = (labels[:, None] + labels).clamp(max=1).sum(2)
        shared = torch.where(either > 0, labels @ labels.T / either.clamp(min=1), 1.0)
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    shared = shared.masked_fill(itself, 0.0)
    logits = (unit @ unit.T / TEMPERATURE).masked_fill(itself, float("-inf"))
    log_probabilities = logits.log_softmax(1).masked_fill(itself, 0.0)
    totals = shared.sum(1)
    losses = -(shared * log_probabilities).sum(1)[totals > 0] / totals[totals > 0]
    return losses.sum() / max(len(losses), 1)


def draw_batches(targets: npt.NDArray[np.integer], seed: int) -> Iterator[list[int]]:
    """The numbers of the texts of each batch: of one label for each text equally many of some classes."""
    rng = np.random.default_rng(seed)
    steps = -(-max(VISITS, len(targets)) // BATCH)
    if targets.ndim == 2:
        for _ in range(steps):
            yield rng.permutation(len(targets))[:BATCH].tolist()
        return
    groups = [np.flatnonzero(targets == number) for number in np.unique(targets)]
    per_class = max(2, BATCH // len(groups))
    for _ in range(steps):
        chosen = rng.permutation(len(groups))[: BATCH // per_class]
        yield [number for group in chosen for number in rng.permutation(groups[group])[:per_class].tolist()]
