"""The Ray engine makes the bytes of the local one, and loses nothing when a worker is killed."""

import os
import signal
import sys
import time
from functools import partial

import pytest

from graphattn.builders.store import CorpusFile, StoreSettings, build_store
from graphattn.builders.store.ray_engine import RayEngine
from graphattn.exceptions import ConfigError, DataError


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def die_once(mark, number):
    """Do the work of a task; the first to come by task 7 kills its process."""
    if number == 7 and not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


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


@pytest.mark.slow
def test_the_store_is_that_of_the_local_engine(engine, tmp_path, write, trees, builder):
    corpora = [CorpusFile(write("a.conllu", trees(60))), CorpusFile(write("b.jsonl", trees(60, seed=2)))]
    settings = StoreSettings(builder, block_bytes=1000)
    build_store(corpora, tmp_path / "local", settings)
    victim = []

    def killing(items, _):
        for number, item in enumerate(items):
            if number == 5 and not victim:
                victim.append(next(iter(engine.run(process_id, [0]))))
                os.kill(victim[0], signal.SIGKILL)
                time.sleep(0.2)
            yield item

    build_store(corpora, tmp_path / "ray", settings, engine=engine, watch=killing)
    assert victim
    assert content(tmp_path / "local") == content(tmp_path / "ray")


def process_id(_):
    return os.getpid()


@pytest.mark.slow
def test_errors_come_back_whole(engine):
    with pytest.raises(DataError) as caught:
        list(engine.run(refuse, [3]))
    assert str(caught.value) == "a.txt, line 3: no numbers"


@pytest.mark.slow
def test_more_actors_than_there_is_room_for_are_refused(engine):
    list(engine.run(process_id, [0]))  # the cluster is there
    with pytest.raises(ConfigError) as caught:
        list(RayEngine(9, address="auto").run(process_id, [0]))
    assert str(caught.value) == "9 actors need 9 CPUs and the Ray cluster has 2; set fewer jobs"
    with pytest.raises(ConfigError) as caught:
        list(RayEngine(1, address="auto", gpus=1).run(process_id, [0]))
    assert str(caught.value) == "1 actors need 1 GPUs and the Ray cluster has 0; set fewer jobs"


def test_without_ray_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        RayEngine()
    assert str(caught.value) == "the engine 'ray' is not installed: pip install 'graphattn[ray]'"
