"""Elastic placement: how many workers accept goes by the load, and kept connections are spread over those that serve."""

import os
import signal
import sys
import threading

import pytest

from harness import binaries, proc, until
from harness.workers import wait_workers
from test_server_lending import PLAIN, stopped

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from traffic import Traffic  # noqa: E402

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")

COSTLY = ('gzip on; gzip_comp_level 9; gzip_min_length 1; gzip_types text/plain; '
          'server { listen 127.0.0.1:@PORT@; root .; add_header X-Pid $pid; add_header X-Number $connection; }')


class Requests:
    """Clients in threads of their own that request something again and again on kept connections: who answered last."""

    def __init__(self, clients):
        self.clients, self.is_over = clients, False
        self.pids = [None] * len(clients)
        self.failures = []
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(len(clients))]

    def _run(self, number):
        try:
            while not self.is_over:
                answer = self.clients[number].request("/text.txt", "Accept-Encoding: gzip")
                assert answer.status == 200
                self.pids[number] = int(answer.header("X-Pid"))
        except (AssertionError, OSError) as error:
            self.failures.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()


def all_on_one(server, workers, count):
    """So many kept connections, all of the first worker."""
    with stopped(*workers[1:]):
        clients = [server.client() for _ in range(count)]
        for client in clients:
            assert client.request("/text.txt").header("X-Pid") == str(workers[0])
    return clients


def test_busy_kept_connections_spread_over_workers(serve):
    server = serve(COSTLY, main="worker_processes 2;")
    server.write("text.txt", "all work and no play makes a dull text " * 3000)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 24)
    numbers = [client.request("/text.txt").header("X-Number") for client in clients]
    with Requests(clients) as requests:
        until(lambda: 6 <= sum(pid == workers[1] for pid in requests.pids) or requests.failures, "the other worker's share")
    assert not requests.failures
    # Whoever reads the log sees one connection, not two.
    assert [client.request("/text.txt").header("X-Number") for client in clients] == numbers


def test_connections_at_rest_stay(serve):
    server = serve(COSTLY, main="worker_processes 2;")
    server.write("text.txt", "x")
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 40)
    until(lambda: proc.is_idle(workers[1]), "the other worker to rest")
    for client in clients:
        assert client.request("/text.txt").header("X-Pid") == str(workers[0])


def test_none_is_given_to_a_worker_that_stands_still(serve):
    server = serve(COSTLY, main="worker_processes 2;")
    server.write("text.txt", "all work and no play makes a dull text " * 3000)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 8)
    with stopped(workers[1]):
        with Requests(clients) as requests:
            before = proc.cpu_seconds(workers[0])
            until(lambda: proc.cpu_seconds(workers[0]) > before + 1 or requests.failures, "a second of work")
        assert not requests.failures
        assert set(requests.pids) == {workers[0]}


def test_nothing_is_lost_while_workers_stand_by_and_die(serve):
    server = serve(PLAIN, main="worker_processes 4; error_log error.log info;", allow=[r"exited on signal 9"])
    workers = wait_workers(server, 4)
    with Traffic(server.port, short=6, kept=0, each=1) as traffic:
        for victim in workers[:3]:
            traffic.wait_for(800)
            os.kill(victim, signal.SIGKILL)
            wait_workers(server, 4, without=[victim])
        traffic.wait_for(800)
    lost = [one for one in traffic.exchanges if one.error]
    assert len(lost) <= 6 * 3, lost     # at most what the dead had in hand


def test_workers_rest_after_a_load(serve):
    server = serve(PLAIN, main="worker_processes 4; error_log error.log info;")
    workers = wait_workers(server, 4)
    with Traffic(server.port, short=8, kept=0, each=1) as traffic:
        traffic.wait_for(3000)
    traffic.assert_nothing_lost()
    for pid in workers:
        until(lambda pid=pid: proc.is_idle(pid), "the workers to rest")
    with Traffic(server.port, short=1, kept=0, each=1) as traffic:
        traffic.wait_for(300)
    traffic.assert_nothing_lost()
