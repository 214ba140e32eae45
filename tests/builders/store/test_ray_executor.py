"""The Ray engine makes the bytes of the local one, and loses nothing when a worker is killed."""

import os
import signal
import sys
from functools import partial
from math import floor
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store
from graphattn.builders.store import ray_executor as ray_engine
from graphattn.builders.store.ray_executor import RayEngine, gpu_share
from graphattn.exceptions import BuildError, ConfigError, DataError


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def die_once(mark, number):
    """Do the work of a task; the first to come by task 7 kills its process."""
    if number == 7 and not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


class Broken:
    """Tasks that come to a bad end."""

    def __iter__(self):
        yield 1
        raise DataError("no more tasks", path="b.txt")


def refuse(number):
    raise DataError("no numbers", path="a.txt", line=number)


@pytest.fixture(scope="module")
def engine():
    pytest.importorskip("ray", reason="the extra graphattn[ray] is not installed")
    engine = RayEngine(2)
    yield engine
    engine.close()


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(engine, tmp_path):
    mark = tmp_path / "killed"
    assert sorted(engine.run(partial(die_once, mark), range(20))) == [n * n for n in range(20)]
    assert mark.exists()


def actors():
    """The processes of Ray Data's actors on this machine."""
    processes = psutil.Process().children(recursive=True)
    return [process for process in processes if "MapWorker" in "".join(process.cmdline()[:1])]


@pytest.mark.slow
def test_the_store_is_that_of_the_local_engine(engine, tmp_path, write, trees, builder):
    (tmp_path / "b.csv").write_text("text,label\n" + "a dog barks,x\nbroken\n" * 400)
    corpora = [CorpusFile(write("a.conllu", trees(60))), CorpusFile(tmp_path / "b.csv")]
    settings = StoreSettings(builder, skip=True, block_bytes=1000)
    build_store(corpora, tmp_path / "local", settings)
    victims = []

    def killing(items, _):
        for number, item in enumerate(items):
            if number == 5 and not victims:
                victims.append(actors()[0])
                victims[0].kill()
            yield item

    build_store(corpora, tmp_path / "ray", settings, engine=engine, watch=killing)
    assert not victims[0].is_running()
    assert content(tmp_path / "local") == content(tmp_path / "ray")
    assert Store(tmp_path / "ray").manifest.skipped > 400


def process_id(_):
    return os.getpid()


@pytest.mark.slow
def test_a_task_that_kills_every_worker_ends_the_building(engine, monkeypatch):
    monkeypatch.setattr(ray_engine, "_RESTARTS", 1)
    with pytest.raises(BuildError) as caught:
        list(engine.run(die, range(3)))
    assert str(caught.value).startswith("an actor of the Ray cluster died 1 times, perhaps for want of memory (")
    assert str(caught.value).endswith("). What is done is kept: run the same command again to go on")


@pytest.mark.slow
def test_errors_come_back_whole(engine):
    for number in (3, 4):  # the first does not harm the second
        with pytest.raises(DataError) as caught:
            list(engine.run(refuse, [number]))
        assert (str(caught.value), caught.value.line) == (f"a.txt, line {number}: no numbers", number)
    with pytest.raises(DataError) as caught:
        list(engine.run(process_id, Broken()))
    assert str(caught.value) == "b.txt: no more tasks"


@pytest.mark.slow
def test_more_actors_than_there_is_room_for_are_refused(engine):
    list(engine.run(process_id, [0]))  # the cluster is there
    with pytest.raises(ConfigError) as caught:
        list(RayEngine(9, address="auto").run(process_id, [0]))
    assert str(caught.value) == "9 actors need 9 CPUs and the Ray cluster has 2; set fewer jobs"
    with pytest.raises(ConfigError) as caught:
        list(RayEngine(1, address="auto", gpus=1).run(process_id, [0]))
    assert str(caught.value) == "1 actors need 1 GPUs and the Ray cluster has 0; set fewer jobs"


@pytest.mark.parametrize(
    ("gpus", "there", "share"),
    [
        (0.0, {"CPU": 4.0, "GPU": 2.0}, 0.0),
        (1.0, {"CPU": 4.0, "GPU": 8.0}, 1.0),
        (None, {"CPU": 4.0, "GPU": 8.0}, 1.0),
        (None, {"CPU": 4.0, "GPU": 3.0}, 0.5),  # a third of three each would lie on two of them
        (None, {"CPU": 4.0, "GPU": 1.0}, 0.25),
        (None, {"CPU": 4.0}, 0.0),
    ],
)
def test_actors_share_the_gpus_there_are(monkeypatch, gpus, there, share):
    monkeypatch.setattr(ray_engine, "_import_ray", lambda: SimpleNamespace(cluster_resources=lambda: there))
    assert RayEngine(4, gpus=gpus)._gpus_of_an_actor() == share


@given(jobs=st.integers(1, 200), gpus=st.integers(1, 64))
def test_every_share_has_its_place_on_one_gpu(jobs, gpus):
    share = gpu_share(jobs, gpus)
    assert 0 < share <= 1
    assert floor(1 / share) * gpus >= jobs


@pytest.mark.slow
def test_standard_input_cannot_be_read_by_a_cluster(engine, tmp_path, builder):
    with pytest.raises(DataError) as caught:
        build_store([CorpusFile("-", "conllu")], tmp_path / "s", StoreSettings(builder), engine=engine)
    assert str(caught.value) == (
        "standard input: can be read by this process alone, not by a cluster. "
        "Write it to a file, or use the engine 'local'."
    )


def test_without_ray_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        RayEngine()
    assert str(caught.value) == "the engine 'ray' is not installed: pip install 'graphattn[ray]'"
