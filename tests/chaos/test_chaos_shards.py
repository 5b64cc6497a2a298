"""Workers come, go and die under load, and no connection is lost: docs/architecture.md, "The way of a reload"."""

import os
import re
import signal
import time

import pytest

from harness import proc, until
from harness.workers import wait_workers
from traffic import Traffic

HTTP = 'server { listen 127.0.0.1:@PORT@ backlog=1024; location / { return 200 "$pid\\n"; } }'


def main(workers):
    return "worker_processes %d;" % workers


def wait_sockets(server, count):
    until(lambda: proc.listening(server.port) == count,
          lambda: "%d listening sockets instead of %d\n%s" % (
              count, proc.listening(server.port), server.evidence()))


def change(server, workers, events="", http=HTTP):
    """A reload to so many workers, awaited to the end of the old ones."""
    old = server.children()
    server.configure(http, main=main(workers), events=events)
    server.signal("reload")
    return wait_workers(server, workers, without=old)


def wait_new_binary(server):
    """After USR2: the number of the new master, once it serves."""
    until(lambda: server.read("nginx.pid.oldbin") == "%d\n" % server.pid, "the old pid file")
    until(lambda: re.fullmatch(r"\d+\n", server.read("nginx.pid")), "the new pid file")
    return int(server.read("nginx.pid"))


def wait_all_answer(traffic, workers):
    """Waits until each of the workers has answered from now on."""
    moment = time.monotonic()
    until(lambda: traffic.pids(moment) >= set(workers),
          lambda: "answers of %s, after %s" % (workers, traffic.pids(moment)))


def test_grows_from_one_to_four(serve):
    server = serve(HTTP, main=main(1))
    with Traffic(server.port) as traffic:
        traffic.wait_for(1000)
        workers = change(server, 4)
        wait_sockets(server, 4)
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()


def test_shrinks_from_four_to_one(serve):
    server = serve(HTTP, main=main(4))
    with Traffic(server.port) as traffic:
        traffic.wait_for(1500)
        change(server, 1)
        traffic.wait_for(1500)
        wait_sockets(server, 1)
        traffic.wait_for(1000)
    traffic.assert_nothing_lost()


def test_shrinks_and_grows_again_and_again(serve):
    server = serve(HTTP, main=main(2))
    with Traffic(server.port) as traffic:
        for count in (4, 1, 3, 2, 4, 1):
            change(server, count)
            traffic.wait_for(1000)
        wait_sockets(server, 1)
    traffic.assert_nothing_lost()


def test_grows_before_a_shrink_is_over(serve):
    server = serve(HTTP, main=main(4))
    with Traffic(server.port) as traffic:
        for count in (1, 4, 2, 4):
            server.configure(HTTP, main=main(count))
            server.reload()
        wait_workers(server, 4)
        traffic.wait_for(1000)
    traffic.assert_nothing_lost()
    assert proc.listening(server.port) == 4


def test_reuse_port_changes_both_ways(serve):
    server = serve(HTTP, main=main(3), events="reuse_port on;")
    with Traffic(server.port) as traffic:
        wait_sockets(server, 3)
        change(server, 3, events="reuse_port off;")
        wait_sockets(server, 1)
        traffic.wait_for(1000)
        workers = change(server, 3, events="reuse_port on;")
        wait_sockets(server, 3)
        wait_all_answer(traffic, workers)
    traffic.assert_nothing_lost()


@pytest.mark.parametrize("how", ["master_process off;", main(1), main(4)])
def test_an_address_becomes_a_wildcard_and_an_address_again(serve, how):
    """What waits at the former sockets is served, by a worker that may not have started yet."""
    server = serve(HTTP, main=how)
    with Traffic(server.port, short=4) as traffic:
        for times in range(1, 9):
            server.configure(HTTP.replace("127.0.0.1:", "*:" if times % 2 else "127.0.0.1:"), main=how)
            server.signal("reload")
            until(lambda times=times: server.read("error.log").count(", reconfiguring") == times, "a reload")
            traffic.wait_for(100)
    traffic.assert_nothing_lost()


def test_reloads_one_after_another(serve):
    server = serve(HTTP, main=main(2))
    with Traffic(server.port) as traffic:
        for _ in range(8):
            server.reload()
        wait_workers(server, 2)
        traffic.wait_for(500)
    traffic.assert_nothing_lost()


def test_killed_worker_loses_only_what_it_had(serve):
    server = serve(HTTP, main=main(4), allow=[r"exited on signal 9"])
    with Traffic(server.port, short=3, kept=1, each=8) as traffic:
        traffic.wait_for(1000)
        for victim in wait_workers(server, 4)[:2]:
            moment = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            until(lambda: not proc.is_alive(victim), "the end of the victim")
            ended = time.monotonic()
            wait_workers(server, 4)
            traffic.wait_for(1000)
            lost = [one for one in traffic.failures() if one.began + one.wait >= moment - 0.001]
            # A kept connection of the victim shows its loss when it is used next.
            late = [one for one in lost if one.kind != "kept" and one.began > ended]
            assert not late, "connections were lost after the worker's end: %s" % late
            assert len(lost) <= 3 + 8 * 2, lost
        workers = wait_workers(server, 4)
        calm = time.monotonic()
        wait_all_answer(traffic, workers)
    print(traffic.figures())
    assert not [one for one in traffic.failures() if one.began > calm]


def test_queue_of_a_killed_worker_is_served_by_its_successor(serve):
    server = serve(HTTP, main=main(1), allow=[r"exited on signal 9"])
    victim, = wait_workers(server, 1)
    os.kill(victim, signal.SIGSTOP)
    until(lambda: proc.status(victim, "State")[0] == "T", "the stop")
    clients = [server.client() for _ in range(30)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    os.kill(victim, signal.SIGKILL)
    answers = {client.response().text for client in clients}
    successor, = wait_workers(server, 1)
    assert answers == {"%d\n" % successor}


@pytest.mark.parametrize("workers", [1, 3])
def test_upgrade_and_the_end_of_the_old_binary(serve, workers):
    server = serve(HTTP, main=main(workers))
    with Traffic(server.port, kept=0, short=4) as traffic:
        traffic.wait_for(1000)
        server.signal("upgrade")
        new = wait_new_binary(server)
        traffic.wait_for(1000)
        server.signal("quit")
        assert server.wait_end() == 0
        moment = time.monotonic()
        traffic.wait_for(1500)
    try:
        traffic.assert_nothing_lost()
        assert all(proc.parent(pid) == new for pid in traffic.pids(moment)
                   if proc.is_alive(pid)), "old workers answer"
        assert proc.listening(server.port) == workers
    finally:
        os.kill(new, signal.SIGTERM)
        until(lambda: not proc.is_alive(new), "the end of the new binary")
