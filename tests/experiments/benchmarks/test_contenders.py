"""Choosing peers, and leaving out those that cannot run."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks import contenders
from graphattn.experiments.benchmarks.clock import Job
from graphattn.experiments.benchmarks.contenders import Contender, Unable, able, chosen, jobs_for


class Ours(Contender):
    name, title = "ours", "Ours"

    def job(self, problem, *, backward):
        return Job(lambda _: (problem, backward))


class Large(Ours):
    name, title = "large", "Large peer"

    def needs(self, problem, *, backward):
        return problem * 2**30 * (2 if backward else 1)


class Absent(Ours):
    name, title, package = "absent", "Absent peer", "no_such_package"


class ForwardOnly(Ours):
    name, title, has_backward = "forward", "Forward peer", False


KINDS = (Ours, Large, Absent, ForwardOnly)


def test_all_peers_are_chosen_unless_some_are_named():
    assert [peer.name for peer in chosen(KINDS, None)] == ["ours", "large", "absent", "forward"]
    assert [peer.name for peer in chosen(KINDS, ["forward", "large"])] == ["ours", "large", "forward"]
    assert [peer.name for peer in chosen(KINDS, [])] == ["ours"]


@pytest.mark.parametrize("name", ["ours", "xformers"])
def test_unknown_peers_are_refused(name):
    with pytest.raises(ConfigError) as error:
        chosen(KINDS, ["large", name])
    assert str(error.value) == f"--peers has {name!r}; choose from: large, absent, forward; or none"


def test_who_is_not_installed_is_left_out_with_the_way_to_install_it():
    found, left_out = able(chosen(KINDS, None))
    assert [peer.name for peer in found] == ["ours", "large", "forward"]
    assert left_out == ["Absent peer: no_such_package is not installed (pip install no_such_package)"]


def test_who_has_no_gradients_or_needs_too_much_is_left_out(monkeypatch):
    monkeypatch.setattr(contenders, "usable_bytes", lambda: 5 * 2**30)
    peers = [Ours(), Large(), ForwardOnly()]
    jobs, left_out = jobs_for(peers, 3, backward=True, label="3 of them")
    assert list(jobs) == ["ours"]
    assert left_out == [
        "Large peer, 3 of them: needs about 6.0 GiB; 5.0 GiB may be used",
        "Forward peer, 3 of them: no backward pass on a CPU",
    ]
    jobs, left_out = jobs_for(peers, 3, backward=False, label="3 of them")
    assert (list(jobs), left_out) == (["ours", "large", "forward"], [])
    assert jobs["large"].run(None) == (3, False)


def test_who_finds_out_late_is_left_out_too(monkeypatch):
    def job(self, problem, *, backward):
        raise Unable("does not compile here (no room)")

    monkeypatch.setattr(ForwardOnly, "job", job)
    jobs, left_out = jobs_for([Ours(), ForwardOnly()], 3, backward=False, label="3 of them")
    assert list(jobs) == ["ours"]
    assert left_out == ["Forward peer, 3 of them: does not compile here (no room)"]


def test_some_memory_may_be_used():
    assert contenders.usable_bytes() > 0
