"""The queue of requests: which are computed together, in which order, and what is rejected."""

import asyncio
import threading

import pytest

from graphattn.experiments._serving.requests import RequestError, RequestQueue

pytest.importorskip("fastapi")


class Computation:
    """Doubles numbers, and keeps the batches; the first one waits until all requests have arrived."""

    def __init__(self):
        self.batches, self.arrived = [], threading.Event()

    def __call__(self, items):
        self.batches.append(list(items))
        self.arrived.wait(10)
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]


def ask(queue, requests, arrived, cancelled=()):
    """Send the first request, then all others while it is computed; their results or errors."""

    async def ask_all():
        tasks = []
        for number, (compute, item, size) in enumerate(requests):
            tasks.append(asyncio.create_task(queue.compute(compute, item, size)))
            await asyncio.sleep(0.05 if number == 0 else 0)
        for number in cancelled:
            tasks[number].cancel()
        arrived.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask_all())


def test_requests_that_wait_are_computed_together():
    double = Computation()
    queue = RequestQueue(10, size=10)
    assert ask(queue, [(double, n, 4) for n in range(6)], double.arrived) == [0, 2, 4, 6, 8, 10]
    assert double.batches == [[0], [1, 2], [3, 4], [5]]
    assert (queue.batches, queue.present) == (4, 0)


def test_a_smaller_request_may_overtake_one_that_does_not_fit():
    double = Computation()
    requests = [(double, 0, 1), (double, 1, 6), (double, 2, 6), (double, 3, 4), (double, 4, 99)]
    assert ask(RequestQueue(10, size=10), requests, double.arrived) == [0, 2, 4, 6, 8]
    assert double.batches == [[0], [1, 3], [2], [4]]


def test_computations_of_other_kinds_are_not_mixed():
    double, other = Computation(), Computation()
    other.arrived = double.arrived
    requests = [(double, 0, 1), (double, 1, 1), (other, 2, 1), (double, 3, 1), (other, 4, 1)]
    assert ask(RequestQueue(10, size=10), requests, double.arrived) == [0, 2, 4, 6, 8]
    assert (double.batches, other.batches) == ([[0], [1, 3]], [[2, 4]])


def test_an_error_affects_its_request_only():
    double = Computation()
    requests = [(double, n, 1) for n in (0, 1, 13, 2)]
    zero, two, error, four = ask(RequestQueue(10, size=10), requests, double.arrived)
    assert (zero, two, four) == (0, 2, 4)
    assert (type(error), str(error)) == (ValueError, "unlucky")


def test_clients_that_are_gone_do_not_disturb_others():
    double = Computation()
    results = ask(RequestQueue(10), [(double, n, 1) for n in range(4)], double.arrived, cancelled=[0, 2])
    assert [type(result) for result in results[::2]] == [asyncio.CancelledError] * 2
    assert results[1::2] == [2, 6]


def test_too_many_wait():
    double = Computation()
    queue = RequestQueue(2)
    results = ask(queue, [(double, n, 1) for n in range(5)], double.arrived)
    assert results[:3] == [0, 2, 4]
    assert [(type(error), error.status) for error in results[3:]] == [(RequestError, 429)] * 2
    assert ask(queue, [(double, 7, 1)], double.arrived) == [14], "finished requests make room"


def test_items_of_a_client_that_is_gone_are_not_computed():
    double = Computation()
    queue = RequestQueue(10, size=10)

    async def ask_all():
        long = asyncio.create_task(queue.compute_all(double, [(n, 10) for n in range(50)]))
        await asyncio.sleep(0.05)
        other = asyncio.create_task(queue.compute(double, 7, 10))
        gone = asyncio.create_task(queue.compute(double, 8, 10))
        await asyncio.sleep(0)
        long.cancel()
        gone.cancel()
        double.arrived.set()
        return await other

    assert asyncio.run(ask_all()) == 14
    assert double.batches == [[0], [7]]
    assert queue.present == 0


def test_a_short_request_is_computed_between_the_items_of_a_long_one():
    double = Computation()
    queue = RequestQueue(1, size=10)

    async def ask_all():
        long = asyncio.create_task(queue.compute_all(double, [(n, 10) for n in range(4)]))
        await asyncio.sleep(0.05)
        short = asyncio.create_task(queue.compute(double, 7, 10))
        await asyncio.sleep(0)
        double.arrived.set()
        return await long, await short

    assert asyncio.run(ask_all()) == ([0, 2, 4, 6], 14)
    assert double.batches.index([7]) < double.batches.index([3])
