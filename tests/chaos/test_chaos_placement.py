"""Elastic placement in a storm: workers are killed, stopped, replaced and regrouped under load, and nobody waits for one that cannot serve."""

import os
import random
import re
import signal
import threading
import time

import pytest

from harness import binaries, proc, until
from harness.workers import wait_workers
from test_chaos_shards import wait_new_binary
from traffic import Traffic

pytestmark = pytest.mark.skipif(
    "Portunus" not in binaries.version_text(binaries.under_test()), reason="ours alone")

HTTP = ('server { listen 127.0.0.1:@PORT@ backlog=1024; location / { return 200 "$pid\\n"; } '
        'location = /status { stub_status; } }')
# Seconds. How long the workers of a storm are stopped, and what else a connection may wait on a machine that has time.
STOPPED, LIMIT = 0.5, 1.0


class Lag:
    """How late this machine wakes a process that wants to run: the longest of the time within the with statement."""

    def __init__(self):
        self.worst, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(0.005)
            self.worst = max(self.worst, time.monotonic() - began - 0.005)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Storm:
    """What may happen to a service of several workers; each returns when it is over."""

    def __init__(self, server, seed):
        self.server, self.random, self.count = server, random.Random(seed), 4

    def _change(self, count, events="", listen="127.0.0.1:@PORT@"):
        old = self.server.children()
        self.server.configure(HTTP.replace("127.0.0.1:@PORT@", listen), main="worker_processes %d;" % count, events=events)
        self.server.signal("reload")
        self.count = count
        wait_workers(self.server, count, without=old)

    def reload(self):
        self._change(self.count)

    def regroup(self):
        self._change(self.random.choice([1, 2, 4, 17]))

    def toggle(self):
        self._change(self.count, "reuse_port off;")
        self._change(self.count, "reuse_port on;")

    def move(self):
        self._change(self.count, listen="*:@PORT@")
        self._change(self.count)

    def stop(self):
        """All but one stand still, whichever of them accept now."""
        workers = wait_workers(self.server, self.count)
        still = self.random.sample(workers, len(workers) - 1)
        try:
            for pid in still:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED)
        finally:
            for pid in still:
                os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_in_a_storm(serve, seed):
    server = serve(HTTP, main="worker_processes 4;", allow=[r"is blocked, other workers accept its connections"])
    storm = Storm(server, seed)
    with Traffic(server.port, short=4, kept=0) as traffic, Lag() as lag:
        for step in storm.random.sample([storm.reload, storm.regroup, storm.toggle, storm.move, storm.stop] * 2, 10):
            step()
            traffic.wait_for(200)
    traffic.assert_nothing_lost()
    # What a worker had in hand waits until it goes on; nothing waits longer.
    assert traffic.worst_new() < STOPPED + LIMIT + 10 * lag.worst


def test_killed_workers_lose_what_they_had_in_hand(serve):
    server = serve(HTTP, main="worker_processes 3;", allow=[r"exited on signal 9"])
    kills = 6
    with Traffic(server.port, short=4, kept=0) as traffic:
        for number in range(kills):
            traffic.wait_for(200)
            victim = wait_workers(server, 3)[number % 3]
            os.kill(victim, signal.SIGKILL)
            until(lambda: not proc.is_alive(victim), "its end")
        wait_workers(server, 3)
        traffic.wait_for(200)
    assert len(traffic.failures()) <= 4 * kills, traffic.failures()


@pytest.mark.parametrize("alive", [0, 1, 2])
@pytest.mark.parametrize("pause", [0, 0.001])
def test_nobody_waits_for_workers_that_were_stopped(serve, alive, pause):
    """Whoever accepts, whoever stands by: as long as one worker turns, connections are served."""
    server = serve(HTTP, main="worker_processes 3;", allow=[r"is blocked, other workers accept its connections"])
    workers = wait_workers(server, 3)
    still = [pid for pid in workers if pid != workers[alive]]
    with Traffic(server.port, short=4, kept=0, pause=pause) as traffic:
        traffic.wait_for(500)
        try:
            for pid in still:
                os.kill(pid, signal.SIGSTOP)
                until(lambda pid=pid: proc.status(pid, "State")[0] == "T", "the stop")
            # What they have accepted waits; what comes from now on does not: it is over while they stand still.
            with Traffic(server.port, short=4, kept=0, pause=pause) as later:
                later.wait_for(100)
                server.wait_log("is blocked, other workers accept its connections")
                later.wait_for(200)
        finally:
            for pid in still:
                os.kill(pid, signal.SIGCONT)
    traffic.assert_nothing_lost()
    later.assert_nothing_lost()
    assert later.pids() == {workers[alive]}


def test_upgrade_with_workers_that_stand_by(serve):
    server = serve(HTTP, main="worker_processes 4;")
    with Traffic(server.port, kept=0, short=4) as traffic:
        traffic.wait_for(500)
        server.signal("upgrade")
        new = wait_new_binary(server)
        traffic.wait_for(500)
        server.signal("quit")
        assert server.wait_end() == 0
        traffic.wait_for(500)
    try:
        traffic.assert_nothing_lost()
    finally:
        os.kill(new, signal.SIGTERM)
        until(lambda: not proc.is_alive(new), "the end of the new binary")


def test_counters_are_exact_after_many_hand_overs(serve):
    """Kept connections go from worker to worker at each reload: each is one connection still, with its number."""
    server = serve(HTTP.replace('"$pid', '"$connection'), main="worker_processes 3;")
    clients = [server.client() for _ in range(60)]
    numbers = [client.request("/").text for client in clients]
    assert len(set(numbers)) == len(clients)
    rounds = 8
    for _ in range(rounds):
        old = server.children()
        server.reload()
        wait_workers(server, 3, without=old)
        assert [client.request("/").text for client in clients] == numbers
    with server.client() as one:
        text = one.request("/status").text
    active, accepts, handled, requests, waiting = map(int, re.fullmatch(
        r"Active connections: (\d+) \nserver accepts handled requests\n (\d+) (\d+) (\d+) \n"
        r"Reading: 0 Writing: 1 Waiting: (\d+) \n", text).groups())
    assert (active, waiting) == (len(clients) + 1, len(clients))
    assert accepts == handled == len(clients) + 1
    assert requests == len(clients) * (rounds + 1) + 1
