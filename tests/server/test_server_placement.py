"""Elastic placement: how many workers accept goes by the load, and kept connections are spread over those that serve."""

import os
import signal
import sys
import threading
import time

import pytest

from harness import binaries, proc, until
from harness.workers import wait_workers
from test_server_lending import PLAIN, shards, stopped

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from traffic import Traffic  # noqa: E402

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")

COSTLY = ('keepalive_requests 10000000; gzip on; gzip_comp_level 9; gzip_min_length 1; gzip_types text/plain; '
          'server { listen 127.0.0.1:@PORT@; root .; add_header X-Pid $pid; add_header X-Number $connection; }')

# To compress it costs a worker eight times what the answer costs its client here: while the clients of Requests run, the worker is busy.
TEXT = "all work and no play makes a dull text " * 12000


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
                self.answered(number, answer)
        except (AssertionError, OSError) as error:
            self.failures.append(error)

    def answered(self, number, answer):
        """For who looks at more of each answer."""

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
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 24)
    numbers = [client.request("/text.txt").header("X-Number") for client in clients]
    # How many go is not asserted: where other programs take the cores, a worker that waits for one stands by.
    with Requests(clients) as requests:
        until(lambda: workers[1] in requests.pids or requests.failures, "the other worker's share")
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
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    clients = all_on_one(server, workers, 8)
    with stopped(workers[1]):
        with Requests(clients) as requests:
            before = proc.cpu_seconds(workers[0])
            until(lambda: proc.cpu_seconds(workers[0]) > before + 1 or requests.failures, "a second of work")
        assert not requests.failures
        assert set(requests.pids) == {workers[0]}


def test_connections_spread_although_a_worker_stands_still(serve):
    """The one that stands still is busy least of all: the other one gets its share all the same."""
    server = serve(COSTLY, main="worker_processes 3;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 3)
    clients = all_on_one(server, workers, 12)
    with stopped(workers[1]), Requests(clients) as requests:
        until(lambda: workers[2] in requests.pids or requests.failures, "the other worker's share")
    assert not requests.failures


def test_none_is_given_to_a_worker_that_is_full(serve):
    server = serve(COSTLY, main="worker_processes 2;", events="worker_connections 48;",
                   allow=["worker_connections are not enough"])
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    busy = all_on_one(server, workers, 24)
    idle = all_on_one(server, workers[::-1], 40)
    with Requests(busy) as requests:
        before = proc.cpu_seconds(workers[0])
        until(lambda: proc.cpu_seconds(workers[0]) > before + 1 or requests.failures, "a second of work")
    assert not requests.failures
    # Nobody's connection was closed for it.
    assert all(client.request("/text.txt").status == 200 for client in busy + idle)
    assert "connections of an older worker are closed" not in server.error_log


def test_none_is_given_to_a_worker_that_runs_out_of_descriptors(serve):
    """It says how many more it can take before they are sent: the kernel closes what finds no descriptor."""
    server = serve(COSTLY, main="worker_processes 2; worker_rlimit_nofile 100;", events="worker_connections 4096;")
    server.write("text.txt", TEXT)
    workers = wait_workers(server, 2)
    busy = all_on_one(server, workers, 40)
    idle = all_on_one(server, workers[::-1], 92 - len(os.listdir("/proc/%d/fd" % workers[1])))
    with Requests(busy) as requests:
        before = proc.cpu_seconds(workers[0])
        until(lambda: proc.cpu_seconds(workers[0]) > before + 1 or requests.failures, "a second of work")
    assert not requests.failures
    assert all(client.request("/text.txt").status == 200 for client in busy + idle)
    assert "are closed" not in server.error_log


@pytest.mark.parametrize("signo", [signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL])
def test_the_successor_of_a_worker_gets_connections(serve, signo):
    server = serve(COSTLY, main="worker_processes 2;", allow=["exited on signal 9"])
    server.write("text.txt", TEXT)
    first, second = wait_workers(server, 2)
    os.kill(second, signo)
    until(lambda: not proc.is_alive(second), "its end")
    workers = wait_workers(server, 2, without=[second])
    clients = all_on_one(server, [first] + [pid for pid in workers if pid != first], 16)
    with Requests(clients) as requests:
        until(lambda: set(requests.pids) == set(workers) or requests.failures, "the successor's share")
    assert not requests.failures


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


def test_nobody_is_left_to_a_worker_that_was_stopped_in_its_sleep(serve):
    """Workers stand by, or are about to, while those that accept are stopped, in turn."""
    server = serve(PLAIN, main="worker_processes 3; error_log error.log info;")
    workers = wait_workers(server, 3)
    with Traffic(server.port, short=4, kept=0, each=1, pause=0.001) as traffic:
        for still in (workers[:1], workers[1:], workers[:2], workers[::2]):
            with stopped(*still):
                traffic.wait_for(1500)
            traffic.wait_for(200)
    traffic.assert_nothing_lost()


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


def wakes(pids, seconds):
    """How often processes were woken in this time, all together."""
    def count():
        return sum(int(proc.status(pid, "voluntary_ctxt_switches")) for pid in pids)
    before = count()
    time.sleep(seconds)
    return count() - before


def test_nothing_wakes_up_while_nothing_comes(serve):
    """Neither the workers nor the master, before a load and after it, with an idle client and without."""
    server = serve(PLAIN, main="worker_processes 3;")
    workers = wait_workers(server, 3)
    until(lambda: wakes([server.pid, *workers], 1) == 0, "a second without a wake-up")
    with Traffic(server.port, short=4, kept=0) as traffic:
        traffic.wait_for(500)
    until(lambda: wakes([server.pid, *workers], 1) == 0, "a second without a wake-up")
    # The master wakes up in time where a worker that was stopped in its sleep is woken first.
    for still in (workers[:2], workers[1:], workers[::2]):
        with stopped(*still):
            assert int(server.get("/").text) not in still
        until(lambda: wakes([server.pid], 1) == 0, "a second without a wake-up of the master")


def wakes_in_vain(server):
    """Connections that all workers have accepted so far, and accept queues to which one of them came in vain."""
    accepts, slots = shards(server)
    return accepts, sum(in_vain for *_, in_vain in slots)


@pytest.mark.parametrize("affinity", ["", "worker_cpu_affinity auto;"])
def test_hardly_any_worker_is_woken_for_nothing(serve, affinity):
    """One that comes to an accept queue in which there is nothing; with `ab` less than one in 200. Where other programs keep a
    worker from the processor, its colleague takes what it was woken for, as it should: then another round shows it."""
    server = serve(PLAIN, main="worker_processes 2; %s" % affinity)
    wait_workers(server, 2)
    rounds = []
    for _ in range(12):
        accepts, in_vain = wakes_in_vain(server)
        with Traffic(server.port, short=8, kept=0) as traffic:
            traffic.wait_for(1000)
        traffic.assert_nothing_lost()
        after = wakes_in_vain(server)
        rounds.append((after[0] - accepts, after[1] - in_vain))
        if rounds[-1][1] <= rounds[-1][0] / 50:
            return
    pytest.fail("accepted, and woken in vain, in each round: %s" % rounds)


def test_the_timeout_of_a_connection_is_handed_over_with_it(serve):
    """keepalive_timeout is the location's that answered last, in whichever worker the connection rests."""
    server = serve('server { listen 127.0.0.1:@PORT@; location / { keepalive_timeout 1s; return 200 "$pid\\n"; } }')
    worker, = wait_workers(server, 1)
    clients = [server.client() for _ in range(5)]
    for client in clients:
        assert client.request("/").status == 200
    server.reload()
    wait_workers(server, 1, without=[worker])
    for client in clients:
        client.expect_closed()


def test_a_group_that_is_full_does_not_wait_for_another_one(serve):
    """17 workers are two groups of which neither watches the other's sockets. One is full of idle clients: they give way."""
    server = serve(PLAIN, main="worker_processes 17;", events="worker_connections 16;",
                   allow=["worker_connections are not enough"])
    workers = wait_workers(server, 17)
    clients = []
    with stopped(*workers[9:]):
        for _ in range(400):
            client = server.client()
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            clients.append(client)
            if "not enough" in server.error_log:
                break
        until(lambda: "worker_connections are not enough, reusing connections" in server.error_log, server.evidence)
    for client in clients:
        client.close()
