"""A worker that is alive but does not turn costs nobody but its own clients: docs/architecture.md, "The way of a reload"."""

import os
import signal
import time

import pytest

from harness import proc, until
from harness.workers import clients_of_all, wait_workers
from test_chaos_shards import HTTP, change, main, wait_all_answer, wait_sockets
from traffic import Traffic

class stopped:
    """A worker that stands still (SIGSTOP) within a with statement. began: when it stood."""

    def __init__(self, pid):
        self.pid = pid
        self.began = None

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: proc.status(self.pid, "State")[0] == "T", "the stop")
        self.began = time.monotonic()
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def connect_meanwhile(server, still, is_noticed=True):
    """New connections while workers stand still, before the master has noticed it (it does where they accept) and after that.
    All of them have ended when this returns, so none waited for these workers to go on."""
    with Traffic(server.port, short=4, kept=0, pause=0.002) as traffic:
        traffic.wait_for(100)
        for pid in still if is_noticed else ():
            server.wait_log("worker process %d is blocked" % pid)
        traffic.wait_for(200)
    traffic.assert_nothing_lost()
    assert not traffic.pids() & set(still), "a worker that was stopped answered"


def test_nobody_waits_for_a_stopped_worker(serve):
    server = serve(HTTP, main=main(4))
    workers = wait_workers(server, 4)
    victim = workers[1]
    # A pause keeps the clients from taking both processors, which would measure them instead.
    with Traffic(server.port, short=4, kept=0, pause=0.002) as traffic:
        wait_all_answer(traffic, workers)
        with stopped(victim):
            connect_meanwhile(server, [victim])
        server.wait_log("worker process %d runs again" % victim)
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()


@pytest.mark.parametrize("which", [(0, 3), (3, 0), (1, 2)])
def test_two_workers_stand_still_at_once(serve, which):
    """One of them may be the neighbour of the other, which would adopt its socket."""
    server = serve(HTTP, main=main(4))
    workers = wait_workers(server, 4)
    first, second = [workers[number] for number in which]
    with Traffic(server.port, short=8, kept=0, pause=0.002) as traffic:
        wait_all_answer(traffic, workers)
        with stopped(first) as one:
            with stopped(second) as both:
                connect_meanwhile(server, [first, second])
                goes_on = time.monotonic()
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()
    # Of those that came between the two stops, the second may have accepted some, and no other has kept one waiting.
    waited = [one for one in traffic.since(one.began) if one.began < both.began and one.began + one.wait > goes_on]
    assert {one.pid for one in waited} <= {second}, waited


def test_connection_of_a_stopped_worker_goes_on_afterwards(serve):
    server = serve(HTTP, main=main(2))
    workers = wait_workers(server, 2)
    clients, owners = clients_of_all(server, workers)
    with stopped(workers[0]):
        for client in clients:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        for client, owner in zip(clients, owners):
            if owner == workers[1]:
                assert client.response().text == "%d\n" % owner
    for client, owner in zip(clients, owners):
        if owner == workers[0]:
            assert client.response().text == "%d\n" % owner


def test_reload_while_a_worker_stands_still(serve):
    server = serve(HTTP, main=main(3))
    workers = wait_workers(server, 3)
    victim = workers[1]
    kept, _ = clients_of_all(server, workers)
    with Traffic(server.port, short=3, kept=0, pause=0.002) as traffic:
        wait_all_answer(traffic, workers)
        with stopped(victim):
            server.reload()
            until(lambda: len(server.children()) == 4, server.evidence)
            connect_meanwhile(server, [victim], is_noticed=False)
        wait_workers(server, 3)
        traffic.wait_for(200)
    traffic.assert_nothing_lost()
    for client in kept:
        assert client.request("/", method="POST", body="x").status == 200


def test_two_reloads_while_a_worker_stands_still(serve):
    """Its idle connections reach the newest workers, past those that came and went meanwhile."""
    server = serve(HTTP, main=main(2))
    workers = wait_workers(server, 2)
    kept, _ = clients_of_all(server, workers)
    with stopped(workers[0]):
        for _ in range(2):
            server.reload()
            until(lambda: len(server.children()) == 3, server.evidence)
    new = wait_workers(server, 2)
    for client in kept:
        answer = client.request("/", method="POST", body="x")
        assert answer.status == 200 and int(answer.text) in new


def test_shrink_past_a_worker_that_stands_still(serve):
    """A slot is retired although its old worker, which has a copy of the socket, is stopped."""
    server = serve(HTTP, main=main(3))
    victim = wait_workers(server, 3)[2]
    with Traffic(server.port, short=3, kept=0, pause=0.002) as traffic:
        traffic.wait_for(100)
        with stopped(victim):
            server.configure(HTTP, main=main(1))
            server.reload()
            wait_sockets(server, 1)
            traffic.wait_for(100)
        wait_workers(server, 1)
        change(server, 3)
        traffic.wait_for(100)
    traffic.assert_nothing_lost()
