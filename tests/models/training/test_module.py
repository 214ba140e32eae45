"""The optimiser's groups and schedule, and the share of each process."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from graphattn._devices import to_device
from graphattn.builders import BudgetBatches
from graphattn.models import TrainingOptions
from graphattn.models._encoders import ENCODERS
from graphattn.models.training._lightning import LightningTraining
from graphattn.models.training._loop import train
from graphattn.models.training._module import BatchLoader, SharedBatches, Shares, TrainingModule


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crf", *ENCODERS])
def test_no_decay_on_biases_norms_and_vectors(fitted, kind):
    model = fitted(*(("crf",) if kind == "crf" else ("classifier", kind))).model_
    module = TrainingModule(model, TrainingOptions(epochs=1, weight_decay=0.5), [None], None, None)
    optimizer, _ = module.make_optimizer()
    groups = optimizer.param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decays = {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}
    assert decays.keys() == set(names.values())
    vectors = {f"{name}.weight" for name, part in model.named_modules() if isinstance(part, torch.nn.Embedding)}
    assert len(vectors) >= {"crf": 2, "umst": 1}.get(kind, 0)
    for name, decay in decays.items():
        spared = (
            "bias" in name.split(".")[-1]
            or "norm" in name
            or name.endswith((".factors", ".shares"))
            or name == "embedding.trained"
            or name in vectors
            or name.endswith("_transitions")
        )
        assert decay == (0.0 if spared else 0.5), name


@pytest.mark.parametrize(
    ("options", "kind"), [({"optimizer": "adam"}, torch.optim.Adam), ({"optimizer": "adamw"}, torch.optim.AdamW)]
)
def test_optimizer(options, kind, parts):
    model, corpus = parts()
    module = TrainingModule(
        model, TrainingOptions(epochs=1, learning_rate=0.25, beta2=0.997, **options), [corpus], None, None
    )
    optimizer, _ = module.make_optimizer()
    assert isinstance(optimizer, kind)
    assert {(group["initial_lr"], group["betas"]) for group in optimizer.param_groups} == {(0.25, (0.9, 0.997))}


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [2, 4, 8])
def test_the_gradient_of_a_step_is_the_mean_over_its_batches(accumulate, parts):
    class Gradients(Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            made.append(torch.cat([p.grad.flatten() for p in pl_module.parameters() if p.grad is not None]))

    made = []

    def gradients(accumulate):
        made.clear()
        options = TrainingOptions(
            epochs=1, batch_size=4, learning_rate=1e-12, clip=None, accumulate=accumulate, precision="32"
        )
        train(*parts(), options, callbacks=[Gradients()])
        return list(made)

    alone = gradients(1)
    assert len(alone) == 6
    expected = [sum(part) / len(part) for part in (alone[i : i + accumulate] for i in range(0, 6, accumulate))]
    torch.testing.assert_close(gradients(accumulate), expected, rtol=1e-4, atol=1e-6)


def test_the_dev_set_is_measured_by_the_given_function(parts):
    model, corpus = parts()
    asked = []

    def measure(given, dev):
        asked.append((given, dev))
        return {"dev_accuracy": 50.0}

    history = train(model, corpus, TrainingOptions(epochs=1), dev=corpus, measure=measure)
    assert asked == [(model, corpus)]
    assert history[0]["dev_accuracy"] == 50.0


def test_processes_share_each_batch():
    whole = BudgetBatches(np.arange(1, 12), max_sentences=4, seed=3)
    samplers = [SharedBatches(BudgetBatches(np.arange(1, 12), max_sentences=4, seed=3)) for _ in range(2)]
    for epoch in (0, 1, 5):
        whole.set_epoch(epoch)
        for rank, sampler in enumerate(samplers):
            sampler.rank, sampler.processes = rank, 2
            sampler.set_epoch(epoch)
        for batch, (one,), (other,) in zip(whole, *samplers, strict=True):
            assert sorted(one[0] + other[0]) == sorted(batch)
            assert one[1] == other[1] == batch


@pytest.mark.parametrize("limit", [4, 7, 10, 100])
def test_shards_are_runs_of_about_equally_many_tokens(limit):
    lengths = np.array([3, 3, 3, 3, 2, 2, 12, 1])
    sampler = SharedBatches(BudgetBatches(lengths, max_sentences=8, seed=1))
    sampler.max_tokens = limit
    (batch,) = sampler.batches
    (shards,) = sampler
    assert [number for shard, _, _ in shards for number in shard] == batch
    assert all(whole == batch for _, whole, _ in shards)
    assert all(lengths[shard].sum() < limit + lengths[shard].max() for shard, _, _ in shards)
    assert len(shards) > lengths.sum() / limit / 3
    assert (len(shards) == 1) == (limit >= lengths.sum())


def test_a_loader_copies_batches_to_a_gpu(parts, count_copies):
    _, corpus = parts()
    meta, loader = (
        torch.device("meta"),
        BatchLoader(
            Shares(corpus),
            batch_sampler=SharedBatches(BudgetBatches(corpus.lengths, max_sentences=5, seed=1)),
            collate_fn=list,
        ),
    )
    on_cpu = [batch for (batch,) in loader]
    loader.device = meta
    loaded = [batch for (batch,) in loader]
    assert len(loaded) == len(loader) > 2
    for ours, theirs in zip(loaded, on_cpu, strict=True):
        assert torch.equal(ours.targets, theirs.targets)
        tensors = ours.targets, *ours.graph.list_features()
        assert count_copies(lambda tensors=tensors: [to_device(tensor, meta) for tensor in tensors]) == 0


def test_texts_without_tokens_are_one_shard():
    sampler = SharedBatches(BudgetBatches(np.zeros(3, np.int64), max_sentences=3))
    sampler.max_tokens = 4
    with np.errstate(divide="raise"):
        ((shard,),) = sampler
    assert sorted(shard[0]) == [0, 1, 2]


def test_gradients_of_shards_are_those_of_the_batch(parts):
    model, corpus = parts()
    model.eval()  # without dropout
    module = TrainingModule(model, TrainingOptions(epochs=1), BatchLoader(Shares(corpus)), None, None)
    sampler = SharedBatches(BudgetBatches(corpus.lengths, max_sentences=len(corpus)))
    losses, gradients = [], []
    for limit in (None, 5):
        sampler.max_tokens = limit
        (shards,) = sampler
        assert (len(shards) > 2) == (limit is not None)
        module.zero_grad()
        loss = module.training_step([Shares(corpus)[shard] for shard in shards], 0)
        (2 * loss).backward()
        losses.append(loss.item())
        gradients.append([parameter.grad for parameter in module.parameters()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for whole, summed in zip(*gradients, strict=True):
        torch.testing.assert_close(summed, whole, rtol=1e-4, atol=1e-6)


def test_a_copy_has_its_own_model_and_the_same_data(parts):
    """Lightning's averaging callbacks copy the module."""
    model, corpus = parts()
    module = LightningTraining(model, TrainingOptions(epochs=1), [corpus], corpus, lambda decisions: {})
    copied = deepcopy(module)
    assert copied.loader is module.loader
    assert copied.dev is corpus
    pairs = list(zip(copied.parameters(), module.parameters(), strict=True))
    assert all(torch.equal(ours, theirs) and ours is not theirs for ours, theirs in pairs)
