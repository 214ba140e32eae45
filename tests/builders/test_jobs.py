"""Engines run every task once, read tasks when they need them, and report dead workers."""

import os
import subprocess
import sys
from importlib import import_module
from math import floor

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders import TextGraphBuilder, Vocabulary
from graphattn.builders._jobs import LocalEngine, RayEngine, actor_error, gpu_share
from graphattn.builders._jobs import __file__ as jobs_file
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.exceptions import BuildError, ConfigError, DataError

JOBS = """
import os, signal
from graphattn.exceptions import DataError

def square(number):
    return number * number

def raise_at_5(number):
    if number == 5:
        raise DataError("no fives", path="a.txt", line=number)
    return number

def die(number):
    os.kill(os.getpid(), signal.SIGKILL)

def process_id(_):
    return os.getpid()

def train_vocabulary(level):
    from graphattn.builders import Vocabulary
    texts = [" ".join(chr(97 + 7 * n * k % 26) + chr(97 + (n + k) % 26) for k in range(9)) for n in range(99)]
    return hash("a"), Vocabulary.train(texts, level=level, size=150).to_json()
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A module that worker processes can import, too."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "engine_jobs.py").write_text(JOBS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield import_module("engine_jobs")


@pytest.fixture(scope="module")
def local(jobs):
    engine = LocalEngine(2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def cluster(jobs):
    """A cluster of two CPUs. Each run starts actors, which takes seconds, so there are few runs."""
    pytest.importorskip("ray", reason="the extra graphattn[ray] is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # by default actors wait for all other tests of this machine
        engine = RayEngine(2)
        yield engine
        engine.close()


def test_every_task_runs_once(local, jobs):
    assert sorted(local.run(jobs.square, range(40))) == [n * n for n in range(40)]
    assert list(local.run(jobs.square, range(40), in_order=True)) == [n * n for n in range(40)]
    assert list(local.run(jobs.square, [])) == []


def test_tasks_are_read_when_needed(local, jobs):
    read = []
    results = local.run(jobs.square, (read.append(n) or n for n in range(10_000)))
    next(results)
    assert len(read) <= 6
    results.close()
    assert sorted(local.run(jobs.square, range(3))) == [0, 1, 4], "the next run is not affected"


@pytest.mark.parametrize("name", ["local", pytest.param("cluster", marks=pytest.mark.slow)])
def test_an_error_of_a_job_stops_the_run(request, jobs, name):
    read = []
    with pytest.raises(DataError) as caught:
        list(request.getfixturevalue(name).run(jobs.raise_at_5, (read.append(n) or n for n in range(10_000))))
    assert (str(caught.value), caught.value.line) == ("a.txt, line 5: no fives", 5)
    assert len(read) < 10_000


def test_an_error_of_the_tasks_stops_the_run(local, jobs):
    def tasks():
        yield 1
        yield 2
        raise DataError("no more tasks", path="b.txt")

    with pytest.raises(DataError, match=r"b\.txt: no more tasks"):
        list(local.run(jobs.square, tasks()))


def test_a_single_task_runs_in_this_process(local, jobs):
    assert list(local.run(jobs.process_id, [0])) == [os.getpid()]
    assert os.getpid() not in set(local.run(jobs.process_id, range(9)))
    assert set(LocalEngine(1).run(jobs.process_id, range(3))) == {os.getpid()}


def test_a_vocabulary_is_the_same_in_another_process(local, jobs):
    results = local.run(jobs.train_vocabulary, ["word", "bpe"], in_order=True)
    for (there, trained), level in zip(results, ["word", "bpe"], strict=True):
        here, expected = jobs.train_vocabulary(level)
        assert trained == expected
        assert here != there or "PYTHONHASHSEED" in os.environ


def test_a_killed_process_is_reported(jobs):
    engine = LocalEngine(2)
    with pytest.raises(BuildError, match=r"^a worker process was killed, .* with fewer --jobs if memory is short$"):
        list(engine.run(jobs.die, range(4)))
    engine.close()


@pytest.mark.slow
def test_a_task_that_kills_every_actor_stops_the_run(cluster, jobs):
    list(cluster.run(jobs.process_id, [0]))
    with pytest.raises(BuildError, match=r"^an actor of the Ray cluster died 0 times, .* again to resume$"):
        list(RayEngine(2, restarts=0).run(jobs.die, [0]))


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def actors():
    """The actor processes on this machine."""
    processes = psutil.Process().children(recursive=True)
    return [process for process in processes if "_Worker" in "".join(process.cmdline()[:1])]


@pytest.mark.slow
def test_a_cluster_builds_the_same_store(cluster, tmp_path, write, trees, builder):
    (tmp_path / "b.csv").write_text("text,label\n" + "a dog barks,x\nbroken\n" * 400)
    corpora = [CorpusFile(write("a.conllu", trees(60))), CorpusFile(tmp_path / "b.csv")]
    vocabulary = Vocabulary.train(["a dog barks"])
    settings = StoreSettings(TextGraphBuilder(builder.relations, vocabulary=vocabulary), skip=True, block_bytes=1000)
    build_store(corpora, tmp_path / "local", settings)
    started = []

    def kill_an_actor(items, _):
        for number, item in enumerate(items):
            if number == 5 and not started:
                started.extend(actors())
                started[0].kill()
            yield item

    build_store(corpora, tmp_path / "ray", settings, engine=cluster, watch=kill_an_actor)
    assert content(tmp_path / "local") == content(tmp_path / "ray")
    assert Store(tmp_path / "ray").manifest.skipped > 400
    assert psutil.wait_procs(started, timeout=300)[1] == [], "actors end with the run"


@pytest.mark.slow
def test_a_cluster_must_have_room_for_the_actors(cluster, jobs):
    list(cluster.run(jobs.process_id, [0]))
    for engine, message in [
        (RayEngine(9, address="auto"), "9 actors need 9 CPUs and the Ray cluster has 2; reduce jobs"),
        (RayEngine(1, address="auto", gpus=1), "1 actors need 1 GPUs and the Ray cluster has 0; reduce jobs"),
    ]:
        with pytest.raises(ConfigError) as caught:
            list(engine.run(jobs.process_id, [0]))
        assert (str(caught.value), caught.value.options) == (message, ("jobs",))


@pytest.mark.parametrize(
    ("gpus", "share"),
    [(8, 1.0), (3, 0.5), (1, 0.25), (0, 0.0)],  # a third of three each would be parts of two
)
def test_four_actors_share_the_gpus(gpus, share):
    assert gpu_share(4, gpus) == share


@given(jobs=st.integers(1, 200), gpus=st.integers(1, 64))
def test_every_share_fits_on_one_gpu(jobs, gpus):
    share = gpu_share(jobs, gpus)
    assert 0 < share <= 1
    assert floor(1 / share) * gpus >= jobs


def test_without_ray_the_error_shows_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        RayEngine()
    assert str(caught.value) == "the engine needs ray, which is not installed: pip install 'graphattn[ray]'"


@pytest.mark.slow
def test_an_actor_that_cannot_start_shows_the_import_error():
    exceptions = pytest.importorskip("ray.exceptions", reason="the extra graphattn[ray] is not installed")
    error = exceptions.RayActorError(
        "1", "The actor died.\n  Traceback\nModuleNotFoundError: No module named 'x'", True
    )
    assert "cannot start (ModuleNotFoundError: No module named 'x')" in str(actor_error(error))
    assert "died 10 times" in str(actor_error(exceptions.RayActorError("1", "died", False)))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork server")
def test_a_temporary_folder_whose_name_is_too_long_for_a_socket(tmp_path):
    (folder := tmp_path / ("long" * 30)).mkdir()
    # without the package's other modules, which take seconds to import
    script = f"import runpy; engine = runpy.run_path({jobs_file!r})['LocalEngine'](2); list(engine.run(abs, [1, 2, 3]))"
    process = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True
    )
    *_, last = process.stderr.splitlines()
    assert last.startswith("graphattn.exceptions.ConfigError: no process can be started")
    assert "TMPDIR" in last
