"""Variables of a launcher count only for runs whose processes it starts."""

import json

import pytest
from lightning.pytorch.utilities import rank_zero_only

from graphattn.models import TrainingOptions
from graphattn.models.training._lightning import OwnProcesses
from graphattn.models.training._processes import ignore_launcher_rank, is_first_process, is_launched
from graphattn.models.training.callbacks import Tracker

LAUNCHERS = {
    "torchrun": {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "none"},
    "srun": {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NTASKS": "2", "SLURM_NODEID": "1", "SLURM_JOB_ID": "7"},
    "jsrun": {
        "JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_LOCAL_RANK": "1", "JSM_NAMESPACE_SIZE": "2", "LSB_JOBID": "7",
        "LSB_DJOB_RANKFILE": "/missing",
    },
    "mpirun": {"PMI_RANK": "1", "PMI_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
}  # fmt: skip


@pytest.fixture(params=LAUNCHERS)
def launcher(request, monkeypatch):
    """The environment of the second process of a launcher, and the rank that Lightning reads there when imported."""
    for name, value in LAUNCHERS[request.param].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_zero_only, "rank", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("launcher")
def test_a_run_of_one_process_is_the_first(corpus, tiny, tmp_path):
    training = {"run_dir": str(tmp_path / "run"), "epochs": 1}
    tracker = Tracker("csv", {"epochs": 1}, folder=tmp_path)
    estimator = tiny("classifier", training=training).fit(*corpus("classifier", 12), callbacks=[tracker])
    assert len(json.loads((tmp_path / "run" / "history.json").read_text())["epochs"]) == len(estimator.history_) == 1
    assert (tmp_path / "run" / "last.ckpt").exists()
    assert rank_zero_only.rank == 1, "the rank is left as it was"


@pytest.mark.parametrize(
    ("options", "launched"),
    [
        ({}, False),
        ({"strategy": "ddp"}, False),
        ({"devices": 2}, False),
        ({"devices": 2, "strategy": "ddp_spawn"}, False),
        ({"devices": 2, "strategy": "ddp_fork_find_unused_parameters_true"}, False),
        ({"devices": 2, "strategy": "ddp"}, True),
        ({"nodes": 2}, True),
        ({"nodes": 2, "devices": 2, "strategy": "fsdp"}, True),
    ],
)
def test_a_rank_counts_where_a_launcher_starts_the_processes(options, launched, monkeypatch):
    options = TrainingOptions(**options)
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    assert is_launched(options) is launched
    assert is_first_process(options) is not launched
    with ignore_launcher_rank(options):
        assert rank_zero_only.rank == int(launched)
    monkeypatch.setattr(rank_zero_only, "rank", 0)
    assert is_first_process(options)


@pytest.mark.usefixtures("launcher")
def test_processes_that_a_run_starts_ignore_the_variables():
    processes = OwnProcesses()
    ranks = processes.global_rank(), processes.local_rank(), processes.node_rank(), processes.world_size()
    assert ranks == (0, 0, 0, 1)
    assert not processes.creates_processes_externally
    assert processes.main_port == processes.main_port > 1
