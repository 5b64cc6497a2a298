"""A worker that is alive but does not turn costs nobody but its own clients: docs/architecture.md, "The way of a reload"."""

import os
import signal
import time

import pytest

from harness import proc, until
from harness.workers import clients_of_all, wait_workers
from test_chaos_shards import HTTP, change, main, wait_all_answer, wait_sockets
from traffic import Traffic

# No new connection may wait longer than this while a worker stands still. The promise is 100 ms on
# a machine that is not busy with something else; nginx keeps a quarter of them waiting for the
# whole STOPPED seconds, so that half of it tells the two apart even on a machine that is.
LIMIT = 2.5
STOPPED = 5.0


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


def report(traffic, moment):
    new = sorted(one.wait for one in traffic.since(moment) if one.kind != "kept")
    over = sum(1 for wait in new if wait > 0.1)
    print("%d new connections while a worker stood still: worst %.1f ms, %d over 100 ms" % (
        len(new), new[-1] * 1000, over))
    return new[-1]


def test_nobody_waits_for_a_stopped_worker(serve):
    server = serve(HTTP, main=main(4))
    workers = wait_workers(server, 4)
    victim = workers[1]
    # A pause keeps the clients from taking both processors, which would measure them instead.
    with Traffic(server.port, short=4, kept=0, pause=0.002) as traffic:
        wait_all_answer(traffic, workers)
        with stopped(victim) as stop:
            time.sleep(STOPPED)
            worst = report(traffic, stop.began)
            by_victim = [one for one in traffic.since(stop.began) if one.pid == victim]
            assert not by_victim, "the stopped worker answered: %s" % by_victim
        until(lambda: "turns again" in server.error_log, server.evidence)
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()
    late = [one for one in traffic.since(stop.began) if one.kind != "kept" and one.wait > LIMIT]
    assert not late, "waited for the stopped worker: %s" % late
    assert worst < LIMIT
    assert "does not turn" in server.error_log


@pytest.mark.parametrize("which", [(0, 3), (3, 0), (1, 2)])
def test_two_workers_stand_still_at_once(serve, which):
    """One of them may be the neighbour of the other, which would adopt its socket."""
    server = serve(HTTP, main=main(4))
    workers = wait_workers(server, 4)
    with Traffic(server.port, short=8, kept=0, pause=0.002) as traffic:
        wait_all_answer(traffic, workers)
        with stopped(workers[which[0]]) as first, stopped(workers[which[1]]) as second:
            time.sleep(STOPPED)
            worst = report(traffic, second.began)
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()
    assert worst < LIMIT
    # Those begun before were accepted by one that stands still now.
    late = [one for one in traffic.since(second.began) if one.wait > LIMIT]
    assert not late, late
    late = [one for one in traffic.since(first.began) if one.wait > LIMIT]
    assert {one.pid for one in late} <= {workers[which[1]]}, late


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
        with stopped(victim) as stop:
            server.reload()
            until(lambda: len(server.children()) == 4, server.evidence)
            time.sleep(STOPPED)
            worst = report(traffic, stop.began)
        wait_workers(server, 3)
    traffic.assert_nothing_lost()
    assert worst < LIMIT
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
